//! Which rules of each hook nft evaluates, and why the others stay in iptables.

use std::collections::{BTreeMap, HashSet};

use weir_artefact::manifest::{FormRuleCoverage, HookRuleCoverage};
use weir_model::{OriginalRuleIndex, SharedName};

use super::table_move_plan::TableMovePlan;
use crate::form_rule_coverage::{format_chain_id, list_rules_by_hook, sort_causes_by_rule_count};

/// Adds a table's plan; `deep` says why the table stays as a whole, where it does.
pub(super) fn add_nft_table_coverage(
    share: &mut FormRuleCoverage,
    plan: &TableMovePlan<'_>,
    deep: Option<&str>,
) {
    let (mut moved, mut left) = (HashSet::new(), HashSet::new());
    for (hook, entered) in list_rules_by_hook(plan.family, plan.table) {
        let is_moved = plan.moved_hooks.iter().any(|h| {
            format_chain_id(plan.family, plan.table, &SharedName::from(h.chain_name())) == hook
        });
        let rules = entered.len() as u64;
        let (in_form, stays) = if is_moved { (rules, 0) } else { (0, rules) };
        let causes = match (is_moved, deep) {
            (true, _) => Vec::new(),
            (false, Some(why)) => sort_causes_by_rule_count([(why.to_owned(), rules)].into_iter()),
            (false, None) => sort_causes_by_rule_count(
                count_blocking_rules_by_cause(plan, &hook, &entered).into_iter(),
            ),
        };
        share.hooks.push(HookRuleCoverage { hook, rules, in_form, left: stays, causes });
        if is_moved { &mut moved } else { &mut left }.extend(entered);
    }
    share.hook_entered_rules += moved.union(&left).count() as u64;
    share.in_form += moved.len() as u64;
    share.left += left.len() as u64;
}

/// Why a hook stays: the rules that it enters and that are the cause, by cause.
fn count_blocking_rules_by_cause(
    plan: &TableMovePlan<'_>,
    hook: &str,
    entered: &HashSet<OriginalRuleIndex>,
) -> BTreeMap<String, u64> {
    let mut causes = BTreeMap::new();
    let mut count = |why: String, ids: &[OriginalRuleIndex]| {
        let rules = ids.iter().filter(|id| entered.contains(id)).count() as u64;
        if rules > 0 {
            *causes.entry(why).or_default() += rules;
        }
    };
    for refused in &plan.refused_rules {
        let rule = plan.chain(&refused.chain);
        let rule = rule.and_then(|chain| chain.rules.get(refused.number as usize - 1));
        let ids = rule.map_or(&[][..], |rule| &rule.credited_originals);
        count(format!("nft cannot express {}", refused.why), ids);
    }
    for (chain, program) in &plan.chains_of_managing_programs {
        let rules = plan.chain(chain).into_iter().flat_map(|chain| &chain.rules);
        let ids: Vec<OriginalRuleIndex> =
            rules.flat_map(|rule| rule.credited_originals.iter().copied()).collect();
        count(format!("{program} keeps their chains in iptables"), &ids);
    }
    for (tied, why) in &plan.expressible_hooks_kept_in_iptables {
        if format_chain_id(plan.family, plan.table, &SharedName::from(tied.chain_name())) == hook {
            let all: Vec<OriginalRuleIndex> = entered.iter().copied().collect();
            count((*why).to_owned(), &all);
        }
    }
    causes
}
