//! Hooks and journeys as diagrams: the counterpart of the interpreter's `Journey`.

use std::collections::HashMap;

use weir_model::effect::{ConntrackDemand, match_effects};
use weir_model::{Family, Field, Hook, TableName};
use weir_semantics::ConnectionFactOfHost;
use weir_semantics::JourneyKind;
use weir_semantics::Verdict;
use weir_semantics::question_digest::digest_existing_nat_question;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::compared_ruleset::{ComparedRuleset, TableAtHook};
use crate::comparison_types::{CompareLevel, ComparedPath};
use crate::packet_sets::free_variable::{FreeVariable, UndeterminedTargetBit};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_space::PacketSpace;
use crate::packet_sets::presence_and_field_predicates::{
    build_masked_predicate, build_small_block_predicate, build_span_union_predicate,
};
use crate::packet_sets::variable_layout::{VariableBlock, ct_code_bit};
use crate::rule_diagrams::chain_cache::ChainCache;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::{PacketChange, TtlTransform, XorBitSource};
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, Terminal};

impl<'f> DiagramContext<'f> {
    /// The diagram of a stage. `live_diagrams`: diagrams in use that are younger than `from`.
    pub fn build_stage(
        &mut self,
        side: &ComparedRuleset<'f>,
        stage: (TableAtHook, HookContext),
        live_diagrams: &mut [DiagramRef],
        from: usize,
    ) -> Result<DiagramRef, BuildError> {
        match self.try_build_stage(side, stage, live_diagrams, from) {
            // What was made for other stages can be made again.
            Err(BuildError::LimitReached(LimitReached::Memory)) if !self.chain_cache.is_empty() => {
                self.chain_cache = ChainCache::default();
                self.sweep_now(live_diagrams, from);
                self.try_build_stage(side, stage, live_diagrams, from)
            }
            other => other,
        }
    }

    fn try_build_stage(
        &mut self,
        side: &ComparedRuleset<'f>,
        (stage, at): (TableAtHook, HookContext),
        live_diagrams: &mut [DiagramRef],
        from: usize,
    ) -> Result<DiagramRef, BuildError> {
        let state_ids = side.activate_ipsets_get_state_ids(&mut self.space);
        let Some(table) = side.traversed_table(stage) else { return Ok(DiagramRef::ZERO) };
        let made = self.build_table(
            table,
            state_ids,
            TableHookContext { point: at, table: stage.table },
            live_diagrams,
            from,
        )?;
        Ok(match stage.table {
            TableName::Raw => {
                let made =
                    self.evaluate_raw_without_ct_entry(made, stage.hook, side.conntrack_in_use)?;
                self.replace_ct_templates_by_entries(made)?
            }
            TableName::Nat => {
                let consulted = self.packets_consulting_nat(stage.hook)?;
                let made = self.space.store.and(consulted, made)?;
                self.apply_existing_nat_destination(made, consulted, stage.hook)?
            }
            _ => made,
        })
    }

    /// The path that some stages make up: their diagrams are the last of `live_diagrams`, which is
    /// emptied of them. Composition begins with the stage `start`, or with the last one: it is
    /// cheapest to begin with a stage that few packets leave.
    pub fn compose_stages(
        &mut self,
        (path, stages): (ComparedPath, &[(TableAtHook, HookContext)]),
        start: Option<usize>,
        live_diagrams: &mut Vec<DiagramRef>,
        from: usize,
    ) -> Result<DiagramRef, BuildError> {
        let kept = live_diagrams.len() - stages.len();
        let made = live_diagrams.split_off(kept);
        let mut first_pieces = Vec::new();
        for (number, (stage, diagram)) in stages.iter().zip(made).enumerate() {
            let is_first_of_hook = !stages[..number].iter().any(|p| p.0.hook == stage.0.hook);
            if let (true, Some(before)) =
                (is_first_of_hook, self.build_step_before_hook(path, stage.0.hook)?)
            {
                live_diagrams.push(before);
                first_pieces.push(number);
            }
            live_diagrams.push(diagram);
            first_pieces.push(number);
        }
        let first_of = |hook| {
            let first = stages.iter().position(|stage| stage.0.hook == hook)?;
            first_pieces.iter().position(|number| *number == first).map(|at| kept + at)
        };
        let is_forward = path == ComparedPath::WholeJourney(JourneyKind::Forward);
        if let (true, Some(input), Some(forward)) =
            (is_forward, first_of(Hook::Input), first_of(Hook::Forward))
        {
            let through =
                self.compose_and_remove_last_diagrams(live_diagrams, forward, None, from)?;
            live_diagrams.insert(input, through);
            let here =
                self.compose_and_remove_last_diagrams(live_diagrams, input + 1, None, from)?;
            let through = live_diagrams.pop().unwrap_or(through);
            live_diagrams.push(self.route_redirected_to_input(here, through)?);
        }
        let start = start.and_then(|start| first_pieces.iter().rposition(|first| *first <= start));
        Ok(self.compose_and_remove_last_diagrams(
            live_diagrams,
            kept,
            start.map(|at| kept + at),
            from,
        )?)
    }

