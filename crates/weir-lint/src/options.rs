//! Options of a check.

use crate::levels::LintLevels;

/// How a firewall is checked.
#[derive(Clone, Debug, Default)]
pub struct LintOptions {
    /// Counters of the text are those of real traffic: rules that never counted are found.
    pub counters: bool,
    /// Which lints speak, and how loudly.
    pub levels: LintLevels,
}
