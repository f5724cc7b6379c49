//! A cheaper ruleset with the same meaning: one file per pass.
//!
//! A chain is divided into *barriers* and *runs* ([`rule_runs`]). Barriers keep their places and
//! order; runs are rewritten into a prefix tree of chains ([`prefix_tree`]) or into sets
//! ([`set_folding`]). Costs are passed in as a value ([`CostModel`]). [`EditableChainTree`] is the
//! same tree for programs that manage their own list of addresses.
//!
//! [`passes`] has all passes by name; [`Pass`] is their interface. No pass prints, loads or
//! measures anything, and none is trusted: [`run_passes_until_first_refusal`] compares the ruleset
//! before and after each of them ([`equivalence_check`], [`structure_check`]).

#![forbid(unsafe_code)]

mod chain_names;
mod checked_passes;
pub mod cost;
pub mod editable_chain_tree;
pub mod equivalence_check;
mod packet_class_walk;
pub mod packet_cost;
mod pass;
pub mod passes;
pub mod prefix_tree;
mod rewrite;
pub mod rule_runs;
pub mod set_folding;
pub mod structure_check;

pub use chain_names::ChainNameAllocator;
pub use checked_passes::{
    CheckedPassesOptions, CheckedPassesResult, MeanRulesTriedBeforeAndAfter, NoProofReason,
    PassRefusalReason, PassReport, RefusedPass, run_passes_until_first_refusal,
};
pub use cost::{CalibrationSlopes, CostModel};
pub use editable_chain_tree::{EditableChainTree, EditableChainTreeError};
pub use equivalence_check::{Counterexample, FractionDoneFn, PacketCheckOptions};
pub use pass::{CounterPreservation, Equivalence, Pass, PassContext, PassOptions};
pub use rule_runs::AddressAxis;
pub use weir_artefact::PassEqualityEvidence;
pub use weir_partition::Prefix;

use weir_artefact::manifest::{CompiledRuleRun, UnchangedRule};
use weir_model::{IpSet, OriginalRuleIndex, Ruleset};

/// What a pass made of a ruleset.
#[derive(Clone, Debug)]
pub struct RewrittenRuleset {
    /// The new ruleset; every copy of an original rule carries its credit.
    pub ruleset: Ruleset,
    /// Sets that the new rules use; their elements carry the credit.
    pub sets: Vec<IpSet>,
    /// What was compiled, in the order of the text.
    pub compiled_rule_runs: Vec<CompiledRuleRun>,
    /// Unchanged rules next to compiled ones, and why.
    pub unchanged_rules: Vec<UnchangedRule>,
    /// Rules that were omitted because no packet reaches them: their counters are always zero.
    pub dead_rules: Vec<OriginalRuleIndex>,
}
