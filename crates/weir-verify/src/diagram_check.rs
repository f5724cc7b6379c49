//! Evaluates the diagram of the ruleset for each packet that the interpreter evaluates.

use weir_diagram::{DIAGRAM_TOO_LARGE_REASON, DiagramLookup};
use weir_model::{Family, Firewall, Packet};
use weir_semantics::{Interpreter, JourneyKind, Oracle, Outcome};

/// What a family's diagrams may take.
const DIAGRAM_MEMORY_BYTES: usize = 512 << 20;
const DIAGRAM_STEPS_MAX: u64 = 100_000_000;

/// How the diagram differs from the interpreter, if it does; or why it was not evaluated.
pub(crate) type DiagramDisagreementOrSkipReason = Result<Option<String>, &'static str>;

/// The diagrams of a ruleset, where they are wanted.
pub(crate) struct DiagramLookupByFamily<'f>(Vec<(Family, Option<DiagramLookup<'f>>)>);

impl<'f> DiagramLookupByFamily<'f> {
    pub fn build_diagrams(firewall: &'f Firewall, wanted: bool) -> Self {
        let families = firewall.rulesets().map(|r| r.family).filter(|_| wanted);
        let made = families.map(|f| {
            (
                f,
                DiagramLookup::build_if_within_limits(
                    firewall,
                    f,
                    DIAGRAM_MEMORY_BYTES,
                    DIAGRAM_STEPS_MAX,
                ),
            )
        });
        DiagramLookupByFamily(made.collect())
    }

    /// Evaluates a packet's journey, and the diagram for the same journey.
    pub fn interpret_and_check_journey(
        &self,
        interpreter: &Interpreter<'f>,
        packet: &Packet,
        entry: JourneyKind,
        answers: &mut dyn Oracle,
    ) -> (Outcome<'f>, Option<DiagramDisagreementOrSkipReason>) {
        let Some((_, lookup)) = self.0.iter().find(|(f, _)| *f == packet.family) else {
            return (interpreter.evaluate_journey(packet, entry, answers), None);
        };
        let Some(lookup) = lookup else {
            return (
                interpreter.evaluate_journey(packet, entry, answers),
                Some(Err(DIAGRAM_TOO_LARGE_REASON)),
            );
        };
        let mut overhearing = lookup.recording_oracle(answers);
        let outcome = interpreter.evaluate_journey(packet, entry, &mut overhearing);
        let heard = overhearing.into_recorded_answers();
        let looked = lookup.find_disagreement(packet, entry, &outcome, &heard);
        (outcome, Some(looked))
    }
}
