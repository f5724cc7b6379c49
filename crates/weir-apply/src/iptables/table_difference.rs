//! What differs between two readings of a table, except for counts.

use std::collections::BTreeMap;

use super::chain_difference::{ChainDifference, ChainDifferenceKind};
use crate::xtables::entry_comparison::clear_counters_and_comefrom;
use crate::xtables::entry_offsets::{EXTENSION_HEADER_BYTES, EntryOffsets, read_u16, read_u32};
use crate::xtables::{KernelChain, KernelTable};

/// The chains in which two readings of a table differ, by name.
pub(super) fn find_chain_differences(
    before: &KernelTable,
    after: &KernelTable,
) -> Vec<ChainDifference> {
    if are_entries_equal_except_counts(before, after) {
        return Vec::new();
    }
    let (before, mut after) =
        (list_chain_entries_without_counts(before), list_chain_entries_without_counts(after));
    let mut differences = Vec::new();
    for (chain, rules) in before {
        let kind = match after.remove(&chain) {
            None => ChainDifferenceKind::Deleted,
            Some(other) if other != rules => ChainDifferenceKind::Changed,
            Some(_) => continue,
        };
        differences.push(ChainDifference { chain, kind });
    }
    let created = after.into_keys();
    differences
        .extend(created.map(|chain| ChainDifference { chain, kind: ChainDifferenceKind::Created }));
    differences.sort_by(|a, b| a.chain.cmp(&b.chain));
    differences
}

/// The common case, without a copy of the entries.
fn are_entries_equal_except_counts(a: &KernelTable, b: &KernelTable) -> bool {
    let offsets = EntryOffsets::of(a.family());
    let (a, b) = (a.entries(), b.entries());
    let mut at = 0;
    while at < a.len() && a.len() == b.len() {
        let end = at + usize::from(read_u16(a, at + offsets.next_offset_at));
        let comefrom = at + offsets.comefrom_at;
        let behind_counts = at + offsets.header_bytes;
        if a[at..comefrom] != b[at..comefrom] || a[behind_counts..end] != b[behind_counts..end] {
            return false;
        }
        at = end;
    }
    a.len() == b.len()
}

/// An entry without counts, and the chain that it jumps to.
type EntryWithoutCounts = (Vec<u8>, Option<String>);

fn list_chain_entries_without_counts(
    table: &KernelTable,
) -> BTreeMap<String, Vec<EntryWithoutCounts>> {
    let describe = |chain: &KernelChain| {
        let rules = chain.rules.clone().map(|rule| rule_entry_without_counts(table, rule));
        let mut entries: Vec<EntryWithoutCounts> = rules.collect();
        let mut end = table.last_entry(chain).to_vec();
        clear_counters_and_comefrom(&mut end, EntryOffsets::of(table.family()));
        entries.push((end, None));
        (table.chain_name(chain).to_owned(), entries)
    };
    table.chains().iter().map(describe).collect()
}

fn rule_entry_without_counts(table: &KernelTable, rule: usize) -> EntryWithoutCounts {
    let offsets = EntryOffsets::of(table.family());
    let mut entry = table.rule_entry(rule).to_vec();
    clear_counters_and_comefrom(&mut entry, offsets);
    let target_offset = usize::from(read_u16(&entry, offsets.target_offset_at));
    let verdict_at = target_offset + EXTENSION_HEADER_BYTES;
    if entry[target_offset + 2] != 0 || verdict_at + 4 > entry.len() {
        return (entry, None);
    }
    let offset = read_u32(&entry, verdict_at);
    let Some(chain) = table.chain_number_at(offset) else {
        // The next rule's offset says nothing either.
        if offset as usize == table.rule_offset(rule) as usize + entry.len() {
            entry[verdict_at..verdict_at + 4].fill(0);
        }
        return (entry, None);
    };
    entry[verdict_at..verdict_at + 4].fill(0);
    let name = table.chain_name(&table.chains()[chain]).to_owned();
    (entry, Some(name))
}