    /// Composes the last of `live_diagrams`, those from `first`, which are removed: beginning with
    /// `start`, or with the last one.
    fn compose_and_remove_last_diagrams(
        &mut self,
        live_diagrams: &mut Vec<DiagramRef>,
        first: usize,
        start: Option<usize>,
        from: usize,
    ) -> Result<DiagramRef, LimitReached> {
        let Some(last) = live_diagrams.len().checked_sub(1).filter(|last| *last >= first) else {
            return Ok(DiagramRef::ZERO);
        };
        let start = start.unwrap_or(last).min(last);
        // What is composed so far is behind them.
        live_diagrams.push(live_diagrams[start]);
        for at in (start + 1..=last).chain((first..start).rev()) {
            let (next, composed) = (live_diagrams[at], live_diagrams[last + 1]);
            live_diagrams[last + 1] = match at > start {
                true => self.compose_sequential(composed, next)?,
                false => self.compose_sequential(next, composed)?,
            };
            self.sweep_if_needed(live_diagrams, from);
        }
        let composed = live_diagrams[last + 1];
        live_diagrams.truncate(first);
        Ok(composed)
    }

    /// What the kernel does with every packet before the tables of a hook.
    fn build_step_before_hook(
        &mut self,
        path: ComparedPath,
        hook: Hook,
    ) -> Result<Option<DiagramRef>, LimitReached> {
        Ok(match hook {
            Hook::Input => Some(self.hold_later_fragments_for_reassembly()?),
            Hook::Forward if path == ComparedPath::WholeJourney(JourneyKind::Forward) => {
                Some(self.build_forward_ttl_decrement_or_expiry()?)
            }
            _ => None,
        })
    }

    /// INPUT for what was redirected, FORWARD for the rest.
    fn route_redirected_to_input(
        &mut self,
        input: DiagramRef,
        through: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let redirected = self.space.layout.block_levels(VariableBlock::Redirected).first;
        let store = &mut self.space.store;
        let redirected = store.make_node(redirected, DiagramRef::ZERO, DiagramRef::ONE)?;
        store.ite(redirected, input, through)
    }

    /// Reclaims all that is younger than `from` and neither kept, of a set nor of a chain, where it
    /// pays.
    pub fn sweep_if_needed(&mut self, live_diagrams: &mut [DiagramRef], from: usize) {
        if self.space.store.needs_sweep() {
            self.sweep_now(live_diagrams, from);
        }
    }

    fn sweep_now(&mut self, live_diagrams: &mut [DiagramRef], from: usize) {
        let DiagramContext { space, chain_cache: chains_made, .. } = self;
        let mut roots = live_diagrams.to_vec();
        roots.extend(space.ipset_memberships.values());
        roots.extend(chains_made.roots_for_sweep());
        space.store.sweep_young_nodes(from, &mut roots);
        let mut swept = roots.into_iter();
        let mut next = |r: &mut DiagramRef| *r = swept.next().unwrap_or(DiagramRef::ZERO);
        live_diagrams.iter_mut().for_each(&mut next);
        space.ipset_memberships.values_mut().for_each(&mut next);
        chains_made.renumber_roots(next);
    }

    /// What continues in the end was accepted. Fields are not distinguished any more: the effects
    /// include everything.
    pub fn convert_terminals_to_outcomes(
        &mut self,
        f: DiagramRef,
        level: CompareLevel,
    ) -> Result<DiagramRef, BuildError> {
        let redirected = self.space.layout.block_levels(VariableBlock::Redirected).first;
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        Ok(space.store.map_terminals_where_zero(code, f, redirected, &mut |leaf| {
            let terminal = terminals.terminal_of_leaf(leaf);
            let exit = match terminal.exit {
                RuleExit::Continue => RuleExit::Verdict(Verdict::Accept),
                other => other,
            };
            terminals.intern_leaf(match level {
                CompareLevel::Effects => Terminal { exit, change: 0, ..terminal },
                CompareLevel::Verdict => Terminal::from_exit(exit),
            })
        })?)
    }

