//! Counters of original rules in any form: they are read from the ruleset in force and carried over
//! into the texts of the ruleset that replaces it.
//!
//! A form may count one original rule in several places, which the manifest lists
//! ([`weir_model::CountersByOriginalRule`]). Rules are identified by their content
//! ([`weir_model::RuleContentKey`]): if the new ruleset also has the rule, the sum of its counters
//! is written to the first of its new places.
//!
//! Counters are read before the steps begin. What tables of legacy iptables count between that and
//! their replacement is added afterwards (`counts_during_change`), if weir replaces them natively
//! and the new place is a rule of legacy iptables. Elements of sets and tables of nft lose what
//! they count in that time.

mod counter_text_reader;
mod counter_text_writer;
mod counters_by_counter_location;
mod counts_during_change;
mod original_rules;
mod table_counter_places;
mod unchanged_legacy_tables;

use std::collections::HashMap;

use weir_model::Counters;

pub(crate) use self::counter_text_reader::{
    is_nft_rule_line, read_counters_in_force, read_set_counters,
};
use self::counter_text_writer::write_counters;
pub(crate) use self::counters_by_counter_location::{CountersByCounterLocation, sum_counters};
pub(crate) use self::counts_during_change::{
    add_counts_during_change, map_replaced_counts_by_location,
};
pub use self::original_rules::{OriginalRuleCounterLocations, OriginalRules};
pub(crate) use self::unchanged_legacy_tables::UnchangedLegacyTables;
use crate::kernel_ruleset::KernelRulesetTexts;

/// Writes the counters of the rules in force into the texts of a new ruleset. Returns the number of
/// rules with counted packets that are not in it.
pub(crate) fn carry_counters(
    old: &OriginalRules,
    in_force: &CountersByCounterLocation,
    new: &OriginalRules,
    wanted: &mut KernelRulesetTexts,
) -> usize {
    let mut counted: HashMap<&str, Counters> = HashMap::new();
    for rule in &old.rules {
        let sum = sum_counters(&rule.locations, in_force);
        if sum != Counters::default() {
            counted.insert(&rule.content_key, sum);
        }
    }
    let mut writes = CountersByCounterLocation::new();
    for rule in &new.rules {
        let Some(sum) = counted.remove(&*rule.content_key) else { continue };
        for (position, location) in rule.locations.iter().enumerate() {
            let count = if position == 0 { sum } else { Counters::default() };
            writes.insert(location.clone(), count);
        }
    }
    write_counters(wanted, &writes);
    counted.len()
}

#[cfg(test)]
mod tests {
    use weir_model::{Family, TableName};

    use super::*;
    use crate::kernel_ruleset::FamilyTable;

    #[test]
    fn a_renumbered_rule_keeps_its_counters_and_a_new_rule_starts_at_zero() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        let ruleset = |rules: &str| {
            let mut ruleset = KernelRulesetTexts::default();
            let text = format!("*filter\n:INPUT DROP [7:70]\n{rules}COMMIT\n");
            ruleset.legacy_tables.insert(table, text);
            ruleset
        };
        let old = ruleset("[1:10] -A INPUT -p tcp -j ACCEPT\n[2:20] -A INPUT -p udp -j ACCEPT\n");
        let mut new = ruleset("-A INPUT -p icmp -j ACCEPT\n-A INPUT -p udp -j ACCEPT\n");
        let counted = counter_text_reader::read_counters_of_legacy_tables(&old);
        let [before, after] = [&old, &new].map(OriginalRules::of_legacy_tables);
        let lost = carry_counters(&before, &counted, &after, &mut new);
        assert_eq!(lost, 1, "the rule for TCP");
        let expected = "*filter\n:INPUT DROP [7:70]\n-A INPUT -p icmp -j ACCEPT\n\
                        [2:20] -A INPUT -p udp -j ACCEPT\nCOMMIT\n";
        assert_eq!(new.legacy_tables[&table], expected);
    }
}
