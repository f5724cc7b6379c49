//! The lints: one file for each, or for a few that are detected together.

pub(crate) mod budget;
pub(crate) mod catch_all;
pub(crate) mod chains;
pub(crate) mod comment;
pub(crate) mod costly_match;
pub(crate) mod established;
pub(crate) mod families;
pub(crate) mod fragments;
pub(crate) mod impossible;
pub(crate) mod linear;
pub(crate) mod log;
pub(crate) mod loopback_nat;
pub(crate) mod opaque;
pub(crate) mod overlap;
pub(crate) mod policy;
pub(crate) mod sets;
pub(crate) mod shadow;
pub(crate) mod tracking;
pub(crate) mod unused;

pub use self::linear::LINEAR_RULES;
use crate::context::LintContext;
use crate::finding::Finding;

/// What follows from what was found.
pub(crate) fn follow(context: &LintContext<'_>, found: &[Finding]) -> Vec<Finding> {
    tracking::unneeded(context, found)
}
