//! Tables of legacy iptables, read and replaced as libiptc does it: by options of a raw socket
//! (net/ipv4/netfilter/ip_tables.c, net/ipv6/netfilter/ip6_tables.c).
//!
//! The kernel takes a table as a whole: a header, then all entries as one block of bytes. A
//! [`XtablesReplacement`] is that block under construction; [`XtablesSnapshot`] is a block as the
//! kernel hands it out. What the entries mean is not known here.
//!
//! Replacing a table is atomic for packets. It returns the counters of the entries that were
//! replaced, read after the last packet that was counted there; new entries begin at zero and
//! counts are added to them afterwards ([`XtablesSocket::add_counters`]), so that none is lost.
//! Programs exclude each other by a [lock](XtablesLock), since the kernel does not notice a table
//! that was changed between reading and replacing.

mod hooks;
mod lock;
mod replacement;
mod set_index;

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use weir_packet::Family;

pub use self::hooks::XtablesHooks;
pub use self::lock::XtablesLock;
pub use self::replacement::XtablesReplacement;
use crate::socket_option::{
    read_socket_option, set_socket_option, set_socket_option_with_addresses,
};
use crate::{KernelError, Namespace};

const IPT_SO_GET_INFO: i32 = 64;
const IPT_SO_GET_ENTRIES: i32 = 65;
const IPT_SO_SET_REPLACE: i32 = 64;
const IPT_SO_SET_ADD_COUNTERS: i32 = 65;
const IPT_GETINFO_BYTES: usize = 84;
const IPT_GET_ENTRIES_HEADER_BYTES: usize = 40;
const XT_COUNTERS_INFO_HEADER_BYTES: usize = 40;
/// `sizeof(struct xt_counters)`: packets, then bytes.
pub const XT_COUNTERS_BYTES: usize = 16;
/// Names of tables have fewer bytes than the field (`XT_TABLE_MAXNAMELEN`).
const TABLE_NAME_BYTES: usize = 32;
/// A table that changes while it is read is read again so often.
const MAX_READ_ATTEMPTS: u32 = 10;

/// Packets and bytes of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketByteCount {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What the kernel says of a table (struct ipt_getinfo).
struct XtablesHooksAndSizes {
    hooks: XtablesHooks,
    entry_count: u32,
    entry_bytes: u32,
}

/// A table as the kernel hands it out.
#[derive(Clone, Debug)]
pub struct XtablesSnapshot {
    /// Its hooks.
    pub hooks: XtablesHooks,
    /// How many entries there are.
    pub entry_count: u32,
    /// A header, and the entries.
    buffer: Vec<u8>,
}

impl XtablesSnapshot {
    /// The entries, with the counts that they had when they were read.
    pub fn entries(&self) -> &[u8] {
        &self.buffer[IPT_GET_ENTRIES_HEADER_BYTES..]
    }
}

/// A socket for the tables of one family in one network namespace.
#[derive(Debug)]
pub struct XtablesSocket {
    fd: OwnedFd,
    /// Beside a socket of IPv6, for questions that only one of IPv4 takes.
    ipv4_fd: Option<OwnedFd>,
    family: Family,
}

impl XtablesSocket {
    /// Opens the tables of the current network namespace.
    ///
    /// # Errors
    /// If weir is not root there.
    pub fn open(family: Family) -> Result<XtablesSocket, KernelError> {
        let ipv4_fd = || open_raw_socket(AddressFamily::INET);
        let (fd, ipv4_fd) = match family {
            Family::V4 => (ipv4_fd()?, None),
            Family::V6 => (open_raw_socket(AddressFamily::INET6)?, Some(ipv4_fd()?)),
        };
        Ok(XtablesSocket { fd, ipv4_fd, family })
    }

    /// Opens the tables of a namespace.
    ///
    /// # Errors
    /// If weir is not root there.
    pub fn open_in_namespace(
        namespace: &Namespace,
        family: Family,
    ) -> Result<XtablesSocket, KernelError> {
        namespace.call_inside(|| XtablesSocket::open(family))?
    }

    /// Whose tables they are.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Reads a table. One that is not in use is put in use, empty.
    ///
    /// # Errors
    /// If the kernel has no such table.
    pub fn read_table(&self, table: &str) -> Result<XtablesSnapshot, KernelError> {
        for _ in 1..MAX_READ_ATTEMPTS {
            match self.try_read_table(table) {
                // The size changed between the two calls (`get_entries` in ip_tables.c).
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => return result.map_err(KernelError::io("read table", table)),
            }
        }
        self.try_read_table(table).map_err(KernelError::io("read table", table))
    }

    /// How many entries a table has. One that is not in use is put in use, empty.
    ///
    /// # Errors
    /// If the kernel has no such table.
    pub fn read_entry_count(&self, table: &str) -> Result<u32, KernelError> {
        let info =
            self.read_hooks_and_sizes(table).map_err(KernelError::io("read table", table))?;
        Ok(info.entry_count)
    }

