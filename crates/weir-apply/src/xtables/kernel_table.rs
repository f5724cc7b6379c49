//! A table as the kernel has it: one block of entries, and where its chains and rules lie in it.
//!
//! The block is the one that the kernel hands out; nothing is copied out of it. A rule is the
//! offset of its entry, a chain a span of rules, so reading a table costs one walk over its
//! entries.
//!
//! The block says where chains begin and end in three ways (iptables/libiptc/libiptc.c):
//!
//! - A built-in chain begins at the offset that the kernel gives for its hook, and ends with the
//!   entry of its policy (`underflow`).
//! - A user chain begins after an entry with the target `ERROR`, which has its name, and ends with
//!   an entry that returns, just before the next such entry.
//! - The last entry of the table has the target `ERROR`, and the name `ERROR`.

use std::ops::Range;

use weir_kernel::xtables::{PacketByteCount, XtablesSnapshot, XtablesSocket};
use weir_model::{Family, Hook, TableName};

use super::entry_offsets::{
    CHAIN_NAME_FIELD_BYTES, EXTENSION_HEADER_BYTES, EntryOffsets, read_text, read_u16, read_u32,
    read_u64,
};
use crate::ApplyError;

/// A table as the kernel handed it out, with an index of its chains and rules.
#[derive(Clone, Debug)]
pub struct KernelTable {
    name: TableName,
    family: Family,
    snapshot: XtablesSnapshot,
    chains: Vec<KernelChain>,
    /// Offsets of all rules, in their order.
    rules: Vec<u32>,
    /// The place of each rule among all entries, for counters.
    rule_entry_numbers: Vec<u32>,
}

/// A chain of a [`KernelTable`].
#[derive(Clone, Debug)]
pub struct KernelChain {
    /// The hook of a built-in chain.
    pub hook: Option<Hook>,
    /// Its rules, as indices of [`KernelTable::rule_entry`].
    pub rules: Range<usize>,
    /// Where the name of a user chain lies.
    name_at: u32,
    name_bytes: u8,
    /// Offset of its first entry, which jumps name.
    first_entry_at: u32,
    /// Offset of the entry of its policy, or of the implied `RETURN`.
    last_entry_at: u32,
    /// The place of that entry among all entries.
    last_entry_number: u32,
}

impl KernelTable {
    /// Reads a table. One that is not in use is put in use, empty.
    ///
    /// # Errors
    /// If the kernel has no such table, or its entries are not laid out as libiptc does it.
    pub fn read(socket: &XtablesSocket, name: TableName) -> Result<KernelTable, ApplyError> {
        let snapshot = socket.read_table(name.as_str())?;
        KernelTable::from_snapshot(name, socket.family(), snapshot)
    }

    /// The index of a table that was read.
    ///
    /// # Errors
    /// If its entries are not laid out as libiptc does it.
    pub fn from_snapshot(
        name: TableName,
        family: Family,
        snapshot: XtablesSnapshot,
    ) -> Result<KernelTable, ApplyError> {
        let entry_count = snapshot.entry_count as usize;
        let mut table = KernelTable {
            name,
            family,
            snapshot,
            chains: Vec::new(),
            rules: Vec::with_capacity(entry_count),
            rule_entry_numbers: Vec::with_capacity(entry_count),
        };
        match table.index_entries() {
            Ok(()) => Ok(table),
            Err(offset) => Err(ApplyError::UnreadableTable { table: name, offset }),
        }
    }

