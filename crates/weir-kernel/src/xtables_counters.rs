//! Counters of legacy iptables, read as iptables itself reads them (`IPT_SO_GET_ENTRIES`).
//!
//! Running `iptables-save -c` and parsing its output for every reading would be too slow. A reading
//! here is one system call and a scan of its result, so counters can be read after each packet.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use weir_packet::Family;

use crate::{KernelError, Namespace};

const IPT_SO_GET_INFO: i32 = 64;
const IPT_SO_GET_ENTRIES: i32 = 65;
const IPT_GETINFO_BYTES: usize = 84;
const IPT_GET_ENTRIES_HEADER_BYTES: usize = 40;

/// Packets and bytes of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketByteCount {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

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
pub struct TableCounterReader {
    fd: OwnedFd,
    family: Family,
    table: String,
    buffer: Vec<u64>,
    places: Vec<RuleOrPolicyPosition>,
    /// For each entry with a counter, whether it has a place: the implied ends of user chains
    /// have none.
    has_place: Vec<bool>,
}

/// Where the entry's fields lie (struct ipt_entry, struct ip6t_entry).
struct EntryLayout {
    target_offset: usize,
    next_offset: usize,
    counters_offset: usize,
}

fn entry_layout(family: Family) -> EntryLayout {
    match family {
        Family::V4 => EntryLayout { target_offset: 88, next_offset: 90, counters_offset: 96 },
        Family::V6 => EntryLayout { target_offset: 140, next_offset: 142, counters_offset: 152 },
    }
}

impl TableCounterReader {
    /// Opens a table of a namespace. A table that is not in use there is put in use, empty.
    ///
    /// # Errors
    /// Where the kernel has no such table.
    pub fn open(
        namespace: &Namespace,
        family: Family,
        table: &str,
    ) -> Result<TableCounterReader, KernelError> {
        let domain = match family {
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        let open = || {
            let raw = Some(ipproto::RAW);
            rustix::net::socket_with(domain, SocketType::RAW, SocketFlags::CLOEXEC, raw)
        };
        let fd = namespace
            .call_inside(open)?
            .map_err(|e| KernelError::io("open table", table)(e.into()))?;
        let (table, buffer) = (table.to_owned(), Vec::new());
        let mut counters = TableCounterReader {
            fd,
            family,
            table,
            buffer,
            places: Vec::new(),
            has_place: Vec::new(),
        };
        counters.load_rule_positions()?;
        Ok(counters)
    }

    /// The places of all rules and policies, in the order in which
    /// [`read_counters`](Self::read_counters) gives their counters, as they were when the table was
    /// opened.
    pub fn rule_and_policy_positions(&self) -> &[RuleOrPolicyPosition] {
        &self.places
    }

    fn load_rule_positions(&mut self) -> Result<(), KernelError> {
        let info = self.read_table_info()?;
        self.fetch_entries(&info)?;
        let Some(all) = locate_entries(self.buffered_entries(), &info, &entry_layout(self.family))
        else {
            return Err(self.unreadable_table_error());
        };
        self.has_place = all.iter().map(Option::is_some).collect();
        self.places = all.into_iter().flatten().collect();
        Ok(())
    }

    /// The counters of all rules and policies, in the order of [`places`](Self::places).
    ///
    /// # Errors
    /// Where the kernel refuses, or the table was replaced since it was opened.
    pub fn read_counters(&mut self) -> Result<Vec<PacketByteCount>, KernelError> {
        let info = self.read_table_info()?;
        self.fetch_entries(&info)?;
        let layout = entry_layout(self.family);
        let bytes = self.buffered_entries();
        let mut out = Vec::with_capacity(self.places.len());
        let mut kept = self.has_place.iter();
        let mut at = 0;
        while at < info.bytes {
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
            at += usize::from(read_u16(entry, layout.next_offset)).max(1);
        }
        if kept.next().is_some() { Err(self.unreadable_table_error()) } else { Ok(out) }
    }

    /// All entries of the table as the kernel hands them out, byte for byte: with the values that
    /// it stores, which `iptables-save` may round. What the kernel keeps for itself is zero.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read_entries_as_kernel_bytes(&mut self) -> Result<Vec<u8>, KernelError> {
        let info = self.read_table_info()?;
        self.fetch_entries(&info)?;
        Ok(self.buffered_entries()[..info.bytes].to_vec())
    }

    fn unreadable_table_error(&self) -> KernelError {
        KernelError::io("read table", &self.table)(io::ErrorKind::InvalidData.into())
    }

