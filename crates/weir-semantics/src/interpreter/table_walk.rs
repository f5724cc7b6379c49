//! The traversal of one table at one hook: net/ipv4/netfilter/ip_tables.c, `ipt_do_table`.
//!
//! First match, with an explicit stack. A rule counts when all of its matches are true, before its
//! target acts. RETURN pops; in a built-in chain it applies the policy, whose counter then counts.
//! A goto does not push, so the rest of the calling chain is skipped. A match on a truncated header
//! drops the packet (*hotdrop*), whatever the rule says.

use weir_model::effect::{IpsetWrites, UNKNOWN_TARGET_ROW};
use weir_model::target::{Effect, NatTarget};
use weir_model::{
    FieldSet, Hook, Hotdrop, OriginalRuleIndex, Packet, Policy, Rule, TableName, Target,
    TargetTermination, target_effects,
};

use super::field_test_evaluation::{SingleTestResult, ct_state_matches, evaluate_field_test};
use super::packet_view::PacketView;
use super::rule_lowering::{
    CompactRule, CompactTest, LoweredTable, OpaqueTestProperties, RuleAction,
};
use super::rule_question::RuleQuestion;
use super::walk_observer::{FailedOrHotdropTest, WalkObserver};
use super::{Interpreter, family_index, nat_translation};
use crate::effects::{self, apply_effect_reporting_possible_change};
use crate::oracle::{Oracle, QuestionSubject, UnknownWrite};
use crate::outcome::{AppliedTarget, CountedObject, CounterHitWithCredit, TraversalLog, Verdict};
use crate::question_digest::{
    digest_after_second_route_lookup, digest_debug_text, digest_drop_question,
};
use crate::set_membership::{SetMembership, test_membership};

/// A walk under way.
pub(crate) struct TableWalk<'w, 'f, O> {
    pub interpreter: &'w Interpreter<'f>,
    pub hook: Hook,
    pub packet: &'w mut Packet,
    pub oracle: &'w mut dyn Oracle,
    pub log: &'w mut TraversalLog<'f>,
    pub observer: &'w mut O,
    /// The packet was sent to a port of this host.
    pub redirected: bool,
}

/// Where the walk is: in which chain, at which rule of the table.
#[derive(Clone, Copy)]
struct WalkPosition {
    chain: u32,
    rule: u32,
}

/// The effect of a rule's target on the traversal.
pub(super) enum TargetOutcome {
    Continue,
    /// The packet changed: read its fields again.
    RereadPacket,
    Decide(Verdict),
}

impl<'f, O: WalkObserver<'f>> TableWalk<'_, 'f, O> {
    /// Walks a table from its built-in chain of the hook; `None` if there is none.
    pub fn walk_table(&mut self, name: TableName) -> Option<Verdict> {
        let table = self.interpreter.lowered_table(self.packet.family, name)?;
        let start = table.base_chains[self.hook.number()]?;
        self.walk_chain(name, start)
    }

