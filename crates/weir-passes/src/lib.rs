//! A cheaper ruleset with the same meaning: one file a pass.
//!
//! A chain is cut into *barriers* and *runs* ([`run`]). Barriers stay where they are, in their
//! order; runs are rewritten: into a prefix tree of chains ([`tree`]) or into sets ([`sets`]).
//! What is cheap and what is dear comes in as a value ([`CostModel`]). [`Skeleton`] is the same
//! tree for programs that keep their own list of addresses.
//!
//! No pass prints, loads or measures anything, and none is trusted: whoever uses one compares the
//! ruleset before and after, packet by packet.

#![forbid(unsafe_code)]

mod chains;
pub mod cost;
pub mod prefix;
pub mod run;
pub mod sets;
pub mod skeleton;
pub mod tree;

pub use chains::ChainNames;
pub use cost::CostModel;
pub use prefix::Prefix;
pub use run::{Axis, Barrier};
pub use skeleton::{Skeleton, SkeletonError};

use weir_model::manifest::{CompiledRun, Kept};
use weir_model::{IpSet, Ruleset};

/// What a pass made of a ruleset.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The new ruleset; every copy of an original rule carries its credit.
    pub ruleset: Ruleset,
    /// Sets that the new rules look into; their elements carry the credit.
    pub sets: Vec<IpSet>,
    /// What was compiled, in the order of the text.
    pub compiled: Vec<CompiledRun>,
    /// What was left as it is although it lies beside compiled rules, and why.
    pub kept: Vec<Kept>,
}