    fn buffered_entries(&self) -> &[u8] {
        let length = self.buffer.len() * 8;
        // SAFETY: u64 has no padding and no invalid bytes, and u8 needs no alignment.
        let all = unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), length) };
        &all[IPT_GET_ENTRIES_HEADER_BYTES.min(length)..]
    }

    fn read_table_info(&self) -> Result<IptGetInfo, KernelError> {
        let mut bytes = [0u8; IPT_GETINFO_BYTES];
        bytes[..self.table.len()].copy_from_slice(self.table.as_bytes());
        self.get_socket_option(IPT_SO_GET_INFO, bytes.as_mut_ptr(), IPT_GETINFO_BYTES)?;
        let word = |i: usize| u32::from_ne_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
        Ok(IptGetInfo {
            hooks: word(32),
            hook_entries: std::array::from_fn(|i| word(36 + 4 * i)),
            underflow: std::array::from_fn(|i| word(56 + 4 * i)),
            entry_count: word(76) as usize,
            bytes: word(80) as usize,
        })
    }

    fn fetch_entries(&mut self, info: &IptGetInfo) -> Result<(), KernelError> {
        let length = IPT_GET_ENTRIES_HEADER_BYTES + info.bytes;
        let mut buffer = vec![0u64; length.div_ceil(8)];
        let start = buffer.as_mut_ptr().cast::<u8>();
        let name = self.table.as_bytes();
        // SAFETY: the buffer holds at least the 40 bytes of the header.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), start, name.len());
            let size = (info.bytes as u32).to_ne_bytes();
            std::ptr::copy_nonoverlapping(size.as_ptr(), start.add(32), 4);
        }
        self.get_socket_option(IPT_SO_GET_ENTRIES, start, length)?;
        self.buffer = buffer;
        Ok(())
    }

    fn get_socket_option(
        &self,
        option: i32,
        value: *mut u8,
        bytes: usize,
    ) -> Result<(), KernelError> {
        let level = match self.family {
            Family::V4 => libc::SOL_IP,
            Family::V6 => libc::SOL_IPV6,
        };
        let mut length = bytes as libc::socklen_t;
        // SAFETY: `value` points to `bytes` writable bytes (both callers own that buffer).
        let result = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), level, option, value.cast(), &mut length)
        };
        if result == 0 {
            return Ok(());
        }
        Err(KernelError::io("read counters of table", &self.table)(io::Error::last_os_error()))
    }
}

/// struct ipt_getinfo.
struct IptGetInfo {
    hooks: u32,
    hook_entries: [u32; 5],
    underflow: [u32; 5],
    entry_count: usize,
    bytes: usize,
}

const CHAIN_NAME_BY_HOOK: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn target_name<'e>(entry: &'e [u8], layout: &EntryLayout) -> Option<&'e [u8]> {
    let at = usize::from(read_u16(entry, layout.target_offset));
    let name = entry.get(at + 2..at + 31)?;
    name.split(|b| *b == 0).next()
}

/// Chain heads and the end of the table are entries with this target.
fn is_error_target(entry: &[u8], layout: &EntryLayout) -> bool {
    target_name(entry, layout) == Some(b"ERROR")
}

/// One walk over the table: each entry's place, `None` for the implied end of a user chain.
fn locate_entries(
    bytes: &[u8],
    info: &IptGetInfo,
    layout: &EntryLayout,
) -> Option<Vec<Option<RuleOrPolicyPosition>>> {
    let mut out: Vec<Option<RuleOrPolicyPosition>> = Vec::with_capacity(info.entry_count);
    let (mut at, mut number) = (0, 0);
    let mut chain = String::new();
    let mut in_user_chain = false;
    let head = |at: usize| {
        (0..5).find(|h| info.hooks & 1 << h != 0 && info.hook_entries[*h] as usize == at)
    };
    let policy =
        |at: usize| (0..5).any(|h| info.hooks & 1 << h != 0 && info.underflow[h] as usize == at);
    while at < info.bytes {
        let entry = bytes.get(at..).filter(|b| b.len() >= layout.counters_offset + 16)?;
        if let Some(hook) = head(at) {
            (chain, number, in_user_chain) = (CHAIN_NAME_BY_HOOK[hook].to_owned(), 0, false);
        }
        if is_error_target(entry, layout) {
            if in_user_chain {
                // The entry before the next head is the implied return.
                *out.last_mut()? = None;
            }
            let target = usize::from(read_u16(entry, layout.target_offset));
            let name = entry.get(target + 32..target + 62)?.split(|b| *b == 0).next()?;
            (chain, number, in_user_chain) = (String::from_utf8_lossy(name).into_owned(), 0, true);
        } else if policy(at) {
            out.push(Some(RuleOrPolicyPosition { chain: chain.clone(), number: None }));
        } else {
            number += 1;
            out.push(Some(RuleOrPolicyPosition { chain: chain.clone(), number: Some(number) }));
        }
        at += usize::from(read_u16(entry, layout.next_offset)).max(1);
    }
    Some(out)
}
