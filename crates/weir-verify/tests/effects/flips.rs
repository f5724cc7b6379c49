//! Pairs of packets that differ in one field.

use weir_model::field::{FIELDS, FieldReading};
use weir_model::{Addr, Family, Field};
use weir_packet::{ConntrackInfo, CtState, Packet, Transport};
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
    // No packet arrives with a mark. The test's own rule gives one to a source MAC address; the
    // other address is none that rules name either.
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

/// A packet, and others that differ from it in one field of the table each. A field that does not
/// exist in the packet, or cannot change alone, stays the same when it is written.
fn flips_of(base: &Packet) -> Flips {
    let mut flipped = Vec::new();
    for field in FIELDS.iter().map(|row| row.field).filter(|f| *f != Field::Mark) {
        for value in values_to_write(field, base) {
            let mut p = base.clone();
            field.write_if_present(&mut p, value);
            if p != *base {
                let name = format!("{field:?} of {}", base.proto);
                flipped.push((field, EffectTestPacket::from_packet(name, p)));
            }
        }
    }
    Flips {
        base: EffectTestPacket::from_packet(format!("base {}", base.proto), base.clone()),
        flipped,
    }
}

/// Values of a field for which some rule of the tests has another answer than for the base's. A
/// field that is new in the table gets its own value with a bit changed, lowest and highest.
fn values_to_write(field: Field, base: &Packet) -> Vec<u128> {
    let FieldReading::Value(old) = field.read(base) else { return Vec::new() };
    match field {
        Field::Saddr | Field::Daddr => vec![old ^ 0x40],
        Field::Sport => vec![22, 2048, 80],
        Field::Dport => vec![79, 2048, 65_535],
        Field::TcpFlags => vec![0, 0x10, 0x12, 0x3f],
        Field::IcmpTypeAndCode => vec![0, 0x0304, 0x0104, 0x8100, 0x8700],
        Field::Length => vec![old + 1, old + 13, old + 100],
        Field::Ttl => vec![9, 11, 65, 66, 255],
        Field::Tos => vec![1, 0x10, 0xb8],
        Field::PktType => vec![1, 2],
        Field::SourceMac => vec![0x0200_0000_0006],
        _ => vec![old ^ 1, old ^ 1 << (field.bit_width(base.family).max(1) - 1)],
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

#[test]
fn every_independently_changeable_field_is_flipped() {
    for family in [Family::V4, Family::V6] {
        let all = || flips(family).into_iter().chain(states(family));
        for field in FIELDS.iter().map(|row| row.field) {
            let is_flipped = all().any(|f| f.flipped.iter().any(|(flipped, _)| *flipped == field));
            // Bits that the header of a family lacks cannot be changed.
            let never_alone = field.bit_width(family) == 0
                || [Field::Iif, Field::Oif, Field::Proto, Field::IsLaterFragment].contains(&field);
            assert!(is_flipped != never_alone, "{family:?} {field:?}");
        }
    }
}
