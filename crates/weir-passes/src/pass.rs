//! The interface of a pass.
//!
//! A pass is a function from a ruleset to a ruleset. It declares its name, one sentence, what
//! happens to the counters, and in what sense the new ruleset is equal to the old one
//! ([`Equivalence`]). None of this is trusted:
//! [`run_passes_until_first_refusal`](crate::run_passes_until_first_refusal) compares both rulesets
//! in that sense, and never in a weaker one because a packet differed.

use weir_artefact::Deviation;
use weir_artefact::manifest::CompiledRuleRun;
use weir_model::{
    Chain, ChangingSets, Family, IpSet, OriginalRuleIndex, RuleIdTable, Ruleset, TableName,
};

use crate::{CostModel, RewrittenRuleset};
use weir_model::managing_programs::{ManagingProgram, find_preserved_program_of_chain};

/// The outcome of the counters of rules that a pass removes, merges or moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterPreservation {
    /// Every original rule still has its own counter, or never counted.
    Preserved,
    /// A rule's counter is the sum of some counters of the new ruleset.
    Derivable,
    /// Some are lost, or known only as a sum of several rules. Such a pass runs only where that is
    /// allowed ([`PassOptions::allow_counter_loss`]).
    Lost,
}

/// In what sense what a pass makes is equal to what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equivalence {
    /// Verdict, effects in their order, the packet as it leaves, stateful matches in their order,
    /// the counters of every original rule and policy.
    Strict,
    /// As strict, but matches on a packet's bytes are evaluated on its bytes, because the pass
    /// replaces one match by another. There is no proof, because a diagram identifies questions by
    /// their text.
    StrictOnPacketBytes,
    /// As strict, but rules that were merged are counted as one: their counter is the sum.
    SummedCounters,
    /// As strict for packets that no rule of the pass dropped. For packets that it dropped in raw
    /// PREROUTING: the ruleset dropped them, too, silently, on their path, without evaluating a
    /// stateful match or an observable effect. Their counters are not compared.
    EarlyDrop,
    /// Packets that the pass does not untrack: strict. Packets that it untracks: as strict except
    /// for the pass's own NOTRACK, the conntrack state of the outgoing packet, and the policies of
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
    /// At most eight characters that distinguish weir's sets of this ruleset from others.
    pub set_name_id: String,
    /// Passes that lose counters may run.
    pub allow_counter_loss: bool,
    /// Programs whose chains may be rewritten.
    pub programs_with_rewritable_chains: Vec<ManagingProgram>,
}

impl Default for PassOptions {
    fn default() -> Self {
        PassOptions {
            cost: CostModel::default(),
            levels: None,
            set_name_id: "weir".to_owned(),
            allow_counter_loss: false,
            programs_with_rewritable_chains: Vec::new(),
        }
    }
}

/// The context of a running pass.
#[derive(Clone, Copy, Debug)]
pub struct PassContext<'a> {
    /// How to work.
    pub options: &'a PassOptions,
    /// Places of the ruleset as read: reports name its rules.
    pub rule_ids: &'a RuleIdTable,
    /// All sets that there are, those of earlier passes included.
    pub sets: &'a [IpSet],
    /// The sets that rules of the firewall may change.
    pub changing_sets: &'a ChangingSets,
}

impl PassContext<'_> {
    /// Whether the chain may be rewritten: it is not one that another program rewrites.
    pub fn may_rewrite(&self, chain: &Chain) -> bool {
        find_preserved_program_of_chain(&chain.name)
            .is_none_or(|p| self.options.programs_with_rewritable_chains.contains(&p))
    }
}

/// A rewrite of a ruleset that keeps its meaning.
pub trait Pass {
    /// Its name, in snake case: what `--passes` takes.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn description(&self) -> &'static str;

    /// The outcome of counters.
    fn counter_preservation(&self) -> CounterPreservation {
        CounterPreservation::Preserved
    }

    /// In what sense the new ruleset is equal.
    fn equivalence(&self) -> Equivalence {
        Equivalence::Strict
    }

    /// What is different on purpose where the pass changed something, for the manifest.
    fn deviation(&self) -> Option<Deviation> {
        None
    }

    /// The new ruleset; without [`compiled_rule_runs`](RewrittenRuleset::compiled_rule_runs) if
    /// nothing changed.
    fn run(&self, ruleset: &Ruleset, context: &PassContext<'_>) -> RewrittenRuleset;
}

impl RewrittenRuleset {
    /// The unchanged ruleset.
    pub fn unchanged(ruleset: &Ruleset) -> Self {
        RewrittenRuleset {
            ruleset: ruleset.clone(),
            sets: Vec::new(),
            compiled_rule_runs: Vec::new(),
            unchanged_rules: Vec::new(),
            dead_rules: Vec::new(),
        }
    }

    /// Notes what became of `rules` rules from the first of them on.
    pub fn record_compiled_run(
        &mut self,
        context: &PassContext<'_>,
        first: &[OriginalRuleIndex],
        rules: usize,
        into: String,
    ) {
        let first = first.first().map(|&id| context.rule_ids.rule_id_text(id)).unwrap_or_default();
        self.compiled_rule_runs.push(CompiledRuleRun { first, rules: rules as u32, into });
    }
}

/// The chain of a table, to be written.
pub(crate) fn find_chain_mut<'r>(
    ruleset: &'r mut Ruleset,
    table: TableName,
    chain: &str,
) -> Option<&'r mut Chain> {
    let table = ruleset.tables.iter_mut().find(|t| t.name == table)?;
    table.chains.iter_mut().find(|c| &*c.name == chain)
}

/// Beginning of the names of sets that are made for a family.
pub(crate) fn format_family_set_name_prefix(options: &PassOptions, family: Family) -> String {
    let letter = if family == Family::V4 { 4 } else { 6 };
    format!("w{letter}-{}-", options.set_name_id)
}
