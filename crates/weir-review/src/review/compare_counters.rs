//! Counters of two rulesets, compared on packets.
//!
//! Diagrams prove the outcome of packets; which rules count them is compared packet by packet, on
//! and around the boundaries of both rulesets and at random. The output says so.

use std::collections::BTreeMap;

use weir_model::{Family, OriginalRuleIndex, Packet, RuleId};
use weir_packet::Transport;
use weir_semantics::outcome::CreditedCounter;
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::packet::print_packet;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

use super::review_types::{CounterComparison, CounterDifference, ReviewedRuleset};

/// What one original counted in both, and a packet that shows the difference.
#[derive(Default)]
struct CountsBeforeAndAfter {
    before: u64,
    after: u64,
    differing_packet: Option<Packet>,
}

/// Sends packets through both and compares every counter; `omit_truncated_headers` omits truncated
/// headers, which nft treats otherwise inherently. `place` names a rule.
pub fn compare_counters(
    sides: [ReviewedRuleset<'_>; 2],
    wanted: usize,
    seed: u64,
    omit_truncated_headers: bool,
    place: &dyn Fn(OriginalRuleIndex) -> String,
) -> CounterComparison {
    let [old, new] = sides.map(|s| s.firewall);
    let before = Interpreter::new_for_comparison_with(old, new);
    let after = Interpreter::new_for_comparison_with(new, old);
    let mut review = CounterComparison { seed, ..CounterComparison::default() };
    let mut counted: BTreeMap<String, CountsBeforeAndAfter> = BTreeMap::new();
    for (family, entry, packet) in generate_packets_for_both_rulesets(sides, wanted, seed) {
        let overlaps = packet.fragment.offset == 1 && packet.proto == 6;
        if omit_truncated_headers && (packet.transport == Transport::Truncated || overlaps) {
            continue;
        }
        review.packets += 1;
        let mut answers = SeededOracle(seed);
        let (old, new) = (
            before.evaluate_journey(&packet, entry, &mut answers),
            after.evaluate_journey(&packet, entry, &mut answers),
        );
        let (old, new) = (old.credited_counters(), new.credited_counters());
        let name = |credited: &CreditedCounter<'_>| match credited {
            CreditedCounter::Rule(id) => place(*id),
            CreditedCounter::Policy(table, chain) => {
                RuleId::for_policy(family, *table, &(*chain).into()).to_string()
            }
        };
        if old == new {
            for credited in &old {
                let counter = counted.entry(name(credited)).or_default();
                counter.before += 1;
                counter.after += 1;
            }
            continue;
        }
        let mut both: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        old.iter().for_each(|c| both.entry(name(c)).or_default().0 += 1);
        new.iter().for_each(|c| both.entry(name(c)).or_default().1 += 1);
        for (name, (old, new)) in both {
            let counter = counted.entry(name).or_default();
            counter.before += old;
            counter.after += new;
            if old != new {
                counter.differing_packet.get_or_insert_with(|| packet.clone());
            }
        }
    }
    review.counters_hit = counted.len();
    let differ = counted.into_iter().filter_map(|(rule, c)| {
        let packet = print_packet(&c.differing_packet?);
        Some(CounterDifference { rule_place: rule, before: c.before, after: c.after, packet })
    });
    review.differ = differ.collect();
    review.differ.sort_by_key(|d| std::cmp::Reverse(d.before.abs_diff(d.after)));
    review
}

/// Packets for the rules of both, each with its family and way.
pub(super) fn generate_packets_for_both_rulesets(
    sides: [ReviewedRuleset<'_>; 2],
    wanted: usize,
    seed: u64,
) -> impl Iterator<Item = (Family, JourneyKind, Packet)> + '_ {
    let all = [Family::V4, Family::V6].into_iter().flat_map(move |family| {
        sides.into_iter().filter_map(move |s| Some((s.firewall.ruleset(family)?, s)))
    });
    all.flat_map(move |(ruleset, side)| {
        JourneyKind::ALL.into_iter().flat_map(move |entry| {
            let share = if entry == JourneyKind::Forward { 4 } else { 8 };
            let count = wanted / share;
            let wish = TrafficOptions {
                seed,
                max_packets: count,
                journey_kind: entry,
                ..TrafficOptions::default()
            };
            let made = generate_boundary_and_random_packets(ruleset, &side.firewall.sets, &wish);
            made.into_iter().map(move |p| (ruleset.family, entry, p))
        })
    })
}