    /// Walks from a chain; `None` if a chain without policy returned.
    pub fn walk_chain(&mut self, name: TableName, start: u32) -> Option<Verdict> {
        let (table, skips) = self.interpreter.table_with_skip_indexes(self.packet.family, name)?;
        self.observer.on_table_entered(self.hook, name, self.packet);
        let mut view = PacketView::from_packet(self.packet);
        let mut stack: Vec<WalkPosition> = Vec::new();
        let mut at = self.enter_chain(table, start, 0);
        let mut failures_in_row = 0;
        let mut chains_left = table.max_entered_chains();
        loop {
            let chain = &table.chains[at.chain as usize];
            if at.rule == chain.end_rule {
                let Some(back) = stack.pop() else { return self.apply_policy(table, start) };
                at = self.notify_observer_of_resumed_chain(table, back, stack.len());
                continue;
            }
            let compact = table.rules[at.rule as usize];
            let rule = &chain.chain.rules[(at.rule - chain.first_rule) as usize];
            let number = at.rule - chain.first_rule + 1;
            self.log.rules_tried += 1;
            let (failed, dying) = self.evaluate_until_a_test_fails(table, compact, rule, &mut view);
            self.observer.on_rule_tried(rule, number, failed, self.packet);
            match failed {
                None => {}
                Some(FailedOrHotdropTest { hotdrop: false, .. }) => {
                    failures_in_row += u32::from(O::IGNORES_FAILED_RULES);
                    let failed = (at.chain, at.rule);
                    let next = skips.next_rule_after_failure(failed, &view, failures_in_row);
                    self.log.rules_tried += next - at.rule - 1;
                    at.rule = next;
                    continue;
                }
                Some(_) => return self.leave_table_by_rule(Verdict::Drop),
            }
            failures_in_row = 0;
            let counted = CountedObject::Rule { table: name, chain: &chain.chain.name, number };
            self.count_hit(counted, &rule.credited_originals);
            if dying {
                if compact.action == RuleAction::EvaluateTarget {
                    self.apply_target(name, rule);
                }
                return self.leave_table_by_rule(Verdict::Drop);
            }
            let next = WalkPosition { chain: at.chain, rule: at.rule + 1 };
            at = match compact.action {
                RuleAction::CountOnly => next,
                RuleAction::Accept => return self.leave_table_by_rule(Verdict::Accept),
                RuleAction::Drop => return self.leave_table_by_rule(Verdict::Drop),
                RuleAction::Return => match stack.pop() {
                    Some(back) => self.notify_observer_of_resumed_chain(table, back, stack.len()),
                    None => return self.apply_policy(table, start),
                },
                RuleAction::Jump(to) | RuleAction::Goto(to) => {
                    chains_left -= 1;
                    if chains_left == 0 {
                        return self.leave_table_by_rule(table.verdict_beyond_max_entered_chains());
                    }
                    if matches!(compact.action, RuleAction::Jump(_)) {
                        stack.push(next);
                    }
                    self.enter_chain(table, to, stack.len())
                }
                RuleAction::EvaluateTarget => match self.apply_target(name, rule) {
                    TargetOutcome::Continue => next,
                    TargetOutcome::RereadPacket => {
                        view = PacketView::from_packet(self.packet);
                        next
                    }
                    TargetOutcome::Decide(verdict) => return self.leave_table_by_rule(verdict),
                },
            };
        }
    }

    fn enter_chain(&mut self, table: &LoweredTable<'f>, chain: u32, depth: usize) -> WalkPosition {
        let index = &table.chains[chain as usize];
        self.observer.on_chain_entered_or_resumed(&index.chain.name, depth);
        WalkPosition { chain, rule: index.first_rule }
    }

    fn notify_observer_of_resumed_chain(
        &mut self,
        table: &LoweredTable<'f>,
        to: WalkPosition,
        depth: usize,
    ) -> WalkPosition {
        self.observer
            .on_chain_entered_or_resumed(&table.chains[to.chain as usize].chain.name, depth);
        to
    }

    /// Tells the observer that a rule ends the walk; the result of the walk.
    fn leave_table_by_rule(&mut self, verdict: Verdict) -> Option<Verdict> {
        self.observer.on_table_left(verdict, false);
        Some(verdict)
    }

    /// Adds to the log what counted the packet, with the original rules that it credits.
    pub(super) fn count_hit(
        &mut self,
        counted_object: CountedObject<'f>,
        credited_originals: &'f [OriginalRuleIndex],
    ) {
        self.log.hits.push(CounterHitWithCredit {
            hook: self.hook,
            counted_object,
            credited_originals,
        });
    }

    /// The end of the chain that the walk began in.
    fn apply_policy(&mut self, table: &LoweredTable<'f>, start: u32) -> Option<Verdict> {
        let chain = table.chains[start as usize].chain;
        let verdict = match chain.policy? {
            Policy::Accept => Verdict::Accept,
            Policy::Drop => Verdict::Drop,
        };
        let counted = CountedObject::Policy { table: table.name, chain: &chain.name };
        self.count_hit(counted, &[]);
        // The walk may have ended in a chain that was entered by goto.
        self.observer.on_chain_entered_or_resumed(&chain.name, 0);
        self.observer.on_table_left(verdict, true);
        Some(verdict)
    }

