//! The registry of all lints.
//!
//! To add one: its file in [`lints`](crate::lints), its page in `docs/lints`, its family in
//! [`FAMILIES`].

use thiserror::Error;

use crate::family::LintFamily;
use crate::levels::{Level, LintLevels};
use crate::lint::Lint;
use crate::lints::*;

/// All families, in the order of evaluation.
pub(crate) static FAMILIES: &[&LintFamily] = &[
    &catch_all::FAMILY,
    &impossible::FAMILY,
    &shadow::FAMILY,
    &chains::FAMILY,
    &sets::FAMILY,
    &opaque::FAMILY,
    &policy::FAMILY,
    &linear::FAMILY,
    &established::FAMILY,
    &tracking::FAMILY,
    &costly_match::FAMILY,
    &log::FAMILY,
    &budget::FAMILY,
    &fragments::FAMILY,
    &loopback_nat::FAMILY,
    &families::FAMILY,
    &overlap::FAMILY,
    &unused::FAMILY,
    &comment::FAMILY,
];

/// Every lint.
pub fn lints() -> impl Iterator<Item = &'static Lint> {
    FAMILIES.iter().flat_map(|f| f.lints.iter().copied())
}

/// The lint of that name.
pub fn lint(id: &str) -> Option<&'static Lint> {
    lints().find(|l| l.id == id)
}

/// No lint has that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown lint {0}: `weir check --list` lists all")]
pub struct UnknownLint(pub String);

impl LintLevels {
    /// Sets the level of a lint, or of `all`.
    ///
    /// # Errors
    /// [`UnknownLint`].
    pub fn set(&mut self, id: &str, level: Level) -> Result<(), UnknownLint> {
        if id == "all" {
            self.set_all(level);
            return Ok(());
        }
        let lint = lint(id).ok_or_else(|| UnknownLint(id.to_owned()))?;
        self.set_lint(lint, level);
        Ok(())
    }
}
