//! Where the counters of rules and policies are in a table of legacy iptables.

use weir_model::{CounterLocation, iptables_tool_name};

use crate::xtables::KernelTable;

/// The entry of a rule or policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedEntry {
    /// Its place among all entries, which is its place among their counts.
    pub number: u32,
    /// Its offset in the entries.
    pub offset: u32,
}

/// The rules and policies of a table with their entries.
pub(super) fn list_counted_entries(table: &KernelTable) -> Vec<(CounterLocation, CountedEntry)> {
    let (tool, name) = (iptables_tool_name(table.family()), table.name().as_str());
    let mut entries = Vec::with_capacity(table.rule_count());
    for chain in table.chains() {
        let of = || (tool.to_owned(), name.to_owned(), table.chain_name(chain).to_owned());
        for (rule, number) in chain.rules.clone().zip(1..) {
            let (tool, table_name, chain) = of();
            let location = CounterLocation::Rule { tool, table: table_name, chain, number };
            let (number, offset) = (table.rule_entry_number(rule), table.rule_offset(rule));
            entries.push((location, CountedEntry { number, offset }));
        }
        if chain.hook.is_some() {
            let (tool, table_name, chain_name) = of();
            let location = CounterLocation::Policy { tool, table: table_name, chain: chain_name };
            let (number, offset) = (chain.last_entry_number(), chain.last_entry_offset());
            entries.push((location, CountedEntry { number, offset }));
        }
    }
    entries
}
