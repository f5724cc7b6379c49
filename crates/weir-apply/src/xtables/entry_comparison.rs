//! Bytes of an entry that say nothing about its rule, set to zero before entries are compared.

use weir_kernel::xtables::XT_COUNTERS_BYTES;
use weir_model::Family;

use super::entry_offsets::{EXTENSION_HEADER_BYTES, EntryOffsets, read_u16};
use super::rule_entry::{FLAG_V6_PROTOCOL, INVERSE_PROTOCOL, IptIpOffsets};

/// The bytes that the kernel writes: counts, and the hooks that reach the entry.
pub(crate) fn clear_counters_and_comefrom(entry: &mut [u8], layout: &EntryOffsets) {
    entry[layout.comefrom_at..layout.comefrom_at + 4].fill(0);
    entry[layout.counters_at..layout.counters_at + XT_COUNTERS_BYTES].fill(0);
}

/// A name under an empty mask: `-i +` tests nothing, and the tool stores the `+`.
pub(crate) fn clear_device_names_under_empty_masks(entry: &mut [u8], family: Family) {
    let devices_at = IptIpOffsets::of(family).devices_at;
    for name_at in [devices_at, devices_at + 16] {
        if entry[name_at + 32..name_at + 48].iter().all(|byte| *byte == 0) {
            entry[name_at..name_at + 16].fill(0);
        }
    }
}

/// `ip6tables -p all` stores that the protocol is tested, against no number: every protocol matches
/// (`ip6_packet_match` in net/ipv6/netfilter/ip6_tables.c), and the tool does not list it.
fn clear_test_of_any_protocol(entry: &mut [u8], family: Family) {
    let offsets = IptIpOffsets::of(family);
    let is_negated = entry[offsets.inverse_flags_at] & INVERSE_PROTOCOL != 0;
    if family == Family::V6 && read_u16(entry, offsets.protocol_at) == 0 && !is_negated {
        entry[EntryOffsets::of(family).flags_at] &= !FLAG_V6_PROTOCOL;
    }
}

/// Addresses in the data of matches, of which IPv4 uses the first four bytes. The tool fills the
/// others by how an option was written, and the kernel does not read them.
const ADDRESS_OFFSETS_IN_MATCHES: [(&[u8], &[usize]); 3] = [
    (b"conntrack\0", &[0, 16, 32, 48, 64, 80, 96, 112]),
    (b"recent\0", &[212]),
    (b"connlimit\0", &[0]),
];

/// Sets to zero what IPv4 does not use of an address.
fn clear_unused_address_bytes(entry: &mut [u8], family: Family) {
    if family == Family::V6 {
        return;
    }
    let offsets = EntryOffsets::of(family);
    let target_offset = usize::from(read_u16(entry, offsets.target_offset_at));
    let mut at = offsets.header_bytes;
    while at + EXTENSION_HEADER_BYTES <= target_offset {
        let length = usize::from(read_u16(entry, at));
        for (name, addrs) in ADDRESS_OFFSETS_IN_MATCHES {
            if !entry[at + 2..].starts_with(name) {
                continue;
            }
            for addr in addrs {
                let unused = at + EXTENSION_HEADER_BYTES + addr + 4;
                if let Some(unused) = entry.get_mut(unused..unused + 12) {
                    unused.fill(0);
                }
            }
        }
        at += length.max(1);
    }
}

/// Compares entries with one, except for what says nothing about their rules.
pub(crate) struct EntryComparison {
    family: Family,
    wanted: Vec<u8>,
}

impl EntryComparison {
    /// Compares with this entry.
    pub(crate) fn with(entry: &[u8], family: Family) -> EntryComparison {
        let mut wanted = entry.to_vec();
        clear_meaningless_bytes(&mut wanted, family);
        EntryComparison { family, wanted }
    }

    /// Whether an entry says the same; with `has_own_verdict`, its verdict is part of it.
    pub(crate) fn is_same(&self, entry: &[u8], has_own_verdict: bool) -> bool {
        let devices_at = IptIpOffsets::of(self.family).devices_at;
        // Most rules differ in an address.
        if entry.len() != self.wanted.len() || entry[..devices_at] != self.wanted[..devices_at] {
            return false;
        }
        let mut entry = entry.to_vec();
        clear_meaningless_bytes(&mut entry, self.family);
        if has_own_verdict {
            return entry == self.wanted;
        }
        let offsets = EntryOffsets::of(self.family);
        let target_offset = usize::from(read_u16(&entry, offsets.target_offset_at));
        let verdict_at = target_offset + EXTENSION_HEADER_BYTES;
        entry[..verdict_at] == self.wanted[..verdict_at]
            && entry[verdict_at + 4..] == self.wanted[verdict_at + 4..]
    }
}

/// Sets to zero what says nothing about the rule of an entry.
pub(crate) fn clear_meaningless_bytes(entry: &mut [u8], family: Family) {
    clear_counters_and_comefrom(entry, EntryOffsets::of(family));
    clear_device_names_under_empty_masks(entry, family);
    clear_unused_address_bytes(entry, family);
    clear_test_of_any_protocol(entry, family);
}
