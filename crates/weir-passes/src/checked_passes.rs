//! Runs passes one after another, and checks each of them.
//!
//! There are three checks, from the cheapest to the strongest, and none replaces another:
//!
//! 1. *structure* ([`structure_check`]): every original rule still has a counter, stateful rules
//!    occur as often as before, chains of other programs are unchanged;
//! 2. *packets* ([`equivalence_check`]): on and around every boundary of every rule, before and
//!    after, by the interpreter; only this check covers counters;
//! 3. *proof*: both rulesets as diagrams, which covers all packets at once, except for counters. It
//!    may exceed its memory, and does not support every sense of equality: then the pass is
//!    reported as checked on packets, with the reason.
//!
//! Each pass is compared with its input. Equality is transitive, so no comparison with the
//! beginning is needed, and a difference is attributed to one pass.

use std::collections::HashSet;
use std::fmt;

use weir_artefact::manifest::{CompiledRuleRun, UnchangedRule};
use weir_artefact::{Deviation, PassEqualityEvidence};
use weir_diagram::{CompareOptions, ProofBudget, StatefulTestPairing};
use weir_model::{ChangingSets, Family, Firewall, IpSet, Packet, RuleIdTable, Ruleset};
use weir_semantics::{JourneyKind, SeededOracle};

use crate::equivalence_check::{
    self, Counterexample, EquivalenceJudge, FractionDoneFn, PacketCheckOptions, ProofResult,
    U32EvaluatingOracle,
};
use crate::structure_check::{self, StructureViolation};
use crate::{CounterPreservation, Equivalence, Pass, PassContext, PassOptions, RewrittenRuleset};

/// How passes are run and checked.
#[derive(Clone, Debug)]
pub struct CheckedPassesOptions {
    /// How passes work.
    pub pass: PassOptions,
    /// What is sent through both.
    pub packet_check: PacketCheckOptions,
    /// Nothing is compared.
    pub skip_equivalence_checks: bool,
    /// Memory that a proof may take, in bytes.
    pub proof_memory_bytes: usize,
    /// Steps that all proofs together may take: see
    /// [`CompareOptions::steps_max`](weir_diagram::CompareOptions::steps_max).
    pub proof_steps_max: u64,
    /// Another proof follows that of the last pass, with the steps that are left.
    pub reserve_steps_for_later_proof: bool,
}

impl Default for CheckedPassesOptions {
    fn default() -> Self {
        CheckedPassesOptions {
            pass: PassOptions::default(),
            packet_check: PacketCheckOptions { seed: 1, packets_per_family: 20_000 },
            skip_equivalence_checks: false,
            proof_memory_bytes: 1 << 30,
            proof_steps_max: CompareOptions::default().steps_max,
            reserve_steps_for_later_proof: false,
        }
    }
}

/// The result of all passes.
#[derive(Clone, Debug)]
pub struct CheckedPassesResult {
    /// The rewritten firewall.
    pub firewall: Firewall,
    /// The sets that passes made, by the family they are for.
    pub generated_sets: Vec<(Family, IpSet)>,
    /// What was compiled, in the order of passes.
    pub compiled_rule_runs: Vec<CompiledRuleRun>,
    /// The unchanged rules, and why.
    pub unchanged_rules: Vec<UnchangedRule>,
    /// What each pass did.
    pub pass_reports: Vec<PassReport>,
    /// The intended differences of passes that changed something.
    pub deviations: Vec<Deviation>,
    /// What is left of [`CheckedPassesOptions::proof_steps_max`].
    pub proof_budget: ProofBudget,
}

/// Rules that a packet tried, on average, before and after a pass; `None` without a check.
pub type MeanRulesTriedBeforeAndAfter = Option<(f64, f64)>;

/// One pass of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PassReport {
    /// The pass.
    pub pass: &'static str,
    /// Rules before and after, sets' elements not counted.
    pub rule_counts: (usize, usize),
    /// Rules that a packet of the check tried, on average, before and after.
    pub mean_rules_tried: MeanRulesTriedBeforeAndAfter,
    /// How it was checked.
    pub evidence: PassEqualityEvidence<NoProofReason>,
}

