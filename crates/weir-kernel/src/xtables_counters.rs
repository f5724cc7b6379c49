//! Counters of legacy iptables, read as iptables itself reads them (`IPT_SO_GET_ENTRIES`).
//!
//! Running `iptables-save -c` and parsing its output for every reading would be too slow. A reading
//! here is one system call and a scan of its result, so counters can be read after each packet.

use std::io;

use weir_packet::Family;

pub use crate::xtables::PacketByteCount;
use crate::xtables::{XtablesHooks, XtablesSnapshot, XtablesSocket};
use crate::{KernelError, Namespace};

/// Place of an entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleOrPolicyPosition {
    /// Chain.
    pub chain: String,
    /// Number from 1; `None` is a built-in chain's policy.
    pub number: Option<u32>,
}

/// Reads the counters of one table of one namespace.
#[derive(Debug)]
pub struct LegacyTableCounterReader {
    socket: XtablesSocket,
    table: String,
    positions: Vec<RuleOrPolicyPosition>,
    /// For each entry with a counter, whether it has a place: the implied ends of user chains
    /// have none.
    counted_entry_is_rule_or_policy: Vec<bool>,
}

/// Where the entry's fields lie (struct ipt_entry, struct ip6t_entry).
struct IptEntryFieldOffsets {
    target_offset_field_at: usize,
    next_offset_field_at: usize,
    counters_offset: usize,
}

fn ipt_entry_field_offsets(family: Family) -> IptEntryFieldOffsets {
    match family {
        Family::V4 => IptEntryFieldOffsets {
            target_offset_field_at: 88,
            next_offset_field_at: 90,
            counters_offset: 96,
        },
        Family::V6 => IptEntryFieldOffsets {
            target_offset_field_at: 140,
            next_offset_field_at: 142,
            counters_offset: 152,
        },
    }
}

impl LegacyTableCounterReader {
    /// Opens a table of a namespace. A table that is not in use there is put in use, empty.
    ///
    /// # Errors
    /// If the kernel has no such table.
    pub fn open(
        namespace: &Namespace,
        family: Family,
        table: &str,
    ) -> Result<LegacyTableCounterReader, KernelError> {
        let socket = XtablesSocket::open_in_namespace(namespace, family)?;
        let (table, positions, entry_has_position) = (table.to_owned(), Vec::new(), Vec::new());
        let mut counters = LegacyTableCounterReader {
            socket,
            table,
            positions,
            counted_entry_is_rule_or_policy: entry_has_position,
        };
        counters.load_rule_and_policy_positions()?;
        Ok(counters)
    }

    /// The places of all rules and policies, in the order in which
    /// [`read_counters_if_not_replaced`](Self::read_counters_if_not_replaced) gives their counters,
    /// as they were when the table was opened.
    pub fn rule_and_policy_positions(&self) -> &[RuleOrPolicyPosition] {
        &self.positions
    }

    fn load_rule_and_policy_positions(&mut self) -> Result<(), KernelError> {
        let snapshot = self.socket.read_table(&self.table)?;
        let Some(all) =
            positions_of_counted_entries(&snapshot, &ipt_entry_field_offsets(self.socket.family()))
        else {
            return Err(self.unreadable_table_error());
        };
        self.counted_entry_is_rule_or_policy = all.iter().map(Option::is_some).collect();
        self.positions = all.into_iter().flatten().collect();
        Ok(())
    }

