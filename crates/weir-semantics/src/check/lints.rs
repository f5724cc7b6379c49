//! The lints: one file for each, or for a few that are looked for together.

pub(super) mod budget;
pub(super) mod catch_all;
pub(super) mod chains;
pub(super) mod comment;
pub(super) mod dear;
pub(super) mod doors;
pub(super) mod established;
pub(super) mod families;
pub(super) mod fragments;
pub(super) mod impossible;
pub(super) mod linear;
pub(super) mod log;
pub(super) mod opaque;
pub(super) mod overlap;
pub(super) mod policy;
pub(super) mod sets;
pub(super) mod shadow;
pub(super) mod tracking;
pub(super) mod unused;

use super::Finding;
use super::report::Context;

pub use self::linear::LINEAR_RULES;

/// What follows from what was found.
pub(super) fn follow(context: &Context<'_>, found: &[Finding]) -> Vec<Finding> {
    tracking::unneeded(context, found)
}
