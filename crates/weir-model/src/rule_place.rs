//! Where a rule stands in its table, by numbers.

use crate::Family;
use crate::rule_id::RuleId;
use crate::ruleset::Table;

/// Where a rule stands in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RulePlaceInTable {
    /// Index of the chain in the table.
    pub chain: u32,
    /// Index of the rule in the chain.
    pub rule: u32,
}

impl RulePlaceInTable {
    /// The identity of the rule there.
    ///
    /// # Panics
    /// If the table has no such chain.
    pub fn to_rule_id(self, family: Family, table: &Table) -> RuleId {
        let chain = &table.chains[self.chain as usize];
        RuleId::for_rule_at_index(family, table.name, &chain.name, self.rule as usize)
    }
}
