//! Runs a table for all packets at once, as a [`GuardedSequence`].

use weir_model::{Match, Policy, Rule, Table, Target, match_effects};
use weir_semantics::Verdict;

use crate::bdd::node_store::DiagramRef;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::{BuildError, TableChainDiagrams};
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::sequence_comparison::guarded_sequence::{
    ChangesVisibleToTests, ContinuedAndReturnedPackets, GuardedSequence, SequenceError,
};
use crate::stateful_test_id::StatefulTestIdResolver;

impl From<BuildError> for SequenceError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::LimitReached(limit) => SequenceError::Limit(limit),
            BuildError::OtherReason(_) => SequenceError::NotRepresented,
        }
    }
}

/// One table at one hook, while it is run.
pub(crate) struct SequenceBuilder<'m, 'f> {
    pub context: &'m mut DiagramContext<'f>,
    pub seen_changes: &'m mut ChangesVisibleToTests,
    pub table: &'f Table,
    pub state_ids: &'m StatefulTestIdResolver,
    pub place: TableHookContext,
}

/// The chains of a table, and which of them are diagrams.
struct SequencedChains<'f> {
    diagrams: TableChainDiagrams<'f>,
    /// Only verdicts and returns: no effects before them, no changes, no stateful tests.
    has_only_verdicts_and_returns: Vec<bool>,
}

impl<'f> SequenceBuilder<'_, 'f> {
    /// What the table does, and the packets that it accepts.
    pub fn run_table(mut self) -> Result<(GuardedSequence, DiagramRef), SequenceError> {
        let mut sequence = GuardedSequence::default();
        let hook = self.place.hook_or_forward();
        let chains = &self.table.chains;
        let is_base = |c: &weir_model::Chain| &*c.name == hook.chain_name() && c.policy.is_some();
        let start = match chains.iter().position(is_base) {
            Some(start) if self.table.name.hooks().contains(&hook) => start,
            _ => return Ok((sequence, DiagramRef::ONE)),
        };
        let diagrams = TableChainDiagrams::new(self.table);
        let order =
            diagrams.graph.callees_first_from(start).map_err(|_| SequenceError::NotRepresented)?;
        let mut all =
            SequencedChains { diagrams, has_only_verdicts_and_returns: vec![false; chains.len()] };
        for at in order {
            let chain = &chains[at];
            all.has_only_verdicts_and_returns[at] = at != start
                && chain.rules.iter().all(|rule| self.is_stateless_effect_free_rule(&all, rule));
            if all.has_only_verdicts_and_returns[at] {
                self.context.build_called_chain(
                    &mut all.diagrams,
                    (at, chain),
                    self.state_ids,
                    self.place,
                )?;
            } else {
                self.context.prebuild_ipset_memberships(chain, self.place.point)?;
            }
        }
        let end = self.run_chain(&mut sequence, &all, start, DiagramRef::ONE)?;
        let mut accepted = DiagramRef::ZERO;
        match chains[start].policy {
            Some(Policy::Drop) => {
                sequence.add_packets_with_verdict(self.context, Verdict::Drop, end)?
            }
            Some(Policy::Accept) | None => accepted = end,
        }
        if let Some(at) = sequence.verdicts.iter().position(|(v, _)| *v == Verdict::Accept) {
            let (_, more) = sequence.verdicts.swap_remove(at);
            accepted = self.context.space.store.first_nonzero(accepted, more)?;
        }
        Ok((sequence, accepted))
    }

    /// Runs a chain for the packets that enter it; those that reach its end or return.
    fn run_chain(
        &mut self,
        sequence: &mut GuardedSequence,
        chains: &SequencedChains<'f>,
        at: usize,
        entering: DiagramRef,
    ) -> Result<DiagramRef, SequenceError> {
        let rules = &self.table.chains[at].rules;
        let (mut live, mut returned) = (entering, DiagramRef::ZERO);
        let mut next = 0;
        while next < rules.len() && live != DiagramRef::ZERO {
            let rest = &rules[next..];
            let plain = rest
                .iter()
                .take_while(|rule| self.is_stateless_effect_free_rule(chains, rule))
                .count();
            let exits = if plain > 0 {
                let run = self.context.compose_rules_in_sequence(
                    &chains.diagrams,
                    &rest[..plain],
                    self.state_ids,
                    self.place,
                )?;
                sequence.apply_rule_diagram(self.context, self.seen_changes, run, live)?
            } else {
                self.run_rule(sequence, chains, &rest[0], live)?
            };
            live = exits.continued;
            returned = self.context.space.store.first_nonzero(returned, exits.returned)?;
            next += plain.max(1);
        }
        Ok(self.context.space.store.first_nonzero(live, returned)?)
    }

    /// A rule with effects, changes or stateful tests, or that leads to a chain with such rules.
    fn run_rule(
        &mut self,
        sequence: &mut GuardedSequence,
        chains: &SequencedChains<'f>,
        rule: &Rule,
        live: DiagramRef,
    ) -> Result<ContinuedAndReturnedPackets, SequenceError> {
        let state_id = self.state_ids.stateful_test_id(rule);
        let callee = match &rule.target {
            Target::Jump(name) | Target::Goto(name) => chains.diagrams.graph.chain_index(name),
            _ => None,
        };
        let Some(callee) = callee.filter(|callee| !chains.has_only_verdicts_and_returns[*callee])
        else {
            let made = self.context.build_rule(&chains.diagrams, rule, state_id, self.place)?;
            return sequence.apply_rule_diagram(self.context, self.seen_changes, made, live);
        };
        // Returns instead of the jump: the packets that jump.
        let jump = Rule { target: Target::Return, ..rule.clone() };
        let made = self.context.build_rule(&chains.diagrams, &jump, state_id, self.place)?;
        let mut exits = sequence.apply_rule_diagram(self.context, self.seen_changes, made, live)?;
        if exits.returned != DiagramRef::ZERO {
            let back = self.run_chain(sequence, chains, callee, exits.returned)?;
            exits.returned = DiagramRef::ZERO;
            match rule.target {
                Target::Goto(_) => exits.returned = back,
                _ => {
                    exits.continued =
                        self.context.space.store.first_nonzero(exits.continued, back)?;
                }
            }
        }
        // Running a chain once for each jump can take long without a new node.
        self.context.space.store.count_step()?;
        Ok(exits)
    }

    /// Whether a rule ends in verdicts and returns alone.
    fn is_stateless_effect_free_rule(&self, chains: &SequencedChains<'f>, rule: &Rule) -> bool {
        let ends = match &rule.target {
            Target::None | Target::Accept | Target::Drop | Target::Return | Target::Reject(_) => {
                true
            }
            Target::Jump(name) | Target::Goto(name) => chains
                .diagrams
                .graph
                .chain_index(name)
                .is_some_and(|at| chains.has_only_verdicts_and_returns[at]),
            _ => false,
        };
        let space = &self.context.space;
        let is_plain = |m: &Match| match m {
            Match::Set(set) => !space.can_ipset_change(set),
            _ => {
                let effects = match_effects(m, space.layout.family);
                !effects.is_stateful() && effects.writes.is_empty()
            }
        };
        ends && rule.matches.iter().all(is_plain)
    }
}