    pub(super) fn apply_target(&mut self, table: TableName, rule: &'f Rule) -> TargetOutcome {
        let target = &rule.target;
        let seen = AppliedTarget { hook: self.hook, table, target };
        match target {
            Target::Reject(with) => {
                self.log.effects.push(seen);
                TargetOutcome::Decide(Verdict::Reject(with))
            }
            Target::Divert(extension) => {
                self.log.effects.push(seen);
                self.divert_or_reinject_packet(
                    rule,
                    extension.module,
                    digest_debug_text(&**extension),
                )
            }
            Target::Nat(nat) => {
                self.log.effects.push(seen);
                self.redirected |= matches!(**nat, NatTarget::Redirect(_));
                nat_translation::apply_nat_target(self.hook, nat, self.packet, self.oracle);
                TargetOutcome::Decide(Verdict::Accept)
            }
            Target::Effect(effect) => {
                self.log.effects.push(seen);
                match &**effect {
                    Effect::Other(e) => {
                        self.apply_target_by_effects_row(rule, effect, digest_debug_text(e))
                    }
                    _ if apply_effect_reporting_possible_change(effect, self.packet) => {
                        TargetOutcome::RereadPacket
                    }
                    _ => TargetOutcome::Continue,
                }
            }
            Target::Opaque(opaque) => {
                self.log.effects.push(seen);
                let digest = digest_debug_text(opaque);
                if self.ask_oracle(rule, QuestionSubject::Target, true, digest) {
                    return TargetOutcome::Decide(Verdict::Unknown);
                }
                self.write_fields_with_oracle_values(
                    rule,
                    UNKNOWN_TARGET_ROW.unknown_value_writes,
                    digest,
                );
                TargetOutcome::RereadPacket
            }
            Target::None
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::Jump(_)
            | Target::Goto(_) => TargetOutcome::Continue,
        }
    }

    /// A target of a module whose row in the table of effects says what it does.
    fn apply_target_by_effects_row(
        &mut self,
        rule: &'f Rule,
        effect: &Effect,
        digest: u64,
    ) -> TargetOutcome {
        let row = target_effects(&rule.target);
        if row.may_drop
            && self.ask_whether_dropped(rule, QuestionSubject::Target, row.stateful, digest)
        {
            return TargetOutcome::Decide(Verdict::Drop);
        }
        // What it does to a set is ordered with what matches find there.
        if row.stateful || row.ipset_writes != IpsetWrites::None {
            self.ask_oracle(rule, QuestionSubject::Target, true, digest);
        }
        let changed = apply_effect_reporting_possible_change(effect, self.packet);
        if row.unknown_value_writes.is_empty() {
            return if changed { TargetOutcome::RereadPacket } else { TargetOutcome::Continue };
        }
        // CT leaves a packet alone that has an entry, CONNMARK one that has none.
        let writes = match row.name {
            "CT" => changed,
            "CONNMARK" => self.packet.ct.has_entry(),
            _ => true,
        };
        if writes {
            self.write_fields_with_oracle_values(rule, row.unknown_value_writes, digest);
        }
        TargetOutcome::RereadPacket
    }

    /// A packet that is handed over, and perhaps returns.
    fn divert_or_reinject_packet(
        &mut self,
        rule: &'f Rule,
        module: &'static str,
        content: u64,
    ) -> TargetOutcome {
        let question = self.build_rule_question(rule, QuestionSubject::Target, true, content);
        let answer = self.oracle.is_reinjected(&question.with_packet(self.packet));
        self.log.questions.push(question.with_answer(answer));
        let row = target_effects(&rule.target);
        if !answer {
            return TargetOutcome::Decide(Verdict::Divert(module));
        }
        self.write_fields_with_oracle_values(rule, row.unknown_value_writes, content);
        match row.termination {
            TargetTermination::Always => TargetOutcome::Decide(Verdict::Accept),
            TargetTermination::Never | TargetTermination::Perhaps => TargetOutcome::RereadPacket,
        }
    }

