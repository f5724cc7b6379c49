//! Equality for all packets: both rulesets as diagrams.

use weir_diagram::{
    CompareOptions, ComparedPath, Comparison, StatefulTestIdResolver, compare_with_progress,
};
use weir_model::{Family, Firewall};
use weir_semantics::{Interpreter, JourneyKind};

use super::FractionDoneFn;
use super::counterexample::{Counterexample, describe_outcome};

/// The result of comparing two firewalls as diagrams.
#[derive(Clone, Debug)]
pub enum ProofResult {
    /// They mean the same for every packet.
    Equal,
    /// They do not for this one.
    Disproven(Box<Counterexample>),
    /// There is no telling, and why.
    Undecided(String),
}

/// Compares two firewalls for all packets, and reports what is being proven; also the steps that
/// were used ([`CompareOptions::steps_max`]).
pub fn prove_equivalence(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    progress: &mut FractionDoneFn<'_>,
) -> (ProofResult, u64) {
    let mut show = |family, path: ComparedPath| {
        let family = match family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        progress(&format!("proving {family} {path}"), 0.5);
    };
    match compare_with_progress(before, after, options, &mut show) {
        Ok(comparison) => {
            (proof_result_of_comparison(before, after, options, &comparison), comparison.steps)
        }
        Err(error) => (ProofResult::Undecided(error.to_string()), 0),
    }
}

fn proof_result_of_comparison(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
    comparison: &Comparison,
) -> ProofResult {
    let whole = comparison.differences().map(|(part, d)| (part, &d.witness, d.difference));
    let single = comparison
        .differences_known_by_one_packet()
        .map(|(part, e)| (part, &e.witness, e.difference));
    let Some((part, witness, difference)) = whole.chain(single).next() else {
        if let Some((_, why)) = comparison.undecided_comparisons().next() {
            return ProofResult::Undecided(why.to_owned());
        }
        return match comparison.reassembly_differences().next() {
            None => ProofResult::Equal,
            Some((part, f)) => ProofResult::Undecided(format!(
                "{:?}: only the rules {} it have fragments put together ({})",
                part.family,
                if f.is_first_ruleset_reassembling { "before" } else { "after" },
                f.rule_position()
            )),
        };
    };
    let journey_kind = match part.path {
        ComparedPath::WholeJourney(entry) => entry,
        ComparedPath::ReassembledInput => JourneyKind::Input,
        ComparedPath::Hook(_) => JourneyKind::Forward,
    };
    let packet = witness.packet.clone();
    let described = |f: &Firewall, other: &Firewall| {
        let state_ids = StatefulTestIdResolver::new(f, options.stateful_pairing);
        let mut answers = witness.to_oracle(&state_ids);
        describe_outcome(&Interpreter::new_for_comparison_with(f, other).evaluate_journey(
            &packet,
            journey_kind,
            &mut answers,
        ))
    };
    ProofResult::Disproven(Box::new(Counterexample {
        outcome_before: described(before, after),
        outcome_after: described(after, before),
        difference: format!("{} differs", difference.as_str()),
        packet,
        journey_kind,
    }))
}
