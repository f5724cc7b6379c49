//! A table of the model as one block of entries.

use std::collections::HashMap;

use weir_kernel::xtables::{PacketByteCount, XtablesHooks, XtablesReplacement};
use weir_model::{Chain, Counters, Family, Hook, Policy, Rule, Table};

use super::entry_writer::{EntryWriter, XT_RETURN, verdict_of_policy};
use super::rule_entry::{self, VerdictFixup};
use crate::ApplyError;

/// A typical entry, to reserve room.
const TYPICAL_ENTRY_BYTES: usize = 224;

/// A table in the form in which the kernel takes it.
#[derive(Debug)]
pub struct EncodedTable {
    /// Its entries.
    pub replacement: XtablesReplacement,
    /// The counts that the model gives to each entry.
    pub entry_counters: Vec<PacketByteCount>,
}

/// Encodes a table.
///
/// # Errors
/// Where a match or target is unknown to the encoder, or a chain is missing.
pub fn encode_table(table: &Table, family: Family) -> Result<EncodedTable, ApplyError> {
    let rules: usize = table.chains.iter().map(|c| c.rules.len()).sum();
    let capacity = rules * TYPICAL_ENTRY_BYTES + table.chains.len() * 2 * TYPICAL_ENTRY_BYTES;
    let mut encoder = TableEncoder {
        table,
        replacement: XtablesReplacement::with_entry_capacity(capacity),
        entry_counters: Vec::with_capacity(rules + 2 * table.chains.len() + 1),
        hooks: XtablesHooks::default(),
        user_chain_starts: HashMap::with_capacity(table.chains.len()),
        unresolved_jumps: Vec::new(),
        entry_writer: EntryWriter::new(family),
    };
    for chain in sort_chains_as_libiptc(table) {
        encoder.append_chain(chain)?;
    }
    encoder.entry_writer.write_error_entry("ERROR");
    encoder.append_entry(None);
    encoder.resolve_jumps()?;
    encoder
        .replacement
        .write_hooks_and_entry_count(&encoder.hooks, encoder.entry_counters.len() as u32);
    Ok(EncodedTable { replacement: encoder.replacement, entry_counters: encoder.entry_counters })
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
    replacement: XtablesReplacement,
    entry_counters: Vec<PacketByteCount>,
    hooks: XtablesHooks,
    /// Offset of the first rule of each user chain.
    user_chain_starts: HashMap<&'t str, u32>,
    /// Offsets of verdicts that are to become the offset of a chain.
    unresolved_jumps: Vec<(usize, &'t str)>,
    entry_writer: EntryWriter,
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
                self.entry_writer.write_error_entry(&chain.name);
                self.append_entry(None);
                let start = self.next_offset()?;
                self.user_chain_starts.insert(&chain.name, start);
            }
        }
        for (index, rule) in chain.rules.iter().enumerate() {
            self.append_rule(rule).map_err(|extension| ApplyError::UnsupportedExtension {
                table: self.table.name,
                chain: chain.name.clone(),
                number: index + 1,
                extension,
            })?;
        }
        if let Some(number) = hook {
            self.hooks.underflows[number] = self.next_offset()?;
            self.entry_writer
                .write_verdict_entry(verdict_of_policy(chain.policy == Some(Policy::Drop)));
            self.append_entry(chain.counters);
        } else {
            self.entry_writer.write_verdict_entry(XT_RETURN);
            self.append_entry(None);
        }
        self.next_offset().map(|_| ())
    }

    /// Appends a rule; the error is the match or target that the encoder does not know.
    fn append_rule(&mut self, rule: &'t Rule) -> Result<(), String> {
        let start = self.replacement.entries_length_bytes();
        match rule_entry::write_rule_entry(&mut self.entry_writer, rule)? {
            VerdictFixup::AlreadyWritten => {}
            VerdictFixup::NextRule => {
                let next = start + self.entry_writer.bytes().len();
                self.entry_writer.set_verdict(next as i32);
            }
            VerdictFixup::Chain(name) => {
                self.unresolved_jumps.push((start + self.entry_writer.verdict_offset(), name))
            }
        }
        self.append_entry(rule.counters);
        Ok(())
    }

    fn append_entry(&mut self, counters: Option<Counters>) {
        self.replacement.append_entry(self.entry_writer.bytes());
        let Counters { packets, bytes } = counters.unwrap_or_default();
        self.entry_counters.push(PacketByteCount { packets, bytes });
    }

    fn next_offset(&self) -> Result<u32, ApplyError> {
        let offset = i32::try_from(self.replacement.entries_length_bytes()).ok();
        offset.map(|n| n as u32).ok_or(ApplyError::TableTooLarge { table: self.table.name })
    }

    fn resolve_jumps(&mut self) -> Result<(), ApplyError> {
        for (at, chain) in &self.unresolved_jumps {
            let Some(start) = self.user_chain_starts.get(chain) else {
                let (table, chain) = (self.table.name, (*chain).into());
                return Err(ApplyError::MissingChain { table, chain });
            };
            self.replacement.entries_mut()[*at..at + 4].copy_from_slice(&start.to_ne_bytes());
        }
        Ok(())
    }
}