    /// Writes fields whose new values the caller gives.
    fn write_fields_with_oracle_values(&mut self, rule: &'f Rule, fields: FieldSet, content: u64) {
        let question = self.build_rule_question(rule, QuestionSubject::Target, false, content);
        for field in fields.iter() {
            let write = UnknownWrite {
                question: question.with_packet(self.packet),
                field,
                old_value: field.read_or_zero(self.packet),
            };
            let new = self.oracle.choose_written_value(&write);
            effects::write_field_unless_pkttype(field, new, self.packet);
        }
    }

    /// The first test of a rule that does not hold; and whether the packet is dropped although all
    /// hold.
    #[inline]
    pub(super) fn evaluate_until_a_test_fails(
        &mut self,
        table: &LoweredTable<'f>,
        compact: CompactRule,
        rule: &'f Rule,
        view: &mut PacketView,
    ) -> (Option<FailedOrHotdropTest>, bool) {
        let mut dying = false;
        let first = compact.first_test as usize;
        for (test, t) in table.tests[first..first + compact.test_count as usize].iter().enumerate()
        {
            let held = match *t {
                CompactTest::SetLookup { .. }
                | CompactTest::ConntrackBeyondState { .. }
                | CompactTest::Opaque { .. } => {
                    let held = self.evaluate_non_field_test(table, *t, rule);
                    if matches!(
                        held,
                        SingleTestResult::Holds | SingleTestResult::HoldsThenDropsAfterRule
                    ) {
                        self.apply_match_writes(table, *t, rule, view);
                    }
                    held
                }
                _ => evaluate_field_test(table, t, view, self.packet),
            };
            match held {
                SingleTestResult::Holds => {}
                SingleTestResult::Fails => {
                    return (Some(FailedOrHotdropTest { test_index: test, hotdrop: dying }), dying);
                }
                SingleTestResult::Hotdrop => {
                    return (Some(FailedOrHotdropTest { test_index: test, hotdrop: true }), true);
                }
                SingleTestResult::HoldsThenDropsAfterRule => dying = true,
            }
        }
        (None, dying)
    }

    /// Some matches write where they hold.
    fn apply_match_writes(
        &mut self,
        table: &LoweredTable<'f>,
        test: CompactTest,
        rule: &'f Rule,
        view: &mut PacketView,
    ) {
        let CompactTest::Opaque { at, .. } = test else { return };
        let test = table.opaque_tests[at as usize];
        if !test.writes.is_empty() {
            self.write_fields_with_oracle_values(rule, test.writes, test.content_digest);
            *view = PacketView::from_packet(self.packet);
        }
    }

    /// Tests that may need the caller.
    #[cold]
    fn evaluate_non_field_test(
        &mut self,
        table: &LoweredTable<'f>,
        test: CompactTest,
        rule: &'f Rule,
    ) -> SingleTestResult {
        match test {
            CompactTest::SetLookup { match_index: index, set_test_index: at } => {
                self.evaluate_set_test(table, index, at, rule)
            }
            CompactTest::ConntrackBeyondState { index, at } => {
                let test = &table.conntrack_tests[at as usize];
                let state = test.state.map(|s| ct_state_matches(self.packet, s.negated, s.value));
                // conntrack_mt in xt_conntrack.c: without an entry only the state is tested.
                if state == Some(false) || !self.packet.ct.has_entry() {
                    return SingleTestResult::from(state == Some(true));
                }
                self.ask_oracle(
                    rule,
                    QuestionSubject::Match(index.into()),
                    false,
                    test.content_digest,
                )
                .into()
            }
            CompactTest::Opaque { index, at } => {
                let mut test = table.opaque_tests[at as usize];
                if test.reads_route && self.is_after_second_route_lookup(table.name) {
                    test.content_digest = digest_after_second_route_lookup(test.content_digest);
                }
                self.evaluate_opaque_test(rule, QuestionSubject::Match(index.into()), test)
            }
            _ => SingleTestResult::Fails,
        }
    }

    /// Whether the packet may have another route than in the mangle table of this hook.
    fn is_after_second_route_lookup(&self, table: TableName) -> bool {
        self.hook == Hook::Output
            && !matches!(table, TableName::Raw | TableName::Mangle)
            && self.interpreter.may_reroute_local_packets[family_index(self.packet.family)]
    }

