//! The JSON output of commands: one object each, beginning with the command and the version of its
//! members.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

/// Raised when a member changes its meaning or goes; a new member leaves it as it is.
const JSON_FORMAT_VERSION: u32 = 1;

#[derive(Serialize)]
struct JsonEnvelope<'a, T> {
    command: &'a str,
    version: u32,
    #[serde(flatten)]
    members: &'a T,
}

/// The text of an object with these members; `command` is as a user types it, without `weir`.
///
/// # Errors
/// A value that JSON has no words for.
pub fn render_json_object<T: Serialize>(command: &str, members: &T) -> Result<String> {
    let envelope = JsonEnvelope { command, version: JSON_FORMAT_VERSION, members };
    Ok(format!("{}\n", serde_json::to_string_pretty(&envelope)?))
}

/// The text of an object with one member of this name.
///
/// # Errors
/// As [`render_json_object`].
pub fn render_single_member_json<T: Serialize>(
    command: &str,
    name: &str,
    value: &T,
) -> Result<String> {
    render_json_object(command, &BTreeMap::from([(name, value)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_begins_with_its_command_and_version() {
        let text = render_single_member_json("lab list", "studies", &["a", "b"]).expect("JSON");
        let compact: String = text.split_whitespace().collect();
        assert_eq!(compact, r#"{"command":"lablist","version":1,"studies":["a","b"]}"#);
    }

    #[test]
    fn a_value_that_is_not_an_object_is_refused() {
        assert!(render_json_object("doctor", &[1, 2]).is_err());
    }
}
