//! Where the fields of an entry lie: struct ipt_entry and struct ip6t_entry.

use weir_model::Family;

/// struct xt_entry_match and struct xt_entry_target: size, name, revision.
pub(crate) const EXTENSION_HEADER_BYTES: usize = 32;
/// Names of matches and targets have fewer bytes (`XT_EXTENSION_MAXNAMELEN`).
pub(crate) const EXTENSION_NAME_BYTES: usize = 29;
/// Names of chains have fewer bytes (`XT_FUNCTION_MAXNAMELEN`).
pub(crate) const CHAIN_NAME_FIELD_BYTES: usize = 30;

/// Offsets in an entry of one family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryOffsets {
    /// Length of the entry without matches and target.
    pub(crate) header_bytes: usize,
    /// `target_offset`, 16 bits.
    pub(crate) target_offset_at: usize,
    /// `next_offset`, 16 bits: the length of the entry.
    pub(crate) next_offset_at: usize,
    /// `comefrom`, 32 bits: the hooks that reach the entry, which the kernel computes.
    pub(crate) comefrom_at: usize,
    /// struct xt_counters.
    pub(crate) counters_at: usize,
    /// Flags of the header.
    pub(crate) flags_at: usize,
    /// The flag of `-g`.
    pub(crate) goto_flag: u8,
}

const V4: EntryOffsets = EntryOffsets {
    header_bytes: 112,
    target_offset_at: 88,
    next_offset_at: 90,
    comefrom_at: 92,
    counters_at: 96,
    flags_at: 82,
    goto_flag: 2,
};
const V6: EntryOffsets = EntryOffsets {
    header_bytes: 168,
    target_offset_at: 140,
    next_offset_at: 142,
    comefrom_at: 144,
    counters_at: 152,
    flags_at: 131,
    goto_flag: 4,
};

impl EntryOffsets {
    pub(crate) const fn of(family: Family) -> &'static EntryOffsets {
        match family {
            Family::V4 => &V4,
            Family::V6 => &V6,
        }
    }
}

pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// A text that ends at its first zero byte.
pub(crate) fn read_text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}
