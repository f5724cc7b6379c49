//! The registry of all lints.
//!
//! To add one: its file in [`lints`](crate::lints), its page in `docs/lints`, its family in
//! [`LINT_FAMILIES`].

use thiserror::Error;

use crate::lint::Lint;
use crate::lint_family::LintFamily;
use crate::lint_levels::{LintLevel, LintLevels};
use crate::lints::*;

/// All families, in the order of evaluation.
pub(crate) static LINT_FAMILIES: &[&LintFamily] = &[
    &rule_after_catch_all::LINT_FAMILY,
    &never_matches::LINT_FAMILY,
    &shadowed_and_redundant_rules::LINT_FAMILY,
    &unreachable_and_empty_chains::LINT_FAMILY,
    &unused_and_full_sets::LINT_FAMILY,
    &opaque_module::LINT_FAMILY,
    &no_final_drop::LINT_FAMILY,
    &linear_rule_runs::LINT_FAMILY,
    &conntrack_not_first::LINT_FAMILY,
    &unneeded_conntrack_and_untracked_nat::LINT_FAMILY,
    &matches_with_cheaper_equivalent::LINT_FAMILY,
    &log_without_limit::LINT_FAMILY,
    &stateful_limits::LINT_FAMILY,
    &fragments_slip_through::LINT_FAMILY,
    &loopback_and_nat::LINT_FAMILY,
    &family_defaults_and_neighbour_discovery::LINT_FAMILY,
    &overlapping_rules::LINT_FAMILY,
    &unused_rule::LINT_FAMILY,
    &malformed_and_unused_weir_comments::LINT_FAMILY,
];

/// Every lint.
pub fn all_lints() -> impl Iterator<Item = &'static Lint> {
    LINT_FAMILIES.iter().flat_map(|f| f.lints.iter().copied())
}

/// The lint of that name.
pub fn find_lint(id: &str) -> Option<&'static Lint> {
    all_lints().find(|l| l.id == id)
}

/// No lint has that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown kind of finding {0} (see weir check --list)")]
pub struct UnknownLint(pub String);

impl LintLevels {
    /// Sets the level of a lint, or of `all`.
    ///
    /// # Errors
    /// [`UnknownLint`].
    pub fn set_level_by_id_or_all_enabled(
        &mut self,
        id: &str,
        level: LintLevel,
    ) -> Result<(), UnknownLint> {
        if id == "all" {
            self.set_level_for_enabled_unnamed_lints(level);
            return Ok(());
        }
        let lint = find_lint(id).ok_or_else(|| UnknownLint(id.to_owned()))?;
        self.set_level_of_lint(lint, level);
        Ok(())
    }
}
