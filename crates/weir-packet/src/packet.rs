//! One packet, as a rule sees it.

use crate::{Addr, Family};

/// A MAC address.
pub type Mac = [u8; 6];

/// Bits of the TCP flags octet (RFC 9293, section 3.1).
pub mod tcp_flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// Acknowledgment is significant.
    pub const ACK: u8 = 0x10;
    /// Urgent pointer is significant.
    pub const URG: u8 = 0x20;
}

/// A packet on its path through a host: header fields, and what the kernel knows in addition to the
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Which header the packet has.
    pub family: Family,
    /// Device on which it arrived; empty on locally generated packets.
    pub iif: String,
    /// Device it leaves by; empty where routing has not happened or the packet stays.
    pub oif: String,
    /// Source MAC; absent where there is no Ethernet header (locally made packets).
    pub smac: Option<Mac>,
    /// Source address.
    pub saddr: Addr,
    /// Destination address.
    pub daddr: Addr,
    /// Type of service / traffic class, the whole octet (DSCP in the upper six bits).
    pub tos: u8,
    /// Time to live / hop limit.
    pub ttl: u8,
    /// IPv4 identification, or the low half of the IPv6 fragment identification.
    pub ident: u16,
    /// Bytes of IPv4 options after the network header's 20, a multiple of four up to 40. They are
    /// built as no-operation (RFC 791, section 3.1); a packet with options is not parsed.
    pub ip_options_len: u8,
    /// Whether routers must not fragment it (IPv4).
    pub dont_fragment: bool,
    /// Where in its datagram this packet lies.
    pub fragment: FragmentPosition,
    /// Protocol number; for IPv6 the last header after extension headers.
    pub proto: u8,
    /// What follows the network header.
    pub transport: Transport,
    /// Bytes after the transport header, or all after the network header where there is none.
    pub payload: Vec<u8>,
    /// How the device classed it.
    pub pkttype: PktType,
    /// The packet's mark.
    pub mark: u32,
    /// Its conntrack state.
    pub ct: ConntrackInfo,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FragmentPosition {
    /// Offset in units of eight bytes, 0 to 8191.
    pub offset: u16,
    /// More fragments follow.
    pub more_fragments: bool,
}

/// The transport header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// Sequence number.
        seq: u32,
        /// Acknowledgment number.
        ack: u32,
        /// Flags octet, see [`tcp_flag`].
        flags: u8,
        /// Raw options, padded to a multiple of four bytes, at most 40.
        options: Vec<u8>,
    },
    /// UDP or UDP-Lite.
    Udp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// SCTP; chunks are the payload.
    Sctp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// Verification tag.
        tag: u32,
    },
    /// DCCP; the rest of its header is in the payload.
    DccpPorts {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// ICMP or ICMPv6.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes after the checksum.
        rest: [u8; 4],
    },
    /// A protocol without a header that rules test, or a later fragment: bytes are the payload.
    NoParsedHeader,
    /// A header of `proto` that is truncated: the bytes that are there are the payload. Legacy
    /// iptables drops such a packet when a rule tests its ports.
    Truncated,
}

/// How the device classed a frame (`skb->pkt_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PktType {
    /// To this host's address.
    #[default]
    Unicast,
    /// To all.
    Broadcast,
    /// To a group.
    Multicast,
}

/// What conntrack knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ConntrackInfo {
    /// The state that `-m state` and `-m conntrack --ctstate` see.
    pub state: CtState,
    /// The connection's source was translated (`--ctstate SNAT`).
    pub snat: bool,
    /// The connection's destination was translated (`--ctstate DNAT`).
    pub dnat: bool,
    /// The packet goes in the reply direction.
    pub is_reply_direction: bool,
    /// The connection's mark.
    pub mark: u32,
}

impl ConntrackInfo {
    /// A packet in the given state, in the original direction, untranslated, unmarked.
    pub const fn from_state(state: CtState) -> Self {
        ConntrackInfo { state, snat: false, dnat: false, is_reply_direction: false, mark: 0 }
    }

    /// True where the packet has a conntrack entry.
    pub const fn has_entry(self) -> bool {
        matches!(self.state, CtState::New | CtState::Established | CtState::Related)
    }
}

/// Conntrack state of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum CtState {
    /// No entry and none could be made.
    Invalid,
    /// First direction of a connection without an answer yet.
    #[default]
    New,
    /// Both directions were seen.
    Established,
    /// Belongs to another connection (ICMP errors, helpers).
    Related,
    /// `NOTRACK`.
    Untracked,
}

impl Packet {
    /// A packet with nothing set but family, addresses and protocol: TTL 64, state NEW.
    pub fn new(family: Family, saddr: Addr, daddr: Addr, proto: u8) -> Self {
        Packet {
            family,
            iif: String::new(),
            oif: String::new(),
            smac: None,
            saddr,
            daddr,
            tos: 0,
            ttl: 64,
            ident: 0,
            ip_options_len: 0,
            dont_fragment: false,
            fragment: FragmentPosition::default(),
            proto,
            transport: Transport::NoParsedHeader,
            payload: Vec::new(),
            pkttype: PktType::Unicast,
            mark: 0,
            ct: ConntrackInfo::default(),
        }
    }

    /// Source and destination port, where the packet has a whole header with ports.
    pub fn ports(&self) -> Option<(u16, u16)> {
        match self.transport {
            Transport::Tcp { sport, dport, .. }
            | Transport::Udp { sport, dport }
            | Transport::Sctp { sport, dport, .. }
            | Transport::DccpPorts { sport, dport } => Some((sport, dport)),
            Transport::Icmp { .. } | Transport::NoParsedHeader | Transport::Truncated => None,
        }
    }

    /// Length of the transport header in bytes.
    pub fn transport_header_bytes(&self) -> usize {
        match &self.transport {
            Transport::Tcp { options, .. } => 20 + options.len(),
            Transport::Udp { .. } | Transport::Icmp { .. } => 8,
            Transport::Sctp { .. } => 12,
            Transport::DccpPorts { .. } => 4,
            Transport::NoParsedHeader | Transport::Truncated => 0,
        }
    }

    /// Length of the packet in bytes, network header included: what `-m length` and byte counters
    /// see (`skb->len` at the network layer). A fragment of IPv6 carries its eight-byte header.
    pub fn len(&self) -> usize {
        let network = match self.family {
            Family::V4 => 20 + usize::from(self.ip_options_len),
            Family::V6 if self.is_fragment() => 48,
            Family::V6 => 40,
        };
        network + self.transport_header_bytes() + self.payload.len()
    }

    /// Never true: a packet has a network header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// True where the packet is a piece of a datagram, the first one included.
    pub fn is_fragment(&self) -> bool {
        self.fragment.offset != 0 || self.fragment.more_fragments
    }
}
