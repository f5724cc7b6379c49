//! The packets to send.

use std::collections::{HashMap, VecDeque};

use weir_model::effect::{ConntrackDemand, total_conntrack_demand};
use weir_model::{CtState, Family, Field, Firewall, Packet, Ruleset, Test, lower_to_tests};
use weir_packet::Transport;
use weir_semantics::JourneyKind;
use weir_traffic::TrafficOptions;

use crate::VerifyOptions;
use crate::packet_batch::PacketPath;

/// Devices where the ruleset names none.
const DEFAULT_DEVICES: [&str; 2] = ["weir-in", "weir-out"];
/// Additional packets beyond the requested number, in hundredths, because some will be excluded.
const GENERATED_PER_HUNDRED_REQUESTED: usize = 160;

/// Packets for every family and entry, sorted by path.
pub(crate) fn generate_or_take_exact_packets_by_path(
    firewall: &Firewall,
    options: &VerifyOptions,
) -> Vec<(PacketPath, VecDeque<Packet>)> {
    let families = firewall.rulesets().count().max(1);
    let mut paths: HashMap<PacketPath, VecDeque<Packet>> = HashMap::new();
    for (entry, packet) in options.exact_packets.iter().flatten() {
        let mut packet = packet.clone();
        set_default_devices(&mut packet, *entry);
        let own = options.exact_packets_have_own_addresses;
        paths.entry(PacketPath::from_packet(&packet, *entry, own)).or_default().push_back(packet);
    }
    if options.exact_packets.is_some() {
        return paths.into_iter().collect();
    }
    for ruleset in firewall.rulesets() {
        let wanted = options.packet_count * GENERATED_PER_HUNDRED_REQUESTED / 100 / families;
        for (entry, percent) in
            [(JourneyKind::Forward, 60), (JourneyKind::Input, 25), (JourneyKind::Output, 15)]
        {
            let count = wanted * percent / 100 + 1;
            let wish = TrafficOptions {
                seed: options.seed,
                max_packets: count,
                journey_kind: entry,
                ..Default::default()
            };
            let packets =
                weir_traffic::generate_boundary_and_random_packets(ruleset, &firewall.sets, &wish);
            let odd: Vec<Packet> = packets
                .iter()
                .enumerate()
                .filter_map(|(i, p)| copy_nth_packet_as_other_protocol(p, i))
                .collect();
            for (i, mut packet) in packets.into_iter().chain(odd).enumerate() {
                set_default_devices(&mut packet, entry);
                if entry != JourneyKind::Output {
                    // Nobody marks a packet before the first hook.
                    packet.mark = 0;
                }
                let own = i % 2 == 1;
                paths
                    .entry(PacketPath::from_packet(&packet, entry, own))
                    .or_default()
                    .push_back(packet);
            }
        }
    }
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort_by(|(a, _), (b, _)| a.sort_key().cmp(&b.sort_key()));
    paths
}

/// One packet in this many is sent once more as another protocol, or cut.
const PACKETS_PER_MUTATED_COPY: usize = 16;
/// Protocols whose headers no field says, or says in part: SCTP, DCCP, ESP, AH, GRE, UDP-Lite.
const MUTATION_PROTOCOLS: [u8; 8] = [6, 17, 132, 33, 50, 51, 47, 136];

/// The packet as another protocol whose header is truncated, or followed by data.
fn copy_nth_packet_as_other_protocol(packet: &Packet, i: usize) -> Option<Packet> {
    let proto = MUTATION_PROTOCOLS[i / PACKETS_PER_MUTATED_COPY % MUTATION_PROTOCOLS.len()];
    if !i.is_multiple_of(PACKETS_PER_MUTATED_COPY) || packet.family == Family::V6 && proto == 51 {
        return None;
    }
    let mut odd = packet.clone();
    // Ports, then what makes sense as the rest of each header, most of the time.
    let (sport, dport) = packet.ports().unwrap_or((1024, 80));
    let mut body = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    body.extend([6, 0, 0, 1, 0, 0, 0, 0x50, 0x50, 2, 0, 0, 0, 3, 0, 8, 1, 4, 5, 0xb4, 0, 0, 0, 0]);
    body.truncate(i / PACKETS_PER_MUTATED_COPY / MUTATION_PROTOCOLS.len() % 30);
    (odd.proto, odd.transport, odd.payload) = (proto, Transport::NoParsedHeader, body);
    let Packet { iif, oif, smac, pkttype, mark, .. } = packet.clone();
    // A TCP header that says another length than it has is not a packet of the model.
    let is_modelled =
        |p: &Packet| p.proto != 6 || p.transport != Transport::Truncated || p.payload.len() < 20;
    let odd = Packet::parse(&odd.to_bytes()).ok().filter(is_modelled)?;
    let ct = weir_packet::ConntrackInfo::from_state(CtState::New);
    Some(Packet { iif, oif, smac, pkttype, mark, ct, ..odd })
}

fn set_default_devices(packet: &mut Packet, entry: JourneyKind) {
    if packet.iif.is_empty() && entry != JourneyKind::Output {
        packet.iif = DEFAULT_DEVICES[0].to_owned();
    }
    if packet.oif.is_empty() && entry != JourneyKind::Input {
        packet.oif = DEFAULT_DEVICES[1].to_owned();
    }
}

/// Families in which some rule tests a packet's length.
pub(crate) fn families_testing_length(firewall: &Firewall) -> Vec<Family> {
    let tests_length = |ruleset: &&Ruleset| {
        ruleset.rules_with_table_and_chain().any(|(_, _, rule)| {
            lower_to_tests(rule, ruleset.family)
                .iter()
                .any(|t| matches!(t, Test::Field { field: Field::Length, .. }))
        })
    };
    firewall.rulesets().filter(tests_length).map(|r| r.family).collect()
}

/// Families in which a rule has fragments reassembled, whether conntrack is in use or not.
pub(crate) fn families_with_defrag_rules(firewall: &Firewall) -> Vec<Family> {
    let does = |ruleset: &&Ruleset| {
        total_conntrack_demand(ruleset.rules_with_table_and_chain().map(|(_, _, rule)| rule))
            != ConntrackDemand::Nothing
    };
    firewall.rulesets().filter(does).map(|r| r.family).collect()
}
