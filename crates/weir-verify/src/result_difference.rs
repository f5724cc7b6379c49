//! The expected and the observed result of a packet, and their difference in words.

use std::collections::BTreeMap;

use weir_artefact::Deviation;
use weir_kernel::xtables_counters::PacketByteCount;
use weir_model::effect::target_effects;
use weir_model::{Effect, Field, OriginalRuleIndex, TableName, Target};
use weir_packet::{CtState, Family, FragmentPosition, Packet, Transport};
use weir_semantics::{AppliedTarget, Outcome, Verdict};

use crate::counters::{CreditCounters, OriginalRulesAndPolicies};
use crate::diagram_check::DiagramDisagreementOrSkipReason;
use crate::packet_batch::{GRE_BYTES_NEEDED_BY_NAT, GRE_PROTOCOL};
use crate::testbed::PacketAtLastHook;

/// The interpreter's result for a packet.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedResult {
    /// Whether it arrives.
    pub arrives: bool,
    pub verdict: Verdict,
    /// Originals that count it, each as often as it does.
    pub hits: Vec<usize>,
    /// Originals that may count it or not: only the kernel knows, and nothing else depends on it.
    pub possible_hits: Vec<usize>,
    /// Its bytes as counted: as it arrived, and as it left if it was lengthened.
    pub byte_bounds: (u64, u64),
    /// As it leaves.
    pub packet: Packet,
    /// Ports and addresses are the kernel's choice.
    pub is_translated: bool,
    /// It is dropped in silence.
    pub has_drop_verdict: bool,
    /// Conntrack is kept from it.
    pub is_untracked: bool,
    /// How the diagram differs from this, if it was evaluated.
    pub diagram_check: Option<DiagramDisagreementOrSkipReason>,
}

impl ExpectedResult {
    /// `rules_uncertain_in_own_counter_only`: rules whose counter may count the packet or not.
    pub fn from_outcome(
        outcome: &Outcome<'_>,
        sent: &Packet,
        uncertain_rules: &[OriginalRuleIndex],
        originals: &OriginalRulesAndPolicies,
    ) -> ExpectedResult {
        let family = sent.family;
        let (mut hits, mut open) = (Vec::new(), Vec::new());
        for hit in &outcome.hits {
            let Some(at) = hit.rule_or_policy_id(family).and_then(|id| originals.position_of(&id))
            else {
                continue;
            };
            let is_open =
                hit.credited_originals.first().is_some_and(|id| uncertain_rules.contains(id));
            if is_open { open.push(at) } else { hits.push(at) }
        }
        let is_nat = |t: &Target| matches!(t, Target::Nat(_));
        ExpectedResult {
            arrives: outcome.verdict == Verdict::Accept,
            verdict: outcome.verdict,
            hits,
            possible_hits: open,
            byte_bounds: (sent.len() as u64, sent.len().max(outcome.packet.len()) as u64),
            packet: outcome.packet.clone(),
            is_translated: outcome.effects.iter().any(|e| is_nat(e.target)),
            has_drop_verdict: outcome.verdict == Verdict::Drop,
            is_untracked: has_notrack_effect(outcome),
            diagram_check: None,
        }
    }

    /// How the packet's result differs, in words; `None` if it does not.
    pub fn describe_difference(&self, left: Option<&PacketAtLastHook>) -> Option<String> {
        match (self.arrives, left) {
            (false, None) => None,
            (true, None) => Some(format!("expected {:?}, but it did not arrive", self.verdict)),
            (false, Some(_)) => Some(format!("expected {:?}, but it arrived", self.verdict)),
            (true, Some(left)) => self.describe_packet_difference(left),
        }
    }

    fn describe_packet_difference(&self, left: &PacketAtLastHook) -> Option<String> {
        let mut differs = Vec::new();
        let mut compare = |what: &str, expected: String, seen: String| {
            if expected != seen {
                differs.push(format!("expected {what} {expected} as it leaves, but it is {seen}"));
            }
        };
        let p = &self.packet;
        compare("mark", format!("{:#x}", p.mark), format!("{:#x}", left.mark));
        let head = MutableHeaderFields::parse(&left.bytes, p)?;
        compare("tos", p.tos.to_string(), head.tos.to_string());
        compare("length", p.len().to_string(), head.length.to_string());
        compare("ttl", p.ttl.to_string(), head.ttl.to_string());
        if !self.is_translated {
            compare("source", format!("{:x}", p.saddr.0), format!("{:x}", head.saddr));
            compare("destination", format!("{:x}", p.daddr.0), format!("{:x}", head.daddr));
            if let (Some(ports), Some(seen)) = (p.ports(), head.ports) {
                compare("ports", format!("{ports:?}"), format!("{seen:?}"));
            }
        }
        (!differs.is_empty()).then(|| differs.join("; "))
    }
}

