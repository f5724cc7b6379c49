//! The lints: one file for each, or for a few that are looked for together.

pub(super) mod catch_all;
pub(super) mod chains;
pub(super) mod comment;
pub(super) mod established;
pub(super) mod impossible;
pub(super) mod linear;
pub(super) mod opaque;
pub(super) mod policy;
pub(super) mod sets;
pub(super) mod shadow;
pub(super) mod unused;

use super::Finding;
use super::report::Context;

pub use self::linear::LINEAR_RULES;

/// What follows from what was found.
pub(super) fn follow(_: &Context<'_>, _: &[Finding]) -> Vec<Finding> {
    Vec::new()
}
