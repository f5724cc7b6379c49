//! `chain_tree`: turns runs of rules into prefix trees of chains ([`crate::tree`]).
//!
//! Rules are copied into every leaf in which they could match; each copy carries the credit of its
//! rule, so a counter is the sum over its copies.

use weir_model::Ruleset;

use crate::Rewritten;
use crate::pass::{Context, Counting, Pass};
use crate::rewrite::leave_programs_alone;
use crate::tree::{self, TreeOptions};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct ChainTree;

impl Pass for ChainTree {
    fn name(&self) -> &'static str {
        "chain_tree"
    }

    fn about(&self) -> &'static str {
        "turns runs of rules that test one address into prefix trees of chains"
    }

    fn counters(&self) -> Counting {
        Counting::Derivable
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let options = TreeOptions {
            cost: context.options.cost.clone(),
            levels: context.options.levels.clone(),
        };
        leave_programs_alone(ruleset, context, |r| tree::compile(r, &options, context.places))
    }
}
