//! Encodes packets as values of variables, and decodes them.

use weir_model::field::PORT_PROTOCOLS;
use weir_model::{Addr, CtState, Family, Field, FieldReading, Mac, Packet};
use weir_packet::{ConntrackInfo, FragmentPosition, Transport};

use crate::packet_sets::presence_and_field_predicates::icmp_protocol;
use crate::packet_sets::variable_layout::{LevelRange, VariableBlock, VariableLayout, ct_code_bit};

/// A value for every variable of the fields, by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldBitAssignment(pub Vec<bool>);

impl FieldBitAssignment {
    pub fn set_value(&mut self, levels: LevelRange, value: u128) {
        for bit in 0..levels.bit_count {
            self.0[levels.level_of_bit_from_lowest(bit) as usize] = value >> bit & 1 == 1;
        }
    }

    /// The value of a block.
    pub fn value(&self, levels: LevelRange) -> u128 {
        (0..levels.bit_count).rev().fold(0, |v, bit| {
            v << 1 | u128::from(self.0[levels.level_of_bit_from_lowest(bit) as usize])
        })
    }
}

/// The values of a packet; `None` for a packet that cannot be: a transport header of another
/// protocol, a length beyond 65,535, a device that has no class.
pub(crate) fn encode_packet(
    layout: &VariableLayout,
    packet: &Packet,
) -> Option<FieldBitAssignment> {
    let mut out = FieldBitAssignment(vec![false; layout.fields_end as usize]);
    let mut put = |block, value: u128| out.set_value(layout.block_levels(block), value);
    let later = packet.fragment.offset != 0;
    let (sport, dport) = encode_truncation_and_read_ports(packet, &mut put)?;
    put(VariableBlock::Field(Field::Sport), sport.into());
    put(VariableBlock::Field(Field::Dport), dport.into());
    put(VariableBlock::FragmentOffsetOne, (packet.fragment.offset == 1).into());
    if !later {
        for field in [Field::TcpFlags, Field::IcmpTypeAndCode] {
            if let FieldReading::Value(v) = field.read(packet) {
                put(VariableBlock::Field(field), v);
            }
        }
    }
    let numbers = [
        Field::Saddr,
        Field::Daddr,
        Field::Proto,
        Field::IsLaterFragment,
        Field::Length,
        Field::PktType,
    ];
    for field in numbers.into_iter().chain(Field::freely_settable_number_fields()) {
        let FieldReading::Value(v) = field.read(packet) else { return None };
        if v > field.max_value(packet.family) {
            return None;
        }
        put(VariableBlock::Field(field), v);
    }
    put(VariableBlock::Field(Field::CtMark), packet.ct.mark.into());
    put(VariableBlock::Field(Field::CtState), encode_ct_code_without_mark(packet.ct).into());
    if let FieldReading::Value(mac) = Field::SourceMac.read(packet) {
        put(VariableBlock::HasMac, 1);
        put(VariableBlock::Field(Field::SourceMac), mac);
    }
    for (field, name) in [(Field::Iif, &packet.iif), (Field::Oif, &packet.oif)] {
        put(VariableBlock::Field(field), layout.device_classes.class_of_name(name)?.into());
    }
    Some(out)
}

/// Bytes of a header that `-m esp` and `-m ah` read and no field models, so that a packet may lack
/// some of them (xt_esp.c, ipt_ah.c); 0 for other protocols. In IPv6, AH is an extension header.
pub(crate) const fn count_esp_or_ah_header_bytes(proto: u8, family: Family) -> usize {
    match (proto, family) {
        (50, _) => 8,
        (51, Family::V4) => 12,
        _ => 0,
    }
}

/// What is in the variables of the transport header; the ports as multiport reads them.
fn encode_truncation_and_read_ports(
    packet: &Packet,
    put: &mut impl FnMut(VariableBlock, u128),
) -> Option<(u16, u16)> {
    let proto = packet.proto;
    if packet.fragment.offset != 0 {
        return matches!(packet.transport, Transport::NoParsedHeader).then_some((0, 0));
    }
    let has_header = PORT_PROTOCOLS.contains(&proto) || proto == icmp_protocol(packet.family);
    let fits = match &packet.transport {
        Transport::Tcp { .. } => proto == 6,
        Transport::Udp { .. } => matches!(proto, 17 | 136),
        Transport::Sctp { .. } => proto == 132,
        Transport::DccpPorts { .. } => proto == 33,
        Transport::Icmp { .. } => proto == icmp_protocol(packet.family),
        Transport::NoParsedHeader => !has_header,
        Transport::Truncated => has_header,
    };
    let bytes = count_esp_or_ah_header_bytes(proto, packet.family);
    let cut_ports = match (&packet.transport, &packet.payload[..]) {
        // xt_dccp.c wants twelve bytes, of which eight are the payload here.
        (Transport::DccpPorts { sport, dport }, short) if short.len() < 8 => {
            Some(Some((*sport, *dport)))
        }
        (Transport::Truncated, [a, b, c, d, ..]) => {
            Some(Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))))
        }
        (Transport::Truncated, _) => Some(None),
        // Headers that no field models: only whether they are there.
        (Transport::NoParsedHeader, [a, b, c, d, rest @ ..]) if rest.len() + 4 < bytes => {
            Some(Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))))
        }
        (Transport::NoParsedHeader, short) if short.len() < bytes.min(4) => Some(None),
        _ => None,
    };
    let ports = match cut_ports {
        None => packet.ports(),
        Some(ports) => {
            put(VariableBlock::AnyHeaderTruncation, 1);
            put(VariableBlock::TruncatedWithReadablePorts, ports.is_some().into());
            ports
        }
    };
    fits.then(|| ports.unwrap_or((0, 0)))
}