/// Why what a pass made is not proven to be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProofReason {
    /// The pass changes the text of questions ([`Equivalence::StrictOnPacketBytes`]).
    OracleQuestionTextChanged,
    /// The pass drops packets early ([`Equivalence::EarlyDrop`]).
    DropsBeforeConntrack,
    /// The pass keeps packets from conntrack ([`Equivalence::Untracked`]).
    ConntrackStateDiffers,
    /// The proof did not finish: the reason from the diagrams.
    ProofUnfinished(String),
}

impl fmt::Display for NoProofReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoProofReason::OracleQuestionTextChanged => {
                "stateful tests have a different text, by which diagrams identify them"
            }
            NoProofReason::DropsBeforeConntrack => {
                "packet by packet: conntrack does not see packets that are dropped early"
            }
            NoProofReason::ConntrackStateDiffers => {
                "the conntrack state of untracked packets differs on purpose"
            }
            NoProofReason::ProofUnfinished(what) => what,
        })
    }
}

/// A pass whose result is not equal. Nothing of the run is kept.
#[derive(Debug, thiserror::Error)]
#[error("pass {pass} changes the meaning: {why}")]
pub struct RefusedPass {
    /// The pass.
    pub pass: &'static str,
    /// In what.
    #[source]
    pub why: PassRefusalReason,
}

/// Why a pass is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassRefusalReason {
    /// A packet of the check is treated in another way.
    #[error("{0}")]
    PacketDiffers(Box<Counterexample>),
    /// A packet is treated in another way, which the proof found.
    #[error("{0}")]
    Disproven(Box<Counterexample>),
    /// Something is wrong for any packets.
    #[error("{0}")]
    StructureBroken(#[from] StructureViolation),
}

impl PassRefusalReason {
    /// Which check found it: `packets`, `proof` or `structure`.
    pub const fn refusing_check_name(&self) -> &'static str {
        match self {
            PassRefusalReason::PacketDiffers(_) => "packets",
            PassRefusalReason::Disproven(_) => "proof",
            PassRefusalReason::StructureBroken(_) => "structure",
        }
    }
}

/// Runs passes in their order, each checked against what it was given.
///
/// # Errors
/// The first pass whose result is not equal in its own sense, with the packet that shows it.
///
/// # Panics
/// If the indices of the firewall's rules are not those that a parser assigns.
pub fn run_passes_until_first_refusal(
    firewall: &Firewall,
    passes: &[&dyn Pass],
    options: &CheckedPassesOptions,
    progress: &mut FractionDoneFn<'_>,
) -> Result<CheckedPassesResult, RefusedPass> {
    let places =
        [Family::V4, Family::V6].map(|f| firewall.ruleset(f).map(RuleIdTable::from_ruleset));
    let mut run = CheckedPassesResult {
        firewall: firewall.clone(),
        generated_sets: Vec::new(),
        compiled_rule_runs: Vec::new(),
        unchanged_rules: Vec::new(),
        pass_reports: Vec::new(),
        deviations: Vec::new(),
        proof_budget: ProofBudget::new(options.proof_steps_max),
    };
    let mut sample = None;
    for (i, pass) in passes.iter().enumerate() {
        let mut show = |what: &str, done: f64| {
            let done = (i as f64 + done) / passes.len() as f64;
            progress(&format!("{}: {what}", pass.name()), done);
        };
        let more_follow = i + 1 < passes.len() || options.reserve_steps_for_later_proof;
        let proof_steps_max = run.proof_budget.steps_for_next_proof(more_follow);
        let options = &CheckedPassesOptions { proof_steps_max, ..options.clone() };
        run_checked_pass(&mut run, *pass, &places, options, &mut sample, &mut show)
            .map_err(|why| RefusedPass { pass: pass.name(), why })?;
    }
    Ok(run)
}

/// Packets for the ruleset that the next pass is given, where some were made already.
type PacketsFromPreviousPass = Option<Vec<(JourneyKind, Vec<Packet>)>>;

