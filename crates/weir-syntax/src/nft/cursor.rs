//! The words of nft text, with their positions.

use weir_model::Span;

use crate::Diagnostic;
use crate::diagnostic::Fallible;

/// A word or mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// Up to a blank, a brace or a semicolon; a comma at its end is a separate token.
    Word(&'t str),
    /// The text between quotes.
    Quoted(&'t str),
    Open,
    Close,
    Comma,
    Semicolon,
    /// A line's end.
    Line,
    /// The text's end.
    End,
}

/// A place between tokens.
#[derive(Debug)]
pub(super) struct Cursor<'t> {
    tokens: Vec<(Token<'t>, Span)>,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// Splits a text; an unclosed quote extends to the end of the line.
    pub fn new(text: &'t str) -> Self {
        let mut tokens = Vec::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            at += 1;
            let token = match bytes[start] {
                b'\n' => Token::Line,
                b'{' => Token::Open,
                b'}' => Token::Close,
                b';' => Token::Semicolon,
                b',' => Token::Comma,
                b if b.is_ascii_whitespace() => continue,
                b'#' => {
                    at = find(bytes, at, |b| b == b'\n');
                    continue;
                }
                b'"' => {
                    at = find(bytes, at, |b| matches!(b, b'"' | b'\n'));
                    let inside = &text[start + 1..at];
                    at += usize::from(bytes.get(at) == Some(&b'"'));
                    Token::Quoted(inside)
                }
                _ => {
                    let ends = |b: u8| b.is_ascii_whitespace() || b"{};\"".contains(&b);
                    at = find(bytes, at, ends);
                    at -= bytes[start + 1..at].iter().rev().take_while(|b| **b == b',').count();
                    Token::Word(&text[start..at])
                }
            };
            tokens.push((token, Span { start: start as u32, end: at as u32 }));
        }
        let end = text.len() as u32;
        tokens.push((Token::End, Span { start: end, end }));
        Cursor { tokens, at: 0 }
    }

    pub fn peek(&self) -> Token<'t> {
        self.tokens[self.at].0
    }

    /// The token after the next one.
    pub fn second(&self) -> Token<'t> {
        self.tokens.get(self.at + 1).map_or(Token::End, |t| t.0)
    }

    pub fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    /// Takes the next token; the end stays the end.
    pub fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    /// Takes the next token if it is that one.
    pub fn take(&mut self, token: Token<'_>) -> bool {
        let is = self.peek() == token;
        if is {
            self.next();
        }
        is
    }

    /// Takes the next word if it is that one.
    pub fn take_word(&mut self, word: &str) -> bool {
        self.take(Token::Word(word))
    }

    /// Takes `counter packets 1 bytes 60` of an element or rule, if it comes next; whether it did.
    pub fn take_counters(&mut self) -> Fallible<bool> {
        if !self.take_word("counter") {
            return Ok(false);
        }
        if self.take_word("packets") {
            self.word("a number")?;
            if !self.take_word("bytes") {
                return self.missing("bytes");
            }
            self.word("a number")?;
        }
        Ok(true)
    }

    /// Takes the words if they all come next.
    pub fn take_words(&mut self, words: &[&str]) -> bool {
        let next = self.tokens[self.at..].iter().map(|t| t.0);
        let are = next.zip(words).filter(|(t, w)| *t == Token::Word(w)).count() == words.len();
        if are {
            self.at += words.len();
        }
        are
    }

    /// The next word; `what` describes what is expected.
    pub fn word(&mut self, what: &str) -> Fallible<&'t str> {
        match self.peek() {
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            _ => self.missing(what),
        }
    }

    /// The text between quotes; `what` describes what is expected.
    pub fn quoted(&mut self, what: &str) -> Fallible<&'t str> {
        match self.peek() {
            Token::Quoted(text) => {
                self.next();
                Ok(text)
            }
            _ => self.missing(what),
        }
    }

    pub fn expect(&mut self, token: Token<'_>, what: &str) -> Fallible<()> {
        if self.take(token) { Ok(()) } else { self.missing(what) }
    }

    pub fn missing<T>(&self, what: &str) -> Fallible<T> {
        Diagnostic::new(format!("expected {what}"), self.span()).help(HELP).fail()
    }

    /// Refuses what was read last.
    pub fn refuse<T>(&self, message: impl Into<String>) -> Fallible<T> {
        let span = self.tokens[self.at.saturating_sub(1)].1;
        Diagnostic::new(message, span).help(HELP).fail()
    }

    /// Passes empty lines.
    pub fn lines(&mut self) {
        while matches!(self.peek(), Token::Line | Token::Semicolon) {
            self.next();
        }
    }

    /// True at the end of a rule.
    pub fn is_line_end(&self) -> bool {
        matches!(self.peek(), Token::Line | Token::Close | Token::End)
    }

    /// Goes to the end of the line, past braces that open and close in it.
    pub fn skip_line(&mut self) {
        let mut open = 0usize;
        loop {
            match self.peek() {
                Token::End => return,
                Token::Line if open == 0 => return,
                Token::Close if open == 0 => return,
                Token::Open => open += 1,
                Token::Close => open -= 1,
                _ => {}
            }
            self.next();
        }
    }
}

fn find(bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|b| is(*b)).map_or(bytes.len(), |i| from + i)
}

/// The cure for whatever weir does not write.
pub(super) const HELP: &str =
    "of nft, weir reads the tables that it wrote and what `nft list ruleset` prints of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_of_words_stay_and_those_behind_are_marks() {
        let mut c = Cursor::new("@th,0,24 { fin,syn, \"a;b\" }; # x");
        let mut all = Vec::new();
        while c.peek() != Token::End {
            all.push(c.next());
        }
        use Token::{Close, Comma, Open, Quoted, Semicolon, Word};
        let expected =
            [Word("@th,0,24"), Open, Word("fin,syn"), Comma, Quoted("a;b"), Close, Semicolon];
        assert_eq!(all, expected);
    }
}
