//! Options of a check.

use crate::lint_levels::LintLevels;

/// How a firewall is checked.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// Counters of the text are those of real traffic: rules that never counted are found.
    pub counters_are_real: bool,
    /// Which lints speak, and how loudly.
    pub levels: LintLevels,
    /// Boxes and index nodes that are examined for a ruleset; tables share them by their rules.
    /// With more, nothing further is reported about a table that packets and not words decide, and
    /// it is listed in [`CheckReport::unfinished_tables`](crate::CheckReport::unfinished_tables).
    pub examined_boxes_max_per_ruleset: u64,
}

impl Default for LintOptions {
    /// Every lint as it is by default, 100 million boxes.
    fn default() -> Self {
        LintOptions {
            counters_are_real: false,
            levels: LintLevels::default(),
            examined_boxes_max_per_ruleset: 100_000_000,
        }
    }
}
