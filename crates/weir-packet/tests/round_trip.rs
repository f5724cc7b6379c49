//! Every packet that can be built is read back the same.

use proptest::prelude::*;
use weir_packet::{Addr, Family, FragmentPosition, Mac, Packet, Transport};

fn transport(proto: u8) -> BoxedStrategy<Transport> {
    let ports = || (any::<u16>(), any::<u16>());
    match proto {
        6 => (ports(), any::<(u32, u32, u8)>(), 0usize..=10)
            .prop_map(|((sport, dport), (seq, ack, flags), words)| {
                let options = vec![1; words * 4];
                Transport::Tcp { sport, dport, seq, ack, flags, options }
            })
            .boxed(),
        17 | 136 => ports().prop_map(|(sport, dport)| Transport::Udp { sport, dport }).boxed(),
        33 => ports().prop_map(|(sport, dport)| Transport::DccpPorts { sport, dport }).boxed(),
        132 => (ports(), any::<u32>())
            .prop_map(|((sport, dport), tag)| Transport::Sctp { sport, dport, tag })
            .boxed(),
        1 | 58 => any::<(u8, u8, [u8; 4])>()
            .prop_map(|(kind, code, rest)| Transport::Icmp { kind, code, rest })
            .boxed(),
        _ => Just(Transport::NoParsedHeader).boxed(),
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let family = prop_oneof![Just(Family::V4), Just(Family::V6)];
    let proto = prop_oneof![
        Just(1u8),
        Just(6),
        Just(17),
        Just(33),
        Just(47),
        Just(58),
        Just(132),
        Just(136)
    ];
    (family, proto)
        // ICMP of the other family is bytes.
        .prop_filter("icmp", |(f, p)| !matches!((f, p), (Family::V6, 1) | (Family::V4, 58)))
        .prop_flat_map(|(family, proto)| {
            (
                Just((family, proto)),
                transport(proto),
                any::<(u128, u128, u8, u8, u16)>(),
                (0u16..=8191, any::<bool>(), any::<bool>()),
                any::<Mac>(),
                proptest::collection::vec(any::<u8>(), 0..200),
                prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(2)],
            )
        })
        .prop_map(|((family, proto), transport, fields, pieces, smac, payload, shape)| {
            let (saddr, daddr, tos, ttl, ident) = fields;
            let (saddr, daddr) = (Addr(saddr & family.max_addr()), Addr(daddr & family.max_addr()));
            let mut p = Packet::new(family, saddr, daddr, proto);
            (p.tos, p.ttl, p.smac, p.payload) = (tos, ttl, Some(smac), payload);
            p.transport = transport;
            let (offset, more, dont) = pieces;
            match shape {
                1 => {
                    p.fragment = FragmentPosition { offset, more_fragments: more };
                    if offset != 0 {
                        p.transport = Transport::NoParsedHeader;
                    }
                }
                2 if p.transport != Transport::NoParsedHeader => {
                    p.transport = Transport::Truncated;
                    p.payload.truncate(3);
                }
                _ => p.dont_fragment = dont && family == Family::V4,
            }
            if family == Family::V4 || p.is_fragment() {
                p.ident = ident;
            }
            p
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_serialized_packet_is_parsed_unchanged(p in packet()) {
        let bytes = p.to_bytes();
        prop_assert_eq!(bytes.len(), p.len());
        let frame = p.to_frame_with_dmac([2, 0, 0, 0, 0, 1]);
        prop_assert_eq!(Packet::parse_frame_keeping_smac(&frame), Ok(p));
    }

    #[test]
    fn any_accepted_bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Ok(p) = Packet::parse(&bytes) {
            prop_assert_eq!(Packet::parse(&p.to_bytes()), Ok(p));
        }
    }
}
