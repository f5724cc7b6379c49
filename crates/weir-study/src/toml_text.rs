//! TOML text to values; errors have file and line.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use crate::StudyError;

/// What is wrong with a value of a text.
pub(crate) struct TomlValueError {
    /// Where it begins.
    offset: usize,
    message: String,
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

/// Reads TOML text; errors have file and line.
pub(crate) fn parse_toml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, StudyError> {
    parse_edited_toml(path, text, |_| Ok(()))
}

/// Reads TOML text whose values are edited before; they keep their places in the text.
pub(crate) fn parse_edited_toml<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    edit: impl FnOnce(&mut DeTable<'_>) -> Result<(), TomlValueError>,
) -> Result<T, StudyError> {
    let parse = || {
        let mut table = DeTable::parse(text)?;
        edit(table.get_mut())?;
        Ok(T::deserialize(toml::Deserializer::from(table))?)
    };
    parse()
        .map_err(|TomlValueError { offset, message }| error_at_offset(path, text, offset, message))
}

/// What is wrong at an offset of a file's text.
pub(crate) fn error_at_offset(path: &Path, text: &str, at: usize, message: String) -> StudyError {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    StudyError::InvalidFile { path: path.to_owned(), line, message }
}

/// Offset of the header of a table such as `presets.quick`, or of the first table inside of it; 0
/// where the text has none.
pub(crate) fn table_header_offset(text: &str, table: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start().strip_prefix('[').map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix(table)).map(str::trim_start);
        // `presets.ab` begins like `presets.a` and is another table.
        if rest.is_some_and(|rest| rest.starts_with([']', '.'])) {
            return at + line.len() - line.trim_start().len();
        }
        at += line.len();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_not_found_at_one_whose_name_begins_alike() {
        let text = "title = 't'\n[presets.ab]\nblocks = 1\n  [ presets.a ]\nblocks = 2\n";
        assert_eq!(table_header_offset(text, "presets.ab"), text.find("[presets.ab]").unwrap());
        assert_eq!(table_header_offset(text, "presets.a"), text.find("[ presets.a ]").unwrap());
        assert_eq!(table_header_offset(text, "presets.b"), 0);
        assert_eq!(table_header_offset("[presets.a.axes]\n", "presets.a"), 0);
        assert_eq!(table_header_offset("x = 1\n[presets.a.axes]\n", "presets.a"), 6);
    }
}