fn run_checked_pass(
    run: &mut CheckedPassesResult,
    pass: &dyn Pass,
    places: &[Option<RuleIdTable>; 2],
    options: &CheckedPassesOptions,
    sample: &mut PacketsFromPreviousPass,
    progress: &mut FractionDoneFn<'_>,
) -> Result<(), PassRefusalReason> {
    let count = |f: &Firewall| f.rulesets().flat_map(Ruleset::rules_with_table_and_chain).count();
    let rules = count(&run.firewall);
    let note = |run: &mut CheckedPassesResult, rules, tried, evidence| {
        run.pass_reports.push(PassReport {
            pass: pass.name(),
            rule_counts: rules,
            mean_rules_tried: tried,
            evidence,
        });
    };
    if pass.counter_preservation() == CounterPreservation::Lost && !options.pass.allow_counter_loss
    {
        let why = "it loses counters (permitted by --allow counters)".to_owned();
        note(run, (rules, rules), None, PassEqualityEvidence::PassNotRun(why));
        return Ok(());
    }
    progress("rewriting", 0.0);
    let mut after = run.firewall.clone();
    let mut made = Vec::new();
    let changing_sets = ChangingSets::from_firewall(&run.firewall);
    for (family, places) in [Family::V4, Family::V6].into_iter().zip(places) {
        let (Some(places), Some(ruleset)) = (places, run.firewall.ruleset(family)) else {
            continue;
        };
        let context = PassContext {
            options: &options.pass,
            rule_ids: places,
            sets: &run.firewall.sets,
            traffic_changed_sets: &changing_sets,
        };
        let rewritten = pass.run(ruleset, &context);
        replace_ruleset_and_add_sets(&mut after, &rewritten);
        made.push((family, places, rewritten));
    }
    if after == run.firewall {
        for (_, _, rewritten) in made {
            add_unchanged_rules_without_duplicates(run, rewritten.unchanged_rules);
        }
        note(run, (rules, rules), None, PassEqualityEvidence::Unchanged);
        return Ok(());
    }
    check_rewrite_structure(&run.firewall, &after, &made, pass, options)?;
    let (tried, evidence) = if options.skip_equivalence_checks {
        (None, PassEqualityEvidence::Trusted)
    } else {
        check_on_packets_and_by_proof(
            &run.firewall,
            &after,
            pass.equivalence(),
            options,
            (sample, &mut run.proof_budget),
            progress,
        )?
    };
    for (family, _, rewritten) in made {
        run.generated_sets.extend(rewritten.sets.into_iter().map(|s| (family, s)));
        run.compiled_rule_runs.extend(rewritten.compiled_rule_runs);
        add_unchanged_rules_without_duplicates(run, rewritten.unchanged_rules);
    }
    run.deviations.extend(pass.deviation());
    note(run, (rules, count(&after)), tried, evidence);
    run.firewall = after;
    Ok(())
}

/// Checks the structure of each rewritten ruleset, then the sets and shared objects of the whole.
fn check_rewrite_structure(
    before: &Firewall,
    after: &Firewall,
    rewrites: &[(Family, &RuleIdTable, RewrittenRuleset)],
    pass: &dyn Pass,
    options: &CheckedPassesOptions,
) -> Result<(), StructureViolation> {
    let changing_sets = ChangingSets::from_firewall(before);
    for (family, places, rewritten) in rewrites {
        let ruleset = before.ruleset(*family).expect("it was rewritten");
        let context = PassContext {
            options: &options.pass,
            rule_ids: places,
            sets: &after.sets,
            traffic_changed_sets: &changing_sets,
        };
        structure_check::check_rules_chains_and_conntrack_use_of_rewrite(
            ruleset,
            &rewritten.ruleset,
            &rewritten.dead_rules,
            pass.equivalence(),
            &context,
        )?;
    }
    structure_check::check_user_sets_unchanged(before, after)?;
    structure_check::check_shared_objects_unchanged(before, after)
}

fn replace_ruleset_and_add_sets(firewall: &mut Firewall, rewritten: &RewrittenRuleset) {
    let ruleset = rewritten.ruleset.clone();
    match ruleset.family {
        Family::V4 => firewall.v4 = Some(ruleset),
        Family::V6 => firewall.v6 = Some(ruleset),
    }
    firewall.sets.extend(rewritten.sets.iter().cloned());
}

