//! `chain_tree`: turns runs of rules into prefix trees of chains ([`crate::prefix_tree`]).
//!
//! Rules are copied into every leaf in which they could match; each copy carries the credit of its
//! rule, so a counter is the sum over its copies.

use weir_model::Ruleset;

use crate::RewrittenRuleset;
use crate::pass::{CounterPreservation, Pass, PassContext};
use crate::prefix_tree::{self, TreeOptions};
use crate::rewrite::record_program_chains_as_unchanged;

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct ChainTreePass;

impl Pass for ChainTreePass {
    fn name(&self) -> &'static str {
        "chain_tree"
    }

    fn description(&self) -> &'static str {
        "turns runs of rules that test one address into prefix trees of chains"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Derivable
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        let options = TreeOptions {
            cost: context.options.cost.clone(),
            levels: context.options.levels.clone(),
        };
        let mut made = prefix_tree::build_prefix_trees(ruleset, &options, context.rule_ids, &|c| {
            context.may_rewrite(c)
        });
        record_program_chains_as_unchanged(ruleset, context, &mut made);
        made
    }
}
