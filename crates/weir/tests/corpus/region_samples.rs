//! Packets of a region: packets on the boundaries of a ruleset's rules, of which fields are changed
//! until the region contains them.

use std::collections::HashSet;

use weir_model::{
    Addr, CtState, Family, Field, FieldCondition, Firewall, Packet, PacketRegion, Predicate,
};
use weir_packet::{ConntrackInfo, FragmentPosition, PktType, Transport, tcp_flag};
use weir_semantics::JourneyKind;
use weir_syntax::policy::{PolicyTest, PolicyTestPackets};
use weir_testkit::random_ruleset::TestRng;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// Packets of one region on one path.
const PACKETS_PER_REGION: usize = 16;
/// Packets that are changed for one region and path.
const CANDIDATE_PACKETS_PER_REGION: usize = 160;
/// Packets on the boundaries of rules, for each path.
const BOUNDARY_PACKETS: usize = 2_000;

/// Makes packets for one ruleset.
pub struct RegionSampler {
    family: Family,
    /// For FORWARD, INPUT and OUTPUT.
    boundary_packets: Vec<(JourneyKind, Vec<Packet>)>,
    rng: TestRng,
}

impl RegionSampler {
    pub fn new(firewall: &Firewall, family: Family) -> RegionSampler {
        let ruleset = firewall.ruleset(family).expect("rules");
        let of_journey = |journey_kind| {
            let options = TrafficOptions {
                max_packets: BOUNDARY_PACKETS,
                journey_kind,
                ..Default::default()
            };
            (journey_kind, generate_boundary_and_random_packets(ruleset, &firewall.sets, &options))
        };
        let boundary_packets = JourneyKind::ALL.map(of_journey).to_vec();
        RegionSampler { family, boundary_packets, rng: TestRng::new(16) }
    }

    /// Packets of a test's region on a path, or its packet.
    pub fn sample_test(&mut self, test: &PolicyTest, journey: JourneyKind) -> Vec<Packet> {
        let region = match &test.subject {
            PolicyTestPackets::Packet { packet, .. } => return vec![(**packet).clone()],
            PolicyTestPackets::Region { region, .. } => region,
        };
        let all = self.boundary_packets.iter().find(|(kind, _)| *kind == journey);
        let boundary_packets = all.map(|(_, packets)| packets.clone()).unwrap_or_default();
        let (mut packets, mut seen) = (Vec::new(), HashSet::new());
        for _ in 0..CANDIDATE_PACKETS_PER_REGION {
            if packets.len() == PACKETS_PER_REGION || boundary_packets.is_empty() {
                break;
            }
            let near = &boundary_packets[self.rng.number_below(boundary_packets.len())];
            let packet = self.move_into_region(near, region, journey);
            if is_in_region(region, &packet, journey) && seen.insert(packet.clone()) {
                packets.push(packet);
            }
        }
        packets
    }

    fn move_into_region(
        &mut self,
        near: &Packet,
        region: &PacketRegion,
        journey: JourneyKind,
    ) -> Packet {
        let mut packet = Packet {
            fragment: FragmentPosition::default(),
            ip_options_len: 0,
            ttl: 64,
            mark: 0,
            pkttype: PktType::Unicast,
            ct: ConntrackInfo::from_state(CtState::New),
            smac: Some([2, 0, 0, 0, 0, 9]),
            ..near.clone()
        };
        self.set_devices(&mut packet, journey);
        if self.rng.chance_percent(70) {
            self.set_public_addresses(&mut packet);
        }
        for condition in region.conditions.iter().filter(|c| c.field == Field::CtState) {
            self.set_ct_state(&mut packet, condition);
        }
        self.set_protocol(&mut packet, region);
        // A condition may undo what another one needs, as type and code of ICMP.
        for _ in 0..2 {
            for condition in &region.conditions {
                if !condition.is_fulfilled_by(&packet) {
                    self.set_field_to_meet_condition(condition, &mut packet);
                }
            }
        }
        packet
    }

    fn set_devices(&self, packet: &mut Packet, journey: JourneyKind) {
        for (device, usual) in [(&mut packet.iif, "weir-in"), (&mut packet.oif, "weir-out")] {
            if device.is_empty() {
                *device = usual.to_owned();
            }
        }
        match journey {
            JourneyKind::Forward => {}
            JourneyKind::Input => packet.oif.clear(),
            JourneyKind::Output => {
                packet.iif.clear();
                packet.smac = None;
            }
        }
    }

    fn set_public_addresses(&mut self, packet: &mut Packet) {
        let host = self.rng.number_below(254) as u128 + 1;
        (packet.saddr, packet.daddr) = match self.family {
            Family::V4 => (Addr(0xc633_6400 + host), Addr(0xcb00_7100 + host)),
            Family::V6 => {
                (Addr(0x2001_0db8_0001 << 80 | host), Addr(0x2001_0db8_0002 << 80 | host))
            }
        };
    }

    fn set_ct_state(&mut self, packet: &mut Packet, condition: &FieldCondition) {
        use CtState::{Established, Invalid, New, Related, Untracked};
        let first = self.rng.number_below(5);
        for step in 0..5 {
            if condition.is_fulfilled_by(packet) {
                return;
            }
            let state = [Established, Related, New, Invalid, Untracked][(first + step) % 5];
            packet.ct = ConntrackInfo::from_state(state);
        }
    }

