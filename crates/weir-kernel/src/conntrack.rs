//! Entries of the connection table, created and flushed through ctnetlink.

use weir_packet::{Addr, Family};

use crate::netlink::attribute::AttributeWriter;
use crate::netlink::netfilter::NetfilterSubsystem;
use crate::netlink::{
    KernelRefusal, NLM_F_CREATE, NLM_F_EXCL, NetlinkProtocol, NetlinkRequest, NetlinkSocket,
};
use crate::{KernelError, Namespace};

const IPCTNL_MSG_NEW: u8 = 0;
const IPCTNL_MSG_CT_DELETE: u8 = 2;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_TIMEOUT: u16 = 7;
const CTA_MARK: u16 = 8;
const CTA_NAT_DST: u16 = 13;
const CTA_HELP: u16 = 5;
const CTA_HELP_NAME: u16 = 1;

const CTA_EXPECT_MASTER: u16 = 1;
const CTA_EXPECT_TUPLE: u16 = 2;
const CTA_EXPECT_MASK: u16 = 3;
const CTA_EXPECT_TIMEOUT: u16 = 4;

const IPS_SEEN_REPLY: u32 = 2;
const IPS_ASSURED: u32 = 4;
const IPS_CONFIRMED: u32 = 8;

const TCP_CONNTRACK_ESTABLISHED: u8 = 3;
const TCP_FLAG_BE_LIBERAL: u8 = 8;
const SCTP_CONNTRACK_ESTABLISHED: u8 = 4;

/// How long an entry lives, in seconds: longer than any batch.
const ENTRY_TIMEOUT_SECONDS: u32 = 600;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConntrackTuple {
    /// Address family.
    pub family: Family,
    /// Source.
    pub saddr: Addr,
    /// Destination.
    pub daddr: Addr,
    /// IP protocol number.
    pub proto: u8,
    /// Distinguishes connections between the same addresses.
    pub l4_key: TupleL4Key,
}

/// Distinguishes connections of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TupleL4Key {
    /// Source and destination port.
    Ports(u16, u16),
    /// ICMP or ICMPv6: identifier, type, code.
    Icmp(u16, u8, u8),
    /// A protocol that conntrack knows nothing of.
    None,
}

/// An entry to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackEntry {
    /// The direction of the first packet.
    pub original: ConntrackTuple,
    /// The direction of answers.
    pub reply: ConntrackTuple,
    /// Whether an answer was seen: its packets are ESTABLISHED.
    pub seen_reply: bool,
    /// The connection that this one announces: its first packet is RELATED. Only a TCP
    /// connection can announce one (it gets the helper for FTP).
    pub expected_tuple: Option<ConntrackTuple>,
    /// nat has seen its first packet and translated nothing. Without this the nat tables take a
    /// connection as one that they have not decided on.
    pub has_null_nat_binding: bool,
    /// Connection mark.
    pub mark: u32,
}

impl ConntrackTuple {
    /// The other direction, where nothing is translated.
    pub fn invert(self) -> ConntrackTuple {
        let key = match self.l4_key {
            TupleL4Key::Ports(s, d) => TupleL4Key::Ports(d, s),
            // nf_conntrack_proto_icmp.c and _icmpv6.c, invmap.
            TupleL4Key::Icmp(id, kind, code) => {
                TupleL4Key::Icmp(id, invert_icmp_type_or_keep(self.family, kind), code)
            }
            TupleL4Key::None => TupleL4Key::None,
        };
        ConntrackTuple { saddr: self.daddr, daddr: self.saddr, l4_key: key, ..self }
    }
}

fn invert_icmp_type_or_keep(family: Family, kind: u8) -> u8 {
    match (family, kind) {
        (Family::V4, 8) => 0,
        (Family::V4, 0) => 8,
        (Family::V4, 13) => 14,
        (Family::V4, 14) => 13,
        (Family::V4, 15) => 16,
        (Family::V4, 16) => 15,
        (Family::V4, 17) => 18,
        (Family::V4, 18) => 17,
        (Family::V6, 128) => 129,
        (Family::V6, 129) => 128,
        (_, other) => other,
    }
}

/// The connection table of one namespace.
#[derive(Debug)]
pub struct KernelConntrackTable {
    socket: NetlinkSocket,
    namespace_name: String,
}

