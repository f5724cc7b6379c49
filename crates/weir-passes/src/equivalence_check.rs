//! Equality on packets.
//!
//! Packets on and around every boundary of every rule, and seeded random ones, are evaluated by the
//! interpreter with the ruleset before and after. Verdict, effects in order, the outgoing packet,
//! the stateful matches evaluated, and the credit of every original rule must be the same. A
//! difference is reported as a packet, with its path through both.
//!
//! Anything that evaluates a packet can be compared: [`compare_form_on_generated_packets`] takes a
//! function that sends a packet through it and reports how the outcome differs.
//! [`make_iptables_form_comparer`] is that function for a firewall.

mod counterexample;
mod equivalence_judge;
mod proof;
mod u32_evaluating_oracle;

use weir_artefact::EqualityCheckRecord;
use weir_model::{Firewall, Packet};
use weir_semantics::{Interpreter, JourneyKind, Oracle, Outcome, SeededOracle};
use weir_traffic::TrafficOptions;

pub use self::counterexample::{Counterexample, FormDifference, describe_outcome};
pub(crate) use self::equivalence_judge::EquivalenceJudge;
pub use self::equivalence_judge::map_merged_rules_to_first;
pub use self::proof::{ProofResult, prove_equivalence};
pub use self::u32_evaluating_oracle::{U32EvaluatingOracle, evaluate_u32_expression};

use crate::Equivalence;

/// Called with what is being done and how much of it is done, 0.0 to 1.0.
pub type FractionDoneFn<'a> = dyn FnMut(&str, f64) + 'a;

/// What is sent through both.
#[derive(Clone, Debug)]
pub struct PacketCheckOptions {
    /// Seed of random packets and of the answers to opaque matches.
    pub seed: u64,
    /// Packets for each family.
    pub packets_per_family: usize,
}

/// The first of some packets that a pass's result treats in another way, in the pass's own sense of
/// equal.
pub fn find_counterexample_in_packets(
    equivalence: Equivalence,
    before: &Firewall,
    after: &Firewall,
    packets: &[(JourneyKind, Packet)],
    answers: &mut dyn Oracle,
) -> Option<Box<Counterexample>> {
    let mut judge = EquivalenceJudge::new(equivalence, before, after);
    packets
        .iter()
        .find_map(|(entry, packet)| judge.find_counterexample_on_journey(packet, *entry, answers))
}

/// Compares a firewall with a form of it.
///
/// `form` gets a packet, its entry, the firewall's outcome, and the same answers; it returns how
/// the form differs. `boundaries` are further firewalls for whose boundaries packets are generated:
/// the form itself, if it consists of rules.
///
/// # Errors
/// The first packet that is treated in another way.
pub fn compare_form_on_generated_packets<'f>(
    before: &'f Firewall,
    boundaries: &[&Firewall],
    options: &PacketCheckOptions,
    mut form: impl FnMut(&Packet, JourneyKind, &Outcome<'f>, &mut dyn Oracle) -> Option<FormDifference>,
    progress: &mut FractionDoneFn<'_>,
) -> Result<EqualityCheckRecord, Box<Counterexample>> {
    let old = Interpreter::new(before);
    let mut answers = U32EvaluatingOracle(SeededOracle(options.seed));
    let mut checked = 0u64;
    let sources = [before].into_iter().chain(boundaries.iter().copied()).enumerate();
    for (i, source) in sources {
        progress("checking", i as f64 / (1 + boundaries.len()) as f64);
        // Most of the boundaries are the ruleset's own.
        let share = if i == 0 { 1 } else { 4 };
        for (journey_kind, packets) in generate_firewall_check_packets(source, options, share) {
            for packet in packets {
                let outcome = old.evaluate_journey(&packet, journey_kind, &mut answers);
                checked += 1;
                if let Some(FormDifference { difference: what, outcome_after: after }) =
                    form(&packet, journey_kind, &outcome, &mut answers)
                {
                    let (before, difference) = (describe_outcome(&outcome), what);
                    let example = Counterexample {
                        packet,
                        journey_kind,
                        difference,
                        outcome_before: before,
                        outcome_after: after,
                    };
                    return Err(Box::new(example));
                }
            }
        }
    }
    progress("checking", 1.0);
    Ok(EqualityCheckRecord {
        packets: checked,
        seed: options.seed,
        ..EqualityCheckRecord::default()
    })
}

/// Packets for the rules of a firewall, by entry: a part of those that the options request, most of
/// them forwarded.
pub fn generate_firewall_check_packets(
    firewall: &Firewall,
    options: &PacketCheckOptions,
    packet_count_divisor: usize,
) -> Vec<(JourneyKind, Vec<Packet>)> {
    let mut out = Vec::new();
    for ruleset in firewall.rulesets() {
        for entry in JourneyKind::ALL {
            let journey_divisor = if entry == JourneyKind::Forward { 2 } else { 4 };
            let count = options.packets_per_family / journey_divisor / packet_count_divisor;
            let traffic = TrafficOptions {
                seed: options.seed,
                max_packets: count,
                journey_kind: entry,
                ..Default::default()
            };
            out.push((
                entry,
                weir_traffic::generate_boundary_and_random_packets(
                    ruleset,
                    &firewall.sets,
                    &traffic,
                ),
            ));
        }
    }
    out
}

/// Sends packets through a form that is iptables again.
pub fn make_iptables_form_comparer<'a>(
    before: &Firewall,
    after: &'a Firewall,
) -> impl FnMut(&Packet, JourneyKind, &Outcome<'_>, &mut dyn Oracle) -> Option<FormDifference> + 'a
{
    let new = Interpreter::new_for_comparison_with(after, before);
    move |packet, entry, before, answers| {
        let outcome = new.evaluate_journey(packet, entry, answers);
        before.first_difference(&outcome).map(|d| FormDifference {
            difference: format!("{d:?} differs").to_lowercase(),
            outcome_after: describe_outcome(&outcome),
        })
    }
}
