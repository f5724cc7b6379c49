//! A single packet as a box.

use weir_model::field::read_multiport_ports;
use weir_model::rule_match::ct_state;
use weir_model::{Field, Packet, SharedName};
use weir_packet::Transport;

use crate::box_lowering::{AxislessTest, BoxLowering};
use crate::hyper_rect::{
    CodeAxis, CodeSet, HyperRect, MISSING_MAC_VALUE, NUMBER_AXIS_FIELDS, header_code,
};

/// The states in the order in which [`CodeAxis::CtState`] counts them.
const CT_STATES_IN_AXIS_ORDER: [u16; 5] = [
    ct_state::INVALID,
    ct_state::NEW,
    ct_state::RELATED,
    ct_state::ESTABLISHED,
    ct_state::UNTRACKED,
];

impl BoxLowering<'_> {
    /// The smallest box that contains a packet. A box of a rule of this lowering contains it if and
    /// only if it contains the packet. `in_set` says whether a set contains the packet, by the
    /// set's name and the directions that the match names (`true` for `src`).
    pub fn box_of_packet(
        &self,
        packet: &Packet,
        in_set: &dyn Fn(&SharedName, &[bool]) -> bool,
    ) -> HyperRect {
        let mut point = self.box_of_packet_fields(packet);
        for (atom, number) in self.numbered_axisless_tests() {
            let holds = atom.holds_for_packet(packet, in_set);
            point = point.restrict_by_axisless_test(number, holds).expect("a value of the axis");
        }
        point
    }

    /// The smallest box that contains a packet, on the axes of fields alone.
    pub fn box_of_packet_fields(&self, packet: &Packet) -> HyperRect {
        let mut point = HyperRect::all_packets(self.family());
        for field in NUMBER_AXIS_FIELDS {
            let value = read_axis_number(packet, field);
            point = point.restrict_to_interval(field, (value, value)).expect("a value of the axis");
        }
        let device = |name: &str| CodeSet::from_codes([self.code_of_longest_matching_device(name)]);
        let codes = [
            (CodeAxis::HeaderPresence, CodeSet::from_codes([encode_header_presence(packet)])),
            (CodeAxis::Iif, device(&packet.iif)),
            (CodeAxis::Oif, device(&packet.oif)),
            (CodeAxis::CtStateAndNat, CodeSet::from_codes([ct_state_axis_code(packet)])),
            (
                CodeAxis::TcpFlagsByte,
                CodeSet::from_codes([Field::TcpFlags.read_or_zero(packet) as usize]),
            ),
            (
                CodeAxis::PktType,
                CodeSet::from_codes([Field::PktType.read_or_zero(packet) as usize]),
            ),
        ];
        for (axis, code) in codes {
            point = point.restrict_to_codes(axis, code).expect("a value of the axis");
        }
        point
    }
}

impl AxislessTest {
    /// Whether it holds for a packet. `in_set` says whether a set contains the packet, by the set's
    /// name and the directions that the match names (`true` for `src`).
    pub fn holds_for_packet(
        &self,
        packet: &Packet,
        in_set: &dyn Fn(&SharedName, &[bool]) -> bool,
    ) -> bool {
        match self {
            AxislessTest::MaskedField { field, value, mask } => {
                field.read_or_zero(packet) & mask == *value
            }
            AxislessTest::SetMembership { name, dirs } => in_set(name, dirs),
        }
    }
}

fn read_axis_number(packet: &Packet, field: Field) -> u128 {
    match field {
        Field::SourceMac if packet.smac.is_none() => MISSING_MAC_VALUE,
        Field::Sport => read_multiport_ports(packet).0.value_or_zero(),
        Field::Dport => read_multiport_ports(packet).1.value_or_zero(),
        _ => field.read_or_zero(packet),
    }
}

/// How much of the transport header is present. `-m dccp` requires twelve bytes (xt_dccp.c), of
/// which eight are the packet's payload.
fn encode_header_presence(packet: &Packet) -> usize {
    match (packet.fragment.offset, &packet.transport) {
        (1, _) => header_code::FRAGMENT_OFFSET_1,
        (2.., _) => header_code::FRAGMENT_OFFSET_ABOVE_1,
        (0, Transport::Truncated) if packet.payload.len() < 4 => {
            header_code::TRUNCATED_BEFORE_PORTS
        }
        (0, Transport::Truncated) => header_code::TRUNCATED_AFTER_PORTS,
        (0, Transport::DccpPorts { .. }) if packet.payload.len() < 8 => {
            header_code::TRUNCATED_AFTER_PORTS
        }
        (0, _) => header_code::COMPLETE_HEADER,
    }
}

fn ct_state_axis_code(packet: &Packet) -> usize {
    let bits = Field::CtState.read_or_zero(packet) as u16;
    let state =
        CT_STATES_IN_AXIS_ORDER.iter().position(|s| bits & s != 0).expect("a packet has a state");
    let bit = |of: u16, code: usize| if bits & of != 0 { code } else { 0 };
    4 * state + bit(ct_state::SNAT, 1) + bit(ct_state::DNAT, 2)
}
