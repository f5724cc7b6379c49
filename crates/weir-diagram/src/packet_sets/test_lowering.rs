//! The tests of a rule as boolean functions of the variables.
//!
//! A test of a header has three results: it matches, it does not, or it drops the packet because
//! the header is truncated. So it becomes two functions, [`LoweredTest::matching_packets`] and
//! [`LoweredTest::dropped_packets`]. What the packet looks like depends on the point of evaluation
//! ([`HookContext`]): before routing it has no output device, before conntrack no entry, and a
//! local packet has no MAC address.

use weir_model::effect::{match_module_name, reads_packet_route};
use weir_model::rule_match::{ConntrackMatch, SetMatch};
use weir_model::{Field, FieldSet, Hotdrop, Match, Predicate, Rule, Test, match_effects};
use weir_semantics::question_digest::{
    digest_after_second_route_lookup, digest_debug_text, digest_drop_question,
};

use crate::PacketSpace;
use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::free_variable::{FreeVariable, StatefulTestInput};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::presence_and_field_predicates::{
    build_device_predicate, build_masked_predicate, build_small_block_predicate,
    build_span_union_predicate, decode_ct_state,
};
/// A test as booleans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoweredTest {
    /// It matches.
    pub matching_packets: DiagramRef,
    /// It drops the packet immediately.
    pub dropped_packets: DiagramRef,
}

impl LoweredTest {
    const NEVER: LoweredTest =
        LoweredTest { matching_packets: DiagramRef::ZERO, dropped_packets: DiagramRef::ZERO };

    const fn without_drop(holds: DiagramRef) -> LoweredTest {
        LoweredTest { matching_packets: holds, dropped_packets: DiagramRef::ZERO }
    }
}