    /// The counters of all rules and policies, in the order of [`positions`](Self::positions).
    ///
    /// # Errors
    /// If the kernel refuses, or the table was replaced since it was opened.
    pub fn read_counters_if_not_replaced(&mut self) -> Result<Vec<PacketByteCount>, KernelError> {
        let snapshot = self.socket.read_table(&self.table)?;
        let layout = ipt_entry_field_offsets(self.socket.family());
        let bytes = snapshot.entries();
        let mut out = Vec::with_capacity(self.positions.len());
        let mut kept = self.counted_entry_is_rule_or_policy.iter();
        let mut at = 0;
        while at < bytes.len() {
            let Some(entry) = bytes.get(at..).filter(|b| b.len() >= layout.counters_offset + 16)
            else {
                return Err(self.unreadable_table_error());
            };
            if !is_error_target(entry, &layout) {
                let word =
                    |i: usize| u64::from_ne_bytes(entry[i..i + 8].try_into().expect("eight bytes"));
                let count = PacketByteCount {
                    packets: word(layout.counters_offset),
                    bytes: word(layout.counters_offset + 8),
                };
                match kept.next() {
                    Some(true) => out.push(count),
                    Some(false) => {}
                    None => return Err(self.unreadable_table_error()),
                }
            }
            at += usize::from(read_u16(entry, layout.next_offset_field_at)).max(1);
        }
        if kept.next().is_some() { Err(self.unreadable_table_error()) } else { Ok(out) }
    }

    /// All entries of the table as the kernel hands them out, byte for byte: with the values that
    /// it stores, which `iptables-save` may round. What the kernel keeps for itself is zero.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read_entries_as_kernel_bytes(&mut self) -> Result<Vec<u8>, KernelError> {
        Ok(self.socket.read_table(&self.table)?.entries().to_vec())
    }

    fn unreadable_table_error(&self) -> KernelError {
        KernelError::io("read table", &self.table)(io::ErrorKind::InvalidData.into())
    }
}

const CHAIN_NAME_BY_HOOK: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn target_name<'e>(entry: &'e [u8], layout: &IptEntryFieldOffsets) -> Option<&'e [u8]> {
    let at = usize::from(read_u16(entry, layout.target_offset_field_at));
    let name = entry.get(at + 2..at + 31)?;
    name.split(|b| *b == 0).next()
}

/// Chain heads and the end of the table are entries with this target.
fn is_error_target(entry: &[u8], layout: &IptEntryFieldOffsets) -> bool {
    target_name(entry, layout) == Some(b"ERROR")
}

/// One walk over the table: each entry's place, `None` for the implied end of a user chain.
fn positions_of_counted_entries(
    snapshot: &XtablesSnapshot,
    layout: &IptEntryFieldOffsets,
) -> Option<Vec<Option<RuleOrPolicyPosition>>> {
    let entry_count = snapshot.entry_count as usize;
    let mut out: Vec<Option<RuleOrPolicyPosition>> = Vec::with_capacity(entry_count);
    let XtablesHooks { valid_hooks, hook_entries, underflows } = snapshot.hooks;
    let bytes = snapshot.entries();
    let (mut at, mut number) = (0, 0);
    let mut chain = String::new();
    let mut in_user_chain = false;
    let head =
        |at: usize| (0..5).find(|h| valid_hooks & 1 << h != 0 && hook_entries[*h] as usize == at);
    let policy =
        |at: usize| (0..5).any(|h| valid_hooks & 1 << h != 0 && underflows[h] as usize == at);
    while at < bytes.len() {
        let entry = bytes.get(at..).filter(|b| b.len() >= layout.counters_offset + 16)?;
        if let Some(hook) = head(at) {
            (chain, number, in_user_chain) = (CHAIN_NAME_BY_HOOK[hook].to_owned(), 0, false);
        }
        if is_error_target(entry, layout) {
            if in_user_chain {
                // The entry before the next head is the implied return.
                *out.last_mut()? = None;
            }
            let target = usize::from(read_u16(entry, layout.target_offset_field_at));
            let name = entry.get(target + 32..target + 62)?.split(|b| *b == 0).next()?;
            (chain, number, in_user_chain) = (String::from_utf8_lossy(name).into_owned(), 0, true);
        } else if policy(at) {
            out.push(Some(RuleOrPolicyPosition { chain: chain.clone(), number: None }));
        } else {
            number += 1;
            out.push(Some(RuleOrPolicyPosition { chain: chain.clone(), number: Some(number) }));
        }
        at += usize::from(read_u16(entry, layout.next_offset_field_at)).max(1);
    }
    Some(out)
}
