//! How much of a ruleset a form changed, per hook, and why it left the rest unchanged.
//!
//! A form is equal to its ruleset however much it leaves unchanged, so only these figures show
//! whether it can be faster.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_artefact::manifest::{
    FormRuleCoverage, HookRuleCoverage, UnchangedRule, UnconvertedRulesCauseAndCount,
};
use weir_model::managing_programs::{ManagingProgram, find_preserved_program_of_chain};
use weir_model::{
    Chain, Family, Firewall, OriginalRuleIndex, Rule, RuleIdTable, Ruleset, SharedName, Table,
};
use weir_partition::find_barrier_reason;

/// Why a rule is left that nothing else keeps where it is.
const TOO_FEW_SIMILAR_RULES_REASON: &str = "too few similar rules are adjacent there";

/// For the forms for iptables: `after` is the result for `before`. Chains of `programs` are treated
/// like the user's. `default_passes_not_run` are passes of the form that the user excluded.
pub(crate) fn compute_iptables_form_coverage(
    before: &Firewall,
    after: &Firewall,
    kept: &[UnchangedRule],
    programs: &[ManagingProgram],
    default_passes_not_run: &[&str],
) -> FormRuleCoverage {
    let reason_by_passes = match default_passes_not_run {
        [] => TOO_FEW_SIMILAR_RULES_REASON.to_owned(),
        names => format!("without {}, no pass changes them", names.join(" and ")),
    };
    let kept: HashMap<&str, &str> = kept.iter().map(|k| (&*k.rule, &*k.why)).collect();
    let mut share = FormRuleCoverage::default();
    for ruleset in before.rulesets() {
        let Some(after) = after.ruleset(ruleset.family) else { continue };
        let places = RuleIdTable::from_ruleset(ruleset);
        for table in &ruleset.tables {
            let standing = find_unchanged_rules(after, table);
            let cause = |chain: &Chain, rule: &Rule| -> Option<String> {
                let is_left = standing.contains(&(&*chain.name, *rule.credited_originals.first()?));
                is_left.then(|| {
                    let program = find_preserved_program_of_chain(&chain.name)
                        .filter(|p| !programs.contains(p));
                    let noted =
                        || Some((*kept.get(&*places.first_credited_id_text(rule)?)?).to_owned());
                    let barrier =
                        || find_barrier_reason(rule, ruleset.family).map(|b| b.to_string());
                    let program = program.map(|p| format!("its chain belongs to {p}"));
                    program
                        .or_else(noted)
                        .or_else(barrier)
                        .unwrap_or_else(|| reason_by_passes.clone())
                })
            };
            add_table_coverage(&mut share, ruleset.family, table, cause);
        }
    }
    share
}

/// The rules of a table that stand as they were, in the chain in which they were.
fn find_unchanged_rules<'a>(
    after: &Ruleset,
    before: &'a Table,
) -> HashSet<(&'a str, OriginalRuleIndex)> {
    let Some(table) = after.table(&before.name) else { return HashSet::new() };
    let index: HashMap<&str, &Chain> = table.chains.iter().map(|c| (&*c.name, c)).collect();
    let mut credited: HashMap<OriginalRuleIndex, usize> = HashMap::new();
    for id in table.chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.credited_originals) {
        *credited.entry(*id).or_default() += 1;
    }
    let mut standing = HashSet::new();
    for chain in &before.chains {
        let there = index.get(&*chain.name).into_iter().flat_map(|c| &c.rules);
        let by_id: HashMap<OriginalRuleIndex, &Rule> = there
            .filter(|r| r.credited_originals.len() == 1)
            .map(|r| (r.credited_originals[0], r))
            .collect();
        for rule in &chain.rules {
            let Some(&id) = rule.credited_originals.first() else { continue };
            let is_same = |r: &&Rule| {
                r.base == rule.base && r.matches == rule.matches && r.target == rule.target
            };
            if credited.get(&id) == Some(&1) && by_id.get(&id).is_some_and(is_same) {
                standing.insert((&*chain.name, id));
            }
        }
    }
    standing
}

/// Adds a table of which `reason_left_unchanged` says why a rule is left.
fn add_table_coverage(
    share: &mut FormRuleCoverage,
    family: Family,
    table: &Table,
    reason_left_unchanged: impl Fn(&Chain, &Rule) -> Option<String>,
) {
    let reasons: HashMap<OriginalRuleIndex, String> = table
        .chains
        .iter()
        .flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
        .filter_map(|(chain, rule)| {
            Some((*rule.credited_originals.first()?, reason_left_unchanged(chain, rule)?))
        })
        .collect();
    let mut all = HashSet::new();
    for (hook, entered) in list_rules_by_hook(family, table) {
        let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
        for why in entered.iter().filter_map(|id| reasons.get(id)) {
            *causes.entry(why).or_default() += 1;
        }
        let left = causes.values().sum();
        let rules = entered.len() as u64;
        let causes =
            sort_causes_by_rule_count(causes.into_iter().map(|(why, n)| (why.to_owned(), n)));
        share.hooks.push(HookRuleCoverage { hook, rules, in_form: rules - left, left, causes });
        all.extend(entered);
    }
    let left = all.iter().filter(|id| reasons.contains_key(id)).count() as u64;
    share.hook_entered_rules += all.len() as u64;
    share.left += left;
    share.in_form += all.len() as u64 - left;
}

/// The hooks of a table that enter rules, with what they enter.
pub(crate) fn list_rules_by_hook(
    family: Family,
    table: &Table,
) -> Vec<(String, HashSet<OriginalRuleIndex>)> {
    let chains = table.name.hooks().iter().filter_map(|hook| {
        let chain =
            table.chains.iter().find(|c| c.policy.is_some() && &*c.name == hook.chain_name());
        chain.map(|chain| &chain.name)
    });
    let entered = chains.map(|name| {
        let rules = table.chains_reachable_from_names([&**name]).into_iter().flat_map(|c| &c.rules);
        (
            format_chain_id(family, table, name),
            rules.flat_map(|r| r.credited_originals.iter().copied()).collect(),
        )
    });
    entered.filter(|(_, rules): &(String, HashSet<OriginalRuleIndex>)| !rules.is_empty()).collect()
}

/// A chain as manifests name it.
pub(crate) fn format_chain_id(family: Family, table: &Table, chain: &SharedName) -> String {
    format!("{}/{}/{chain}", weir_model::iptables_tool_name(family), table.name)
}

/// Causes in the order of a manifest.
pub(crate) fn sort_causes_by_rule_count(
    causes: impl Iterator<Item = (String, u64)>,
) -> Vec<UnconvertedRulesCauseAndCount> {
    let mut causes: Vec<UnconvertedRulesCauseAndCount> = causes
        .map(|(why, rules)| UnconvertedRulesCauseAndCount { why, causing_rules: rules })
        .collect();
    causes.sort_by(|a, b| b.causing_rules.cmp(&a.causing_rules).then_with(|| a.why.cmp(&b.why)));
    causes
}
