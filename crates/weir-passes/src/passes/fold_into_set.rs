//! `fold_into_set`: replaces rules that differ only in one address (and port) by a set
//! ([`crate::set_folding`]).
//!
//! They need not be adjacent: a rule may be moved past others to its group if no packet could match
//! both. The elements count for the original rules.

use weir_artefact::manifest::UnchangedRule;
use weir_model::{Ruleset, iptables_tool_name};

use crate::RewrittenRuleset;
use crate::pass::{CounterPreservation, Pass, PassContext, format_family_set_name_prefix};
use crate::rewrite::record_program_chains_as_unchanged;
use crate::set_folding::{self, SetFoldCostsAndNames};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct FoldIntoSetPass;

impl Pass for FoldIntoSetPass {
    fn name(&self) -> &'static str {
        "fold_into_set"
    }

    fn description(&self) -> &'static str {
        "replaces rules that differ only in one address by one rule with a set"
    }

    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Derivable
    }

    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset {
        if context.traffic_changed_sets.may_any_set_change() {
            let mut made = RewrittenRuleset::unchanged(ruleset);
            let rule = iptables_tool_name(ruleset.family).to_owned();
            let why = "a target that weir does not know may change any set".to_owned();
            made.unchanged_rules.push(UnchangedRule { rule, why });
            return made;
        }
        let options = SetFoldCostsAndNames {
            cost: context.options.cost.clone(),
            name_prefix: format_family_set_name_prefix(context.options, ruleset.family),
            used_names: context.sets.iter().map(|s| s.name.clone()).collect(),
        };
        let mut made = set_folding::fold_into_sets(ruleset, &options, context.rule_ids, &|c| {
            context.may_rewrite(c)
        });
        record_program_chains_as_unchanged(ruleset, context, &mut made);
        made
    }
}
