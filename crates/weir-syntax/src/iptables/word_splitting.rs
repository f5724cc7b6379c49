//! Splits a line of `iptables-save` into words, as `add_param_to_argv` of iptables-restore does.
//!
//! Blanks separate words. A double quote opens a quoted section, in which a backslash escapes the
//! next character; the closing quote ends the word, even if letters follow. Outside of quotes a
//! backslash is an ordinary character.

use std::borrow::Cow;

use weir_model::Span;

/// A word of a line, with the bytes from which it was read (quotes included).
#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    /// Its text, unquoted.
    pub text: Cow<'a, str>,
    /// Where it is in the whole text.
    pub span: Span,
    /// It was written in quotes.
    pub quoted: bool,
}

/// Cuts `line`, which begins at byte `start` of its text, into `words` (emptied first).
///
/// Returns false where a quote was left open.
pub(crate) fn split_words<'a>(line: &'a str, start: usize, words: &mut Vec<Word<'a>>) -> bool {
    words.clear();
    let bytes = line.as_bytes();
    let mut at = 0;
    loop {
        while at < bytes.len() && is_blank(bytes[at]) {
            at += 1;
        }
        if at == bytes.len() {
            return true;
        }
        let from = at;
        while at < bytes.len() && !is_blank(bytes[at]) && bytes[at] != b'"' {
            at += 1;
        }
        let span = |to: usize| Span { start: (start + from) as u32, end: (start + to) as u32 };
        if at == bytes.len() || bytes[at] != b'"' {
            words.push(Word { text: line[from..at].into(), span: span(at), quoted: false });
            continue;
        }
        let (text, end, closed) = read_word_with_open_quote(line, from, at);
        words.push(Word { text, span: span(end), quoted: true });
        if !closed {
            return false;
        }
        at = end;
    }
}

fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t' || b == b'\n'
}

/// The word from `from` with a quote at `open`: its text, its end, and whether the quote closes.
/// Few words are quoted: the loop over the others keeps its registers.
#[inline(never)]
fn read_word_with_open_quote(line: &str, from: usize, open: usize) -> (Cow<'_, str>, usize, bool) {
    let bytes = line.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\\' {
        at += 1;
    }
    // Most quoted words are separate and have no backslash: they are borrowed.
    if from == open && at < bytes.len() && bytes[at] == b'"' {
        return (line[open + 1..at].into(), at + 1, true);
    }
    let mut text = String::from(&line[from..open]);
    text.push_str(&line[open + 1..at]);
    let mut chars = line[at..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return (text.into(), at + i + 1, true),
            '\\' => {
                if let Some((_, c)) = chars.next() {
                    text.push(c);
                }
            }
            c => text.push(c),
        }
    }
    (text.into(), line.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut out = Vec::new();
        split_words(line, 0, &mut out);
        out.into_iter().map(|w| w.text.into_owned()).collect()
    }

    #[test]
    fn blanks_separate_words_and_quotes_join_them() {
        assert_eq!(words(" -A  INPUT\t-j X "), ["-A", "INPUT", "-j", "X"]);
        assert_eq!(words(r#"--comment "a b""#), ["--comment", "a b"]);
    }

    #[test]
    fn a_backslash_escapes_only_inside_quotes() {
        assert_eq!(words(r#"a\b "a\"b\\c""#), [r"a\b", r#"a"b\c"#]);
    }

    #[test]
    fn a_closing_quote_ends_the_word() {
        assert_eq!(words(r#"a"b"c"#), ["ab", "c"]);
        assert_eq!(words(r#""" x"#), ["", "x"]);
    }

    #[test]
    fn an_unclosed_quote_is_detected() {
        let mut out = Vec::new();
        assert!(!split_words(r#"--comment "a b"#, 0, &mut out));
        assert!(split_words(r#"--comment "a b""#, 0, &mut out));
    }

    #[test]
    fn spans_include_the_quotes() {
        let mut out = Vec::new();
        split_words(r#"x "y z""#, 10, &mut out);
        assert_eq!(out[1].span, Span { start: 12, end: 17 });
    }
}
