//! What tables of legacy iptables count between the reading of counters and their replacement.
//!
//! The kernel returns the final counters of a replaced table (`xt_replace_table`). The difference
//! from the counters read before is added to the new table, entry by entry.

use std::collections::BTreeMap;

use weir_kernel::xtables::{PacketByteCount, XtablesSocket};
use weir_model::{CounterLocation, Counters, Family, TableName};

use super::counters_by_counter_location::{CountersByCounterLocation, sum_counters};
use super::original_rules::OriginalRules;
use super::table_counter_places::{CountedEntry, list_counted_entries};
use crate::xtables::KernelTable;
use crate::{ApplyError, ApplyOperationError};

/// The counters of a replaced table by place. `counts`: those of its entries, in order.
pub(crate) fn map_replaced_counts_by_location(
    table: &KernelTable,
    counts: &[PacketByteCount],
) -> CountersByCounterLocation {
    let count = |entry: CountedEntry| {
        let found = counts.get(entry.number as usize).copied().unwrap_or_default();
        Counters { packets: found.packets, bytes: found.bytes }
    };
    let entries = list_counted_entries(table).into_iter();
    entries.map(|(location, entry)| (location, count(entry))).collect()
}

/// Adds to the new ruleset what the old one counted after its counters were read.
pub(crate) fn add_counts_during_change(
    old: &OriginalRules,
    [at_reading, at_replacement]: [&CountersByCounterLocation; 2],
    new: &OriginalRules,
) -> Result<(), ApplyOperationError> {
    let mut late: BTreeMap<&str, Counters> = BTreeMap::new();
    for rule in &old.rules {
        let is_replaced = |location: &&CounterLocation| at_replacement.contains_key(*location);
        let replaced: Vec<CounterLocation> =
            rule.locations.iter().filter(is_replaced).cloned().collect();
        let [before, after] =
            [at_reading, at_replacement].map(|counters| sum_counters(&replaced, counters));
        if after.packets > before.packets {
            let (packets, bytes) = (after.packets - before.packets, after.bytes - before.bytes);
            late.insert(&rule.content_key, Counters { packets, bytes });
        }
    }
    let mut additions: BTreeMap<(Family, TableName), Vec<(&CounterLocation, Counters)>> =
        BTreeMap::new();
    for rule in &new.rules {
        let count = late.get(&*rule.content_key);
        if let Some((location, count)) = rule.locations.first().zip(count)
            && let CounterLocation::Rule { .. } | CounterLocation::Policy { .. } = location
        {
            additions.entry((rule.id.family, rule.id.table)).or_default().push((location, *count));
        }
    }
    for ((family, table), counts) in additions {
        add_counts_to_table(family, table, &counts)?;
    }
    Ok(())
}

fn add_counts_to_table(
    family: Family,
    table: TableName,
    counts: &[(&CounterLocation, Counters)],
) -> Result<(), ApplyOperationError> {
    let socket = XtablesSocket::open(family).map_err(ApplyError::from)?;
    let kernel_table = KernelTable::read(&socket, table)?;
    let mut added = vec![PacketByteCount::default(); kernel_table.entry_count() as usize];
    for (location, count) in counts {
        if let Some(entry) = find_entry_of_location(&kernel_table, location) {
            let PacketByteCount { packets, bytes } = added[entry as usize];
            added[entry as usize] =
                PacketByteCount { packets: packets + count.packets, bytes: bytes + count.bytes };
        }
    }
    socket.add_counters(table.as_str(), &added).map_err(ApplyError::from)?;
    Ok(())
}

fn find_entry_of_location(table: &KernelTable, location: &CounterLocation) -> Option<u32> {
    let (name, number) = match location {
        CounterLocation::Rule { chain, number, .. } => (chain, Some(*number)),
        CounterLocation::Policy { chain, .. } => (chain, None),
        _ => return None,
    };
    let chain = table.chains().iter().find(|chain| table.chain_name(chain) == name)?;
    match number {
        None => Some(chain.last_entry_number()),
        Some(number) => {
            let rule = chain.rules.start + (number as usize).checked_sub(1)?;
            chain.rules.contains(&rule).then(|| table.rule_entry_number(rule))
        }
    }
}
