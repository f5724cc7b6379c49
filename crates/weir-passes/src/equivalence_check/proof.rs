//! Equality for all packets: both rulesets as diagrams.

use weir_diagram::{CompareOptions, ComparedPath, compare_firewalls};
use weir_model::Firewall;
use weir_semantics::{Interpreter, JourneyKind};

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

/// Compares two firewalls for all packets.
pub fn prove_equivalence(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> ProofResult {
    let comparison = match compare_firewalls(before, after, options) {
        Ok(comparison) => comparison,
        Err(error) => return ProofResult::Undecided(error.to_string()),
    };
    let Some((part, differs)) = comparison.differences().next() else {
        if let Some((_, why)) = comparison.undecided_comparisons().next() {
            return ProofResult::Undecided(why.to_owned());
        }
        return match comparison.reassembly_differences().next() {
            None => ProofResult::Equal,
            Some((part, f)) => ProofResult::Undecided(format!(
                "{:?}: only the rules {} it have fragments put together ({})",
                part.family,
                if f.is_first_ruleset { "before" } else { "after" },
                f.rule_position()
            )),
        };
    };
    let entry = match part.path {
        ComparedPath::WholeJourney(entry) => entry,
        ComparedPath::ReassembledInput => JourneyKind::Input,
        ComparedPath::Hook(_) => JourneyKind::Forward,
    };
    let packet = differs.witness.packet.clone();
    let described = |f: &Firewall, other: &Firewall| {
        let mut answers = differs.witness.to_oracle(f, options.stateful_pairing);
        describe_outcome(&Interpreter::new_with_sets_changed_by(f, other).journey(
            &packet,
            entry,
            &mut answers,
        ))
    };
    ProofResult::Disproven(Box::new(Counterexample {
        outcome_before: described(before, after),
        outcome_after: described(after, before),
        difference: format!("{} differs", differs.difference.as_str()),
        packet,
        entry,
    }))
}
