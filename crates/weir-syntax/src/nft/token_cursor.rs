//! The words of nft text, with their positions.

use weir_model::Span;

use crate::Diagnostic;
use crate::diagnostic::ParseResult;

/// A word or mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NftToken<'t> {
    /// Up to a blank, a brace or a semicolon; a comma at its end is a separate token.
    Word(&'t str),
    /// The text between quotes.
    Quoted(&'t str),
    OpenBrace,
    CloseBrace,
    Comma,
    Semicolon,
    /// A line's end.
    LineEnd,
    /// The text's end.
    TextEnd,
}

/// A place between tokens.
#[derive(Debug)]
pub(super) struct NftTokenCursor<'t> {
    tokens: Vec<(NftToken<'t>, Span)>,
    position: usize,
}

impl<'t> NftTokenCursor<'t> {
    /// Splits a text; an unclosed quote extends to the end of the line.
    pub fn new(text: &'t str) -> Self {
        let mut tokens = Vec::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            at += 1;
            let token = match bytes[start] {
                b'\n' => NftToken::LineEnd,
                b'{' => NftToken::OpenBrace,
                b'}' => NftToken::CloseBrace,
                b';' => NftToken::Semicolon,
                b',' => NftToken::Comma,
                b if b.is_ascii_whitespace() => continue,
                b'#' => {
                    at = find_byte_satisfying_or_end(bytes, at, |b| b == b'\n');
                    continue;
                }
                b'"' => {
                    at = find_byte_satisfying_or_end(bytes, at, |b| matches!(b, b'"' | b'\n'));
                    let inside = &text[start + 1..at];
                    at += usize::from(bytes.get(at) == Some(&b'"'));
                    NftToken::Quoted(inside)
                }
                _ => {
                    let ends = |b: u8| b.is_ascii_whitespace() || b"{};\"".contains(&b);
                    at = find_byte_satisfying_or_end(bytes, at, ends);
                    at -= bytes[start + 1..at].iter().rev().take_while(|b| **b == b',').count();
                    NftToken::Word(&text[start..at])
                }
            };
            tokens.push((token, Span { start: start as u32, end: at as u32 }));
        }
        let end = text.len() as u32;
        tokens.push((NftToken::TextEnd, Span { start: end, end }));
        NftTokenCursor { tokens, position: 0 }
    }

    pub fn peek(&self) -> NftToken<'t> {
        self.tokens[self.position].0
    }

    /// The token after the next one.
    pub fn peek_second(&self) -> NftToken<'t> {
        self.tokens.get(self.position + 1).map_or(NftToken::TextEnd, |t| t.0)
    }

    pub fn next_span(&self) -> Span {
        self.tokens[self.position].1
    }

    /// Takes the next token; the end stays the end.
    pub fn next(&mut self) -> NftToken<'t> {
        let token = self.peek();
        if token != NftToken::TextEnd {
            self.position += 1;
        }
        token
    }

    /// Takes the next token if it is that one.
    pub fn take_token_if_equal(&mut self, token: NftToken<'_>) -> bool {
        let is = self.peek() == token;
        if is {
            self.next();
        }
        is
    }

    /// Takes the next word if it is that one.
    pub fn take_keyword(&mut self, word: &str) -> bool {
        self.take_token_if_equal(NftToken::Word(word))
    }

    /// Takes `counter packets 1 bytes 60` of an element or rule, if it comes next; whether it did.
    pub fn skip_counter(&mut self) -> ParseResult<bool> {
        if !self.take_keyword("counter") {
            return Ok(false);
        }
        if self.take_keyword("packets") {
            self.expect_word("a number")?;
            if !self.take_keyword("bytes") {
                return self.missing_token_error("bytes");
            }
            self.expect_word("a number")?;
        }
        Ok(true)
    }

    /// Takes the words if they all come next.
    pub fn take_keyword_sequence(&mut self, words: &[&str]) -> bool {
        let next = self.tokens[self.position..].iter().map(|t| t.0);
        let are = next.zip(words).filter(|(t, w)| *t == NftToken::Word(w)).count() == words.len();
        if are {
            self.position += words.len();
        }
        are
    }

    /// The next word; `what` describes what is expected.
    pub fn expect_word(&mut self, what: &str) -> ParseResult<&'t str> {
        match self.peek() {
            NftToken::Word(word) => {
                self.next();
                Ok(word)
            }
            _ => self.missing_token_error(what),
        }
    }

    /// The text between quotes; `what` describes what is expected.
    pub fn expect_quoted(&mut self, what: &str) -> ParseResult<&'t str> {
        match self.peek() {
            NftToken::Quoted(text) => {
                self.next();
                Ok(text)
            }
            _ => self.missing_token_error(what),
        }
    }

    pub fn expect_token(&mut self, token: NftToken<'_>, what: &str) -> ParseResult<()> {
        if self.take_token_if_equal(token) { Ok(()) } else { self.missing_token_error(what) }
    }

    pub fn missing_token_error<T>(&self, what: &str) -> ParseResult<T> {
        Diagnostic::new(format!("expected {what}"), self.next_span())
            .with_help(UNSUPPORTED_NFT_HELP)
            .into_err()
    }

    /// Refuses what was read last.
    pub fn refuse_last_token<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        let span = self.tokens[self.position.saturating_sub(1)].1;
        Diagnostic::new(message, span).with_help(UNSUPPORTED_NFT_HELP).into_err()
    }

    /// Passes empty lines.
    pub fn skip_line_ends_and_semicolons(&mut self) {
        while matches!(self.peek(), NftToken::LineEnd | NftToken::Semicolon) {
            self.next();
        }
    }

    /// True at the end of a rule.
    pub fn is_line_or_block_end(&self) -> bool {
        matches!(self.peek(), NftToken::LineEnd | NftToken::CloseBrace | NftToken::TextEnd)
    }

    /// Goes to the end of the line, past braces that open and close in it.
    pub fn skip_rest_of_rule(&mut self) {
        let mut open = 0usize;
        loop {
            match self.peek() {
                NftToken::TextEnd => return,
                NftToken::LineEnd if open == 0 => return,
                NftToken::CloseBrace if open == 0 => return,
                NftToken::OpenBrace => open += 1,
                NftToken::CloseBrace => open -= 1,
                _ => {}
            }
            self.next();
        }
    }
}

fn find_byte_satisfying_or_end(bytes: &[u8], from: usize, predicate: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|b| predicate(*b)).map_or(bytes.len(), |i| from + i)
}

/// The cure for whatever weir does not write.
pub(super) const UNSUPPORTED_NFT_HELP: &str =
    "of nft, weir reads the tables that it wrote and what `nft list ruleset` prints of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_words_are_kept_and_trailing_ones_are_tokens() {
        let mut c = NftTokenCursor::new("@th,0,24 { fin,syn, \"a;b\" }; # x");
        let mut all = Vec::new();
        while c.peek() != NftToken::TextEnd {
            all.push(c.next());
        }
        use NftToken::{CloseBrace, Comma, OpenBrace, Quoted, Semicolon, Word};
        let expected = [
            Word("@th,0,24"),
            OpenBrace,
            Word("fin,syn"),
            Comma,
            Quoted("a;b"),
            CloseBrace,
            Semicolon,
        ];
        assert_eq!(all, expected);
    }
}