/// The fields that a firewall may change, out of a packet's first bytes.
struct MutableHeaderFields {
    tos: u8,
    ttl: u8,
    length: usize,
    saddr: u128,
    daddr: u128,
    ports: Option<(u16, u16)>,
}

impl MutableHeaderFields {
    fn parse(b: &[u8], packet: &Packet) -> Option<MutableHeaderFields> {
        let number = |range: std::ops::Range<usize>| {
            Some(b.get(range)?.iter().fold(0u128, |n, b| n << 8 | u128::from(*b)))
        };
        let (tos, ttl, addrs, transport) = match packet.family {
            Family::V4 => (*b.get(1)?, *b.get(8)?, [12..16, 16..20], 20),
            Family::V6 => {
                let tos = (number(0..2)? >> 4) as u8;
                (tos, *b.get(7)?, [8..24, 24..40], if packet.is_fragment() { 48 } else { 40 })
            }
        };
        let length = match packet.family {
            Family::V4 => number(2..4)? as usize,
            Family::V6 => 40 + number(4..6)? as usize,
        };
        let [saddr, daddr] = addrs.map(number);
        let port = |at: usize| number(at..at + 2).map(|n| n as u16);
        let ports = port(transport).zip(port(transport + 2));
        Some(MutableHeaderFields { tos, ttl, length, saddr: saddr?, daddr: daddr?, ports })
    }
}

/// What the counters of all originals should say: each between two counts, which are mostly the
/// same. Originals that share counters are counted with the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedCounts {
    min_counts: Vec<PacketByteCount>,
    max_counts: Vec<PacketByteCount>,
}

impl ExpectedCounts {
    pub fn from_expected_results<'e>(
        expected: impl IntoIterator<Item = &'e ExpectedResult>,
        credits: &CreditCounters,
    ) -> ExpectedCounts {
        let none =
            vec![PacketByteCount::default(); credits.first_original_with_same_counters.len()];
        let mut tally = ExpectedCounts { min_counts: none.clone(), max_counts: none };
        for e in expected {
            for at in &e.hits {
                add_packet_to_count(
                    &mut tally.min_counts[credits.first_original_with_same_counters[*at]],
                    e.byte_bounds.0,
                );
            }
            for at in e.hits.iter().chain(&e.possible_hits) {
                add_packet_to_count(
                    &mut tally.max_counts[credits.first_original_with_same_counters[*at]],
                    e.byte_bounds.1,
                );
            }
        }
        tally
    }

    fn zip_min_max_and_observed_counts<'t>(
        &'t self,
        seen: &'t [PacketByteCount],
    ) -> impl Iterator<Item = (PacketByteCount, PacketByteCount, PacketByteCount)> + 't {
        self.min_counts.iter().zip(&self.max_counts).zip(seen).map(|((l, m), s)| (*l, *m, *s))
    }

    /// Whether every counter is where it should be.
    pub fn is_within_bounds(&self, seen: &[PacketByteCount]) -> bool {
        self.zip_min_max_and_observed_counts(seen)
            .all(|(least, most, seen)| is_count_between(least, seen, most))
    }

    /// Counters with unexpected values, in words.
    pub fn describe_wrong_counters(
        &self,
        seen: &[PacketByteCount],
        originals: &OriginalRulesAndPolicies,
    ) -> Vec<String> {
        let all =
            originals.rule_and_policy_ids.iter().zip(self.zip_min_max_and_observed_counts(seen));
        all.filter(|(_, (least, most, seen))| !is_count_between(*least, *seen, *most))
            .map(|(key, (least, most, seen))| {
                let at_most = if least == most {
                    String::new()
                } else {
                    format!(" to {} packets {} bytes", most.packets, most.bytes)
                };
                format!(
                    "{key}: expected {} packets {} bytes{at_most}, counted {} packets {} bytes",
                    least.packets, least.bytes, seen.packets, seen.bytes
                )
            })
            .collect()
    }
}

fn add_packet_to_count(count: &mut PacketByteCount, bytes: u64) {
    count.packets += 1;
    count.bytes += bytes;
}

fn is_count_between(least: PacketByteCount, seen: PacketByteCount, most: PacketByteCount) -> bool {
    (least.packets..=most.packets).contains(&seen.packets)
        && (least.bytes..=most.bytes).contains(&seen.bytes)
}

/// Which of a form's deviations may apply to a packet.
pub(crate) fn find_applicable_deviation<'d>(
    deviations: &'d [Deviation],
    packet: &Packet,
) -> Option<&'d Deviation> {
    // Headers that the model has no fields of, so that only the kernel sees that they are
    // truncated.
    let wanted = match (packet.proto, packet.family) {
        // Four bytes of DCCP's twelve are the ports, which are no payload.
        (33 | 50, _) => 8,
        (51, Family::V4) => 12,
        _ => 0,
    };
    let is_cut = packet.fragment.offset == 0 && packet.payload.len() < wanted;
    let is_met = |d: &&Deviation| {
        d.is_triggered_by_packet_alone(packet) || is_cut && **d == Deviation::TruncatedHeader
    };
    deviations.iter().find(is_met)
}

