//! The statements of a policy, and their words.

use weir_model::Span;

use crate::diagnostic::{Diagnostic, ParseResult, refuse_byte_order_mark};

/// A statement: the words of a line, and of the indented lines below it.
#[derive(Clone, Debug)]
pub(super) struct PolicyStatement<'t> {
    /// At least one.
    pub tokens: Vec<PolicyToken<'t>>,
    /// The line that it begins in, from 1.
    pub line: usize,
}

/// A word, a quoted name, or one of `{`, `}`, `,`, `=`, `!=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyToken<'t> {
    /// Without quotes.
    pub text: &'t str,
    /// First byte in the policy, a quote included.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    pub is_quoted: bool,
}

impl PolicyToken<'_> {
    pub fn span(&self) -> Span {
        span_of_bytes(self.start, self.end)
    }

    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::new(message, self.span()).with_help(help))
    }

    /// The error of a path that does not stand before the words of the packets.
    pub fn misplaced_via_error(&self) -> Box<Diagnostic> {
        self.error(
            "via among the words of the packets",
            "write it before them: `all via forward …`, `packet via forward …`",
        )
    }
}

/// Positions are 32 bits wide; a longer text is refused by [`split_statements`].
pub(super) fn span_of_bytes(start: usize, end: usize) -> Span {
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX - 1);
    Span { start: position(start), end: position(end) }
}

/// All statements of a text, without comments and blank lines.
pub(super) fn split_statements(text: &str) -> Result<Vec<PolicyStatement<'_>>, Vec<Diagnostic>> {
    let (mut statements, mut errors) = (Vec::<PolicyStatement<'_>>::new(), Vec::new());
    if text.len() >= u32::MAX as usize {
        let message = "the policy is longer than 4 GB";
        return Err(vec![Diagnostic::new(message, Span { start: 0, end: 0 })]);
    }
    let mut line_start = refuse_byte_order_mark(text, &mut errors);
    for (index, line) in text[line_start..].split_inclusive('\n').enumerate() {
        let tokens = match split_tokens(line, line_start) {
            Ok(tokens) => tokens,
            Err(error) => {
                errors.push(*error);
                Vec::new()
            }
        };
        line_start += line.len();
        let Some(first) = tokens.first() else { continue };
        match (line.starts_with([' ', '\t']), statements.last_mut()) {
            (false, _) => statements.push(PolicyStatement { tokens, line: index + 1 }),
            (true, Some(above)) => above.tokens.extend(tokens),
            (true, None) => errors.push(
                Diagnostic::new("an indented line without a line above it", first.span())
                    .with_help("begin the first statement at the start of a line"),
            ),
        }
    }
    if errors.is_empty() { Ok(statements) } else { Err(errors) }
}

/// The words of a line that begins at this byte of the text.
fn split_tokens(line: &str, line_start: usize) -> ParseResult<Vec<PolicyToken<'_>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = line[at..].chars().next() {
        let rest = &line[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (text, length, is_quoted) = match first {
            '#' => break,
            '"' => match rest[1..].find(['"', '\n']).filter(|end| rest[1 + end..].starts_with('"'))
            {
                Some(end) => (&rest[1..1 + end], end + 2, true),
                None => {
                    let span = span_of_bytes(line_start + at, line_start + line.trim_end().len());
                    return Diagnostic::new("the quote is not closed", span)
                        .with_help("a name ends with \" on the same line")
                        .into_err();
                }
            },
            '{' | '}' | ',' | '=' => (&rest[..1], 1, false),
            '!' if rest.starts_with("!=") => (&rest[..2], 2, false),
            _ => {
                let ends = |c: char| c.is_whitespace() || "{},=#\"".contains(c);
                let end = rest.find(ends).unwrap_or(rest.len());
                let end = end.min(rest.find("!=").unwrap_or(end));
                (&rest[..end], end, false)
            }
        };
        let start = line_start + at;
        tokens.push(PolicyToken { text, start, end: start + length, is_quoted });
        at += length;
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<&str>> {
        let statements = split_statements(text).expect("no error");
        statements.iter().map(|s| s.tokens.iter().map(|t| t.text).collect()).collect()
    }

    #[test]
    fn indented_lines_continue_a_statement_and_comments_are_skipped() {
        let text = "a b # c\n\n  d \"e # f\" # g\n# h\ni{j,k}!=l\n";
        assert_eq!(
            words(text),
            [vec!["a", "b", "d", "e # f"], vec!["i", "{", "j", ",", "k", "}", "!=", "l"]]
        );
    }

    #[test]
    fn a_token_keeps_its_place_in_the_text() {
        let text = "ab\n  \"cd\" x!=y\n";
        let statements = split_statements(text).expect("no error");
        let places: Vec<&str> =
            statements[0].tokens.iter().map(|t| &text[t.start..t.end]).collect();
        assert_eq!(places, ["ab", "\"cd\"", "x", "!=", "y"]);
    }

    #[test]
    fn unclosed_quotes_and_an_indented_first_line_are_refused() {
        let errors = split_statements("  a\nb \"c\n").expect_err("two errors");
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().any(|e| e.message.contains("indented line")));
        assert!(errors.iter().any(|e| e.message.contains("quote")));
    }
}
