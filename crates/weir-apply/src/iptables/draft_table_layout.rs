//! A changed table as one block of entries, and where the counts of its entries come from.

use weir_kernel::xtables::{PacketByteCount, XtablesHooks, XtablesReplacement};

use super::draft_table::{DraftTable, DraftVerdict, RuleOrigin};
use crate::ApplyError;
use crate::xtables::entry_comparison::clear_counters_and_comefrom;
use crate::xtables::entry_offsets::{EXTENSION_HEADER_BYTES, EntryOffsets, read_u16};
use crate::xtables::entry_writer::{EntryWriter, XT_RETURN, verdict_of_policy};

/// Where the counts of an entry come from.
#[derive(Clone, Copy, Debug)]
enum CountSource {
    /// It begins at zero.
    Zero,
    /// An entry of the replaced table, by its place.
    ReplacedEntry(u32),
    /// A new rule, by its index.
    NewRule(u32),
}

/// A table in the form in which the kernel takes it.
pub(super) struct DraftTableLayout {
    pub(super) replacement: XtablesReplacement,
    sources: Vec<CountSource>,
}

impl DraftTableLayout {
    /// Lays a table out as libiptc does: built-in chains by hook, then the others by name.
    pub(super) fn lay_out(draft: &DraftTable) -> Result<DraftTableLayout, ApplyError> {
        let mut chains: Vec<usize> =
            (0..draft.chains.len()).filter(|chain| !draft.chains[*chain].is_deleted).collect();
        chains.sort_by(|a, b| {
            let (a, b) = (&draft.chains[*a], &draft.chains[*b]);
            let key = |hook: Option<weir_model::Hook>| hook.map_or(usize::MAX, |h| h.number());
            key(a.hook).cmp(&key(b.hook)).then_with(|| a.name.cmp(&b.name))
        });
        let family = draft.kernel_table.family();
        let mut writer = LayoutWriter {
            draft,
            offsets: EntryOffsets::of(family),
            replacement: XtablesReplacement::with_entry_capacity(
                draft.kernel_table.entries().len(),
            ),
            sources: Vec::with_capacity(draft.kernel_table.entry_count() as usize),
            hooks: XtablesHooks::default(),
            user_chain_starts: vec![0; draft.chains.len()],
            jumps: Vec::new(),
            ends: EntryWriter::new(family),
        };
        for chain in chains {
            writer.append_chain(chain)?;
        }
        writer.ends.write_error_entry("ERROR");
        writer.append_boundary_entry(CountSource::Zero);
        for (at, chain) in std::mem::take(&mut writer.jumps) {
            let start = writer.user_chain_starts[chain as usize].to_ne_bytes();
            writer.replacement.entries_mut()[at..at + 4].copy_from_slice(&start);
        }
        writer.replacement.write_hooks_and_entry_count(&writer.hooks, writer.sources.len() as u32);
        Ok(DraftTableLayout { replacement: writer.replacement, sources: writer.sources })
    }

    /// What is to be added to the counts of the new entries.
    pub(super) fn counts_to_add(
        &self,
        draft: &DraftTable,
        replaced: &[PacketByteCount],
    ) -> Vec<PacketByteCount> {
        let count = |source: &CountSource| match source {
            CountSource::Zero => PacketByteCount::default(),
            CountSource::ReplacedEntry(number) => replaced[*number as usize],
            CountSource::NewRule(rule) => draft.initial_count(*rule),
        };
        self.sources.iter().map(count).collect()
    }
}

struct LayoutWriter<'d> {
    draft: &'d DraftTable,
    offsets: &'static EntryOffsets,
    replacement: XtablesReplacement,
    sources: Vec<CountSource>,
    hooks: XtablesHooks,
    /// Offset of the first entry of each user chain.
    user_chain_starts: Vec<u32>,
    /// Offsets of verdicts that are to become the offset of a chain.
    jumps: Vec<(usize, u32)>,
    ends: EntryWriter,
}

impl LayoutWriter<'_> {
    fn append_chain(&mut self, index: usize) -> Result<(), ApplyError> {
        let draft = self.draft;
        let chain = &draft.chains[index];
        match chain.hook {
            Some(hook) => {
                self.hooks.valid_hooks |= 1 << hook.number();
                self.hooks.hook_entries[hook.number()] = self.next_offset()?;
            }
            None => {
                self.ends.write_error_entry(&chain.name);
                self.append_boundary_entry(CountSource::Zero);
                self.user_chain_starts[index] = self.next_offset()?;
            }
        }
        for rule in &chain.rules {
            let at = self.replacement.entries_length_bytes();
            let entry = draft.entry(rule.origin);
            self.replacement.append_entry(entry);
            let target_offset = usize::from(read_u16(entry, self.offsets.target_offset_at));
            let verdict_at = at + target_offset + EXTENSION_HEADER_BYTES;
            match rule.verdict {
                DraftVerdict::Own => {}
                DraftVerdict::NextRule => {
                    let next = self.next_offset()?.to_ne_bytes();
                    self.replacement.entries_mut()[verdict_at..verdict_at + 4]
                        .copy_from_slice(&next);
                }
                DraftVerdict::Chain(chain) => self.jumps.push((verdict_at, chain)),
            }
            clear_counters_and_comefrom(&mut self.replacement.entries_mut()[at..], self.offsets);
            self.sources.push(match rule.origin {
                RuleOrigin::Kernel(rule) => {
                    let number = draft.kernel_table.rule_entry_number(rule as usize);
                    CountSource::ReplacedEntry(number)
                }
                RuleOrigin::New(rule) => CountSource::NewRule(rule),
            });
        }
        if let Some(hook) = chain.hook {
            self.hooks.underflows[hook.number()] = self.next_offset()?;
            self.ends.write_verdict_entry(verdict_of_policy(chain.policy_drops));
            let number = chain.policy_entry_number;
            self.append_boundary_entry(
                number.map_or(CountSource::Zero, CountSource::ReplacedEntry),
            );
        } else {
            self.ends.write_verdict_entry(XT_RETURN);
            self.append_boundary_entry(CountSource::Zero);
        }
        Ok(())
    }

    fn append_boundary_entry(&mut self, source: CountSource) {
        self.replacement.append_entry(self.ends.bytes());
        self.sources.push(source);
    }

    fn next_offset(&self) -> Result<u32, ApplyError> {
        let offset = i32::try_from(self.replacement.entries_length_bytes()).ok();
        let table = self.draft.kernel_table.name();
        offset.map(i32::cast_unsigned).ok_or(ApplyError::TableTooLarge { table })
    }
}
