//! Writes one entry: struct ipt_entry or struct ip6t_entry, its matches and its target.

use weir_model::{Addr, Family};

use super::entry_offsets::{EXTENSION_HEADER_BYTES, EntryOffsets};

/// `RETURN` as a verdict (`XT_RETURN` is `-NF_REPEAT - 1`).
pub(crate) const XT_RETURN: i32 = -5;
/// struct xt_error_target: the header and a name of 30 bytes, aligned.
const ERROR_TARGET_BYTES: usize = 64;

/// `DROP` or `ACCEPT` as a verdict (`-NF_DROP - 1`, `-NF_ACCEPT - 1`).
pub(crate) fn verdict_of_policy(drops: bool) -> i32 {
    if drops { -1 } else { -2 }
}

/// An entry under construction; the buffer is used again for the next one.
#[derive(Debug)]
pub(crate) struct EntryWriter {
    family: Family,
    bytes: Vec<u8>,
    target_offset: usize,
}

impl EntryWriter {
    pub(crate) fn new(family: Family) -> EntryWriter {
        EntryWriter { family, bytes: Vec::with_capacity(1024), target_offset: 0 }
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins an entry whose header is zero: it matches every packet.
    pub(crate) fn begin_match_all_entry(&mut self) {
        self.bytes.clear();
        self.bytes.resize(EntryOffsets::of(self.family).header_bytes, 0);
    }

    /// The header, to be filled.
    pub(crate) fn header_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Appends a match with its data.
    pub(crate) fn push_match(&mut self, name: &str, revision: u8, data: &[u8]) {
        let size = EXTENSION_HEADER_BYTES + data.len().next_multiple_of(8);
        let at = self.bytes.len();
        self.bytes.resize(at + size, 0);
        self.bytes[at..at + 2].copy_from_slice(&(size as u16).to_ne_bytes());
        self.bytes[at + 2..at + 2 + name.len()].copy_from_slice(name.as_bytes());
        self.bytes[at + 31] = revision;
        self.bytes[at + 32..at + 32 + data.len()].copy_from_slice(data);
    }

    /// Appends the target, which ends the entry.
    pub(crate) fn push_target(&mut self, name: &str, revision: u8, data: &[u8]) {
        self.target_offset = self.bytes.len();
        self.push_match(name, revision, data);
        let offsets_at = EntryOffsets::of(self.family).target_offset_at;
        let (target, next) = (self.target_offset as u16, self.bytes.len() as u16);
        self.bytes[offsets_at..offsets_at + 2].copy_from_slice(&target.to_ne_bytes());
        self.bytes[offsets_at + 2..offsets_at + 4].copy_from_slice(&next.to_ne_bytes());
    }

    /// Appends the standard target.
    pub(crate) fn push_verdict(&mut self, verdict: i32) {
        self.push_target("", 0, &verdict.to_ne_bytes());
    }

    /// Where the verdict of the standard target stands in the entry.
    pub(crate) fn verdict_offset(&self) -> usize {
        self.target_offset + EXTENSION_HEADER_BYTES
    }

    pub(crate) fn set_verdict(&mut self, verdict: i32) {
        let at = self.verdict_offset();
        self.bytes[at..at + 4].copy_from_slice(&verdict.to_ne_bytes());
    }

    /// A whole entry that gives a verdict.
    pub(crate) fn write_verdict_entry(&mut self, verdict: i32) {
        self.begin_match_all_entry();
        self.push_verdict(verdict);
    }

    /// A whole entry that begins a user chain, or ends the table.
    pub(crate) fn write_error_entry(&mut self, name: &str) {
        let mut data = [0; ERROR_TARGET_BYTES - EXTENSION_HEADER_BYTES];
        let length = name.len().min(29);
        data[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.begin_match_all_entry();
        self.push_target("ERROR", 0, &data);
    }
}

/// The data of a match or target: a C structure of `N` bytes, filled by offset.
pub(crate) struct StructBytes<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> StructBytes<N> {
    pub(crate) fn zeroed() -> Self {
        StructBytes([0; N])
    }

    pub(crate) fn put_u16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }

    pub(crate) fn put_be16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn put_u32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    pub(crate) fn put_u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// A text, with a zero byte after it; `None` where `room` bytes do not hold it.
    pub(crate) fn put_text(&mut self, at: usize, room: usize, text: &str) -> Option<()> {
        if text.len() >= room || text.contains('\0') {
            return None;
        }
        self.0[at..at + text.len()].copy_from_slice(text.as_bytes());
        Some(())
    }

    /// union nf_inet_addr.
    pub(crate) fn put_addr(&mut self, at: usize, addr: Addr, family: Family) {
        write_addr(&mut self.0[at..], addr, family);
    }
}

/// An address in network order; four or sixteen bytes.
pub(crate) fn write_addr(place: &mut [u8], addr: Addr, family: Family) {
    match family {
        Family::V4 => place[..4].copy_from_slice(&(addr.0 as u32).to_be_bytes()),
        Family::V6 => place[..16].copy_from_slice(&addr.0.to_be_bytes()),
    }
}

/// A device name as the tool writes it, and its mask. After a prefix a `+` is stored, and the mask
/// ends before it; otherwise the mask includes the zero byte after the name
/// (`xtables_parse_interface`).
pub(crate) fn write_device_name(
    bytes: &mut [u8],
    name_at: usize,
    mask_at: usize,
    name: &str,
    is_prefix: bool,
) {
    let length = name.len().min(15);
    bytes[name_at..name_at + length].copy_from_slice(&name.as_bytes()[..length]);
    if is_prefix {
        bytes[name_at + length] = b'+';
        bytes[mask_at..mask_at + length].fill(0xff);
    } else {
        bytes[mask_at..=mask_at + length].fill(0xff);
    }
}
