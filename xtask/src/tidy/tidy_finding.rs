//! What a house rule finds.

use std::fmt;

/// Something that breaks a rule.
#[derive(Debug, PartialEq)]
pub struct TidyFinding {
    /// Which rule, the word for `tidy: allow(…)`.
    pub rule: &'static str,
    /// File, from the root.
    pub path: String,
    /// Line from 1; 0 is the file as a whole.
    pub line_or_zero_for_file: usize,
    /// What is wrong and what to do.
    pub message: String,
    /// Whether it fails the run.
    pub is_error: bool,
}

impl TidyFinding {
    /// One that fails the run.
    pub fn new_error(
        rule: &'static str,
        path: &str,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        TidyFinding {
            rule,
            path: path.into(),
            line_or_zero_for_file: line,
            message: message.into(),
            is_error: true,
        }
    }

    /// One for a person to judge.
    pub fn new_warning(
        rule: &'static str,
        path: &str,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        TidyFinding { is_error: false, ..TidyFinding::new_error(rule, path, line, message) }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path)?;
        if self.line_or_zero_for_file > 0 {
            write!(f, "{}:", self.line_or_zero_for_file)?;
        }
        let kind = if self.is_error { "" } else { "warning: " };
        write!(f, " {kind}{} [{}]", self.message, self.rule)
    }
}
