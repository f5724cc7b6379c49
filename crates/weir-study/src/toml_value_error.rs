//! What is wrong with a value of a TOML text, and where.

use std::ops::Range;

/// What is wrong with a value of a text.
#[derive(Debug)]
pub(crate) struct TomlValueError {
    /// Where it begins.
    pub(crate) offset: usize,
    /// What is wrong, and what may be there instead.
    pub(crate) message: String,
}

impl TomlValueError {
    /// At the start of a span.
    pub(crate) fn new(span: &Range<usize>, message: String) -> TomlValueError {
        TomlValueError { offset: span.start, message }
    }
}

impl From<toml::de::Error> for TomlValueError {
    fn from(error: toml::de::Error) -> TomlValueError {
        let offset = error.span().map_or(0, |span| span.start);
        TomlValueError { offset, message: error.message().trim().to_owned() }
    }
}
