//! Paths that no proof decided, compared on packets.

use weir_diagram::{ComparedPath, Comparison, ComparisonVerdict, PairedSeededOracle};
use weir_model::{Family, Packet};
use weir_packet::Transport;
use weir_semantics::{Interpreter, JourneyKind, Outcome, Verdict};
use weir_syntax::packet::print_packet;

use super::compare_counters::generate_packets_for_both_rulesets;
use super::review_types::{FamilyPathReview, Review, ReviewedRuleset};

/// How packets are sent through both rulesets.
#[derive(Clone, Copy, Debug)]
pub struct UndecidedPathCheckOptions {
    /// How stateful tests are paired, as in the comparison.
    pub stateful_pairing: weir_diagram::StatefulTestPairing,
    /// Packets of both families.
    pub packets: usize,
    /// Seed of random packets and answers.
    pub seed: u64,
    /// Omit truncated headers, which nft treats otherwise inherently.
    pub exclude_unreadable_headers: bool,
    /// Conntrack is in use by other programs.
    pub conntrack_in_use: bool,
}

impl Review {
    /// Sends packets on and around the boundaries of both rulesets through both, on each path that
    /// could not be decided. Its part states how many agree, or differs if one does not.
    pub fn check_undecided_paths_on_packets(
        &mut self,
        comparison: &Comparison,
        sides: [ReviewedRuleset<'_>; 2],
        check: &UndecidedPathCheckOptions,
    ) {
        let verdict_only = self.compared == "verdict";
        for (part, review) in comparison.parts.iter().zip(&mut self.parts) {
            if matches!(part.verdict, ComparisonVerdict::Undecided { .. }) {
                check_undecided_path_on_packets(
                    part.family,
                    part.path,
                    review,
                    sides,
                    check,
                    verdict_only,
                );
            }
        }
    }
}

fn check_undecided_path_on_packets(
    family: Family,
    path: ComparedPath,
    review: &mut FamilyPathReview,
    sides: [ReviewedRuleset<'_>; 2],
    check: &UndecidedPathCheckOptions,
    verdict_only: bool,
) {
    let entry = match path {
        ComparedPath::WholeJourney(entry) => entry,
        ComparedPath::Hook(hook) => JourneyKind::ALL
            .into_iter()
            .find(|entry| entry.hooks().contains(&hook))
            .unwrap_or(JourneyKind::Forward),
        ComparedPath::ReassembledInput => JourneyKind::Input,
    };
    let [old, new] = sides.map(|side| side.firewall);
    let interpreters = [(old, new), (new, old)].map(|(firewall, other)| {
        let interpreter = Interpreter::new_for_comparison_with(firewall, other);
        if check.conntrack_in_use { interpreter.with_conntrack_in_use() } else { interpreter }
    });
    let mut answers =
        [old, new].map(|f| PairedSeededOracle::new(f, check.stateful_pairing, check.seed));
    let mut agreed = 0;
    for (of, by, packet) in generate_packets_for_both_rulesets(sides, check.packets, check.seed) {
        let overlaps = packet.fragment.offset == 1 && packet.proto == 6;
        let is_excluded = check.exclude_unreadable_headers
            && (packet.transport == Transport::Truncated || overlaps);
        if of != family || by != entry || is_excluded {
            continue;
        }
        let [a, b] = [0, 1].map(|side| {
            let (interpreter, answers) = (&interpreters[side], &mut answers[side]);
            match path {
                ComparedPath::WholeJourney(entry) => {
                    interpreter.evaluate_journey(&packet, entry, answers)
                }
                ComparedPath::Hook(hook) => interpreter.traverse_hook(&packet, hook, answers),
                ComparedPath::ReassembledInput => {
                    interpreter.traverse_hook(&packet, weir_model::Hook::Input, answers)
                }
            }
        });
        if is_treated_alike(&a, &b, verdict_only) {
            agreed += 1;
        } else {
            review.answer = "differs";
            review.explanation =
                Some(describe_differing_packet(&packet, review.explanation.as_deref()));
            break;
        }
    }
    review.packets_agreed = Some(agreed);
}

/// What the packet becomes matters only if it goes on.
fn is_treated_alike(a: &Outcome<'_>, b: &Outcome<'_>, verdict_only: bool) -> bool {
    let is_same_packet = || a.verdict != Verdict::Accept || a.packet == b.packet;
    a.verdict == b.verdict && (verdict_only || a.effects == b.effects && is_same_packet())
}

fn describe_differing_packet(packet: &Packet, why_undecided: Option<&str>) -> String {
    format!("{} ({})", print_packet(packet), why_undecided.unwrap_or_default())
}
