//! Which rule is meant: by its place in the original ruleset, by its index there, and by its
//! content.
//!
//! Users and manifests identify a rule by its [`RuleId`]. In the credit of rules and elements,
//! which passes copy and merge by the million, [`OriginalRuleIndex`] represents it; [`RuleIdTable`]
//! maps one to the other. Both are valid for one text only: inserting a rule changes those of all
//! rules after it. The [`RuleContentKey`](crate::RuleContentKey) of a rule does not change.

use std::fmt;

use crate::counter_credit::{CounterLocation, iptables_tool_name};
use crate::original_rule_index::OriginalRuleIndex;
use crate::ruleset::{Firewall, Rule, Ruleset, TableName};
use crate::{Family, SharedName};

/// Where an original rule or policy stands, as manifests name it: `iptables/filter/FORWARD/3`,
/// `ip6tables/filter/FORWARD/policy`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId {
    /// Whose ruleset.
    pub family: Family,
    /// Table.
    pub table: TableName,
    /// Chain.
    pub chain: SharedName,
    /// Number from 1 as `iptables -L --line-numbers` counts; `None` is the chain's policy.
    pub number: Option<u32>,
}

impl RuleId {
    /// The rule of that index in its chain.
    pub fn for_rule_at_index(
        family: Family,
        table: TableName,
        chain: &SharedName,
        index: usize,
    ) -> RuleId {
        RuleId { family, table, chain: chain.clone(), number: Some(index as u32 + 1) }
    }

    /// The policy of a chain.
    pub fn for_policy(family: Family, table: TableName, chain: &SharedName) -> RuleId {
        RuleId { family, table, chain: chain.clone(), number: None }
    }

    /// Where it stands in its family's ruleset: `filter/FORWARD/3`, `filter/FORWARD/policy`.
    pub fn path_in_family(&self) -> String {
        match self.number {
            Some(n) => format!("{}/{}/{n}", self.table, self.chain),
            None => format!("{}/{}/policy", self.table, self.chain),
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", iptables_tool_name(self.family), self.path_in_family())
    }
}

/// The counter of the rule or policy itself.
impl From<&RuleId> for CounterLocation {
    fn from(id: &RuleId) -> CounterLocation {
        let tool = iptables_tool_name(id.family).to_owned();
        let (table, chain) = (id.table.to_string(), id.chain.to_string());
        match id.number {
            Some(number) => CounterLocation::Rule { tool, table, chain, number },
            None => CounterLocation::Policy { tool, table, chain },
        }
    }
}

/// The identities of the rules of a ruleset as read, by index.
#[derive(Clone, Debug, Default)]
pub struct RuleIdTable(Vec<RuleId>);

impl RuleIdTable {
    /// Those of a ruleset as read: rules in reading order.
    pub fn from_ruleset(ruleset: &Ruleset) -> Self {
        let credited = |(id, rule): (RuleId, &Rule)| Some((*rule.credited_originals.first()?, id));
        let mut ids: Vec<(OriginalRuleIndex, RuleId)> =
            ruleset.rules_with_ids().filter_map(credited).collect();
        ids.sort_by_key(|(index, _)| *index);
        let dense = ids.iter().zip(0..).all(|((index, _), at)| index.0 == at);
        assert!(dense, "rules of a ruleset as read are numbered in order, each once");
        RuleIdTable(ids.into_iter().map(|(_, id)| id).collect())
    }

    /// The identity of a rule.
    pub fn rule_id(&self, index: OriginalRuleIndex) -> &RuleId {
        &self.0[index.0 as usize]
    }

    /// The identity of a rule as the manifest writes it: `iptables/filter/FORWARD/3`.
    pub fn rule_id_text(&self, index: OriginalRuleIndex) -> String {
        self.rule_id(index).to_string()
    }

    /// The name of the first original rule that a rule stands for, where it stands for one.
    pub fn first_credited_id_text(&self, rule: &Rule) -> Option<String> {
        rule.credited_originals.first().map(|&index| self.rule_id_text(index))
    }

    /// How many original rules there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a ruleset without rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Firewall {
    /// The rule of that identity; `None` for a policy, too.
    pub fn find_rule(&self, id: &RuleId) -> Option<&Rule> {
        let index = (id.number? as usize).checked_sub(1)?;
        self.ruleset(id.family)?.table(&id.table)?.chain(&id.chain)?.rules.get(index)
    }
}

impl Ruleset {
    /// Every rule with its identity, in order.
    pub fn rules_with_ids(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        let chains = self.tables.iter().flat_map(|t| t.chains.iter().map(move |c| (t.name, c)));
        chains.flat_map(move |(table, chain)| {
            let id = move |i| RuleId::for_rule_at_index(self.family, table, &chain.name, i);
            chain.rules.iter().enumerate().map(move |(i, rule)| (id(i), rule))
        })
    }

    /// Shows every rule with its identity, in order, to something that may change it.
    pub fn for_each_rule_mut(&mut self, mut change: impl FnMut(RuleId, &mut Rule)) {
        for table in &mut self.tables {
            for chain in &mut table.chains {
                for (i, rule) in chain.rules.iter_mut().enumerate() {
                    change(
                        RuleId::for_rule_at_index(self.family, table.name, &chain.name, i),
                        rule,
                    );
                }
            }
        }
    }
}
