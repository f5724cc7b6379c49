//! Turns runs of rules with one verdict into sets.
//!
//! Rules that differ only in one address (and in a destination port, if they test one) are
//! collected into a *group*. A rule may be moved past others to its group only if no packet could
//! match both, or if both only count. A group that is long enough becomes a set and one rule. Every
//! original rule keeps its counter: that of its element, which the kernel increments at the lookup.
//!
//! Therefore the set lookup is the last test of the rule: an element must not count a packet that
//! another test of the rule rejects. But legacy iptables drops a packet with a truncated transport
//! header as soon as a rule tests its ports, and the original rule tested them only for packets
//! with its address. So if a group tests transport fields, there are two lookups: first one without
//! counting, which excludes all other packets from those tests, and last one that counts.
//!
//! In a set the longest prefix decides; in a list the first rule. If the rules are terminating, a
//! rule after one that covers it is dead and removed, and of the others the narrower comes first,
//! so both orders agree. If they are not terminating (LOG, MARK, counters, jumps that may return),
//! a packet may match several: overlapping prefixes go into several sets, in the order of the
//! rules.

mod rule_groups;
mod set_emitter;

use weir_artefact::manifest::{CompiledRuleRun, UnchangedRule};
use weir_model::{
    Chain, Family, IpSet, OriginalRuleIndex, Rule, RuleIdTable, Ruleset, SharedName, Table,
};
use weir_partition::TableBarriers;

use crate::rule_runs::{self, BarrierOrFreeSegment, RuleWithPrefixesAndBarrier};
use crate::{CostModel, RewrittenRuleset};
use rule_groups::RuleGroup;

/// How sets are to be made.
#[derive(Clone, Debug)]
pub struct SetFoldCostsAndNames {
    /// What checks and probes cost.
    pub cost: CostModel,
    /// Beginning of every set's name; at most 22 bytes.
    pub name_prefix: String,
    /// Names that sets of the user have.
    pub used_names: Vec<SharedName>,
}

/// Rewrites every chain's groups of similar rules as sets.
///
/// `places` are those of the ruleset as read: reports name its rules. Chains that `may_rewrite`
/// rules out stay.
pub fn fold_into_sets(
    ruleset: &Ruleset,
    options: &SetFoldCostsAndNames,
    places: &RuleIdTable,
    may_rewrite: &dyn Fn(&Chain) -> bool,
) -> RewrittenRuleset {
    assert!(options.name_prefix.len() <= 22, "a set's name has at most 31 bytes");
    let mut work = SetFolder {
        family: ruleset.family,
        options,
        rule_ids: places,
        sets: Vec::new(),
        last_set_number: 0,
        compiled_rule_runs: Vec::new(),
        unchanged_rules: Vec::new(),
        dead_rules: Vec::new(),
    };
    let mut tables = Vec::with_capacity(ruleset.tables.len());
    for table in &ruleset.tables {
        let barriers = TableBarriers::of_table(table, ruleset.family);
        let rewrite = |c: &Chain| match may_rewrite(c) {
            true => work.fold_chain(c, &barriers),
            false => c.clone(),
        };
        let chains = table.chains.iter().map(rewrite).collect();
        tables.push(Table {
            name: table.name,
            chains,
            leading_comments: table.leading_comments.clone(),
            trailing_comments: table.trailing_comments.clone(),
        });
    }
    let SetFolder {
        sets,
        compiled_rule_runs: compiled,
        unchanged_rules: kept,
        dead_rules: dead,
        ..
    } = work;
    let trailing_comments = ruleset.trailing_comments.clone();
    let ruleset = Ruleset { tables, trailing_comments, family: ruleset.family };
    RewrittenRuleset {
        ruleset,
        sets,
        compiled_rule_runs: compiled,
        unchanged_rules: kept,
        dead_rules: dead,
    }
}

struct SetFolder<'a> {
    family: Family,
    options: &'a SetFoldCostsAndNames,
    rule_ids: &'a RuleIdTable,
    sets: Vec<IpSet>,
    last_set_number: u32,
    compiled_rule_runs: Vec<CompiledRuleRun>,
    unchanged_rules: Vec<UnchangedRule>,
    dead_rules: Vec<OriginalRuleIndex>,
}

impl SetFolder<'_> {
    fn fold_chain(&mut self, chain: &Chain, barriers: &TableBarriers<'_>) -> Chain {
        let items = RuleWithPrefixesAndBarrier::from_chain(chain, self.family, barriers);
        let before = self.compiled_rule_runs.len();
        let mut rules = Vec::with_capacity(items.len());
        for segment in rule_runs::split_at_barriers(&items) {
            match segment {
                BarrierOrFreeSegment::Barrier(i, _) => rules.push(items[i].rule.clone()),
                BarrierOrFreeSegment::FreeSegment(range) => {
                    self.fold_segment_without_barriers(&items[range], &mut rules)
                }
            }
        }
        if self.compiled_rule_runs.len() == before {
            return chain.clone();
        }
        for item in &items {
            if let (Some(why), Some(rule)) =
                (item.barrier, self.rule_ids.first_credited_id_text(item.rule))
            {
                self.unchanged_rules.push(UnchangedRule { rule, why: why.to_string() });
            }
        }
        Chain { rules, ..chain.clone() }
    }

    /// A stretch without barriers: groups in an order with the same meaning, or unchanged if no
    /// group is long enough.
    fn fold_segment_without_barriers(
        &mut self,
        items: &[RuleWithPrefixesAndBarrier<'_>],
        out: &mut Vec<Rule>,
    ) {
        let groups = rule_groups::group_similar_rules(items, self.family);
        let before = self.compiled_rule_runs.len();
        let mut rules = Vec::with_capacity(items.len());
        for g in &groups {
            if !self.fold_group(g, &mut rules) {
                rules.extend(g.members.iter().map(|m| m.rule.clone()));
            }
        }
        if self.compiled_rule_runs.len() == before {
            out.extend(items.iter().map(|i| i.rule.clone()));
        } else {
            out.append(&mut rules);
        }
    }

    /// An unused name for a set.
    fn allocate_set_name(&mut self) -> SharedName {
        loop {
            self.last_set_number += 1;
            let name = format!("{}{:05}", self.options.name_prefix, self.last_set_number);
            assert!(name.len() <= 31, "set name {name} is too long");
            if self.options.used_names.iter().all(|t| **t != *name) {
                return name.into();
            }
        }
    }

    fn record_group_as_compiled_run(&mut self, group: &RuleGroup<'_>, into: String) {
        // Rules that a pass made have no place.
        let first = group.members.iter().find_map(|m| self.rule_ids.first_credited_id_text(m.rule));
        let first = first.unwrap_or_default();
        self.compiled_rule_runs.push(CompiledRuleRun {
            first,
            rules: group.members.len() as u32,
            into,
        });
    }
}
