//! TOML text to values; errors have file and line.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use crate::StudyError;
use crate::toml_value_error::TomlValueError;
use crate::value_rules::{FirstInvalidValues, ValueRuleAtPath, find_first_invalid_values};

/// Reads TOML text whose values obey `path_rules`; errors have file and line.
pub(crate) fn check_and_deserialize_toml<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    path_rules: &[ValueRuleAtPath],
) -> Result<T, StudyError> {
    check_edit_and_deserialize_toml(path, text, path_rules, |_| Ok(()))
}

/// Reads TOML text whose values obey `path_rules` and are edited afterwards; they keep their places
/// in the text.
pub(crate) fn check_edit_and_deserialize_toml<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    path_rules: &[ValueRuleAtPath],
    edit: impl FnOnce(&mut DeTable<'_>) -> Result<(), TomlValueError>,
) -> Result<T, StudyError> {
    let parse = || {
        let mut table = DeTable::parse(text)?;
        let FirstInvalidValues { refused, undeclared_number } =
            find_first_invalid_values(table.get_ref(), path_rules);
        refused.map_or(Ok(()), Err)?;
        edit(table.get_mut())?;
        let value = T::deserialize(toml::Deserializer::from(table))?;
        // After fields that do not exist, whose numbers have no range either.
        undeclared_number.map_or(Ok(value), Err)
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

/// Offset of the key at a path of keys, wherever the text first has it: in a header, as a dotted
/// key, in an inline table, quoted or not. `None` where there is none.
pub(crate) fn find_key_offset(text: &str, path: &[&str]) -> Option<usize> {
    let (last, tables) = path.split_last()?;
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    for name in tables {
        table = table.get(*name)?.get_ref().as_table()?;
    }
    table.keys().find(|key| key.get_ref() == last).map(|key| key.span().start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_any_toml_spelling() {
        let cases = [
            ("[presets.ab]\nx = 1\n  [ presets.a ]\n", &["presets", "a"][..], 3),
            ("x = 1\n[presets.ab]\n", &["presets", "ab"], 2),
            ("x = 1\n[\"presets\".'a']\n", &["presets", "a"], 2),
            ("x = 1\n[presets . \"a\".axes]\n", &["presets", "a"], 2),
            ("x = 1\npresets.\"a\".blocks = 1\n", &["presets", "a"], 2),
            ("x = 1\npresets = { a = { blocks = 1 } }\n", &["presets", "a"], 2),
            ("x = 1\n[presets]\na.blocks = 1\n", &["presets", "a"], 3),
            ("x = 1\n[presets.\"a.b\"]\n", &["presets", "a.b"], 2),
            ("x = 1\n[[presets]]\n", &["presets"], 2),
            ("title = '''\n[presets.a]'''\n[presets.a]\n", &["presets", "a"], 3),
        ];
        for (text, path, line) in cases {
            let at = find_key_offset(text, path).unwrap_or_else(|| panic!("{path:?} in {text}"));
            assert_eq!(text[..at].matches('\n').count() + 1, line, "{path:?} in {text}");
        }
        assert_eq!(find_key_offset("[presets.ab]\n", &["presets", "a"]), None);
        assert_eq!(find_key_offset("presets = 1\n", &["presets", "a"]), None);
    }
}
