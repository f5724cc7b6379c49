//! Runs passes one after another, and checks each of them.
//!
//! There are three checks, from the cheapest to the strongest, and none replaces another:
//!
//! 1. *structure* ([`structure`]): every original rule still has a counter, stateful rules occur as
//!    often as before, chains of other programs are unchanged;
//! 2. *packets* ([`check`]): on and around every boundary of every rule, before and after, by the
//!    interpreter; only this check covers counters;
//! 3. *proof*: both rulesets as diagrams, which covers all packets at once, except for counters. It
//!    may exceed its memory, and does not support every sense of equality: then the pass is
//!    reported as checked on packets, with the reason.
//!
//! Each pass is compared with its input. Equality is transitive, so no comparison with the
//! beginning is needed, and a difference is attributed to one pass.

use std::fmt;

use weir_artefact::manifest::{CompiledRun, Kept};
use weir_artefact::{Deviation, Evidence};
use weir_diagram::{CompareOptions, Identity};
use weir_model::{Family, Firewall, IpSet, Packet, RuleIds, Ruleset};
use weir_semantics::{Entry, Seeded};

use crate::check::{self, Bytes, CheckOptions, Counterexample, Judge, ProgressFn, Proof};
use crate::structure::{self, Broken};
use crate::{Context, Counting, Equivalence, Pass, PassOptions, Rewritten};

/// How passes are run and checked.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How passes work.
    pub pass: PassOptions,
    /// What is sent through both.
    pub check: CheckOptions,
    /// Nothing is compared.
    pub trust: bool,
    /// Memory that a proof may take, in bytes.
    pub proof_bytes: usize,
    /// Steps that it may take for one family and way: see
    /// [`CompareOptions::steps_max`](weir_diagram::CompareOptions::steps_max).
    pub proof_steps: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            pass: PassOptions::default(),
            check: CheckOptions { seed: 1, packets: 20_000 },
            trust: false,
            proof_bytes: 1 << 30,
            proof_steps: CompareOptions::default().steps_max,
        }
    }
}

/// The result of all passes.
#[derive(Clone, Debug)]
pub struct CheckedRun {
    /// The rewritten firewall.
    pub firewall: Firewall,
    /// The sets that passes made, by the family they are for.
    pub own: Vec<(Family, IpSet)>,
    /// What was compiled, in the order of passes.
    pub compiled: Vec<CompiledRun>,
    /// The unchanged rules, and why.
    pub kept: Vec<Kept>,
    /// What each pass did.
    pub steps: Vec<PassStep>,
    /// The intended differences of passes that changed something.
    pub deviations: Vec<Deviation>,
}

/// Rules that a packet tried, on average, before and after a pass; `None` without a check.
pub type Tried = Option<(f64, f64)>;

/// One pass of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PassStep {
    /// The pass.
    pub pass: &'static str,
    /// Rules before and after, sets' elements not counted.
    pub rules: (usize, usize),
    /// Rules that a packet of the check tried, on average, before and after.
    pub tried: Tried,
    /// How it was checked.
    pub evidence: Evidence<Unproven>,
}

/// Why what a pass made is not proven to be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The pass changes the text of questions ([`Equivalence::StrictOnBytes`]).
    Words,
    /// The pass drops packets early ([`Equivalence::EarlyDrop`]).
    Early,
    /// The pass keeps packets from conntrack ([`Equivalence::Untracked`]).
    Conntrack,
    /// The proof did not finish: the reason from the diagrams.
    Memory(String),
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unproven::Words => {
                "stateful tests have a different text, by which diagrams identify them"
            }
            Unproven::Early => {
                "packet by packet: conntrack does not see packets that are dropped early"
            }
            Unproven::Conntrack => "the conntrack state of untracked packets differs on purpose",
            Unproven::Memory(what) => what,
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
    pub why: Why,
}