    /// The diagram without its effects: of a stage that both sides share, before any that they do
    /// not.
    pub fn strip_effects(&mut self, f: DiagramRef) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        space.store.map_terminals(code, f, &mut |leaf| {
            let terminal = terminals.terminal_of_leaf(leaf);
            terminals.intern_leaf(Terminal { effects: 0, ..terminal })
        })
    }

    /// The diagram where `within` holds; elsewhere both sides are the same.
    pub fn restrict_to_difference(
        &mut self,
        f: DiagramRef,
        within: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let same = self.terminals.exit_leaf(RuleExit::SameInBoth);
        let outside = self.space.store.minus(same, within)?;
        let inside = self.space.store.and(within, f)?;
        self.space.store.first_nonzero(inside, outside)
    }

    /// ip_forward and ip6_forward take one off before the FORWARD hook.
    fn build_forward_ttl_decrement_or_expiry(&mut self) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        let change = PacketChange {
            ttl_transform: TtlTransform::add_clamped(-1),
            ..PacketChange::default()
        };
        let change = terminals.intern_change(&change);
        let lives =
            terminals.intern_leaf(Terminal { change, ..Terminal::from_exit(RuleExit::Continue) });
        let expires = terminals.exit_leaf(RuleExit::Verdict(Verdict::Expired));
        let over = build_span_union_predicate(
            &mut space.store,
            space.layout.field_levels(Field::Ttl),
            &[(0, 1)],
        )?;
        space.store.ite(over, expires, lives)
    }

    /// ip_local_deliver reassembles IPv4 datagrams before the INPUT hook: no later fragment reaches
    /// it. More-fragments is no variable, so a first fragment counts as a whole datagram.
    fn hold_later_fragments_for_reassembly(&mut self) -> Result<DiagramRef, LimitReached> {
        let DiagramContext { space, terminals, .. } = self;
        if space.layout.family == Family::V6 {
            return Ok(DiagramRef::ZERO);
        }
        let waits = terminals.exit_leaf(RuleExit::Verdict(Verdict::HeldForReassembly));
        space.store.and(space.presence.later_fragment, waits)
    }

    /// The raw table runs before conntrack: there is no entry yet, except over `lo`, where the
    /// packet has the one that OUTPUT created, and in OUTPUT for a reply that the host sends, which
    /// may have the entry of the packet that it replies to.
    fn evaluate_raw_without_ct_entry(
        &mut self,
        raw: DiagramRef,
        hook: Hook,
        in_use: bool,
    ) -> Result<DiagramRef, BuildError> {
        let mut change = PacketChange::default();
        self.write_ct_code_and_clear_mark(&mut change, 0);
        let places =
            change.bit_sources.iter().map(|(level, source)| (*level, source.clone())).collect();
        let mut without = self.substitute_bits(raw, &places, TtlTransform::IDENTITY)?;
        if in_use {
            without = self.rename_ct_entry_matches_in_raw(raw, without, &change, places)?;
        }
        if hook == Hook::Output {
            let fact = ConnectionFactOfHost::HostReplyInheritsConntrackEntry.digest();
            let variable =
                FreeVariable::StatelessTest { content_digest: fact, hook: Some(hook), change: 0 };
            let attached = self.space.free_variable_without_match(variable)?;
            let attached = self.space.store.and(attached, self.space.presence.ct_entry)?;
            return Ok(self.space.store.ite(attached, raw, without)?);
        }
        let over_lo = self.space.lower_device_test(Field::Iif, true, |name| name == "lo")?;
        Ok(self.space.store.ite(over_lo, raw, without)?)
    }

    /// Matches that read the packet's entry (`-m helper`, `-m socket`) and find none in raw may
    /// give another result after it, where conntrack attaches one.
    fn rename_ct_entry_matches_in_raw(
        &mut self,
        raw: DiagramRef,
        without: DiagramRef,
        change: &PacketChange,
        mut places: HashMap<u32, XorBitSource>,
    ) -> Result<DiagramRef, LimitReached> {
        let mut questions = self.support(raw).free_variables;
        let PacketSpace { layout, free_variables: variables, .. } = &self.space;
        questions.retain(|q| match variables.get(*q) {
            Some((FreeVariable::StatelessTest { .. }, Some(m))) => {
                match_effects(m, layout.family).conntrack_demand != ConntrackDemand::Nothing
            }
            _ => false,
        });
        if questions.is_empty() {
            return Ok(without);
        }
        let end = self.space.layout.fields_end;
        let change = self.terminals.intern_change(change);
        for question in questions {
            let DiagramContext { space, terminals, .. } = self;
            let renamed = terminals.free_variable_after_change(
                question,
                change,
                0,
                &mut space.free_variables,
            );
            places.insert(end + question, XorBitSource::from_level(end + renamed, false));
        }
        let another = self.substitute_bits(raw, &places, TtlTransform::IDENTITY)?;
        let entry = self.space.presence.ct_entry;
        self.space.store.ite(entry, another, without)
    }

    /// Conntrack takes the place of the template that CT attached to a packet without an entry.
    fn replace_ct_templates_by_entries(
        &mut self,
        raw: DiagramRef,
    ) -> Result<DiagramRef, BuildError> {
        let DiagramContext { space, terminals, .. } = self;
        let ct = space.layout.field_levels(Field::CtState);
        let mark = space.layout.field_levels(Field::CtMark);
        let entry = ct.level_of_bit_from_lowest(ct_code_bit::HAS_ENTRY);
        let code = space.store.fresh_cache_code();
        Ok(space.store.map_terminals(code, raw, &mut |leaf| {
            let terminal = terminals.terminal_of_leaf(leaf);
            let mut change = terminals.get_change(terminal.change).clone();
            if change.bit_sources.get(&entry) != Some(&XorBitSource::constant(true)) {
                return leaf;
            }
            let is_connection = |level: &u32| {
                (ct.first..ct.end()).contains(level) || (mark.first..mark.end()).contains(level)
            };
            change.bit_sources.retain(|level, _| !is_connection(level));
            let change = terminals.intern_change(&change);
            terminals.intern_leaf(Terminal { change, ..terminal })
        })?)
    }

    /// nf_nat_inet_fn in nf_nat_core.c: the rules see what starts a connection, once for its
    /// source and once for its destination. No table before that translates the same end, so the
    /// bit says what the connection was at the start.
    fn packets_consulting_nat(&mut self, hook: Hook) -> Result<DiagramRef, LimitReached> {
        let space = &mut self.space;
        let done = match hook {
            Hook::Prerouting | Hook::Output => ct_code_bit::DNAT,
            Hook::Input | Hook::Postrouting => ct_code_bit::SNAT,
            Hook::Forward => return Ok(DiagramRef::ZERO),
        };
        let ct = space.layout.field_levels(Field::CtState);
        let entry = |code: u32| code >> ct_code_bit::HAS_ENTRY & 1 == 1 && code >> done & 1 == 0;
        let state = |code: u32| code >> ct_code_bit::STATE_LOW & 3;
        let new = build_small_block_predicate(&mut space.store, ct, |c| entry(c) && state(c) == 0)?;
        let related = build_small_block_predicate(&mut space.store, ct, |c| {
            entry(c) && state(c) == 1 && c & 1 << ct_code_bit::REPLY == 0
        })?;
        let protos = space.layout.field_levels(Field::Proto);
        let mut related = related;
        for icmp in [1u8, 58] {
            let is_icmp = build_masked_predicate(&mut space.store, protos, icmp.into(), 0xff)?;
            related = space.store.minus(related, is_icmp)?;
        }
        let starts = space.store.first_nonzero(new, related)?;
        let fact = ConnectionFactOfHost::NatTableAlreadyTraversed.digest();
        let variable =
            FreeVariable::StatelessTest { content_digest: fact, hook: Some(hook), change: 0 };
        let bound = space.free_variable_without_match(variable)?;
        space.store.minus(starts, bound)
    }

    /// For packets after the first of a translated connection, the destination is rewritten at the
    /// position of the nat table; rewriting the source is the last step of the journey.
    fn apply_existing_nat_destination(
        &mut self,
        nat: DiagramRef,
        consulted: DiagramRef,
        hook: Hook,
    ) -> Result<DiagramRef, LimitReached> {
        if !matches!(hook, Hook::Prerouting | Hook::Output) {
            return Ok(nat);
        }
        let space = &mut self.space;
        let ct = space.layout.field_levels(Field::CtState);
        let has = |code: u32, bit: u32| code >> bit & 1 == 1;
        let translated = build_small_block_predicate(&mut space.store, ct, |code| {
            has(code, ct_code_bit::HAS_ENTRY)
                && (has(code, ct_code_bit::SNAT) || has(code, ct_code_bit::DNAT))
        })?;
        let again = space.store.minus(translated, consulted)?;
        let mut change = PacketChange::default();
        let (content_digest, end) = (digest_existing_nat_question(), space.layout.fields_end);
        let mut put = |field: Field, choice: &dyn Fn(u32) -> UndeterminedTargetBit| {
            let levels = space.layout.field_levels(field);
            for bit in (0..levels.bit_count).rev() {
                let variable = FreeVariable::StatelessTargetBit {
                    content_digest,
                    hook,
                    change: 0,
                    bit: choice(bit),
                };
                let number = space.free_variables.intern(variable, || None);
                change.bit_sources.insert(
                    levels.level_of_bit_from_lowest(bit),
                    XorBitSource::from_level(end + number, false),
                );
            }
        };
        put(Field::Daddr, &|bit| UndeterminedTargetBit::AddrBit(bit as u8));
        put(Field::Dport, &|bit| UndeterminedTargetBit::PortBit(bit as u8));
        let change = self.terminals.intern_change(&change);
        let changed = Terminal { change, ..Terminal::from_exit(RuleExit::Continue) };
        let changed = self.terminals.intern_leaf(changed);
        self.space.store.ite(again, changed, nat)
    }
}
