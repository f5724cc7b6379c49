//! Rust source as the house rules analyse it: without comments and contents of strings.
//!
//! This is not a parser. [`blank_comments_and_strings`] blanks comments and fills strings with `_`,
//! byte for byte, so that braces can be counted and calls can be searched; line numbers stay those
//! of the file.

use std::ops::Range;

/// The source with comments turned into spaces and the inside of literals into `_`.
///
/// Same number of bytes on each line as far as the text is ASCII; same number of lines always.
pub fn blank_comments_and_strings(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (len, inside, open, close) = if rest.starts_with(b"//") {
            (rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), b' ', 0, 0)
        } else if rest.starts_with(b"/*") {
            (block_comment_length(rest), b' ', 0, 0)
        } else if let Some((len, open, close)) = measure_raw_string_and_delimiters(bytes, at) {
            (len, b'_', open, close)
        } else if rest[0] == b'"' {
            (quoted_literal_length(rest, b'"'), b'_', 1, 1)
        } else if rest[0] == b'\'' && is_char_literal(rest) {
            (quoted_literal_length(rest, b'\''), b'_', 1, 1)
        } else {
            out.push(rest[0]);
            at += 1;
            continue;
        };
        for (i, &b) in rest[..len].iter().enumerate() {
            let kept = b == b'\n' || i < open || i + close >= len;
            out.push(if kept { b } else { inside });
        }
        at += len;
    }
    // Only whole bytes of comments and literals were replaced, but an identifier may be non-ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < rest.len() {
        if rest[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if rest[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

/// Length of a raw string, of its opening and of its closing quote, where one begins at `at`.
fn measure_raw_string_and_delimiters(bytes: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    let before = at.checked_sub(1).map(|i| bytes[i]);
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let rest = &bytes[at..];
    let prefix = [&b"br"[..], b"cr", b"r"].into_iter().find(|p| rest.starts_with(p))?.len();
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let close = [b"\"", &vec![b'#'; hashes][..]].concat();
    let body = prefix + hashes + 1;
    let found = rest[body..].windows(close.len()).position(|w| w == close);
    let len = found.map_or(rest.len(), |i| body + i + close.len());
    Some((len, body, close.len()))
}

fn quoted_literal_length(rest: &[u8], quote: u8) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// A character literal rather than a lifetime.
fn is_char_literal(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(b) if b.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => rest[1..].iter().take(5).any(|&b| b == b'\''),
        None => false,
    }
}

/// A function: where it begins, its name and its length.
#[derive(Debug, PartialEq)]
pub struct FunctionSize {
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Name.
    pub name: String,
    /// Lines from `fn` to the closing brace that hold code.
    pub code_lines: usize,
}

/// The functions of a file that [`blank_comments_and_strings`] has blanked, nested ones too.
pub fn find_functions(code: &str) -> Vec<FunctionSize> {
    let mut out = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at > 0 && is_identifier_byte(code.as_bytes()[at - 1]) {
            continue;
        }
        let name: String =
            code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(body) = find_braced_body(code, at) else { continue };
        if name.is_empty() {
            continue;
        }
        let lines = code[at..body.end].lines().filter(|l| !l.trim().is_empty()).count();
        out.push(FunctionSize { line: line_number(code, at), name, code_lines: lines });
    }
    out
}

/// Line number, from 1, of a byte.
pub fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// True for bytes that identifiers are made of.
pub fn is_identifier_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// The braces after `at`, unless the item ends with `;` before them.
fn find_braced_body(code: &str, at: usize) -> Option<Range<usize>> {
    let bytes = code.as_bytes();
    let mut brackets = 0i32;
    let mut open = None;
    let mut depth = 0;
    for (i, &b) in bytes.iter().enumerate().skip(at) {
        match (b, open) {
            (b'(' | b'[', None) => brackets += 1,
            (b')' | b']', None) => brackets -= 1,
            (b';', None) if brackets == 0 => return None,
            (b'{', None) => {
                open = Some(i);
                depth = 1;
            }
            (b'{', Some(_)) => depth += 1,
            (b'}', Some(start)) => {
                depth -= 1;
                if depth == 0 {
                    return Some(start..i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The stretches of a blanked file that are compiled for tests only.
pub fn test_code_ranges(code: &str) -> Vec<Range<usize>> {
    ["#[cfg(test)]", "#[test]"]
        .iter()
        .flat_map(|mark| code.match_indices(mark))
        .filter_map(|(at, mark)| find_braced_body(code, at + mark.len()).map(|body| at..body.end))
        .collect()
}

/// True for files that hold nothing but tests (and benches, which are tests of speed).
pub fn is_test_or_bench_file(path: &str) -> bool {
    ["/tests/", "/benches/", "fuzz/"].iter().any(|part| path.contains(part))
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/weir-testkit/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_and_lines_stay() {
        let source = "let a = \"x } y\"; // }\n/* { /* { */ */ let b = r#\"a\"b{\"#;\n'}' 'a '\\''";
        let code = blank_comments_and_strings(source);
        assert_eq!(code.len(), source.len());
        assert!(!code.contains('}') && !code.contains('{'), "{code}");
        assert!(code.contains("let b") && code.contains("'a "), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn an_identifier_that_ends_in_r_begins_no_raw_string() {
        assert_eq!(blank_comments_and_strings("for\"{\" {}"), "for\"_\" {}");
    }

    #[test]
    fn functions_are_measured_without_blank_lines_and_comments() {
        let source =
            "trait T { fn none(a: [u8; 4]); }\nfn f<'a>(x: &'a str) {\n\n  // why\n  x;\n}\n";
        let found = find_functions(&blank_comments_and_strings(source));
        assert_eq!(found, [FunctionSize { line: 2, name: "f".into(), code_lines: 3 }]);
    }

    #[test]
    fn test_modules_are_found_as_code_ranges() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n";
        let code = blank_comments_and_strings(source);
        let stretches = test_code_ranges(&code);
        assert_eq!(stretches.len(), 1);
        assert!(code[stretches[0].clone()].contains("fn b"));
        assert!(!code[stretches[0].clone()].contains("fn c"));
        assert!(test_code_ranges("#[cfg(test)]\nmod tests;\nfn c() {}").is_empty());
    }
}