/// Why a pass is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// A packet of the check is treated in another way.
    #[error("{0}")]
    Differs(Box<Counterexample>),
    /// A packet is treated in another way, which the proof found.
    #[error("{0}")]
    Disproven(Box<Counterexample>),
    /// Something is wrong for any packets.
    #[error("{0}")]
    Broken(#[from] Broken),
}

impl Why {
    /// Which check found it: `packets`, `proof` or `structure`.
    pub const fn check(&self) -> &'static str {
        match self {
            Why::Differs(_) => "packets",
            Why::Disproven(_) => "proof",
            Why::Broken(_) => "structure",
        }
    }
}

/// Runs passes in their order, each checked against what it was given.
///
/// # Errors
/// The first pass whose result is not equal in its own sense, with the packet that shows it.
///
/// # Panics
/// Where the rules of the firewall are not numbered as a parser numbers them.
pub fn run_checked(
    firewall: &Firewall,
    passes: &[&dyn Pass],
    options: &RunOptions,
    progress: &mut ProgressFn<'_>,
) -> Result<CheckedRun, RefusedPass> {
    let places = [Family::V4, Family::V6].map(|f| firewall.ruleset(f).map(RuleIds::of));
    let mut run = CheckedRun {
        firewall: firewall.clone(),
        own: Vec::new(),
        compiled: Vec::new(),
        kept: Vec::new(),
        steps: Vec::new(),
        deviations: Vec::new(),
    };
    let mut sample = None;
    for (i, pass) in passes.iter().enumerate() {
        let mut show = |what: &str, done: f64| {
            let done = (i as f64 + done) / passes.len() as f64;
            progress(&format!("{}: {what}", pass.name()), done);
        };
        step(&mut run, *pass, &places, options, &mut sample, &mut show)
            .map_err(|why| RefusedPass { pass: pass.name(), why })?;
    }
    Ok(run)
}

/// Packets for the ruleset that the next pass is given, where some were made already.
type PreparedPackets = Option<Vec<(Entry, Vec<Packet>)>>;

fn step(
    run: &mut CheckedRun,
    pass: &dyn Pass,
    places: &[Option<RuleIds>; 2],
    options: &RunOptions,
    sample: &mut PreparedPackets,
    progress: &mut ProgressFn<'_>,
) -> Result<(), Why> {
    let count = |f: &Firewall| f.rulesets().flat_map(Ruleset::rules).count();
    let rules = count(&run.firewall);
    let note = |run: &mut CheckedRun, rules, tried, evidence| {
        run.steps.push(PassStep { pass: pass.name(), rules, tried, evidence });
    };
    if pass.counters() == Counting::Loses && !options.pass.allow_counters {
        let why = "it loses counters (permitted by --allow counters)".to_owned();
        note(run, (rules, rules), None, Evidence::Skipped(why));
        return Ok(());
    }
    progress("rewriting", 0.0);
    let mut after = run.firewall.clone();
    let mut made = Vec::new();
    for (family, places) in [Family::V4, Family::V6].into_iter().zip(places) {
        let (Some(places), Some(ruleset)) = (places, run.firewall.ruleset(family)) else {
            continue;
        };
        let context = Context { options: &options.pass, places, sets: &run.firewall.sets };
        let rewritten = pass.run(ruleset, &context);
        take(&mut after, &rewritten);
        made.push((family, places, rewritten));
    }
    if after == run.firewall {
        for (_, _, rewritten) in made {
            keep(run, rewritten.kept);
        }
        note(run, (rules, rules), None, Evidence::Unchanged);
        return Ok(());
    }
    for (family, places, rewritten) in &made {
        let before = run.firewall.ruleset(*family).expect("it was rewritten");
        let context = Context { options: &options.pass, places, sets: &after.sets };
        structure::check(
            before,
            &rewritten.ruleset,
            &rewritten.dead,
            pass.equivalence(),
            &context,
        )?;
    }
    structure::sets(&run.firewall, &after)?;
    structure::objects(&run.firewall, &after)?;
    let (tried, evidence) = if options.trust {
        (None, Evidence::Trusted)
    } else {
        compare(&run.firewall, &after, pass.equivalence(), options, sample, progress)?
    };
    for (family, _, rewritten) in made {
        run.own.extend(rewritten.sets.into_iter().map(|s| (family, s)));
        run.compiled.extend(rewritten.compiled);
        keep(run, rewritten.kept);
    }
    run.deviations.extend(pass.deviation());
    note(run, (rules, count(&after)), tried, evidence);
    run.firewall = after;
    Ok(())
}

