//! Entries of the connection table, created and flushed through ctnetlink.

use weir_packet::{Addr, Family};

use crate::netlink::attribute::AttributeWriter;
use crate::netlink::netfilter::Subsystem;
use crate::netlink::{CREATE, EXCL, KernelRefusal, NetlinkProtocol, NetlinkRequest, Socket};
use crate::{KernelError, Namespace};

const MSG_NEW: u8 = 0;
const MSG_DELETE: u8 = 2;

const TUPLE_ORIG: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const STATUS: u16 = 3;
const PROTOINFO: u16 = 4;
const TIMEOUT: u16 = 7;
const MARK: u16 = 8;
const NAT_DST: u16 = 13;
const HELP: u16 = 5;
const HELP_NAME: u16 = 1;

const EXPECT_MASTER: u16 = 1;
const EXPECT_TUPLE: u16 = 2;
const EXPECT_MASK: u16 = 3;
const EXPECT_TIMEOUT: u16 = 4;

const IPS_SEEN_REPLY: u32 = 2;
const IPS_ASSURED: u32 = 4;
const IPS_CONFIRMED: u32 = 8;

const TCP_ESTABLISHED: u8 = 3;
const TCP_LIBERAL: u8 = 8;
const SCTP_ESTABLISHED: u8 = 4;

/// How long an entry lives, in seconds: longer than any batch.
const LIFE_SECONDS: u32 = 600;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Address family.
    pub family: Family,
    /// Source.
    pub saddr: Addr,
    /// Destination.
    pub daddr: Addr,
    /// NetlinkProtocol number.
    pub proto: u8,
    /// Distinguishes connections between the same addresses.
    pub key: ConntrackKey,
}

/// Distinguishes connections of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConntrackKey {
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
    pub original: Tuple,
    /// The direction of answers.
    pub reply: Tuple,
    /// Whether an answer was seen: its packets are ESTABLISHED.
    pub answered: bool,
    /// The connection that this one announces: its first packet is RELATED. Only a TCP
    /// connection can announce one (it gets the helper for FTP).
    pub announces: Option<Tuple>,
    /// nat has seen its first packet and translated nothing. Without this the nat tables take a
    /// connection as one that they have not decided on.
    pub untranslated: bool,
    /// Connection mark.
    pub mark: u32,
}

impl Tuple {
    /// The other direction, where nothing is translated.
    pub fn reversed(self) -> Tuple {
        let key = match self.key {
            ConntrackKey::Ports(s, d) => ConntrackKey::Ports(d, s),
            // nf_conntrack_proto_icmp.c and _icmpv6.c, invmap.
            ConntrackKey::Icmp(id, kind, code) => {
                ConntrackKey::Icmp(id, icmp_answer(self.family, kind), code)
            }
            ConntrackKey::None => ConntrackKey::None,
        };
        Tuple { saddr: self.daddr, daddr: self.saddr, key, ..self }
    }
}

