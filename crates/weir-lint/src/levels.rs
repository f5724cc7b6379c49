//! Which lints are enabled, and their severities.

use std::collections::HashMap;

use crate::lint::{Lint, Severity};

/// The outcome of a lint's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is reported.
    Allow,
    /// Reported, as bad as that.
    Report(Severity),
}

/// The caller's settings per lint; the registry has the defaults.
///
/// A setting for one lint takes precedence over one for `all`. `all` warns only of lints that are
/// reported anyway: those that are off stay off unless they are named.
#[derive(Clone, Debug, Default)]
pub struct LintLevels {
    named: HashMap<&'static str, Level>,
    all: Option<Level>,
}

impl LintLevels {
    /// Sets the level of every lint that is reported anyway.
    pub(crate) fn set_all(&mut self, level: Level) {
        self.all = Some(level);
    }

    /// Sets the level of a lint.
    pub(crate) fn set_lint(&mut self, lint: &Lint, level: Level) {
        self.named.insert(lint.id, level);
    }

    /// The level that is put to a lint; `None` if its findings say themselves.
    pub fn asked(&self, lint: &Lint) -> Option<Level> {
        match (self.named.get(lint.id), self.all) {
            (Some(level), _) => Some(*level),
            (None, _) if !lint.on => Some(Level::Allow),
            (None, all) => all,
        }
    }

    /// The level that is put to a lint by its name.
    pub fn named(&self, lint: &Lint) -> Option<Level> {
        self.named.get(lint.id).copied()
    }

    /// The level of a lint.
    pub fn of(&self, lint: &Lint) -> Level {
        self.asked(lint).unwrap_or(Level::Report(lint.severity))
    }
}
