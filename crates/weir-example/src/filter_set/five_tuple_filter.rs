//! One filter of the five fields of ClassBench, and its line of text.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// An address prefix; bits after its length are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ipv4Prefix {
    pub(super) address: u32,
    pub(super) len: u32,
}

impl Ipv4Prefix {
    pub(super) const ANY: Ipv4Prefix = Ipv4Prefix { address: 0, len: 0 };

    pub(super) fn new(address: u32, len: u32) -> Ipv4Prefix {
        let host_bits = u32::MAX.checked_shr(len).unwrap_or(0);
        Ipv4Prefix { address: address & !host_bits, len }
    }
}

/// First and last port.
pub(super) type PortRange = (u16, u16);

pub(super) const ANY_PORT: PortRange = (0, u16::MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FiveTupleFilter {
    pub(super) saddr: Ipv4Prefix,
    pub(super) daddr: Ipv4Prefix,
    pub(super) sport: PortRange,
    pub(super) dport: PortRange,
    /// `None`: any.
    pub(super) proto: Option<u8>,
}

impl FiveTupleFilter {
    pub(super) const ANY: FiveTupleFilter = FiveTupleFilter {
        saddr: Ipv4Prefix::ANY,
        daddr: Ipv4Prefix::ANY,
        sport: ANY_PORT,
        dport: ANY_PORT,
        proto: None,
    };

    pub(super) fn write_classbench_line(&self, out: &mut String) {
        let FiveTupleFilter { saddr, daddr, sport, dport, proto } = self;
        let (source, destination) =
            (Ipv4Addr::from_bits(saddr.address), Ipv4Addr::from_bits(daddr.address));
        let (proto, proto_mask) = proto.map_or((0, 0), |proto| (proto, 0xff));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "@{source}/{}\t{destination}/{}\t{} : {}\t{} : {}\t0x{proto:02x}/0x{proto_mask:02X}\t\
             0x0000/0x0000",
            saddr.len, daddr.len, sport.0, sport.1, dport.0, dport.1
        );
    }
}