/// Whether the outcome is out of reach: handed to a program, or ended by what weir does not know.
pub(crate) fn incomparable_outcome_cause(
    outcome: &Outcome<'_>,
    sent: &Packet,
) -> Option<&'static str> {
    let tracks = |t: &Target| target_effects(t).writes.contains(Field::CtState);
    let tracked = |e: &AppliedTarget<'_>| e.table == TableName::Raw && tracks(e.target);
    if sent.iif == "lo" && outcome.effects.iter().any(tracked) {
        // Packets over the real loopback device passed conntrack on their way out.
        return Some("over lo, where the raw table determines what is tracked");
    }
    let is_made = matches!(sent.ct.state, CtState::Established | CtState::Related);
    if is_made && outcome.effects.iter().any(|e| is_ct_zone_target(e.target)) {
        return Some("CT assigns it to a zone in which its connection was not created");
    }
    let is_translated = outcome.effects.iter().any(|e| matches!(e.target, Target::Nat(_)));
    // nf_nat_proto.c, gre_manip_pkt: versions 0 and 1, and all of the header.
    let version = sent.payload.get(1).map_or(0, |b| b & 7);
    if is_translated
        && sent.proto == GRE_PROTOCOL
        && (sent.payload.len() < GRE_BYTES_NEEDED_BY_NAT || version > 1)
    {
        return Some(
            "a translated packet with a GRE header that is truncated or of a version without nat",
        );
    }
    match outcome.verdict {
        Verdict::Divert(_) => Some("handed over to a program on the host"),
        Verdict::Unknown => Some(
            "decided by a target that weir does not know, or by chains that it enters too often",
        ),
        _ if outcome.effects.iter().any(|e| target_effects(e.target).sends_copy) => {
            Some("copied by a target of its rules")
        }
        Verdict::Accept
        | Verdict::Drop
        | Verdict::Reject(_)
        | Verdict::Expired
        | Verdict::HeldForReassembly => None,
    }
}

/// Whether the target assigns the packet's connection to a zone.
fn is_ct_zone_target(target: &Target) -> bool {
    let Target::Effect(effect) = target else { return false };
    let Effect::Other(extension) = &**effect else { return false };
    extension.module == "CT" && extension.options.iter().any(|o| o.name.starts_with("zone"))
}

/// A packet in a line.
pub(crate) fn describe_packet_and_path(packet: &Packet, path_text: &str) -> String {
    let family = packet.family;
    let mut out = format!("{path_text}: ");
    for (word, device) in [("iif", &packet.iif), ("oif", &packet.oif)] {
        if !device.is_empty() {
            out += &format!("{word} {device} ");
        }
    }
    if let Some(mac) = packet.smac {
        out += &format!("smac {} ", mac.map(|b| format!("{b:02x}")).join(":"));
    }
    let (saddr, daddr) = (packet.saddr.display(family), packet.daddr.display(family));
    out += &format!("{saddr} > {daddr} proto {}", packet.proto);
    match &packet.transport {
        Transport::Icmp { kind, code, .. } => out += &format!(" icmp {kind}/{code}"),
        Transport::Truncated => out += " cut short",
        Transport::Tcp { flags, .. } => out += &format!(" flags {flags:#04x}"),
        _ => {}
    }
    if let Some((sport, dport)) = packet.ports() {
        out += &format!(" ports {sport} > {dport}");
    }
    let FragmentPosition { offset, more_fragments: more } = packet.fragment;
    if packet.is_fragment() {
        out += &format!(" fragment {offset}{}", if more { "+" } else { "" });
    }
    let (tos, ttl, length) = (packet.tos, packet.ttl, packet.len());
    out + &format!(" tos {tos} ttl {ttl} length {length} ct {}", ct_state_name(packet.ct.state))
}

/// iptables' word for a conntrack state.
pub(crate) fn ct_state_name(state: CtState) -> &'static str {
    match state {
        CtState::Invalid => "INVALID",
        CtState::New => "NEW",
        CtState::Established => "ESTABLISHED",
        CtState::Related => "RELATED",
        CtState::Untracked => "UNTRACKED",
    }
}

/// A tally of words.
pub(crate) fn increment_named_count(map: &mut BTreeMap<String, u64>, word: &str) {
    *map.entry(word.to_owned()).or_default() += 1;
}

/// Whether conntrack was kept from the packet.
pub(crate) fn has_notrack_effect(outcome: &Outcome<'_>) -> bool {
    outcome.effects.iter().any(|e| {
        matches!(e.target, Target::Effect(e) if matches!(**e, Effect::Notrack | Effect::CtNotrack { .. }))
    })
}