fn take(firewall: &mut Firewall, rewritten: &Rewritten) {
    let ruleset = rewritten.ruleset.clone();
    match ruleset.family {
        Family::V4 => firewall.v4 = Some(ruleset),
        Family::V6 => firewall.v6 = Some(ruleset),
    }
    firewall.sets.extend(rewritten.sets.iter().cloned());
}

fn keep(run: &mut CheckedRun, kept: Vec<Kept>) {
    for kept in kept {
        if !run.kept.contains(&kept) {
            run.kept.push(kept);
        }
    }
}

/// Compares on packets, then by proof.
fn compare(
    before: &Firewall,
    after: &Firewall,
    equivalence: Equivalence,
    options: &RunOptions,
    sample: &mut PreparedPackets,
    progress: &mut ProgressFn<'_>,
) -> Result<(Tried, Evidence<Unproven>), Why> {
    progress("checking packets", 0.1);
    let own = sample.take().unwrap_or_else(|| check::sample(before, &options.check, 1));
    let next = check::sample(after, &options.check, 1);
    let mut judge = Judge::new(equivalence, before, after);
    let mut answers = Bytes(Seeded(options.check.seed));
    let mut packets = 0;
    // Most of the boundaries are those of the original ruleset.
    for (of, share) in [(&own, 1), (&next, 4)] {
        for (entry, list) in of {
            for packet in &list[..list.len() / share] {
                packets += 1;
                if let Some(example) = judge.example(packet, *entry, &mut answers) {
                    return Err(Why::Differs(example));
                }
            }
        }
    }
    *sample = Some(next);
    let average = |n: u64| n as f64 / packets.max(1) as f64;
    let tried = Some((average(judge.tried.0), average(judge.tried.1)));
    progress("proving", 0.5);
    let evidence = match prove(before, after, equivalence, options)? {
        None => Evidence::Proven(packets),
        Some(why) => Evidence::Packets(packets, why),
    };
    Ok((tried, evidence))
}

/// Compares the rulesets for all packets; returns the reason if they could not be compared.
fn prove(
    before: &Firewall,
    after: &Firewall,
    equivalence: Equivalence,
    options: &RunOptions,
) -> Result<Option<Unproven>, Why> {
    // A diagram supports only the strict senses. If it finds no difference, that proves the others
    // as well; if it does, the difference may be what the pass changes on purpose.
    let beyond = match equivalence {
        Equivalence::Strict | Equivalence::Summed => None,
        Equivalence::StrictOnBytes => Some(Unproven::Words),
        Equivalence::EarlyDrop => Some(Unproven::Early),
        Equivalence::Untracked => Some(Unproven::Conntrack),
    };
    let compare = CompareOptions {
        memory_bytes: options.proof_bytes,
        steps_max: options.proof_steps,
        identity: Identity::Credit,
        regions: 1,
        ..CompareOptions::default()
    };
    match (check::prove(before, after, &compare), beyond) {
        // Equal packet by packet; but conntrack knows less of them.
        (Proof::Equal, Some(Unproven::Early)) => Ok(Some(Unproven::Early)),
        (Proof::Equal, _) => Ok(None),
        (_, Some(why)) => Ok(Some(why)),
        (Proof::Differs(example), None) => Err(Why::Disproven(example)),
        (Proof::Open(why), None) => Ok(Some(Unproven::Memory(why))),
    }
}