/// The code of a connection.
pub(crate) fn encode_ct_code_without_mark(ct: ConntrackInfo) -> u32 {
    let state = match ct.state {
        CtState::New => 1 << ct_code_bit::HAS_ENTRY,
        CtState::Related => 1 << ct_code_bit::HAS_ENTRY | 1 << ct_code_bit::STATE_LOW,
        CtState::Established => 1 << ct_code_bit::HAS_ENTRY | 1 << ct_code_bit::STATE_HIGH,
        CtState::Invalid => 0,
        CtState::Untracked => 1 << ct_code_bit::STATE_HIGH,
    };
    let flag = |set: bool, bit: u32| u32::from(set) << bit;
    state
        | flag(ct.snat, ct_code_bit::SNAT)
        | flag(ct.dnat, ct_code_bit::DNAT)
        | flag(ct.is_reply_direction, ct_code_bit::REPLY)
}

/// The packet of an assignment within the possible.
pub(crate) fn decode_packet(layout: &VariableLayout, a: &FieldBitAssignment) -> Packet {
    let block = |b| a.value(layout.block_levels(b));
    let field = |f| block(VariableBlock::Field(f));
    let proto = field(Field::Proto) as u8;
    let addr = |f| Addr(field(f));
    let mut p = Packet::new(layout.family, addr(Field::Saddr), addr(Field::Daddr), proto);
    let name = |f| {
        let names = layout.device_classes.class_example_names();
        names[(field(f) as usize).min(names.len() - 1)].clone()
    };
    (p.iif, p.oif) = (name(Field::Iif), name(Field::Oif));
    p.smac = (block(VariableBlock::HasMac) == 1).then(Mac::default);
    for number in
        [Field::PktType, Field::SourceMac].into_iter().chain(Field::freely_settable_number_fields())
    {
        number.write_if_present(&mut p, field(number));
    }
    p.ct = decode_ct(field(Field::CtState) as u32, field(Field::CtMark) as u32);
    if field(Field::IsLaterFragment) == 1 {
        // 185 is where the second fragment of a datagram over Ethernet begins.
        let offset = if block(VariableBlock::FragmentOffsetOne) == 1 { 1 } else { 185 };
        p.fragment = FragmentPosition { offset, more_fragments: false };
    } else {
        decode_transport(&mut p, &block);
    }
    let length = field(Field::Length) as usize;
    // A longer header than a whole IPv6 packet may have: the head of a fragmented datagram.
    let headers = p.len() - p.payload.len();
    p.payload.resize(length.saturating_sub(headers), 0);
    p
}

fn decode_transport(p: &mut Packet, block: &dyn Fn(VariableBlock) -> u128) {
    let field = |f| block(VariableBlock::Field(f));
    let (sport, dport) = (field(Field::Sport) as u16, field(Field::Dport) as u16);
    if block(VariableBlock::AnyHeaderTruncation) == 1 {
        let unmodelled = count_esp_or_ah_header_bytes(p.proto, p.family);
        if unmodelled == 0 {
            p.transport = Transport::Truncated;
        }
        let network = if p.family == Family::V4 { 20 } else { 40 };
        // A target that writes every field may leave a length below that of the header.
        let bytes = (field(Field::Length) as usize).saturating_sub(network);
        let whole = match p.proto {
            6 => usize::MAX,
            51 | 132 | 33 => 12,
            _ => 8,
        };
        let with_ports = block(VariableBlock::TruncatedWithReadablePorts) == 1;
        // So long and yet cut: options of IPv4, or the header of a fragment, are among the bytes.
        let most = if with_ports { whole - 1 } else { 3 };
        if p.family == Family::V4 {
            p.ip_options_len = bytes.saturating_sub(most).next_multiple_of(4) as u8;
        }
        if with_ports {
            p.payload = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
        }
        p.fragment.more_fragments = p.family == Family::V6 && bytes > most;
        return;
    }
    p.transport = match p.proto {
        6 => {
            let flags = field(Field::TcpFlags) as u8;
            Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: Vec::new() }
        }
        17 | 136 => Transport::Udp { sport, dport },
        132 => Transport::Sctp { sport, dport, tag: 0 },
        33 => Transport::DccpPorts { sport, dport },
        n if n == icmp_protocol(p.family) => {
            let [kind, code] = (field(Field::IcmpTypeAndCode) as u16).to_be_bytes();
            Transport::Icmp { kind, code, rest: [0; 4] }
        }
        _ => Transport::NoParsedHeader,
    };
}

fn decode_ct(code: u32, mark: u32) -> ConntrackInfo {
    let has = |bit: u32| code >> bit & 1 == 1;
    let state = match (
        has(ct_code_bit::HAS_ENTRY),
        has(ct_code_bit::STATE_HIGH),
        has(ct_code_bit::STATE_LOW),
    ) {
        (true, false, false) => CtState::New,
        (true, false, true) => CtState::Related,
        (true, true, _) => CtState::Established,
        (false, false, _) => CtState::Invalid,
        (false, true, _) => CtState::Untracked,
    };
    let (snat, dnat, reply) =
        (has(ct_code_bit::SNAT), has(ct_code_bit::DNAT), has(ct_code_bit::REPLY));
    ConntrackInfo { state, snat, dnat, is_reply_direction: reply, mark }
}
