//! Rules, chains and tables as diagrams.
//!
//! A rule is built from its end: first its target, then each test in front of it. A chain is the
//! sequence of its rules, merged as a balanced tree. A chain that is jumped to is built once per
//! hook, before the chains that jump to it; packets that return from it continue after the jump.
//! The [`chain_cache`](crate::rule_diagrams::chain_cache) finds chains that were built before.

use weir_model::effect::FieldsWrittenByChain;
use weir_model::{
    Chain, ChainGraph, Hotdrop, Match, Policy, Rule, Table, Target, Test,
    lower_to_tests_with_match_index, match_effects,
};
use weir_semantics::Verdict;
use weir_semantics::question_digest::{digest_debug_text, digest_drop_question};

use crate::bdd::balanced_merge::{BalancedMerge, merge_balanced};
use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::presence_and_field_predicates::build_span_union_predicate;
use crate::rule_diagrams::chain_cache::{ChainCacheKey, ChainDiagramId, DiagramsOfOneChain};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::merge_order::{MergeStep, plan_merge_steps};
use crate::rule_diagrams::packet_change::PacketChange;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, StatefulQuestion, Terminal};
use crate::stateful_test_id::StatefulTestIdResolver;

/// Why there is no diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildError {
    /// A limit.
    LimitReached(LimitReached),
    /// Another reason, in words.
    OtherReason(String),
}

impl From<LimitReached> for BuildError {
    fn from(full: LimitReached) -> Self {
        BuildError::LimitReached(full)
    }
}

/// The chains of a table, and what those mean that are made already.
#[derive(Debug)]
pub(crate) struct TableChainDiagrams<'t> {
    pub graph: ChainGraph<'t>,
    /// Chains that some rule goes to.
    is_goto_target: Vec<bool>,
    written_fields_by_chain: FieldsWrittenByChain,
    chain_diagram_ids: Vec<Option<ChainDiagramId>>,
}

impl<'t> TableChainDiagrams<'t> {
    pub fn new(table: &'t Table) -> Self {
        let graph = table.chain_graph();
        let mut gone_to = vec![false; table.chains.len()];
        for jump in graph.all_jumps() {
            let target = &table.chains[jump.from].rules[jump.rule].target;
            gone_to[jump.to] |= matches!(target, Target::Goto(_));
        }
        TableChainDiagrams {
            written_fields_by_chain: FieldsWrittenByChain::of_chains(&table.chains, &graph),
            graph,
            is_goto_target: gone_to,
            chain_diagram_ids: vec![None; table.chains.len()],
        }
    }

    /// Whether the diagrams of the chain with this index are built.
    pub fn has_chain_diagrams(&self, at: usize) -> bool {
        self.chain_diagram_ids[at].is_some()
    }

    /// Discards the diagrams of all chains.
    pub fn clear_chain_diagrams(&mut self) {
        self.chain_diagram_ids.fill(None);
    }

    /// The meaning of the chain of that name.
    pub fn chain_diagram_id_by_name(&self, name: &str) -> Option<ChainDiagramId> {
        self.graph.chain_index(name).and_then(|at| self.chain_diagram_ids[at])
    }
}

impl<'f> DiagramContext<'f> {
    /// A table at a hook: what its built-in chain and policy make of packets. Accepted packets
    /// continue. Without such a chain, all do.
    ///
    /// `from` is a point from which on only the diagrams that `live_diagrams` knows are in use.
    pub fn build_table(
        &mut self,
        table: &'f Table,
        state_ids: &StatefulTestIdResolver,
        place: TableHookContext,
        live_diagrams: &mut [DiagramRef],
        from: usize,
    ) -> Result<DiagramRef, BuildError> {
        let hook = place.hook_or_forward();
        let is_base = |c: &Chain| &*c.name == hook.chain_name() && c.policy.is_some();
        let start = match table.chains.iter().position(is_base) {
            Some(start) if table.name.hooks().contains(&hook) => start,
            _ => return Ok(DiagramRef::ZERO),
        };
        let mut chains = TableChainDiagrams::new(table);
        let order = chains.graph.callees_first_from(start).map_err(|at| {
            let name = &table.chains[at].name;
            BuildError::OtherReason(format!(
                "chain {name} of table {} leads back to itself",
                table.name
            ))
        })?;
        for at in order {
            if at == start {
                let chain_id = self.build_chain(&chains, &table.chains[at], state_ids, place)?;
                let rules = self.chain_cache.diagrams_by_id(chain_id).rules;
                return self.apply_chain_policy(rules, table.chains[at].policy);
            }
            self.build_called_chain(&mut chains, (at, &table.chains[at]), state_ids, place)?;
            self.sweep_if_needed(live_diagrams, from);
        }
        Ok(DiagramRef::ZERO)
    }