    /// Walks over all entries; the error is the offset of one that is not where it must be.
    fn index_entries(&mut self) -> Result<(), usize> {
        let layout = EntryOffsets::of(self.family);
        let bytes = self.snapshot.entries();
        let hooks = &self.snapshot.hooks;
        // Built-in chains have the order of their hooks (`TableName::hooks`).
        let mut built_in =
            self.name.hooks().iter().filter(|h| hooks.valid_hooks & 1 << h.number() != 0);
        let mut next_hook = built_in.next();
        let mut open: Option<KernelChain> = None;
        let (mut at, mut entry_number) = (0, 0);
        while at < bytes.len() {
            let entry = bytes.get(at..).filter(|b| b.len() >= layout.header_bytes).ok_or(at)?;
            let length = usize::from(read_u16(entry, layout.next_offset_at));
            let target_offset = usize::from(read_u16(entry, layout.target_offset_at));
            let entry = entry.get(..length).ok_or(at)?;
            if target_offset < layout.header_bytes
                || target_offset + EXTENSION_HEADER_BYTES > length
            {
                return Err(at);
            }
            if let Some(hook) = next_hook.filter(|h| hooks.hook_entries[h.number()] as usize == at)
            {
                if open.is_some() {
                    return Err(at);
                }
                open = Some(KernelChain::starting_at(Some(*hook), at, self.rules.len()));
                next_hook = built_in.next();
            }
            if is_error_target(&entry[target_offset..]) {
                // The entry before this one ended the open user chain: it is no rule.
                if let Some(mut chain) = open.take() {
                    if chain.hook.is_some() || self.rules.len() == chain.rules.start {
                        return Err(at);
                    }
                    chain.last_entry_at = self.rules.pop().ok_or(at)?;
                    chain.last_entry_number = self.rule_entry_numbers.pop().ok_or(at)?;
                    chain.rules.end = self.rules.len();
                    self.chains.push(chain);
                }
                let name_at = target_offset + EXTENSION_HEADER_BYTES;
                let name = entry.get(name_at..name_at + CHAIN_NAME_FIELD_BYTES).ok_or(at)?;
                let name = read_text(name).ok_or(at)?;
                if at + length < bytes.len() {
                    let mut chain = KernelChain::starting_at(None, at + length, self.rules.len());
                    chain.name_at = (at + name_at) as u32;
                    chain.name_bytes = name.len() as u8;
                    open = Some(chain);
                }
            } else {
                let chain = open.as_mut().ok_or(at)?;
                match chain.hook.filter(|h| hooks.underflows[h.number()] as usize == at) {
                    Some(_) => {
                        chain.last_entry_at = at as u32;
                        chain.last_entry_number = entry_number;
                        chain.rules.end = self.rules.len();
                        self.chains.extend(open.take());
                    }
                    None => {
                        self.rules.push(at as u32);
                        self.rule_entry_numbers.push(entry_number);
                    }
                }
            }
            at += length;
            entry_number += 1;
        }
        if open.is_some() || next_hook.is_some() { Err(bytes.len()) } else { Ok(()) }
    }

    /// Which table it is.
    pub fn name(&self) -> TableName {
        self.name
    }

    /// Whose table it is.
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many entries it has: rules, ends of chains, names of chains, the end of the table.
    pub fn entry_count(&self) -> u32 {
        self.snapshot.entry_count
    }

    /// All entries, as the kernel handed them out.
    pub fn entries(&self) -> &[u8] {
        self.snapshot.entries()
    }

    /// Its chains: built-in ones by hook, then user chains in the order of the block, which libiptc
    /// sorts by name.
    pub fn chains(&self) -> &[KernelChain] {
        &self.chains
    }

    /// How many rules it has.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The name of a chain.
    pub fn chain_name(&self, chain: &KernelChain) -> &str {
        let name_at = chain.name_at as usize;
        let name = &self.entries()[name_at..name_at + usize::from(chain.name_bytes)];
        match chain.hook {
            Some(hook) => hook.chain_name(),
            None => std::str::from_utf8(name).unwrap_or_default(),
        }
    }

    /// The chain whose first entry is at an offset: what a jump names.
    pub(crate) fn chain_number_at(&self, offset: u32) -> Option<usize> {
        let number = self.chains.partition_point(|c| c.first_entry_at < offset);
        (self.chains.get(number)?.first_entry_at == offset).then_some(number)
    }

    /// The entry of a rule: header, matches, target.
    pub fn rule_entry(&self, rule: usize) -> &[u8] {
        self.entry_at(self.rules[rule])
    }

