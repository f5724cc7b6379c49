//! The cost of one packet, by kind of step.
//!
//! [`count_trace_steps`] counts the steps of a [`Trace`]: rules tried, jumps followed, set lookups
//! and their probes, bytes searched. [`PacketStepCounts::total_ns`] multiplies them by the costs of
//! a [`CostModel`]. This is the cost of the rules alone: receiving, routing and sending are
//! additional.

use serde::Serialize;
use weir_model::ipset::SetStorage;
use weir_model::{ElementPart, Firewall, IpSet, Match, Rule, Target};
use weir_semantics::trace::{Trace, TraceStep};

use crate::CostModel;

/// Steps of a packet's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketStepCounts {
    /// Rules tried.
    pub checks: u64,
    /// Jumps and gotos followed.
    pub jumps: u64,
    /// Looks into sets.
    pub sets: u64,
    /// Prefix lengths probed in these looks, beyond the first of each.
    #[serde(rename = "probes")]
    pub probes_beyond_first: u64,
    /// 1 where the packet's connection is looked for.
    pub conntrack: u64,
    /// Bytes searched for strings.
    pub bytes: u64,
}

impl PacketStepCounts {
    /// The kinds of steps with their number and cost, in the order of the fields.
    pub fn counts_with_unit_costs(&self, cost: &CostModel) -> [(&'static str, u64, f64); 6] {
        [
            ("rules evaluated", self.checks, cost.check_ns),
            ("jumps followed", self.jumps, cost.jump_ns),
            ("set lookups", self.sets, cost.set_ns),
            ("prefix lengths probed", self.probes_beyond_first, cost.probe_ns),
            ("conntrack lookup", self.conntrack, cost.conntrack_ns),
            ("bytes searched", self.bytes, cost.byte_ns),
        ]
    }

    /// The whole, in nanoseconds.
    pub fn total_ns(&self, cost: &CostModel) -> f64 {
        self.counts_with_unit_costs(cost).iter().map(|(_, steps, ns)| *steps as f64 * ns).sum()
    }
}

/// Counts the steps of a packet's way. `packet_bytes` is the packet's, in bytes; `tracked` says
/// whether its connection is looked for.
pub fn count_trace_steps(
    trace: &Trace<'_>,
    firewall: &Firewall,
    packet_bytes: usize,
    tracked: bool,
) -> PacketStepCounts {
    let mut bill = PacketStepCounts { conntrack: tracked.into(), ..PacketStepCounts::default() };
    for step in &trace.steps {
        let TraceStep::TryRule { rule, failed, .. } = step else { continue };
        bill.checks += 1;
        match failed {
            None => {
                bill.jumps += u64::from(matches!(rule.target, Target::Jump(_) | Target::Goto(_)));
                add_match_lookups(&mut bill, rule, rule.matches.len(), firewall, packet_bytes);
            }
            Some(failed) => {
                let tried = failed.match_index.map_or(0, |at| at + 1);
                add_match_lookups(&mut bill, rule, tried, firewall, packet_bytes);
            }
        }
    }
    bill
}

/// Adds the looks that the first `tried` matches of a rule take.
fn add_match_lookups(
    bill: &mut PacketStepCounts,
    rule: &Rule,
    tried: usize,
    firewall: &Firewall,
    packet_bytes: usize,
) {
    for m in &rule.matches[..tried] {
        match m {
            Match::Set(test) => {
                bill.sets += 1;
                let lengths = firewall.find_set(&test.name).map_or(1, count_prefix_lengths);
                bill.probes_beyond_first += lengths.saturating_sub(1);
            }
            Match::UnmodelledInput(host) if host.module == "string" => {
                bill.bytes += packet_bytes as u64
            }
            _ => {}
        }
    }
}

/// Maximum number of prefix lengths that a lookup probes (net/netfilter/ipset/ip_set_hash_gen.h
/// tries each that the set has; bitmaps and lists are not hashed).
fn count_prefix_lengths(set: &IpSet) -> u64 {
    if set.kind.storage != SetStorage::Hash {
        return 1;
    }
    let parts = set.elements.iter().flat_map(|e| &e.parts);
    let mut lengths: Vec<u8> = parts
        .filter_map(|part| match part {
            ElementPart::AddrOrPrefix { len, .. } => Some(*len),
            _ => None,
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::Family;
    use weir_semantics::trace::trace_journey;
    use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind};
    use weir_syntax::iptables::ParserSettings;
    use weir_syntax::packet::parse_packet;
    use weir_syntax::{ipset, iptables};

    fn count_steps_of_packet(packet: &str) -> PacketStepCounts {
        let sets = ipset::parse(
            "create nets hash:net family inet\nadd nets 198.51.100.0/24\nadd nets 10.0.0.0/8\n",
        )
        .unwrap();
        let rules = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
            :a - [0:0]\n-A FORWARD -s 192.0.2.1/32 -j DROP\n-A FORWARD -p udp -j a\n\
            -A a -m set --match-set nets src -j DROP\n\
            -A a -p tcp -m set --match-set nets src -j DROP\nCOMMIT\n";
        let options = ParserSettings { known_sets: Some(&sets), ..ParserSettings::default() };
        let v4 = Some(iptables::parse(rules, &options).unwrap());
        let firewall = Firewall { v4, v6: None, sets: sets.clone() };
        let interpreter = Interpreter::new(&firewall);
        let packet = parse_packet(packet).unwrap();
        assert_eq!(packet.family, Family::V4);
        let way =
            trace_journey(&interpreter, &packet, JourneyKind::Forward, &mut AlwaysFalseOracle);
        count_trace_steps(&way, &firewall, packet.len(), false)
    }

    #[test]
    fn the_steps_of_a_packets_path_are_counted() {
        let tcp = count_steps_of_packet("ip saddr 203.0.113.5 ip daddr 203.0.113.9 tcp dport 80");
        assert_eq!(tcp, PacketStepCounts { checks: 2, ..PacketStepCounts::default() });
        // The second lookup is after a test that is false.
        let udp = count_steps_of_packet("ip saddr 203.0.113.5 ip daddr 203.0.113.9 udp dport 53");
        assert_eq!(
            udp,
            PacketStepCounts {
                checks: 4,
                jumps: 1,
                sets: 1,
                probes_beyond_first: 1,
                ..PacketStepCounts::default()
            }
        );
    }

    #[test]
    fn total_cost_is_the_sum_of_step_costs() {
        let cost = CostModel { check_ns: 2.0, jump_ns: 10.0, ..CostModel::default() };
        assert_eq!(
            PacketStepCounts { checks: 3, jumps: 2, ..PacketStepCounts::default() }.total_ns(&cost),
            26.0
        );
    }
}
