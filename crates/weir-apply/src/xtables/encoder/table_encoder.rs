//! A table of the model as one block of entries.

use std::collections::HashMap;

use weir_kernel::xtables::{PacketByteCount, XtablesHooks, XtablesReplacement};
use weir_model::{Chain, Counters, Family, Hook, Policy, Rule, SharedName, Table, TableName};

use crate::ApplyError;
use crate::xtables::entry_writer::{EntryWriter, XT_RETURN, verdict_of_policy};
use crate::xtables::rule_entry::{self, UnwritableRule, VerdictFixup};
use crate::xtables::set_indices::SetIndices;

/// A typical entry, to reserve room.
const TYPICAL_ENTRY_BYTES: usize = 224;

/// A table in the form in which the kernel takes it.
#[derive(Debug)]
pub struct EncodedTable {
    /// Its entries.
    pub replacement: XtablesReplacement,
    /// The counts that the model gives to each entry.
    pub counts: Vec<PacketByteCount>,
}

/// Encodes a table.
///
/// # Errors
/// If a match or target is unknown to the encoder, or a chain or set is missing.
pub fn encode_table(
    table: &Table,
    family: Family,
    sets: &SetIndices,
) -> Result<EncodedTable, ApplyError> {
    let rules: usize = table.chains.iter().map(|c| c.rules.len()).sum();
    let capacity = rules * TYPICAL_ENTRY_BYTES + table.chains.len() * 2 * TYPICAL_ENTRY_BYTES;
    let mut encoder = TableEncoder {
        table,
        sets,
        replacement: XtablesReplacement::with_entry_capacity(capacity),
        counts: Vec::with_capacity(rules + 2 * table.chains.len() + 1),
        hooks: XtablesHooks::default(),
        user_chain_starts: HashMap::with_capacity(table.chains.len()),
        jumps: Vec::new(),
        entry: EntryWriter::new(family),
    };
    for chain in sort_chains_as_libiptc(table) {
        encoder.append_chain(chain)?;
    }
    encoder.entry.write_error_entry("ERROR");
    encoder.append_entry(None);
    encoder.resolve_jumps()?;
    encoder.replacement.write_hooks_and_entry_count(&encoder.hooks, encoder.counts.len() as u32);
    Ok(EncodedTable { replacement: encoder.replacement, counts: encoder.counts })
}

/// Built-in chains in the order of the hooks, then the others by name.
fn sort_chains_as_libiptc(table: &Table) -> Vec<&Chain> {
    let hooks = table.name.hooks();
    let rank = |c: &Chain| hooks.iter().position(|h| h.chain_name() == &*c.name);
    let mut chains: Vec<(usize, &Chain)> =
        table.chains.iter().map(|c| (rank(c).unwrap_or(hooks.len()), c)).collect();
    chains.sort_by(|(a, b), (c, d)| a.cmp(c).then_with(|| b.name.cmp(&d.name)));
    chains.into_iter().map(|(_, chain)| chain).collect()
}

struct TableEncoder<'t> {
    table: &'t Table,
    sets: &'t SetIndices<'t>,
    replacement: XtablesReplacement,
    counts: Vec<PacketByteCount>,
    hooks: XtablesHooks,
    /// Offset of the first rule of each user chain.
    user_chain_starts: HashMap<&'t str, u32>,
    /// Offsets of verdicts that are to become the offset of a chain.
    jumps: Vec<(usize, &'t str)>,
    entry: EntryWriter,
}

impl<'t> TableEncoder<'t> {
    fn append_chain(&mut self, chain: &'t Chain) -> Result<(), ApplyError> {
        let hooks = self.table.name.hooks().iter();
        let hook = hooks.copied().find(|h| h.chain_name() == &*chain.name).map(Hook::number);
        match hook {
            Some(number) => {
                self.hooks.valid_hooks |= 1 << number;
                self.hooks.hook_entries[number] = self.next_offset()?;
            }
            None => {
                self.entry.write_error_entry(&chain.name);
                self.append_entry(None);
                let start = self.next_offset()?;
                self.user_chain_starts.insert(&chain.name, start);
            }
        }
        for (index, rule) in chain.rules.iter().enumerate() {
            self.append_rule(rule).map_err(|unwritable| {
                ApplyError::of_unwritable_rule(unwritable, self.table.name, &chain.name, index + 1)
            })?;
        }
        if let Some(number) = hook {
            self.hooks.underflows[number] = self.next_offset()?;
            self.entry.write_verdict_entry(verdict_of_policy(chain.policy == Some(Policy::Drop)));
            self.append_entry(chain.counters);
        } else {
            self.entry.write_verdict_entry(XT_RETURN);
            self.append_entry(None);
        }
        self.next_offset().map(|_| ())
    }

    fn append_rule(&mut self, rule: &'t Rule) -> Result<(), UnwritableRule> {
        let start = self.replacement.entries_length_bytes();
        match rule_entry::write_rule_entry(&mut self.entry, rule, self.sets)? {
            VerdictFixup::Complete => {}
            VerdictFixup::NextRule => {
                let next = start + self.entry.bytes().len();
                self.entry.set_verdict(next as i32);
            }
            VerdictFixup::Chain(name) => {
                self.jumps.push((start + self.entry.verdict_offset(), name))
            }
        }
        self.append_entry(rule.counters);
        Ok(())
    }

    fn append_entry(&mut self, counters: Option<Counters>) {
        self.replacement.append_entry(self.entry.bytes());
        let Counters { packets, bytes } = counters.unwrap_or_default();
        self.counts.push(PacketByteCount { packets, bytes });
    }

    fn next_offset(&self) -> Result<u32, ApplyError> {
        let offset = i32::try_from(self.replacement.entries_length_bytes()).ok();
        offset.map(|n| n as u32).ok_or(ApplyError::TableTooLarge { table: self.table.name })
    }

    fn resolve_jumps(&mut self) -> Result<(), ApplyError> {
        for (at, chain) in &self.jumps {
            let Some(start) = self.user_chain_starts.get(chain) else {
                let (table, chain) = (self.table.name, (*chain).into());
                return Err(ApplyError::MissingChain { table, missing_chain: chain });
            };
            self.replacement.entries_mut()[*at..at + 4].copy_from_slice(&start.to_ne_bytes());
        }
        Ok(())
    }
}

impl ApplyError {
    pub(crate) fn of_unwritable_rule(
        unwritable: UnwritableRule,
        table: TableName,
        chain: &SharedName,
        number: usize,
    ) -> ApplyError {
        let chain = chain.clone();
        match unwritable {
            UnwritableRule::Extension(extension) => {
                ApplyError::UnsupportedExtension { table, chain, number, extension_text: extension }
            }
            UnwritableRule::MissingSet(set) => ApplyError::MissingSet { table, chain, number, set },
        }
    }
}
