//! Packets that a form treats differently on purpose.
//!
//! Two passes do more than restructure: `early_drop` drops in raw PREROUTING what the ruleset drops
//! later, so that counters in between do not count it; `notrack` exempts packets from conntrack, so
//! that nat does not see them. The interpreter determines these packets from the form's own text;
//! they are compared as exactly as all others, except for those counters. Without such a pass there
//! are no intended differences.

use weir_artefact::{Deviation, DeviationTrigger, StoredArtefact};
use weir_model::{Firewall, TableName};
use weir_semantics::{CountedObject, Interpreter, Outcome};

use crate::VerifyError;
use crate::counters::OriginalRulesAndPolicies;
use crate::kernel_oracle::KernelOracle;
use crate::packet_batch::PacketBatch;
use crate::result_difference::{ExpectedResult, has_notrack_effect};

/// The form as one firewall, where such a pass changed something.
///
/// # Errors
/// A file of the folder that is not as weir writes it.
pub(crate) fn read_form_with_journey_deviations(
    stored: &StoredArtefact,
    original: &Firewall,
) -> Result<Option<Firewall>, VerifyError> {
    let on_journeys = |d: &Deviation| matches!(d.trigger(), DeviationTrigger::JourneyOutcome);
    if !stored.artefact.manifest.deviations.iter().any(on_journeys) {
        return Ok(None);
    }
    let read =
        weir_backends::artefact_firewall::read_artefact_as_iptables(&stored.artefact, original);
    read.map(Some).map_err(|what| VerifyError::MalformedArtefact { path: stored.dir.clone(), what })
}

/// The expected result of a packet of a batch in the form, if it differs from that in the original,
/// and its name.
pub(crate) fn find_intended_result_in_form(
    form: &Interpreter<'_>,
    batch: &PacketBatch,
    at: usize,
    original: &ExpectedResult,
    originals: &OriginalRulesAndPolicies,
) -> Option<(ExpectedResult, &'static str)> {
    let prepared = &batch.packets[at];
    let mut known =
        KernelOracle::from_namespaces(&batch.path, &prepared.packet, prepared.is_delivered_locally);
    let outcome = form.evaluate_journey(&prepared.packet, batch.path.journey_kind, &mut known);
    if is_dropped_before_credited_rule(&outcome) && original.has_drop_verdict {
        let counted =
            ExpectedResult { hits: Vec::new(), possible_hits: Vec::new(), ..original.clone() };
        return Some((counted, "dropped early: counted by the form's own rule"));
    }
    if has_notrack_effect(&outcome) && !original.is_untracked {
        let mut counted = original.clone();
        counted.hits.retain(|at| !originals.is_in_table(*at, TableName::Nat));
        return Some((counted, "not tracked: nat does not see it"));
    }
    None
}

/// Whether a rule that counts for no original dropped the packet before any other rule.
fn is_dropped_before_credited_rule(outcome: &Outcome<'_>) -> bool {
    let by_rule = |c: &CountedObject<'_>| !matches!(c, CountedObject::Policy { .. });
    outcome.verdict == weir_semantics::Verdict::Drop
        && outcome.hits.iter().all(|h| h.credited_originals.is_empty())
        && outcome.hits.last().is_some_and(|h| by_rule(&h.counted_object))
}