    /// Makes what a chain of that index means to the chains that lead to it.
    pub fn build_called_chain(
        &mut self,
        chains: &mut TableChainDiagrams<'f>,
        (at, chain): (usize, &'f Chain),
        state_ids: &StatefulTestIdResolver,
        place: TableHookContext,
    ) -> Result<(), BuildError> {
        let chain_id = self.build_chain(chains, chain, state_ids, place)?;
        self.set_called_chain_diagrams(chains, at, chain_id)
    }

    /// What the chain of that index means to the chains that lead to it.
    pub fn set_called_chain_diagrams(
        &mut self,
        chains: &mut TableChainDiagrams<'_>,
        at: usize,
        chain_id: ChainDiagramId,
    ) -> Result<(), BuildError> {
        let made = self.chain_cache.diagrams_by_id(chain_id);
        if chains.is_goto_target[at] && made.goto.is_none() {
            let goto =
                self.replace_exit_by_other_exit(made.rules, RuleExit::Continue, RuleExit::Return)?;
            self.chain_cache.set_goto_diagram(chain_id, goto);
        }
        chains.chain_diagram_ids[at] = Some(chain_id);
        Ok(())
    }

    /// The meaning of a chain whose rules are this diagram.
    pub fn find_or_insert_chain_diagrams(
        &mut self,
        rules: DiagramRef,
    ) -> Result<ChainDiagramId, BuildError> {
        if let Some(chain_id) = self.chain_cache.find_by_rules_diagram(rules) {
            return Ok(chain_id);
        }
        let jump = self.replace_exit_by_other_exit(rules, RuleExit::Return, RuleExit::Continue)?;
        Ok(self.chain_cache.insert_diagrams(DiagramsOfOneChain { rules, jump, goto: None }))
    }

    /// What a chain means: looked up, or made.
    fn build_chain(
        &mut self,
        chains: &TableChainDiagrams<'f>,
        chain: &'f Chain,
        state_ids: &StatefulTestIdResolver,
        place: TableHookContext,
    ) -> Result<ChainDiagramId, BuildError> {
        let sets_of = self.space.representative_firewall_for_ipsets();
        let cache_key = ChainCacheKey::new(&chain.rules, (state_ids, place, sets_of), |name| {
            chains.chain_diagram_id_by_name(name)
        });
        if let Some(chain_id) = self.chain_cache.find_by_key(&cache_key) {
            return Ok(chain_id);
        }
        self.prebuild_ipset_memberships(chain, place.point)?;
        let rules = self.compose_rules_in_sequence(chains, &chain.rules, state_ids, place)?;
        let chain_id = self.find_or_insert_chain_diagrams(rules)?;
        self.chain_cache.associate_key(cache_key, chain_id);
        Ok(chain_id)
    }

    /// Rules in sequence.
    pub fn compose_rules_in_sequence(
        &mut self,
        chains: &TableChainDiagrams<'f>,
        rules: &'f [Rule],
        state_ids: &StatefulTestIdResolver,
        place: TableHookContext,
    ) -> Result<DiagramRef, BuildError> {
        let written_fields =
            |rule: &Rule| chains.written_fields_by_chain.by_rule(rule, &chains.graph);
        let merge_steps = plan_merge_steps(rules, self.space.layout.family, &written_fields);
        let count = merge_steps.len();
        let mut merge = ChainRuleSequence {
            context: self,
            chains,
            rules,
            single_rule_or_address_union_steps: merge_steps,
            state_ids,
            place,
        };
        merge_balanced(&mut merge, count)
    }

    /// Sets are made before the rules are merged, and kept.
    pub fn prebuild_ipset_memberships(
        &mut self,
        chain: &Chain,
        at: HookContext,
    ) -> Result<(), LimitReached> {
        for rule in &chain.rules {
            for m in &rule.matches {
                if let Match::Set(m) = m {
                    self.space.packets_matching_unnegated_ipset_match(m, at)?;
                }
            }
        }
        Ok(())
    }

    /// The diagram where one way of leaving is another.
    pub fn replace_exit_by_other_exit(
        &mut self,
        f: DiagramRef,
        from: RuleExit,
        to: RuleExit,
    ) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        space.store.map_terminals(code, f, &mut |leaf| {
            let terminal = terminals.terminal_of_leaf(leaf);
            match terminal.exit == from {
                true => terminals.intern_leaf(Terminal { exit: to, ..terminal }),
                false => leaf,
            }
        })
    }