    /// A protocol of the region, with a header.
    fn set_protocol(&mut self, packet: &mut Packet, region: &PacketRegion) {
        let icmp = if self.family == Family::V4 { 1 } else { 58 };
        let mut protocol = packet.proto;
        let conditions: Vec<&FieldCondition> =
            region.conditions.iter().filter(|c| c.field == Field::Proto).collect();
        if conditions.is_empty() {
            protocol = self.rng.pick(&[6, 6, 17, 17, icmp, protocol]);
        }
        // Errors are what belongs to another connection; any ICMP may belong to none.
        if conditions.is_empty() && matches!(packet.ct.state, CtState::Related | CtState::Invalid) {
            protocol = icmp;
        }
        for condition in conditions.iter().filter(|c| !c.negated) {
            let values: Vec<u128> = condition.alternatives.iter().flat_map(span_ends).collect();
            protocol = self.rng.pick(&values) as u8;
        }
        if conditions.iter().any(|c| c.negated) {
            protocol = self.rng.pick(&[icmp, 47, 50, 17, 6]);
        }
        let (sport, dport) = packet.ports().unwrap_or((40_000, 80));
        packet.proto = protocol;
        packet.payload.clear();
        packet.transport = match protocol {
            6 => {
                let flags = match packet.ct.state {
                    CtState::New | CtState::Untracked => tcp_flag::SYN,
                    CtState::Invalid => tcp_flag::RST,
                    CtState::Established | CtState::Related => tcp_flag::ACK,
                };
                Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: Vec::new() }
            }
            17 => Transport::Udp { sport, dport },
            132 => Transport::Sctp { sport, dport, tag: 0 },
            33 => Transport::DccpPorts { sport, dport },
            1 | 58 => {
                let (request, reply, error) = if protocol == 1 { (8, 0, 3) } else { (128, 129, 1) };
                let kind = match packet.ct.state {
                    CtState::Related => error,
                    CtState::Invalid => reply,
                    _ => request,
                };
                let code = if packet.ct.state == CtState::Related && protocol == 1 { 1 } else { 0 };
                Transport::Icmp { kind, code, rest: [0; 4] }
            }
            _ => Transport::NoParsedHeader,
        };
        match protocol {
            // The chunk INIT, and what follows the ports of a request.
            132 => {
                packet.payload = vec![1, 0, 0, 20, 0, 0, 0, 1, 0, 0, 4, 0, 0, 1, 0, 1, 0, 0, 0, 1]
            }
            33 => packet.payload = vec![4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
            _ => {}
        }
    }

    /// Changes the field of a condition so that it is fulfilled, if that is possible.
    fn set_field_to_meet_condition(&mut self, condition: &FieldCondition, packet: &mut Packet) {
        let field = condition.field;
        if matches!(field, Field::Iif | Field::Oif) {
            let name = self.choose_device(condition);
            let device = if field == Field::Iif { &mut packet.iif } else { &mut packet.oif };
            // A packet without a device has none on this path.
            if !device.is_empty() {
                *device = name;
            }
            return;
        }
        if condition.negated {
            let ends: Vec<u128> = condition.alternatives.iter().flat_map(span_ends).collect();
            let max = field.max_value(self.family);
            let near = ends.iter().flat_map(|end| [end.saturating_sub(1), (end + 1).min(max)]);
            let candidates: Vec<u128> = near.chain([field.read_or_zero(packet)]).collect();
            for _ in 0..8 {
                field.write_if_present(packet, self.rng.pick(&candidates));
                if condition.is_fulfilled_by(packet) {
                    return;
                }
            }
            return;
        }
        let predicate =
            &condition.alternatives[self.rng.number_below(condition.alternatives.len())];
        let value = match predicate {
            Predicate::InSpans(spans) => {
                let (low, high) = spans[self.rng.number_below(spans.len())];
                let inside =
                    low + u128::from(self.rng.next_u64()) % (high - low).saturating_add(1).max(1);
                self.rng.pick(&[low, high, inside, inside])
            }
            Predicate::Masked { value, mask } => field.read_or_zero(packet) & !mask | value,
            Predicate::AnyBit(mask) => field.read_or_zero(packet) | mask & mask.wrapping_neg(),
            Predicate::Present | Predicate::Device { .. } => return,
        };
        field.write_if_present(packet, value);
    }

    fn choose_device(&mut self, condition: &FieldCondition) -> String {
        if condition.negated {
            return "weir-other".to_owned();
        }
        let predicate =
            &condition.alternatives[self.rng.number_below(condition.alternatives.len())];
        match predicate {
            Predicate::Device { name, prefix: false } => name.to_string(),
            Predicate::Device { name, prefix: true } => format!("{name}7"),
            _ => String::new(),
        }
    }
}

/// The ends of the spans of a predicate.
fn span_ends(predicate: &Predicate) -> Vec<u128> {
    match predicate {
        Predicate::InSpans(spans) => spans.iter().flat_map(|(low, high)| [*low, *high]).collect(),
        _ => Vec::new(),
    }
}

/// Whether a region has a packet on a path: it is whole, and its time to live does not run out.
pub fn is_in_region(region: &PacketRegion, packet: &Packet, journey: JourneyKind) -> bool {
    packet.fragment.offset == 0
        && !packet.fragment.more_fragments
        && packet.transport != Transport::Truncated
        && (journey != JourneyKind::Forward || packet.ttl >= 2)
        && region.contains(packet)
}
