//! Counters of tables of legacy iptables that are read again and again.
//!
//! A reading as text costs a decoded, printed and parsed table. As long as the kernel hands out the
//! same entries as when the table was last compared with its generation, only the counters are
//! taken from them, each at a place that was found once.

use std::collections::HashMap;

use weir_kernel::xtables::XtablesSocket;
use weir_model::{CounterLocation, Counters};

use super::counters_by_counter_location::{CountersByCounterLocation, sum_counters};
use super::original_rules::{OriginalRuleCounterLocations, OriginalRules};
use super::table_counter_places::{CountedEntry, list_counted_entries};
use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, decode_table_text, find_text_difference,
    is_legacy_table_in_use,
};
use crate::xtables::KernelTable;
use crate::{ApplyError, ApplyOperationError};

/// The tables of a generation as they were when they had its rules, and the places of counters.
#[derive(Debug)]
pub(crate) struct UnchangedLegacyTables {
    tables: Vec<KernelTable>,
    /// For each original rule, where its counters are.
    places_by_rule: Vec<RuleCounterPlaces>,
}

/// Where the counters of a rule are.
#[derive(Debug, Default)]
struct RuleCounterPlaces {
    /// In tables.
    entries: Vec<CountedEntryPlace>,
    /// Elsewhere: elements of sets.
    others: Vec<CounterLocation>,
}

/// An entry with counters.
#[derive(Clone, Copy, Debug)]
struct CountedEntryPlace {
    /// Index of the table.
    table: usize,
    /// Offset in its entries.
    offset: u32,
}

impl UnchangedLegacyTables {
    /// Reads the tables of a generation; none if the kernel has other rules, a table that weir
    /// cannot decode, or if the generation also has tables of nft.
    pub(crate) fn read_if_unchanged(
        recorded: &KernelRulesetTexts,
        originals: &OriginalRules,
    ) -> Result<Option<UnchangedLegacyTables>, ApplyOperationError> {
        if !recorded.nft_tables.is_empty() {
            return Ok(None);
        }
        let Some(tables) = read_tables(recorded.legacy_tables.keys())? else { return Ok(None) };
        for (table, recorded) in tables.iter().zip(recorded.legacy_tables.values()) {
            let is_same = |text: String| find_text_difference(recorded, &text).is_none();
            if !decode_table_text(table)?.is_some_and(is_same) {
                return Ok(None);
            }
        }
        let mut entries = HashMap::new();
        for (index, table) in tables.iter().enumerate() {
            let counted = list_counted_entries(table).into_iter();
            entries.extend(counted.map(|(location, CountedEntry { offset, .. })| {
                (location, CountedEntryPlace { table: index, offset })
            }));
        }
        let places = |rule: &OriginalRuleCounterLocations| {
            let mut places = RuleCounterPlaces::default();
            for location in &rule.locations {
                match entries.get(location) {
                    Some(entry) => places.entries.push(*entry),
                    None => places.others.push(location.clone()),
                }
            }
            places
        };
        let places_by_rule = originals.rules.iter().map(places).collect();
        Ok(Some(UnchangedLegacyTables { tables, places_by_rule }))
    }

    /// The counters of the original rules, in their order; none if the kernel has other rules by
    /// now. `others` are the counters of elements of sets.
    pub(crate) fn read_counters(
        &self,
        others: &CountersByCounterLocation,
    ) -> Result<Option<Vec<Counters>>, ApplyOperationError> {
        let names = self
            .tables
            .iter()
            .map(|table| FamilyTable { family: table.family(), table: table.name() });
        let names: Vec<FamilyTable> = names.collect();
        let Some(present) = read_tables(names.iter())? else { return Ok(None) };
        let mut pairs = self.tables.iter().zip(&present);
        if !pairs.all(|(known, present)| known.has_equal_entries_but_for_counters(present)) {
            return Ok(None);
        }
        let count = |places: &RuleCounterPlaces| {
            let counted = places.entries.iter().map(|entry| {
                let count = present[entry.table].counters_of_entry_at(entry.offset);
                Counters { packets: count.packets, bytes: count.bytes }
            });
            counted.fold(sum_counters(&places.others, others), |sum, count| Counters {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
        };
        Ok(Some(self.places_by_rule.iter().map(count).collect()))
    }
}

/// Reads tables; none if one is not in use. Reading creates no table.
fn read_tables<'t>(
    tables: impl Iterator<Item = &'t FamilyTable>,
) -> Result<Option<Vec<KernelTable>>, ApplyOperationError> {
    let mut read = Vec::new();
    for table in tables {
        if !is_legacy_table_in_use(*table)? {
            return Ok(None);
        }
        let socket = XtablesSocket::open(table.family).map_err(ApplyError::from)?;
        read.push(KernelTable::read(&socket, table.table)?);
    }
    Ok(Some(read))
}