impl KernelConntrackTable {
    /// Opens the table of a namespace.
    ///
    /// # Errors
    /// If the kernel has no ctnetlink.
    pub fn open(namespace: &Namespace) -> Result<KernelConntrackTable, KernelError> {
        let name = namespace.name().to_owned();
        let socket = namespace
            .call_inside(|| NetlinkSocket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open connection table of", &name))?;
        Ok(KernelConntrackTable { socket, namespace_name: name })
    }

    /// Makes entries; returns what the kernel says of those that it refuses (one that is there
    /// already, or that it has no room for).
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn create_entries_collecting_refusals(
        &mut self,
        entries: &[ConntrackEntry],
    ) -> Result<Vec<KernelRefusal>, KernelError> {
        let mut refused = Vec::new();
        for some in entries.chunks(256) {
            let requests: Vec<NetlinkRequest> =
                some.iter().flat_map(build_entry_then_expectation).collect();
            let answer = self.socket.send_collecting_refusals(&requests);
            refused.extend(
                answer.map_err(KernelError::netlink("add connections to", &self.namespace_name))?,
            );
        }
        Ok(refused)
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn flush(&mut self) -> Result<(), KernelError> {
        let done = self.socket.send_and_check(&[NetfilterSubsystem::Conntrack.new_request(
            IPCTNL_MSG_CT_DELETE,
            0,
            0,
            0,
        )]);
        done.map_err(KernelError::netlink("flush connections of", &self.namespace_name))
    }
}

/// What makes an entry, and the one that it announces.
fn build_entry_then_expectation(entry: &ConntrackEntry) -> impl Iterator<Item = NetlinkRequest> {
    let announced = entry.expected_tuple.as_ref();
    let announced =
        announced.map(|announced| build_expectation_request(&entry.original, announced));
    [build_entry_request(entry)].into_iter().chain(announced)
}

fn build_entry_request(entry: &ConntrackEntry) -> NetlinkRequest {
    let family = address_family_number(entry.original.family);
    let mut request = NetfilterSubsystem::Conntrack.new_request(
        IPCTNL_MSG_NEW,
        NLM_F_CREATE | NLM_F_EXCL,
        family,
        0,
    );
    let m = &mut request.attributes;
    m.put_nested(CTA_TUPLE_ORIG, |m| put_tuple_attributes(m, &entry.original));
    m.put_nested(CTA_TUPLE_REPLY, |m| put_tuple_attributes(m, &entry.reply));
    let answered = if entry.seen_reply { IPS_SEEN_REPLY | IPS_ASSURED } else { 0 };
    m.put(CTA_STATUS, &(IPS_CONFIRMED | answered).to_be_bytes());
    m.put(CTA_TIMEOUT, &ENTRY_TIMEOUT_SECONDS.to_be_bytes());
    if entry.mark != 0 {
        m.put(CTA_MARK, &entry.mark.to_be_bytes());
    }
    if entry.has_null_nat_binding {
        // No range: a binding to what is there already.
        m.put_nested(CTA_NAT_DST, |_| {});
    }
    if entry.expected_tuple.is_some() {
        m.put_nested(CTA_HELP, |m| m.put_text(CTA_HELP_NAME, "ftp"));
    }
    match entry.original.proto {
        6 => m.put_nested(CTA_PROTOINFO, |m| {
            m.put_nested(1, |m| {
                m.put(1, &[TCP_CONNTRACK_ESTABLISHED]);
                // Sequence numbers are not what is tested.
                m.put(4, &[TCP_FLAG_BE_LIBERAL, TCP_FLAG_BE_LIBERAL]);
                m.put(5, &[TCP_FLAG_BE_LIBERAL, TCP_FLAG_BE_LIBERAL]);
            });
        }),
        132 => m.put_nested(CTA_PROTOINFO, |m| {
            m.put_nested(3, |m| {
                m.put(1, &[SCTP_CONNTRACK_ESTABLISHED]);
                m.put(2, &0u32.to_be_bytes());
                m.put(3, &0u32.to_be_bytes());
            });
        }),
        _ => {}
    }
    request
}

fn build_expectation_request(
    master: &ConntrackTuple,
    announced: &ConntrackTuple,
) -> NetlinkRequest {
    let family = address_family_number(master.family);
    let mut request = NetfilterSubsystem::Expectations.new_request(
        IPCTNL_MSG_NEW,
        NLM_F_CREATE | NLM_F_EXCL,
        family,
        0,
    );
    let m = &mut request.attributes;
    m.put_nested(CTA_EXPECT_MASTER, |m| put_tuple_attributes(m, master));
    m.put_nested(CTA_EXPECT_TUPLE, |m| put_tuple_attributes(m, announced));
    let all = Addr(announced.family.max_addr());
    let key = match announced.l4_key {
        TupleL4Key::Ports(..) => TupleL4Key::Ports(u16::MAX, u16::MAX),
        other => other,
    };
    let mask = ConntrackTuple { saddr: all, daddr: all, l4_key: key, ..*announced };
    m.put_nested(CTA_EXPECT_MASK, |m| put_tuple_attributes(m, &mask));
    m.put(CTA_EXPECT_TIMEOUT, &ENTRY_TIMEOUT_SECONDS.to_be_bytes());
    request
}

fn put_tuple_attributes(m: &mut AttributeWriter, tuple: &ConntrackTuple) {
    m.put_nested(1, |m| match tuple.family {
        Family::V4 => {
            m.put(1, &(tuple.saddr.0 as u32).to_be_bytes());
            m.put(2, &(tuple.daddr.0 as u32).to_be_bytes());
        }
        Family::V6 => {
            m.put(3, &tuple.saddr.0.to_be_bytes());
            m.put(4, &tuple.daddr.0.to_be_bytes());
        }
    });
    m.put_nested(2, |m| {
        m.put(1, &[tuple.proto]);
        match tuple.l4_key {
            TupleL4Key::Ports(source, destination) => {
                m.put(2, &source.to_be_bytes());
                m.put(3, &destination.to_be_bytes());
            }
            TupleL4Key::Icmp(id, kind, code) => {
                let first = if tuple.family == Family::V4 { 4 } else { 7 };
                m.put(first, &id.to_be_bytes());
                m.put(first + 1, &[kind]);
                m.put(first + 2, &[code]);
            }
            TupleL4Key::None => {}
        }
    });
}

fn address_family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}
