//! Which lints speak, and how loudly.

use std::collections::HashMap;

use crate::lint::{Lint, Severity};

/// What becomes of a lint's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is said.
    Allow,
    /// Reported, as bad as that.
    Report(Severity),
}

/// What the caller asks for, lint by lint; the registry says the rest.
///
/// What is said of one lint wins over what is said of `all`. `all` warns only of lints that are
/// reported anyway: those that are off stay off until they are named.
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

    /// The level that is asked of a lint; `None` where its findings say themselves.
    pub fn asked(&self, lint: &Lint) -> Option<Level> {
        match (self.named.get(lint.id), self.all) {
            (Some(level), _) => Some(*level),
            (None, _) if !lint.on => Some(Level::Allow),
            (None, all) => all,
        }
    }

    /// The level that is asked of a lint by its name.
    pub fn named(&self, lint: &Lint) -> Option<Level> {
        self.named.get(lint.id).copied()
    }

    /// The level of a lint.
    pub fn of(&self, lint: &Lint) -> Level {
        self.asked(lint).unwrap_or(Level::Report(lint.severity))
    }
}