impl PacketSpace<'_> {
    /// A test of a rule, as
    /// [`lower_to_tests_with_match_index`](weir_model::lower_to_tests_with_match_index) returns it.
    /// `state_id` identifies the rule's stateful tests.
    pub(crate) fn lower_test(
        &mut self,
        rule: &Rule,
        state_id: u64,
        from: Option<usize>,
        test: &Test,
        at: HookContext,
    ) -> Result<LoweredTest, LimitReached> {
        match test {
            Test::Field { field, predicate, negated } => {
                let multiport =
                    from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }));
                self.lower_field_test(*field, predicate, *negated, multiport, at)
            }
            Test::EitherPort { spans, negated } => self.lower_either_port_test(spans, *negated),
            Test::Set { index } => {
                let m = &rule.matches[*index];
                let Match::Set(set) = m else { return Ok(LoweredTest::NEVER) };
                if self.can_ipset_change(set) {
                    let state_input =
                        StatefulTestInput { hook: at.hook, read_fields: FieldSet::ALL, change: 0 };
                    let variable = FreeVariable::StatefulTest {
                        state_id,
                        content_digest: self.digest_membership_question(set, set.negated),
                        nth: 0,
                        state_input,
                    };
                    return self
                        .free_variable_of_match(variable, || m.clone())
                        .map(LoweredTest::without_drop);
                }
                Ok(LoweredTest::without_drop(self.lower_set_match(set, at)?))
            }
            Test::Opaque { index, stateful, hotdrop } => {
                self.lower_opaque_test(&rule.matches[*index], state_id, *stateful, *hotdrop, at)
            }
            Test::Never => Ok(LoweredTest::NEVER),
        }
    }

    /// A test of multiport that either port can satisfy.
    fn lower_either_port_test(
        &mut self,
        spans: &[(u128, u128)],
        negated: bool,
    ) -> Result<LoweredTest, LimitReached> {
        let sport = build_span_union_predicate(
            &mut self.store,
            self.layout.field_levels(Field::Sport),
            spans,
        )?;
        let dport = build_span_union_predicate(
            &mut self.store,
            self.layout.field_levels(Field::Dport),
            spans,
        )?;
        let either = self.store.first_nonzero(sport, dport)?;
        let there = self.presence.multiport_ports;
        let holds = self.restrict_test_to_present_packets(there, either, negated)?;
        Ok(LoweredTest {
            matching_packets: holds,
            dropped_packets: self.presence.multiport_truncated,
        })
    }

    /// A match whose result the packet's fields do not determine: a free variable, restricted
    /// where the conntrack entry says more.
    fn lower_opaque_test(
        &mut self,
        m: &Match,
        state_id: u64,
        stateful: bool,
        hotdrop: Hotdrop,
        at: HookContext,
    ) -> Result<LoweredTest, LimitReached> {
        let reads = match_effects(m, self.layout.family).reads;
        let state_input = StatefulTestInput { hook: at.hook, read_fields: reads, change: 0 };
        let variable = |content_digest| match stateful {
            true => FreeVariable::StatefulTest { state_id, content_digest, nth: 0, state_input },
            false => FreeVariable::StatelessTest { content_digest, hook: at.hook, change: 0 },
        };
        let digest = match at.is_after_second_route_lookup && reads_packet_route(m) {
            true => digest_after_second_route_lookup(digest_debug_text(m)),
            false => digest_debug_text(m),
        };
        let asked = self.free_variable_of_match(variable(digest), || m.clone())?;
        let holds = match m {
            Match::Conntrack(c) => self.lower_whole_conntrack_match(c, asked)?,
            _ => asked,
        };
        match hotdrop {
            Hotdrop::Never => Ok(LoweredTest::without_drop(holds)),
            Hotdrop::OnTruncatedHeader => {
                let first = self.store.minus(DiagramRef::ONE, self.presence.later_fragment)?;
                let drops = self.store.and(first, self.presence.truncated_header)?;
                let holds = self.store.and(first, holds)?;
                Ok(LoweredTest {
                    matching_packets: self.store.minus(holds, drops)?,
                    dropped_packets: drops,
                })
            }
            Hotdrop::Unpredictable | Hotdrop::MatchMayAlsoDrop => {
                let drop_digest = digest_drop_question(digest);
                let module = match_module_name(m, self.layout.family);
                self.free_variables.record_module_of_drop_question(drop_digest, module);
                let drops = self.free_variable_without_match(variable(drop_digest))?;
                Ok(LoweredTest { matching_packets: holds, dropped_packets: drops })
            }
        }
    }

    /// `there` and what is tested, or `there` and its opposite.
    fn restrict_test_to_present_packets(
        &mut self,
        there: DiagramRef,
        tested: DiagramRef,
        negated: bool,
    ) -> Result<DiagramRef, LimitReached> {
        match negated {
            true => self.store.minus(there, tested),
            false => self.store.and(there, tested),
        }
    }

    pub(crate) fn lower_field_test(
        &mut self,
        field: Field,
        predicate: &Predicate,
        negated: bool,
        multiport: bool,
        at: HookContext,
    ) -> Result<LoweredTest, LimitReached> {
        if matches!(field, Field::Iif | Field::Oif) {
            let seen = if field == Field::Iif { at.has_iif } else { at.has_oif };
            let holds = |name: &str| predicate.holds_for_device(name) != negated;
            return self.lower_device_test(field, seen, holds).map(LoweredTest::without_drop);
        }
        if field == Field::CtState {
            let holds = |bits: u16| predicate.holds_for_value(bits.into()) != negated;
            return self.lower_ct_state_test(holds).map(LoweredTest::without_drop);
        }
        if field == Field::SourceMac && !at.has_mac {
            return Ok(LoweredTest::NEVER);
        }
        let levels = self.layout.field_levels(field);
        let tested = match predicate {
            Predicate::Present => DiagramRef::ONE,
            Predicate::InSpans(spans) if field == Field::PktType => {
                // Two bits hold three values: the fourth is taken as the third.
                let inside = |v: u32| spans.iter().any(|s| s.0 <= v.into() && u128::from(v) <= s.1);
                build_small_block_predicate(&mut self.store, levels, |c| inside(c.min(2)))?
            }
            Predicate::InSpans(spans) => {
                build_span_union_predicate(&mut self.store, levels, spans)?
            }
            Predicate::Masked { value, mask } => build_masked_predicate(
                &mut self.store,
                levels,
                *value,
                mask & field.max_value(self.layout.family),
            )?,
            Predicate::AnyBit(mask) => {
                let none = build_masked_predicate(&mut self.store, levels, 0, *mask)?;
                self.store.minus(DiagramRef::ONE, none)?
            }
            Predicate::Device { .. } => DiagramRef::ZERO,
        };
        let (there, drops) = self.presence.field_presence_and_hotdrop(field, multiport);
        let holds = self.restrict_test_to_present_packets(there, tested, negated)?;
        Ok(LoweredTest { matching_packets: holds, dropped_packets: drops })
    }

    /// Device names for which `holds` says yes; without a device, the empty name.
    pub(crate) fn lower_device_test(
        &mut self,
        field: Field,
        seen: bool,
        holds: impl Fn(&str) -> bool,
    ) -> Result<DiagramRef, LimitReached> {
        if !seen {
            return Ok(if holds("") { DiagramRef::ONE } else { DiagramRef::ZERO });
        }
        build_device_predicate(&mut self.store, &self.layout, field, holds)
    }

    /// Conntrack states for which `holds` says yes.
    fn lower_ct_state_test(
        &mut self,
        holds: impl Fn(u16) -> bool,
    ) -> Result<DiagramRef, LimitReached> {
        let levels = self.layout.field_levels(Field::CtState);
        build_small_block_predicate(&mut self.store, levels, |c| holds(decode_ct_state(c)))
    }

    /// conntrack_mt in xt_conntrack.c: without an entry only the state is tested.
    fn lower_whole_conntrack_match(
        &mut self,
        c: &ConntrackMatch,
        asked: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let state = match &c.state {
            Some(s) => self.lower_ct_state_test(|bits| (bits & s.value != 0) != s.negated)?,
            None => DiagramRef::ONE,
        };
        let entry = self.presence.ct_entry;
        let with = self.store.and(entry, asked)?;
        let with = self.store.and(state, with)?;
        if c.state.is_none() {
            return Ok(with);
        }
        let without = self.store.minus(state, entry)?;
        self.store.first_nonzero(with, without)
    }

    /// The variable of what the packet does not say.
    pub(crate) fn free_variable_of_match(
        &mut self,
        variable: FreeVariable,
        what: impl FnOnce() -> Match,
    ) -> Result<DiagramRef, LimitReached> {
        let number = self.free_variables.intern(variable, || Some(what()));
        self.store.make_node(self.layout.fields_end + number, DiagramRef::ZERO, DiagramRef::ONE)
    }

    /// The variable of what a target, or a match besides its answer, may do.
    pub(crate) fn free_variable_without_match(
        &mut self,
        variable: FreeVariable,
    ) -> Result<DiagramRef, LimitReached> {
        let number = self.free_variables.intern(variable, || None);
        self.store.make_node(self.layout.fields_end + number, DiagramRef::ZERO, DiagramRef::ONE)
    }

    /// A `-m set` test.
    fn lower_set_match(
        &mut self,
        m: &SetMatch,
        at: HookContext,
    ) -> Result<DiagramRef, LimitReached> {
        let inside = self.packets_matching_unnegated_ipset_match(m, at)?;
        match m.negated {
            true => self.store.minus(DiagramRef::ONE, inside),
            false => Ok(inside),
        }
    }
}