    /// The end of a built-in chain is its policy; what a table accepts continues.
    pub fn apply_chain_policy(
        &mut self,
        f: DiagramRef,
        policy: Option<Policy>,
    ) -> Result<DiagramRef, BuildError> {
        let end = match policy {
            Some(Policy::Drop) => RuleExit::Verdict(Verdict::Drop),
            Some(Policy::Accept) | None => RuleExit::Continue,
        };
        Ok(self.map_exits(f, |exit| match exit {
            RuleExit::Continue | RuleExit::Return => end,
            RuleExit::Verdict(Verdict::Accept) => RuleExit::Continue,
            other => other,
        })?)
    }

    /// The diagram with every way of leaving replaced.
    pub fn map_exits(
        &mut self,
        f: DiagramRef,
        exit: impl Fn(RuleExit) -> RuleExit,
    ) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        space.store.map_terminals(code, f, &mut |leaf| {
            let terminal = terminals.terminal_of_leaf(leaf);
            terminals.intern_leaf(Terminal { exit: exit(terminal.exit), ..terminal })
        })
    }

    /// A rule: what it does if its tests match, and what their evaluation does.
    pub fn build_rule(
        &mut self,
        chains: &TableChainDiagrams<'_>,
        rule: &Rule,
        state_id: u64,
        place: TableHookContext,
    ) -> Result<DiagramRef, BuildError> {
        let made = |name: &str| {
            chains
                .chain_diagram_id_by_name(name)
                .map(|meant| self.chain_cache.diagrams_by_id(meant))
        };
        let mut out = match &rule.target {
            Target::None => DiagramRef::ZERO,
            Target::Accept => self.terminals.exit_leaf(RuleExit::Verdict(Verdict::Accept)),
            Target::Drop => self.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop)),
            Target::Return => self.terminals.exit_leaf(RuleExit::Return),
            Target::Jump(name) => made(name).map_or(DiagramRef::ZERO, |m| m.jump),
            Target::Goto(name) => made(name).and_then(|m| m.goto).unwrap_or(DiagramRef::ZERO),
            other => self.build_extension_target(other, state_id, place)?,
        };
        let tests = lower_to_tests_with_match_index(rule, self.space.layout.family);
        // What the rule does to a packet that is dropped once the rule is done with it.
        let with_match =
            |t: &Test| matches!(t, Test::Opaque { hotdrop: Hotdrop::MatchMayAlsoDrop, .. });
        let mut dying = match tests.iter().any(|(_, t)| with_match(t)) {
            true => Some(self.replace_target_exits_by_drop(&rule.target, out)?),
            false => None,
        };
        let drop = self.terminals.exit_leaf(RuleExit::Verdict(Verdict::Drop));
        for (from, test) in tests.iter().rev() {
            let lowered = self.space.lower_test(rule, state_id, *from, test, place.point)?;
            // What a match writes is there for what follows, also where the rule fails later.
            out = self.apply_match_writes(rule, test, place, (lowered.matching_packets, out))?;
            if let Some(index) = self.stateful_match_index(rule, test) {
                let digest = match &rule.matches[index] {
                    Match::Set(set) => self.space.digest_membership_question(set, set.negated),
                    other => digest_debug_text(other),
                };
                let ask = self.stateful_question_of_match(rule, index, (state_id, digest), place);
                out = self.branch_on_stateful_test(ask, lowered.matching_packets, out)?;
                if let Some(then) = &mut dying {
                    let holds = lowered.matching_packets;
                    *then = self.branch_on_stateful_test_before_certain_drop(ask, holds, *then)?;
                }
                if lowered.dropped_packets != DiagramRef::ZERO {
                    let dropping =
                        StatefulQuestion { content_digest: digest_drop_question(digest), ..ask };
                    out =
                        self.branch_on_stateful_hotdrop(dropping, lowered.dropped_packets, out)?;
                    if let Some(then) = &mut dying {
                        let dropped = lowered.dropped_packets;
                        *then = self.branch_on_stateful_hotdrop(dropping, dropped, *then)?;
                    }
                }
                continue;
            }
            if let (true, Some(then)) = (with_match(test), dying) {
                let otherwise = self.space.store.and(lowered.matching_packets, out)?;
                out = self.space.store.ite(lowered.dropped_packets, then, otherwise)?;
                continue;
            }
            out = self.space.store.and(lowered.matching_packets, out)?;
            if let Some(then) = &mut dying {
                let holds =
                    self.space.store.minus(lowered.matching_packets, lowered.dropped_packets)?;
                *then = self.space.store.ite(holds, *then, drop)?;
            }
            if lowered.dropped_packets != DiagramRef::ZERO {
                let dropped = self.space.store.and(lowered.dropped_packets, drop)?;
                out = self.space.store.first_nonzero(dropped, out)?;
            }
        }
        Ok(out)
    }

    /// What follows a match that writes, if it matches.
    fn apply_match_writes(
        &mut self,
        rule: &Rule,
        test: &Test,
        place: TableHookContext,
        (holds, then): (DiagramRef, DiagramRef),
    ) -> Result<DiagramRef, LimitReached> {
        let Test::Opaque { index, .. } = test else { return Ok(then) };
        let m = &rule.matches[*index];
        let writes = match_effects(m, self.space.layout.family).writes;
        if writes.is_empty() {
            return Ok(then);
        }
        let mut change = PacketChange::default();
        self.write_stateless_unknown_fields(&mut change, writes, digest_debug_text(m), place);
        let change = self.terminals.intern_change(&change);
        let changed = Terminal { change, ..Terminal::from_exit(RuleExit::Continue) };
        let changed = self.terminals.intern_leaf(changed);
        let then = self.compose_sequential(changed, then)?;
        self.space.store.and(holds, then)
    }

    /// A target, and then a drop whatever it decides; a chain is not entered.
    fn replace_target_exits_by_drop(
        &mut self,
        target: &Target,
        out: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let out = match target {
            Target::Jump(_) | Target::Goto(_) => DiagramRef::ZERO,
            _ => out,
        };
        self.map_exits(out, |_| RuleExit::Verdict(Verdict::Drop))
    }
}