fn add_unchanged_rules_without_duplicates(run: &mut CheckedPassesResult, kept: Vec<UnchangedRule>) {
    run.unchanged_rules.extend(kept);
    let mut seen = HashSet::new();
    run.unchanged_rules.retain(|kept| seen.insert(kept.clone()));
}

/// Compares on packets, then by proof.
fn check_on_packets_and_by_proof(
    before: &Firewall,
    after: &Firewall,
    equivalence: Equivalence,
    options: &CheckedPassesOptions,
    (sample, budget): (&mut PacketsFromPreviousPass, &mut ProofBudget),
    progress: &mut FractionDoneFn<'_>,
) -> Result<(MeanRulesTriedBeforeAndAfter, PassEqualityEvidence<NoProofReason>), PassRefusalReason>
{
    progress("checking packets", 0.1);
    let own = sample.take().unwrap_or_else(|| {
        equivalence_check::generate_firewall_check_packets(before, &options.packet_check, 1)
    });
    let next = equivalence_check::generate_firewall_check_packets(after, &options.packet_check, 1);
    let mut judge = EquivalenceJudge::new(equivalence, before, after);
    let mut answers = U32EvaluatingOracle(SeededOracle(options.packet_check.seed));
    let mut packets = 0;
    // Most of the boundaries are those of the original ruleset.
    for (of, share) in [(&own, 1), (&next, 4)] {
        for (entry, list) in of {
            for packet in &list[..list.len() / share] {
                packets += 1;
                if let Some(example) =
                    judge.find_counterexample_on_journey(packet, *entry, &mut answers)
                {
                    return Err(PassRefusalReason::PacketDiffers(example));
                }
            }
        }
    }
    *sample = Some(next);
    let average = |n: u64| n as f64 / packets.max(1) as f64;
    let tried = Some((average(judge.rules_tried.0), average(judge.rules_tried.1)));
    progress("proving", 0.5);
    let evidence = match prove_pass(before, after, equivalence, options, budget, progress)? {
        None => PassEqualityEvidence::ProvenAndPacketsCompared(packets),
        Some(why) => PassEqualityEvidence::ComparedPackets(packets, why),
    };
    Ok((tried, evidence))
}

/// Compares the rulesets for all packets; returns the reason if they could not be compared.
fn prove_pass(
    before: &Firewall,
    after: &Firewall,
    equivalence: Equivalence,
    options: &CheckedPassesOptions,
    budget: &mut ProofBudget,
    progress: &mut FractionDoneFn<'_>,
) -> Result<Option<NoProofReason>, PassRefusalReason> {
    // A diagram supports only the strict senses. If it finds no difference, that proves the others
    // as well; if it does, the difference may be what the pass changes on purpose.
    let beyond = match equivalence {
        Equivalence::Strict | Equivalence::SummedCounters => None,
        Equivalence::StrictOnPacketBytes => Some(NoProofReason::OracleQuestionTextChanged),
        Equivalence::EarlyDrop => Some(NoProofReason::DropsBeforeConntrack),
        Equivalence::Untracked => Some(NoProofReason::ConntrackStateDiffers),
    };
    let compare = CompareOptions {
        memory_bytes: options.proof_memory_bytes,
        steps_max: options.proof_steps_max,
        stateful_pairing: StatefulTestPairing::ByCredit,
        regions_max: 1,
        ..CompareOptions::default()
    };
    let (result, steps) = equivalence_check::prove_equivalence(before, after, &compare, progress);
    budget.spend(steps);
    match (result, beyond) {
        // Equal packet by packet; but conntrack knows less of them.
        (ProofResult::Equal, Some(NoProofReason::DropsBeforeConntrack)) => {
            Ok(Some(NoProofReason::DropsBeforeConntrack))
        }
        (ProofResult::Equal, _) => Ok(None),
        (_, Some(why)) => Ok(Some(why)),
        (ProofResult::Disproven(example), None) => Err(PassRefusalReason::Disproven(example)),
        (ProofResult::Undecided(why), None) => Ok(Some(NoProofReason::ProofUnfinished(why))),
    }
}