    fn read_hooks_and_sizes(&self, table: &str) -> io::Result<XtablesHooksAndSizes> {
        let mut info = [0u8; IPT_GETINFO_BYTES];
        write_table_name(&mut info, table)?;
        read_socket_option(&self.fd, self.socket_option_level(), IPT_SO_GET_INFO, &mut info)?;
        let word = |i: usize| u32::from_ne_bytes(info[i..i + 4].try_into().expect("four bytes"));
        let hooks = XtablesHooks {
            valid_hooks: word(32),
            hook_entries: std::array::from_fn(|i| word(36 + 4 * i)),
            underflows: std::array::from_fn(|i| word(56 + 4 * i)),
        };
        Ok(XtablesHooksAndSizes { hooks, entry_count: word(76), entry_bytes: word(80) })
    }

    fn try_read_table(&self, table: &str) -> io::Result<XtablesSnapshot> {
        let XtablesHooksAndSizes { hooks, entry_count, entry_bytes } =
            self.read_hooks_and_sizes(table)?;
        let mut buffer = vec![0u8; IPT_GET_ENTRIES_HEADER_BYTES + entry_bytes as usize];
        write_table_name(&mut buffer, table)?;
        buffer[TABLE_NAME_BYTES..TABLE_NAME_BYTES + 4].copy_from_slice(&entry_bytes.to_ne_bytes());
        read_socket_option(&self.fd, self.socket_option_level(), IPT_SO_GET_ENTRIES, &mut buffer)?;
        Ok(XtablesSnapshot { hooks, entry_count, buffer })
    }

    /// Puts a table in place of the present one, which has `present_entry_count` entries, and
    /// returns the counts of the present one's entries.
    ///
    /// # Errors
    /// If the kernel refuses the new table, or the present one has another number of entries.
    pub fn replace_table(
        &self,
        table: &str,
        new: &mut XtablesReplacement,
        present_entry_count: u32,
    ) -> Result<Vec<PacketByteCount>, KernelError> {
        let error = || KernelError::io("replace table", table);
        let mut counters = vec![[0u64; 2]; present_entry_count as usize];
        let header = new.header_mut();
        write_table_name(header, table).map_err(error())?;
        header[84..88].copy_from_slice(&present_entry_count.to_ne_bytes());
        let address = counters.as_mut_ptr().expose_provenance();
        header[88..96].copy_from_slice(&(address as u64).to_ne_bytes());
        let (socket_option_level, option) = (self.socket_option_level(), IPT_SO_SET_REPLACE);
        // SAFETY: the header has one address, that of `counters`. The kernel writes as many pairs
        // of 64-bit numbers there as the header says, for which `counters` has room, and refuses
        // the table if the present one has another number of entries (`__do_replace` and
        // `xt_replace_table`). It does so before the call returns, while nothing borrows them.
        unsafe {
            set_socket_option_with_addresses(&self.fd, socket_option_level, option, new.bytes())
        }
        .map_err(error())?;
        let count = |[packets, bytes]: [u64; 2]| PacketByteCount { packets, bytes };
        Ok(counters.into_iter().map(count).collect())
    }

    /// Adds to the counts of a table's entries, in their order.
    ///
    /// # Errors
    /// If the table has another number of entries.
    pub fn add_counters(&self, table: &str, counts: &[PacketByteCount]) -> Result<(), KernelError> {
        let error = || KernelError::io("add counters of table", table);
        let mut buffer =
            Vec::with_capacity(XT_COUNTERS_INFO_HEADER_BYTES + counts.len() * XT_COUNTERS_BYTES);
        buffer.resize(XT_COUNTERS_INFO_HEADER_BYTES, 0);
        write_table_name(&mut buffer, table).map_err(error())?;
        let length = (counts.len() as u32).to_ne_bytes();
        buffer[TABLE_NAME_BYTES..TABLE_NAME_BYTES + 4].copy_from_slice(&length);
        for count in counts {
            buffer.extend_from_slice(&count.packets.to_ne_bytes());
            buffer.extend_from_slice(&count.bytes.to_ne_bytes());
        }
        set_socket_option(&self.fd, self.socket_option_level(), IPT_SO_SET_ADD_COUNTERS, &buffer)
            .map_err(error())
    }

    fn socket_option_level(&self) -> i32 {
        match self.family {
            Family::V4 => libc::SOL_IP,
            Family::V6 => libc::SOL_IPV6,
        }
    }
}

fn open_raw_socket(domain: AddressFamily) -> Result<OwnedFd, KernelError> {
    let raw = Some(ipproto::RAW);
    rustix::net::socket_with(domain, SocketType::RAW, SocketFlags::CLOEXEC, raw)
        .map_err(|e| KernelError::io("open socket for", "tables")(e.into()))
}

fn write_table_name(buffer: &mut [u8], table: &str) -> io::Result<()> {
    if table.len() >= TABLE_NAME_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    buffer[..table.len()].copy_from_slice(table.as_bytes());
    Ok(())
}
