//! Escapes text of a ruleset for terminals.

use std::borrow::Cow;

/// Text in which control characters are written out (`\x1b`), so that none of them reaches a
/// terminal. Line ends and tabs stay.
///
/// ```
/// assert_eq!(weir_syntax::escape_control_chars("a\u{1b}[2Jb\n"), "a\\x1b[2Jb\n");
/// ```
pub fn escape_control_chars(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| control_char_escape(c).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match control_char_escape(c) {
            Some(words) => out.push_str(&words),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// How a character is written out that would move the cursor, or more; `None` for all others.
pub(crate) fn control_char_escape(c: char) -> Option<String> {
    match c {
        '\n' | '\t' => None,
        '\r' => Some("\\r".to_owned()),
        c if c.is_control() => Some(format!("\\x{:02x}", u32::from(c))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_except_line_ends_and_tabs_are_escaped() {
        let all: String = (0..0x100).filter_map(char::from_u32).collect();
        let shown = escape_control_chars(&all);
        assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        for words in ["\\x00", "\\r", "\\x1b", "\\x7f", "\\x9b"] {
            assert!(shown.contains(words), "{words}");
        }
    }

    #[test]
    fn text_without_control_characters_is_not_copied() {
        assert!(matches!(escape_control_chars("-A INPUT \u{e4}\u{1f525}\t"), Cow::Borrowed(_)));
    }
}
