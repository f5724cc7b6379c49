//! A cheaper ruleset with the same meaning: one file per pass.
//!
//! A chain is divided into *barriers* and *runs* ([`run`]). Barriers keep their places and order;
//! runs are rewritten into a prefix tree of chains ([`tree`]) or into sets ([`sets`]). Costs are
//! passed in as a value ([`CostModel`]). [`Skeleton`] is the same tree for programs that manage
//! their own list of addresses.
//!
//! [`passes`] has all passes by name; [`Pass`] is their interface. No pass prints, loads or
//! measures anything, and none is trusted: [`run_checked`] compares the ruleset before and after
//! each of them ([`check`], [`structure`]).

#![forbid(unsafe_code)]

mod chains;
pub mod check;
mod checked;
pub mod cost;
mod pass;
pub mod passes;
pub mod price;
mod rewrite;
pub mod run;
pub mod sets;
pub mod skeleton;
pub mod structure;
pub mod tree;

pub use chains::ChainNames;
pub use check::{CheckOptions, Counterexample, ProgressFn};
pub use checked::{
    CheckedRun, PassStep, RefusedPass, RunOptions, Tried, Unproven, Why, run_checked,
};
pub use cost::{CostModel, Slopes};
pub use pass::{Context, Counting, Equivalence, Pass, PassOptions};
pub use run::Axis;
pub use skeleton::{Skeleton, SkeletonError};
pub use weir_artefact::Evidence;
pub use weir_partition::Prefix;

use weir_artefact::manifest::{CompiledRun, Kept};
use weir_model::{IpSet, RuleIndex, Ruleset};

/// What a pass made of a ruleset.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The new ruleset; every copy of an original rule carries its credit.
    pub ruleset: Ruleset,
    /// Sets that the new rules use; their elements carry the credit.
    pub sets: Vec<IpSet>,
    /// What was compiled, in the order of the text.
    pub compiled: Vec<CompiledRun>,
    /// Unchanged rules next to compiled ones, and why.
    pub kept: Vec<Kept>,
    /// Rules that were left out because no packet reaches them: their counters are always zero.
    pub dead: Vec<RuleIndex>,
}
