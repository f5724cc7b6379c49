//! Pairs of packets that differ in one field.

use weir_model::{Addr, Family, Field};
use weir_packet::{ConntrackInfo, CtState, Packet, PktType, Transport};
use weir_verify::rule_effect_tester::{EffectTestPacket, SOURCE_MAC_GIVEN_MARK_ONE};

/// The packet that others differ from, as others differ from it.
pub struct Flips {
    pub base: EffectTestPacket,
    pub flipped: Vec<(Field, EffectTestPacket)>,
}

fn addrs(family: Family) -> (Addr, Addr) {
    match family {
        Family::V4 => (Addr(0xc000_0201), Addr(0xc633_6407)),
        Family::V6 => (Addr(0x2001_0db8 << 96 | 1), Addr(0x2001_0db8_00ff << 80 | 7)),
    }
}

fn packet(family: Family, proto: u8, transport: Transport, payload: usize) -> Packet {
    let (saddr, daddr) = addrs(family);
    let mut p = Packet::new(family, saddr, daddr, proto);
    (p.transport, p.payload) = (transport, vec![b'a'; payload]);
    (p.smac, p.ct) = (Some([2, 0, 0, 0, 0, 5]), ConntrackInfo::from_state(CtState::Invalid));
    p
}

fn bases(family: Family) -> Vec<Packet> {
    let (sport, dport) = (1024, 80);
    let echo = if family == Family::V4 { (1, 8) } else { (58, 128) };
    let tcp = Transport::Tcp { sport, dport, seq: 1, ack: 0, flags: 2, options: Vec::new() };
    vec![
        packet(family, 6, tcp, 0),
        packet(family, 17, Transport::Udp { sport, dport }, 4),
        packet(family, 132, Transport::Sctp { sport, dport, tag: 7 }, 0),
        packet(family, 33, Transport::DccpPorts { sport, dport }, 12),
        packet(family, echo.0, Transport::Icmp { kind: echo.1, code: 0, rest: [0, 1, 0, 1] }, 4),
    ]
}

/// Pairs without a connection.
pub fn flips(family: Family) -> Vec<Flips> {
    let mut out: Vec<Flips> = bases(family).iter().map(flips_of).collect();
    // A mark comes with a source MAC address: the other one is none that rules name either.
    let from = |smac| Packet { smac: Some(smac), ..bases(family).remove(0) };
    let base = EffectTestPacket::from_packet("unmarked", from([2, 0, 0, 0, 0, 6]));
    out.push(Flips {
        base,
        flipped: vec![(
            Field::Mark,
            EffectTestPacket::from_packet("marked", from(SOURCE_MAC_GIVEN_MARK_ONE)),
        )],
    });
    out
}

fn flips_of(base: &Packet) -> Flips {
    let mut flipped = Vec::new();
    let mut push = |field: Field, change: &dyn Fn(&mut Packet)| {
        let mut p = base.clone();
        change(&mut p);
        if p != *base {
            flipped.push((
                field,
                EffectTestPacket::from_packet(format!("{field:?} of {}", base.proto), p),
            ));
        }
    };
    push(Field::Saddr, &|p| p.saddr.0 ^= 0x40);
    push(Field::Daddr, &|p| p.daddr.0 ^= 0x40);
    for port in [22, 2048, 80] {
        push(Field::Sport, &|p| set_ports(&mut p.transport, Some(port), None));
    }
    for port in [79, 2048, 65_535] {
        push(Field::Dport, &|p| set_ports(&mut p.transport, None, Some(port)));
    }
    for flags in [0, 0x10, 0x12, 0x3f] {
        push(Field::TcpFlags, &|p| {
            if let Transport::Tcp { flags: old, .. } = &mut p.transport {
                *old = flags;
            }
        });
    }
    for value in [(0, 0), (3, 4), (1, 4), (129, 0), (135, 0)] {
        push(Field::IcmpTypeAndCode, &|p| {
            if let Transport::Icmp { kind, code, .. } = &mut p.transport {
                (*kind, *code) = value;
            }
        });
    }
    push(Field::SourceMac, &|p| p.smac = Some([2, 0, 0, 0, 0, 6]));
    for longer in [1, 13, 100] {
        push(Field::Length, &|p| p.payload.resize(p.payload.len() + longer, b'a'));
    }
    for ttl in [9, 11, 65, 66, 255] {
        push(Field::Ttl, &|p| p.ttl = ttl);
    }
    for tos in [1, 0x10, 0xb8] {
        push(Field::Tos, &|p| p.tos = tos);
    }
    for pkttype in [PktType::Broadcast, PktType::Multicast] {
        push(Field::PktType, &|p| p.pkttype = pkttype);
    }
    Flips {
        base: EffectTestPacket::from_packet(format!("base {}", base.proto), base.clone()),
        flipped,
    }
}

fn set_ports(transport: &mut Transport, source: Option<u16>, destination: Option<u16>) {
    if let Transport::Tcp { sport, dport, .. }
    | Transport::Udp { sport, dport }
    | Transport::Sctp { sport, dport, .. }
    | Transport::DccpPorts { sport, dport } = transport
    {
        *sport = source.unwrap_or(*sport);
        *dport = destination.unwrap_or(*dport);
    }
}

/// The same packets in every state of their connections, and with its mark.
pub fn states(family: Family) -> Vec<Flips> {
    let all = bases(family).into_iter().filter(|p| matches!(p.proto, 6 | 17));
    all.map(|base| {
        let with = |ct: ConntrackInfo, name: &str| {
            let p = Packet { ct, ..base.clone() };
            EffectTestPacket::from_packet(format!("{name} {}", p.proto), p)
        };
        let established = ConntrackInfo::from_state(CtState::Established);
        let flipped = vec![
            (Field::CtState, with(ConntrackInfo::from_state(CtState::New), "new")),
            (Field::CtState, with(ConntrackInfo::from_state(CtState::Related), "related")),
            (
                Field::CtState,
                with(ConntrackInfo { is_reply_direction: true, ..established }, "reply"),
            ),
            (Field::CtMark, with(ConntrackInfo { mark: 1, ..established }, "marked")),
            (Field::CtMark, with(ConntrackInfo { mark: 0xa5, ..established }, "marked more")),
        ];
        Flips { base: with(established, "established"), flipped }
    })
    .collect()
}
