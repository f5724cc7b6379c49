//! What a pass is.
//!
//! A pass is a function from a ruleset to a ruleset and says four things of itself: its name, one
//! sentence, what becomes of the counters, and in what sense the new ruleset is equal to the old
//! ([`Equivalence`]). Whoever runs it does not take its word for any of them:
//! [`run_checked`](crate::run_checked) compares both rulesets in that sense, and never in a weaker
//! one because a packet differed.

use weir_artefact::Deviation;
use weir_artefact::manifest::CompiledRun;
use weir_model::{Chain, Family, IpSet, RuleId, Ruleset, TableName};

use crate::run::RulePlaces;
use crate::{CostModel, Rewritten};
use weir_model::programs::{Program, program_of};

/// What becomes of the counters of rules that a pass removes, merges or moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Every original rule still has one counter of its own, or never counted.
    Keeps,
    /// A rule's counter is the sum of some counters of the new ruleset.
    Derivable,
    /// Some are lost, or known only as a sum of several rules. Such a pass runs only where that is
    /// allowed ([`PassOptions::allow_counters`]).
    Loses,
}

/// In what sense what a pass makes is equal to what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equivalence {
    /// Verdict, effects in their order, the packet as it leaves, stateful matches in their order,
    /// the counters of every original rule and policy.
    Strict,
    /// As strict; what a packet's bytes say is asked of its bytes, for the pass puts one way to
    /// ask in the place of another. No proof, for a diagram knows questions by their text.
    StrictOnBytes,
    /// As strict, but rules that were merged are counted as one: their counter is the sum.
    Summed,
    /// As strict for packets that no rule of the pass dropped. Packets that one dropped in raw
    /// PREROUTING: the ruleset dropped them, too, silently, on the way they went; it asked no
    /// stateful match of them and did nothing to be seen. Their counters are not compared.
    EarlyDrop,
    /// Packets that the pass does not untrack: strict. Packets that it untracks: as strict but for
    /// the pass's own NOTRACK, what conntrack says of the packet as it leaves, and the policies of
    /// the nat table.
    Untracked,
}

/// How passes are to work.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// What checks, jumps and probes cost.
    pub cost: CostModel,
    /// Prefix lengths of a tree's levels, ascending; the cost model chooses where `None`.
    pub levels: Option<Vec<u8>>,
    /// Eight characters at most that tell weir's sets of this ruleset from others.
    pub id: String,
    /// Passes that lose counters may run.
    pub allow_counters: bool,
    /// Programs whose chains may be rewritten.
    pub programs: Vec<Program>,
}

impl Default for PassOptions {
    fn default() -> Self {
        PassOptions {
            cost: CostModel::default(),
            levels: None,
            id: "weir".to_owned(),
            allow_counters: false,
            programs: Vec::new(),
        }
    }
}

/// What a pass may ask while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// How to work.
    pub options: &'a PassOptions,
    /// Places of the ruleset as read: reports name its rules.
    pub places: &'a RulePlaces,
    /// All sets that there are, those of earlier passes included.
    pub sets: &'a [IpSet],
}

impl Context<'_> {
    /// Whether the chain may be rewritten: it is not one that another program rewrites.
    pub fn may_touch(&self, chain: &Chain) -> bool {
        program_of(&chain.name).is_none_or(|p| self.options.programs.contains(&p))
    }
}

/// A rewrite of a ruleset that keeps its meaning.
pub trait Pass {
    /// Its name, in snake case: what `--passes` takes.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn about(&self) -> &'static str;

    /// What becomes of counters.
    fn counters(&self) -> Counting {
        Counting::Keeps
    }

    /// In what sense the new ruleset is equal.
    fn equivalence(&self) -> Equivalence {
        Equivalence::Strict
    }

    /// What is different on purpose where the pass changed something, for the manifest.
    fn deviation(&self) -> Option<Deviation> {
        None
    }

    /// The new ruleset; without `compiled` where nothing changed.
    fn run(&self, ruleset: &Ruleset, context: &Context<'_>) -> Rewritten;
}

impl Rewritten {
    /// The ruleset as it is.
    pub fn unchanged(ruleset: &Ruleset) -> Self {
        Rewritten {
            ruleset: ruleset.clone(),
            sets: Vec::new(),
            compiled: Vec::new(),
            kept: Vec::new(),
            dead: Vec::new(),
        }
    }

    /// Notes what became of `rules` rules from the first of them on.
    pub fn note(&mut self, context: &Context<'_>, first: &[RuleId], rules: usize, into: String) {
        let first = first.first().map(|&id| context.places.name(id)).unwrap_or_default();
        self.compiled.push(CompiledRun { first, rules: rules as u32, into });
    }
}

/// The chain of a table, to be written.
pub(crate) fn chain_mut<'r>(
    ruleset: &'r mut Ruleset,
    table: TableName,
    chain: &str,
) -> Option<&'r mut Chain> {
    let table = ruleset.tables.iter_mut().find(|t| t.name == table)?;
    table.chains.iter_mut().find(|c| &*c.name == chain)
}

/// Beginning of the names of sets that are made for a family.
pub(crate) fn stem(options: &PassOptions, family: Family) -> String {
    let letter = if family == Family::V4 { 4 } else { 6 };
    format!("w{letter}-{}-", options.id)
}
