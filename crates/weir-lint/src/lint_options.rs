//! Options of a check.

use crate::lint_levels::LintLevels;

/// How a firewall is checked.
#[derive(Clone, Debug, Default)]
pub struct LintOptions {
    /// Counters of the text are those of real traffic: rules that never counted are found.
    pub counters_are_real: bool,
    /// Which lints speak, and how loudly.
    pub levels: LintLevels,
}
