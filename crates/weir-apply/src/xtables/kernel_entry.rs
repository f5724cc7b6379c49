//! Bytes of an entry that say nothing about its rule, set to zero before entries are compared.

use weir_model::Family;

use super::entry_offsets::{COUNTERS_BYTES, EntryOffsets};
use super::rule_entry::IptIpOffsets;

/// The bytes that the kernel writes: counts, and the hooks that reach the entry.
pub(super) fn clear_counters_and_comefrom(entry: &mut [u8], layout: &EntryOffsets) {
    entry[layout.comefrom_at..layout.comefrom_at + 4].fill(0);
    entry[layout.counters_at..layout.counters_at + COUNTERS_BYTES].fill(0);
}

/// A name under an empty mask: `-i +` tests nothing, and the tool stores the `+`.
pub(super) fn clear_unused_device_names(entry: &mut [u8], family: Family) {
    let devices_at = IptIpOffsets::of(family).devices_at;
    for name_at in [devices_at, devices_at + 16] {
        if entry[name_at + 32..name_at + 48].iter().all(|byte| *byte == 0) {
            entry[name_at..name_at + 16].fill(0);
        }
    }
}