fn icmp_answer(family: Family, kind: u8) -> u8 {
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
pub struct ConnectionTable {
    socket: Socket,
    name: String,
}

impl ConnectionTable {
    /// Opens the table of a namespace.
    ///
    /// # Errors
    /// Where the kernel has no ctnetlink.
    pub fn open(namespace: &Namespace) -> Result<ConnectionTable, KernelError> {
        let name = namespace.name().to_owned();
        let socket = namespace
            .enter(|| Socket::open(NetlinkProtocol::Netfilter))?
            .map_err(KernelError::io("open connection table of", &name))?;
        Ok(ConnectionTable { socket, name })
    }

    /// Makes entries; returns what the kernel says of those that it refuses (one that is there
    /// already, or that it has no room for).
    ///
    /// # Errors
    /// Where the socket is broken.
    pub fn create(
        &mut self,
        entries: &[ConntrackEntry],
    ) -> Result<Vec<KernelRefusal>, KernelError> {
        let mut refused = Vec::new();
        for some in entries.chunks(256) {
            let requests: Vec<NetlinkRequest> = some.iter().flat_map(requests).collect();
            let answer = self.socket.transact(&requests);
            refused.extend(answer.map_err(KernelError::netlink("add connections to", &self.name))?);
        }
        Ok(refused)
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn flush(&mut self) -> Result<(), KernelError> {
        let done = self.socket.request(&[Subsystem::Conntrack.request(MSG_DELETE, 0, 0, 0)]);
        done.map_err(KernelError::netlink("flush connections of", &self.name))
    }
}

/// What makes an entry, and the one that it announces.
fn requests(entry: &ConntrackEntry) -> impl Iterator<Item = NetlinkRequest> {
    let announced = entry.announces.as_ref();
    let announced = announced.map(|announced| expectation(&entry.original, announced));
    [connection(entry)].into_iter().chain(announced)
}

fn connection(entry: &ConntrackEntry) -> NetlinkRequest {
    let family = family_number(entry.original.family);
    let mut request = Subsystem::Conntrack.request(MSG_NEW, CREATE | EXCL, family, 0);
    let m = &mut request.attributes;
    m.nest(TUPLE_ORIG, |m| push_tuple(m, &entry.original));
    m.nest(TUPLE_REPLY, |m| push_tuple(m, &entry.reply));
    let answered = if entry.answered { IPS_SEEN_REPLY | IPS_ASSURED } else { 0 };
    m.put(STATUS, &(IPS_CONFIRMED | answered).to_be_bytes());
    m.put(TIMEOUT, &LIFE_SECONDS.to_be_bytes());
    if entry.mark != 0 {
        m.put(MARK, &entry.mark.to_be_bytes());
    }
    if entry.untranslated {
        // No range: a binding to what is there already.
        m.nest(NAT_DST, |_| {});
    }
    if entry.announces.is_some() {
        m.nest(HELP, |m| m.put_text(HELP_NAME, "ftp"));
    }
    match entry.original.proto {
        6 => m.nest(PROTOINFO, |m| {
            m.nest(1, |m| {
                m.put(1, &[TCP_ESTABLISHED]);
                // Sequence numbers are not what is tested.
                m.put(4, &[TCP_LIBERAL, TCP_LIBERAL]);
                m.put(5, &[TCP_LIBERAL, TCP_LIBERAL]);
            });
        }),
        132 => m.nest(PROTOINFO, |m| {
            m.nest(3, |m| {
                m.put(1, &[SCTP_ESTABLISHED]);
                m.put(2, &0u32.to_be_bytes());
                m.put(3, &0u32.to_be_bytes());
            });
        }),
        _ => {}
    }
    request
}

fn expectation(master: &Tuple, announced: &Tuple) -> NetlinkRequest {
    let family = family_number(master.family);
    let mut request = Subsystem::Expectations.request(MSG_NEW, CREATE | EXCL, family, 0);
    let m = &mut request.attributes;
    m.nest(EXPECT_MASTER, |m| push_tuple(m, master));
    m.nest(EXPECT_TUPLE, |m| push_tuple(m, announced));
    let all = Addr(announced.family.max());
    let key = match announced.key {
        ConntrackKey::Ports(..) => ConntrackKey::Ports(u16::MAX, u16::MAX),
        other => other,
    };
    let mask = Tuple { saddr: all, daddr: all, key, ..*announced };
    m.nest(EXPECT_MASK, |m| push_tuple(m, &mask));
    m.put(EXPECT_TIMEOUT, &LIFE_SECONDS.to_be_bytes());
    request
}

fn push_tuple(m: &mut AttributeWriter, tuple: &Tuple) {
    m.nest(1, |m| match tuple.family {
        Family::V4 => {
            m.put(1, &(tuple.saddr.0 as u32).to_be_bytes());
            m.put(2, &(tuple.daddr.0 as u32).to_be_bytes());
        }
        Family::V6 => {
            m.put(3, &tuple.saddr.0.to_be_bytes());
            m.put(4, &tuple.daddr.0.to_be_bytes());
        }
    });
    m.nest(2, |m| {
        m.put(1, &[tuple.proto]);
        match tuple.key {
            ConntrackKey::Ports(source, destination) => {
                m.put(2, &source.to_be_bytes());
                m.put(3, &destination.to_be_bytes());
            }
            ConntrackKey::Icmp(id, kind, code) => {
                let first = if tuple.family == Family::V4 { 4 } else { 7 };
                m.put(first, &id.to_be_bytes());
                m.put(first + 1, &[kind]);
                m.put(first + 2, &[code]);
            }
            ConntrackKey::None => {}
        }
    });
}

fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}
