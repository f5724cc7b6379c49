//! `fold_into_set`: rules that differ in one address (and port) alone become a set
//! ([`crate::sets`]).
//!
//! They need not be neighbours: a rule may pass others on its way to its like where no packet could
//! match both. The elements count for the rules that they were.

use weir_model::Ruleset;

use crate::Rewritten;
use crate::pass::{Context, Counting, Pass, stem};
use crate::rewrite::leave_programs_alone;
use crate::sets::{self, SetOptions};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct FoldIntoSet;

impl Pass for FoldIntoSet {
    fn name(&self) -> &'static str {
        "fold_into_set"
    }

    fn about(&self) -> &'static str {
        "rules that differ in one address alone become one rule that looks into a set"
    }

    fn counters(&self) -> Counting {
        Counting::Derivable
    }

    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten {
        let options = SetOptions {
            cost: context.options.cost.clone(),
            stem: stem(context.options, ruleset.family),
            taken: context.sets.iter().map(|s| s.name.clone()).collect(),
        };
        leave_programs_alone(ruleset, context, |r| sets::compile(r, &options, context.places))
    }
}