/// The rules of a chain, to be merged.
struct ChainRuleSequence<'m, 'f, 'c> {
    context: &'m mut DiagramContext<'f>,
    chains: &'c TableChainDiagrams<'f>,
    rules: &'f [Rule],
    single_rule_or_address_union_steps: Vec<MergeStep>,
    state_ids: &'c StatefulTestIdResolver,
    place: TableHookContext,
}

impl BalancedMerge for ChainRuleSequence<'_, '_, '_> {
    type Error = BuildError;

    fn node_store(&mut self) -> &mut NodeStore {
        &mut self.context.space.store
    }

    fn build_operand(&mut self, number: usize) -> Result<DiagramRef, BuildError> {
        match &self.single_rule_or_address_union_steps[number] {
            MergeStep::SingleRule(number) => {
                let rule = &self.rules[*number];
                self.context.build_rule(
                    self.chains,
                    rule,
                    self.state_ids.stateful_test_id(rule),
                    self.place,
                )
            }
            MergeStep::AddressUnion { rule, field, spans } => {
                let all = Rule::unconditional(self.rules[*rule].target.clone());
                let ends = self.context.build_rule(self.chains, &all, 0, self.place)?;
                let space = &mut self.context.space;
                let levels = space.layout.field_levels(*field);
                let inside = build_span_union_predicate(&mut space.store, levels, spans)?;
                Ok(space.store.and(inside, ends)?)
            }
        }
    }

    fn join_diagrams(
        &mut self,
        first: DiagramRef,
        second: DiagramRef,
    ) -> Result<DiagramRef, BuildError> {
        Ok(self.context.compose_sequential(first, second)?)
    }

    fn is_memory_limit(error: &BuildError) -> bool {
        *error == BuildError::LimitReached(LimitReached::Memory)
    }
}
