//! Which lints are enabled, and their severities.

use std::collections::HashMap;

use crate::lint::{Lint, Severity};

/// The outcome of a lint's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LintLevel {
    /// Nothing is reported.
    Allow,
    /// Reported, as bad as that.
    ReportAs(Severity),
}

/// The caller's settings per lint; the registry has the defaults.
///
/// A setting for one lint takes precedence over one for `all`. `all` warns only of lints that are
/// reported anyway: those that are off stay off unless they are named.
#[derive(Clone, Debug, Default)]
pub struct LintLevels {
    by_lint_id: HashMap<&'static str, LintLevel>,
    level_for_enabled_unnamed_lints: Option<LintLevel>,
}

impl LintLevels {
    /// Sets the level of every lint that is reported anyway.
    pub(crate) fn set_level_for_enabled_unnamed_lints(&mut self, level: LintLevel) {
        self.level_for_enabled_unnamed_lints = Some(level);
    }

    /// Sets the level of a lint.
    pub(crate) fn set_level_of_lint(&mut self, lint: &Lint, level: LintLevel) {
        self.by_lint_id.insert(lint.id, level);
    }

    /// The level that is put to a lint; `None` if its findings say themselves.
    pub fn level_overriding_default_severity(&self, lint: &Lint) -> Option<LintLevel> {
        match (self.by_lint_id.get(lint.id), self.level_for_enabled_unnamed_lints) {
            (Some(level), _) => Some(*level),
            (None, _) if !lint.enabled_by_default => Some(LintLevel::Allow),
            (None, all) => all,
        }
    }

    /// The level that is put to a lint by its name.
    pub fn explicit_level(&self, lint: &Lint) -> Option<LintLevel> {
        self.by_lint_id.get(lint.id).copied()
    }

    /// The level of a lint.
    pub fn effective_level(&self, lint: &Lint) -> LintLevel {
        self.level_overriding_default_severity(lint).unwrap_or(LintLevel::ReportAs(lint.severity))
    }
}