    /// A test that the fields do not answer, and that may drop the packet.
    fn evaluate_opaque_test(
        &mut self,
        rule: &'f Rule,
        subject: QuestionSubject,
        test: OpaqueTestProperties,
    ) -> SingleTestResult {
        match test.hotdrop {
            Hotdrop::Never => {}
            // xt_esp.c, ipt_ah.c: not for later fragments.
            Hotdrop::OnTruncatedHeader if self.packet.fragment.offset != 0 => {
                return SingleTestResult::Fails;
            }
            Hotdrop::OnTruncatedHeader if self.packet.payload.len() < test.header_bytes.into() => {
                return SingleTestResult::Hotdrop;
            }
            Hotdrop::OnTruncatedHeader => {}
            Hotdrop::Unpredictable => {
                if self.ask_whether_dropped(rule, subject, test.stateful, test.content_digest) {
                    return SingleTestResult::Hotdrop;
                }
            }
            Hotdrop::MatchMayAlsoDrop => {
                if self.ask_whether_dropped(rule, subject, test.stateful, test.content_digest) {
                    return SingleTestResult::HoldsThenDropsAfterRule;
                }
            }
        }
        self.ask_oracle(rule, subject, test.stateful, test.content_digest).into()
    }

    fn evaluate_set_test(
        &mut self,
        table: &LoweredTable<'f>,
        index: u16,
        at: u32,
        rule: &'f Rule,
    ) -> SingleTestResult {
        let interpreter = self.interpreter;
        let test = &table.set_tests[at as usize];
        let found = match test.set_index {
            // Lists hand --return-nomatch on to their members (ip_set_list_set.c): not modelled.
            Some(set) if test.return_nomatch && interpreter.sets[set].is_list() => {
                SetMembership::Unknown
            }
            Some(set) if !test.has_options_beyond_membership && !test.is_modified_by_rules => {
                test_membership(&interpreter.sets, set, self.packet, test.dirs)
            }
            _ => SetMembership::Unknown,
        };
        let inside = match found {
            SetMembership::Unknown => {
                let subject = QuestionSubject::Match(index.into());
                return self
                    .ask_oracle(rule, subject, test.is_modified_by_rules, test.content_digest)
                    .into();
            }
            SetMembership::NotMember => false,
            SetMembership::Member { set, element } => {
                let holder = &interpreter.sets[set];
                if holder.has_counters && test.updates_counters {
                    let set = &holder.set.name;
                    let element = &holder.set.elements[element as usize];
                    let counted = CountedObject::IpsetElement { set, element };
                    self.count_hit(counted, &element.credited_originals);
                }
                !(test.return_nomatch && holder.set.kind.can_hold_exceptions())
            }
            SetMembership::NomatchElement { .. } => test.return_nomatch,
        };
        SingleTestResult::from(inside != test.negated)
    }

    /// Whether a match or a target itself drops the packet.
    fn ask_whether_dropped(
        &mut self,
        rule: &'f Rule,
        of: QuestionSubject,
        stateful: bool,
        content: u64,
    ) -> bool {
        let content = digest_drop_question(content);
        let question = self.build_rule_question(rule, of, stateful, content);
        let answer = self.oracle.match_or_target_drops_packet(&question.with_packet(self.packet));
        self.log.questions.push(question.with_answer(answer));
        answer
    }

    fn ask_oracle(
        &mut self,
        rule: &'f Rule,
        subject: QuestionSubject,
        stateful: bool,
        content: u64,
    ) -> bool {
        let question = self.build_rule_question(rule, subject, stateful, content);
        let answer =
            self.oracle.match_holds_or_target_ends_traversal(&question.with_packet(self.packet));
        self.log.questions.push(question.with_answer(answer));
        answer
    }

    /// A question about a rule at this hook.
    fn build_rule_question(
        &self,
        rule: &'f Rule,
        subject: QuestionSubject,
        stateful: bool,
        content: u64,
    ) -> RuleQuestion<'f> {
        RuleQuestion {
            family: self.packet.family,
            hook: self.hook,
            rule,
            subject,
            stateful,
            content_digest: content,
            shared_object_config_digest: self
                .interpreter
                .shared_object_config_digests
                .digest_for_rule(rule),
        }
    }
}
