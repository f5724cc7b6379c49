//! `fold_into_set`: replaces rules that differ only in one address (and port) by a set
//! ([`crate::sets`]).
//!
//! They need not be adjacent: a rule may be moved past others to its group if no packet could match
//! both. The elements count for the original rules.

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
        "replaces rules that differ only in one address by one rule with a set"
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
