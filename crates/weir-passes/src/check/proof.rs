//! Equality for all packets: both rulesets as diagrams.

use weir_diagram::{CompareOptions, ComparedPath, compare};
use weir_model::Firewall;
use weir_semantics::{Entry, Interpreter};

use super::counterexample::{Counterexample, describe};

/// The result of comparing two firewalls as diagrams.
#[derive(Clone, Debug)]
pub enum Proof {
    /// They mean the same for every packet.
    Equal,
    /// They do not for this one.
    Differs(Box<Counterexample>),
    /// There is no telling, and why.
    Open(String),
}

/// Compares two firewalls for all packets.
pub fn prove(before: &Firewall, after: &Firewall, options: &CompareOptions) -> Proof {
    let comparison = match compare(before, after, options) {
        Ok(comparison) => comparison,
        Err(error) => return Proof::Open(error.to_string()),
    };
    let Some((part, differs)) = comparison.differences().next() else {
        if let Some((_, why)) = comparison.unknowns().next() {
            return Proof::Open(why.to_owned());
        }
        return match comparison.fragments().next() {
            None => Proof::Equal,
            Some((part, f)) => Proof::Open(format!(
                "{:?}: only the rules {} it have fragments put together ({})",
                part.family,
                if f.before { "before" } else { "after" },
                f.place()
            )),
        };
    };
    let entry = match part.way {
        ComparedPath::Entry(entry) => entry,
        ComparedPath::Assembled => Entry::Input,
        ComparedPath::Hook(_) => Entry::Forward,
    };
    let packet = differs.witness.packet.clone();
    let described = |f: &Firewall, other: &Firewall| {
        let mut answers = differs.witness.answers(f, options.identity);
        describe(&Interpreter::comparing(f, other).journey(&packet, entry, &mut answers))
    };
    Proof::Differs(Box::new(Counterexample {
        before: described(before, after),
        after: described(after, before),
        difference: format!("{:?} differs", differs.difference).to_lowercase(),
        packet,
        entry,
    }))
}