    /// The entry that ends a chain: its policy, or the implied `RETURN`.
    pub(crate) fn last_entry(&self, chain: &KernelChain) -> &[u8] {
        self.entry_at(chain.last_entry_at)
    }

    pub(crate) fn rule_offset(&self, rule: usize) -> u32 {
        self.rules[rule]
    }

    /// The place of a rule's entry among all entries, which is its place among their counts.
    pub fn rule_entry_number(&self, rule: usize) -> u32 {
        self.rule_entry_numbers[rule]
    }

    fn entry_at(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let bytes = self.entries();
        let length = read_u16(bytes, at + EntryOffsets::of(self.family).next_offset_at);
        &bytes[at..at + usize::from(length)]
    }

    /// What a rule had counted when the table was read.
    pub fn rule_counters_at_reading(&self, rule: usize) -> PacketByteCount {
        self.entry_counters_at_reading(self.rule_entry(rule))
    }

    /// What a built-in chain's policy had counted when the table was read.
    pub fn policy_counters_at_reading(&self, chain: &KernelChain) -> PacketByteCount {
        self.entry_counters_at_reading(self.last_entry(chain))
    }

    /// What the entry at an offset had counted when the table was read.
    pub(crate) fn counters_of_entry_at(&self, offset: u32) -> PacketByteCount {
        self.entry_counters_at_reading(self.entry_at(offset))
    }

    /// Whether another reading has the same entries, whatever they counted.
    pub(crate) fn has_equal_entries_but_for_counters(&self, other: &KernelTable) -> bool {
        let (ours, theirs) = (self.entries(), other.entries());
        if self.family != other.family
            || self.snapshot.hooks != other.snapshot.hooks
            || ours.len() != theirs.len()
        {
            return false;
        }
        let layout = EntryOffsets::of(self.family);
        let mut at = 0;
        while at < ours.len() {
            // `index_entries` has checked the lengths of our entries.
            let end = at + usize::from(read_u16(ours, at + layout.next_offset_at));
            let counters_at = at + layout.counters_at;
            let counters_end = counters_at + size_of::<PacketByteCount>();
            if ours[at..counters_at] != theirs[at..counters_at]
                || ours[counters_end..end] != theirs[counters_end..end]
            {
                return false;
            }
            at = end;
        }
        true
    }

    fn entry_counters_at_reading(&self, entry: &[u8]) -> PacketByteCount {
        let at = EntryOffsets::of(self.family).counters_at;
        PacketByteCount { packets: read_u64(entry, at), bytes: read_u64(entry, at + 8) }
    }

    /// Whether packets that no rule of a built-in chain decided are dropped.
    pub fn policy_drops(&self, chain: &KernelChain) -> bool {
        let entry = self.last_entry(chain);
        let target_offset = read_u16(entry, EntryOffsets::of(self.family).target_offset_at);
        let verdict_at = usize::from(target_offset) + EXTENSION_HEADER_BYTES;
        entry.len() >= verdict_at + 4 && read_u32(entry, verdict_at).cast_signed() == -1
    }
}

impl KernelChain {
    fn starting_at(hook: Option<Hook>, at: usize, rule: usize) -> KernelChain {
        KernelChain {
            hook,
            rules: rule..rule,
            name_at: 0,
            name_bytes: 0,
            first_entry_at: at as u32,
            last_entry_at: 0,
            last_entry_number: 0,
        }
    }

    /// Offset of the entry of its policy, or of the implied `RETURN`.
    pub(crate) fn last_entry_offset(&self) -> u32 {
        self.last_entry_at
    }

    /// The place of its policy's entry among all entries, which is its place among their counts.
    pub fn last_entry_number(&self) -> u32 {
        self.last_entry_number
    }
}

/// Chain heads and the end of the table are entries with this target.
fn is_error_target(target: &[u8]) -> bool {
    target[2..].starts_with(b"ERROR\0")
}
