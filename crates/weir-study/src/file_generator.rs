//! Files that a study's commands generate: rulesets, frames, rules to add.

use serde::Deserialize;
use toml::Spanned;

/// A command that makes a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileGenerator {
    /// The axes that the file depends on.
    pub axes: Vec<Spanned<String>>,
    /// The command; it writes to `RULESET`, `FRAMES` or `MORE`.
    pub command: String,
}

impl FileGenerator {
    /// Names of its axes.
    pub fn declared_axis_names(&self) -> Vec<&str> {
        self.axes.iter().map(|axis| axis.get_ref().as_str()).collect()
    }
}
