//! Evaluates the diagram of the ruleset for each packet that the interpreter evaluates.

use weir_diagram::{Lookup, TOO_LARGE};
use weir_model::{Family, Firewall, Packet};
use weir_semantics::{Entry, Interpreter, Oracle, Outcome};

/// What a family's diagrams may take.
const MEMORY_BYTES: usize = 512 << 20;
const STEPS: u64 = 100_000_000;

/// How the diagram differs from the interpreter, if it does; or why it was not evaluated.
pub(crate) type Looked = Result<Option<String>, &'static str>;

/// The diagrams of a ruleset, where they are wanted.
pub(crate) struct Diagrams<'f>(Vec<(Family, Option<Lookup<'f>>)>);

impl<'f> Diagrams<'f> {
    pub fn of(firewall: &'f Firewall, wanted: bool) -> Self {
        let families = firewall.rulesets().map(|r| r.family).filter(|_| wanted);
        let made = families.map(|f| (f, Lookup::new(firewall, f, MEMORY_BYTES, STEPS)));
        Diagrams(made.collect())
    }

    /// Evaluates a packet's journey, and the diagram for the same journey.
    pub fn journey(
        &self,
        interpreter: &Interpreter<'f>,
        packet: &Packet,
        entry: Entry,
        answers: &mut dyn Oracle,
    ) -> (Outcome<'f>, Option<Looked>) {
        let Some((_, lookup)) = self.0.iter().find(|(f, _)| *f == packet.family) else {
            return (interpreter.journey(packet, entry, answers), None);
        };
        let Some(lookup) = lookup else {
            return (interpreter.journey(packet, entry, answers), Some(Err(TOO_LARGE)));
        };
        let mut overhearing = lookup.overhear(answers);
        let outcome = interpreter.journey(packet, entry, &mut overhearing);
        let heard = overhearing.heard();
        let looked = lookup.differs(packet, entry, &outcome, &heard);
        (outcome, Some(looked))
    }
}
