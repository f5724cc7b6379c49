//! A table that is being changed: chains, and rules that are bytes of the kernel or new ones.

use std::collections::HashMap;

use weir_kernel::xtables::PacketByteCount;
use weir_model::{Hook, SharedName};

use crate::ApplyError;
use crate::xtables::KernelTable;
use crate::xtables::entry_offsets::{EXTENSION_HEADER_BYTES, EntryOffsets, read_u16, read_u32};

/// Where the bytes and the counts of a rule come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleOrigin {
    /// A rule of the table that was read, by its index.
    Kernel(u32),
    /// A new one, by its index.
    New(u32),
}

/// What the verdict of a rule is to name when the table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DraftVerdict {
    /// The bytes say it.
    Own,
    /// The next rule.
    NextRule,
    /// A chain, by its index.
    Chain(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DraftRule {
    pub(super) origin: RuleOrigin,
    pub(super) verdict: DraftVerdict,
}

#[derive(Debug)]
pub(super) struct DraftChain {
    pub(super) name: SharedName,
    pub(super) hook: Option<Hook>,
    pub(super) rules: Vec<DraftRule>,
    /// Of a built-in chain: what becomes of packets that no rule decided.
    pub(super) policy_drops: bool,
    /// The entry whose counts the policy keeps; none where the policy was changed.
    pub(super) policy_entry_number: Option<u32>,
    /// How many rules jump to it.
    reference_count: u32,
    pub(super) is_deleted: bool,
}

/// Entries of new rules, one after the other.
#[derive(Debug, Default)]
struct NewEntries {
    bytes: Vec<u8>,
    /// Where each ends, and what it has counted.
    ends_and_counts: Vec<(usize, PacketByteCount)>,
}

/// The table in memory. Chains keep their index; a deleted one is only marked.
#[derive(Debug)]
pub(super) struct DraftTable {
    pub(super) kernel_table: KernelTable,
    pub(super) chains: Vec<DraftChain>,
    chain_by_name: HashMap<SharedName, u32>,
    new_entries: NewEntries,
}

impl DraftTable {
    /// The table as it was read.
    pub(super) fn new(kernel_table: KernelTable) -> Result<DraftTable, ApplyError> {
        let chain_count = kernel_table.chains().len();
        let mut draft = DraftTable {
            kernel_table,
            chains: Vec::with_capacity(chain_count),
            chain_by_name: HashMap::with_capacity(chain_count),
            new_entries: NewEntries::default(),
        };
        let table = &draft.kernel_table;
        for (index, chain) in table.chains().iter().enumerate() {
            let name = SharedName::from(table.chain_name(chain));
            draft.chain_by_name.insert(name.clone(), index as u32);
            let is_built_in = chain.hook.is_some();
            draft.chains.push(DraftChain {
                name,
                hook: chain.hook,
                rules: Vec::with_capacity(chain.rules.len()),
                policy_drops: is_built_in && table.policy_drops(chain),
                policy_entry_number: is_built_in.then(|| chain.last_entry_number()),
                reference_count: 0,
                is_deleted: false,
            });
        }
        for index in 0..chain_count {
            for rule in table.chains()[index].rules.clone() {
                let verdict = read_verdict(table, rule)?;
                let origin = RuleOrigin::Kernel(rule as u32);
                draft.chains[index].rules.push(DraftRule { origin, verdict });
                if let DraftVerdict::Chain(chain) = verdict {
                    draft.chains[chain as usize].reference_count += 1;
                }
            }
        }
        Ok(draft)
    }

    pub(super) fn find_chain(&self, name: &str) -> Option<usize> {
        self.chain_by_name.get(name).map(|index| *index as usize)
    }

    pub(super) fn add_chain(&mut self, name: SharedName) {
        self.chain_by_name.insert(name.clone(), self.chains.len() as u32);
        self.chains.push(DraftChain {
            name,
            hook: None,
            rules: Vec::new(),
            policy_drops: false,
            policy_entry_number: None,
            reference_count: 0,
            is_deleted: false,
        });
    }

    pub(super) fn delete_chain(&mut self, chain: usize) {
        self.chain_by_name.remove(&self.chains[chain].name);
        self.chains[chain].is_deleted = true;
    }

    pub(super) fn is_referenced(&self, chain: usize) -> bool {
        self.chains[chain].reference_count > 0
    }

    /// Keeps the entry of a new rule.
    pub(super) fn add_entry(&mut self, entry: &[u8], count: PacketByteCount) -> RuleOrigin {
        self.new_entries.bytes.extend_from_slice(entry);
        self.new_entries.ends_and_counts.push((self.new_entries.bytes.len(), count));
        RuleOrigin::New(self.new_entries.ends_and_counts.len() as u32 - 1)
    }

    /// Inserts a rule before the one at `position`, or appends it.
    pub(super) fn insert_rule(&mut self, chain: usize, position: usize, rule: DraftRule) {
        if let DraftVerdict::Chain(target) = rule.verdict {
            self.chains[target as usize].reference_count += 1;
        }
        self.chains[chain].rules.insert(position, rule);
    }

    pub(super) fn remove_rule(&mut self, chain: usize, position: usize) {
        let rule = self.chains[chain].rules.remove(position);
        self.drop_reference(rule);
    }

    pub(super) fn remove_all_rules(&mut self, chain: usize) {
        for rule in std::mem::take(&mut self.chains[chain].rules) {
            self.drop_reference(rule);
        }
    }

    fn drop_reference(&mut self, rule: DraftRule) {
        if let DraftVerdict::Chain(target) = rule.verdict {
            self.chains[target as usize].reference_count -= 1;
        }
    }

    /// The bytes of a rule, in which a verdict that names a chain or the next rule has no meaning.
    pub(super) fn entry(&self, origin: RuleOrigin) -> &[u8] {
        match origin {
            RuleOrigin::Kernel(rule) => self.kernel_table.rule_entry(rule as usize),
            RuleOrigin::New(index) => {
                let ends = &self.new_entries.ends_and_counts;
                let index = index as usize;
                let start = index.checked_sub(1).map_or(0, |before| ends[before].0);
                &self.new_entries.bytes[start..ends[index].0]
            }
        }
    }

    /// What a new rule begins with.
    pub(super) fn initial_count(&self, new_rule: u32) -> PacketByteCount {
        self.new_entries.ends_and_counts[new_rule as usize].1
    }
}

/// What the verdict of a rule of the kernel names.
fn read_verdict(table: &KernelTable, rule: usize) -> Result<DraftVerdict, ApplyError> {
    let entry = table.rule_entry(rule);
    let offsets = EntryOffsets::of(table.family());
    let target_offset = usize::from(read_u16(entry, offsets.target_offset_at));
    let verdict_at = target_offset + EXTENSION_HEADER_BYTES;
    let is_standard = entry[target_offset + 2] == 0 && verdict_at + 4 <= entry.len();
    let Some(offset) =
        is_standard.then(|| read_u32(entry, verdict_at)).filter(|v| v.cast_signed() >= 0)
    else {
        return Ok(DraftVerdict::Own);
    };
    if offset as usize == table.rule_offset(rule) as usize + entry.len() {
        return Ok(DraftVerdict::NextRule);
    }
    match table.chain_number_at(offset) {
        Some(chain) => Ok(DraftVerdict::Chain(chain as u32)),
        None => Err(ApplyError::UnreadableTable {
            table: table.name(),
            offset: table.rule_offset(rule) as usize,
        }),
    }
}
