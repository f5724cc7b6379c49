//! The packets to send.

use std::collections::{HashMap, VecDeque};

use weir_model::effect::{Conntrack, conntrack_of_all};
use weir_model::{CtState, Family, Field, Firewall, Packet, Ruleset, Test, tests_of};
use weir_packet::Transport;
use weir_semantics::Entry;
use weir_traffic::TrafficOptions;

use crate::VerifyOptions;
use crate::batch::PacketPath;

/// Devices where the ruleset names none.
const DEVICES: [&str; 2] = ["weir-in", "weir-out"];
/// Additional packets beyond the requested number, in hundredths, because some will be excluded.
const SURPLUS_PERCENT: usize = 160;

/// Packets for every family and entry, sorted by path.
pub(crate) fn by_path(
    firewall: &Firewall,
    options: &VerifyOptions,
) -> Vec<(PacketPath, VecDeque<Packet>)> {
    let families = firewall.rulesets().count().max(1);
    let mut paths: HashMap<PacketPath, VecDeque<Packet>> = HashMap::new();
    for (entry, packet) in options.only.iter().flatten() {
        let mut packet = packet.clone();
        name_devices(&mut packet, *entry);
        paths.entry(PacketPath::of(&packet, *entry, true)).or_default().push_back(packet);
    }
    if options.only.is_some() {
        return paths.into_iter().collect();
    }
    for ruleset in firewall.rulesets() {
        let wanted = options.packets * SURPLUS_PERCENT / 100 / families;
        for (entry, percent) in [(Entry::Forward, 60), (Entry::Input, 25), (Entry::Output, 15)] {
            let count = wanted * percent / 100 + 1;
            let wish = TrafficOptions { seed: options.seed, count, entry, ..Default::default() };
            let packets = weir_traffic::packets(ruleset, &firewall.sets, &wish);
            let odd: Vec<Packet> =
                packets.iter().enumerate().filter_map(|(i, p)| odd(p, i)).collect();
            for (i, mut packet) in packets.into_iter().chain(odd).enumerate() {
                name_devices(&mut packet, entry);
                if entry != Entry::Output {
                    // Nobody marks a packet before the first hook.
                    packet.mark = 0;
                }
                let own = i % 2 == 1;
                paths.entry(PacketPath::of(&packet, entry, own)).or_default().push_back(packet);
            }
        }
    }
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort_by(|(a, _), (b, _)| a.order().cmp(&b.order()));
    paths
}

/// One packet in this many is sent once more as another protocol, or cut.
const ODD: usize = 16;
/// Protocols whose headers no field says, or says in part: SCTP, DCCP, ESP, AH, GRE, UDP-Lite.
const PROTOCOLS: [u8; 8] = [6, 17, 132, 33, 50, 51, 47, 136];

/// The packet as another protocol whose header is truncated, or followed by data.
fn odd(packet: &Packet, i: usize) -> Option<Packet> {
    let proto = PROTOCOLS[i / ODD % PROTOCOLS.len()];
    if !i.is_multiple_of(ODD) || packet.family == Family::V6 && proto == 51 {
        return None;
    }
    let mut odd = packet.clone();
    // Ports, then what makes sense as the rest of each header, most of the time.
    let (sport, dport) = packet.ports().unwrap_or((1024, 80));
    let mut body = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    body.extend([6, 0, 0, 1, 0, 0, 0, 0x50, 0x50, 2, 0, 0, 0, 3, 0, 8, 1, 4, 5, 0xb4, 0, 0, 0, 0]);
    body.truncate(i / ODD / PROTOCOLS.len() % 30);
    (odd.proto, odd.transport, odd.payload) = (proto, Transport::None, body);
    let Packet { iif, oif, smac, pkttype, mark, .. } = packet.clone();
    // A TCP header that says another length than it has is not a packet of the model.
    let is_modelled =
        |p: &Packet| p.proto != 6 || p.transport != Transport::Truncated || p.payload.len() < 20;
    let odd = Packet::parse(&odd.to_bytes()).ok().filter(is_modelled)?;
    let ct = weir_packet::Ct::of(CtState::New);
    Some(Packet { iif, oif, smac, pkttype, mark, ct, ..odd })
}

fn name_devices(packet: &mut Packet, entry: Entry) {
    if packet.iif.is_empty() && entry != Entry::Output {
        packet.iif = DEVICES[0].to_owned();
    }
    if packet.oif.is_empty() && entry != Entry::Input {
        packet.oif = DEVICES[1].to_owned();
    }
}

/// Families in which some rule tests a packet's length.
pub(crate) fn lengths_matter(firewall: &Firewall) -> Vec<Family> {
    let tests_length = |ruleset: &&Ruleset| {
        ruleset.rules().any(|(_, _, rule)| {
            tests_of(rule, ruleset.family)
                .iter()
                .any(|t| matches!(t, Test::Field { field: Field::Length, .. }))
        })
    };
    firewall.rulesets().filter(tests_length).map(|r| r.family).collect()
}

/// Families in which a rule has fragments reassembled, whether conntrack is in use or not.
pub(crate) fn assembling(firewall: &Firewall) -> Vec<Family> {
    let does = |ruleset: &&Ruleset| {
        conntrack_of_all(ruleset.rules().map(|(_, _, rule)| rule)) != Conntrack::No
    };
    firewall.rulesets().filter(does).map(|r| r.family).collect()
}
