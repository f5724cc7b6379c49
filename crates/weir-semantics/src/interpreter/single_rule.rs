//! One rule alone: what a form asks that finds rules by look-up and evaluates the others one by
//! one.

use weir_model::{Hook, Packet, Rule, RulePlaceInTable, SharedName, TableName};

use super::Interpreter;
use super::packet_view::PacketView;
use super::rule_lowering::{CompactRule, LoweredTable, RuleAction};
use super::table_walk::{TableWalk, TargetOutcome};
use super::walk_observer::{FailedOrHotdropTest, NoopObserver};
use crate::oracle::Oracle;
use crate::outcome::{CountedObject, TraversalLog, Verdict};
use crate::set_membership::{SetMembership, test_membership};

/// What a rule did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleRuleOutcome {
    /// It did not match.
    NotMatched,
    /// It matched, and the traversal continues: with the next rule, or as its jump or RETURN says.
    Matched,
    /// It matched, and the packet leaves the table.
    MatchedAndDecided(Verdict),
    /// It did not match, and evaluating it dropped the packet.
    DroppedByTest,
}

impl<'f> Interpreter<'f> {
    /// Evaluates one rule: its tests, its counter and, unless it leads to a chain, its target.
    ///
    /// # Panics
    /// If the family's ruleset has no such rule.
    pub fn evaluate_single_rule(
        &self,
        (table, place): (TableName, RulePlaceInTable),
        hook: Hook,
        packet: &mut Packet,
        answers: &mut dyn Oracle,
        log: &mut TraversalLog<'f>,
    ) -> SingleRuleOutcome {
        let lowered = self.lowered_table(packet.family, table).expect("the table of the rule");
        let (compact, rule, chain) = find_rule(lowered, place);
        let mut nobody = NoopObserver;
        let mut walk = self.start_table_walk(hook, packet, answers, log, &mut nobody);
        walk.log.rules_tried += 1;
        let mut view = PacketView::from_packet(walk.packet);
        let (failed, is_dying) =
            walk.evaluate_until_a_test_fails(lowered, compact, rule, &mut view);
        match failed {
            None => {}
            Some(FailedOrHotdropTest { hotdrop: false, .. }) => {
                return SingleRuleOutcome::NotMatched;
            }
            Some(_) => return SingleRuleOutcome::DroppedByTest,
        }
        let counted = CountedObject::Rule { table, chain, number: place.rule + 1 };
        walk.count_hit(counted, &rule.credited_originals);
        let outcome = apply_rule_action(&mut walk, table, compact.action, rule);
        if is_dying { SingleRuleOutcome::MatchedAndDecided(Verdict::Drop) } else { outcome }
    }

    /// Applies the target of a rule that is known to match; it is not counted.
    ///
    /// # Panics
    /// As [`Interpreter::evaluate_single_rule`].
    pub fn apply_single_target_uncounted(
        &self,
        (table, place): (TableName, RulePlaceInTable),
        hook: Hook,
        packet: &mut Packet,
        answers: &mut dyn Oracle,
        log: &mut TraversalLog<'f>,
    ) -> SingleRuleOutcome {
        let lowered = self.lowered_table(packet.family, table).expect("the table of the rule");
        let (compact, rule, _) = find_rule(lowered, place);
        let mut nobody = NoopObserver;
        let mut walk = self.start_table_walk(hook, packet, answers, log, &mut nobody);
        apply_rule_action(&mut walk, table, compact.action, rule)
    }

    /// Whether a set contains a packet by some directions (`true` for `src`), as `-m set` without
    /// options tests it. A set that is not known, and what the packet does not say, contain none.
    pub fn is_in_set(&self, name: &str, packet: &Packet, dirs: &[bool]) -> bool {
        let at = self.sets.iter().position(|index| *index.set.name == *name);
        let found = at.map(|at| test_membership(&self.sets, at, packet, dirs));
        matches!(found, Some(SetMembership::Member { .. }))
    }
}

fn find_rule<'f>(
    table: &LoweredTable<'f>,
    place: RulePlaceInTable,
) -> (CompactRule, &'f Rule, &'f SharedName) {
    let chain = &table.chains[place.chain as usize];
    let compact = table.rules[(chain.first_rule + place.rule) as usize];
    (compact, &chain.chain.rules[place.rule as usize], &chain.chain.name)
}

fn apply_rule_action<'f>(
    walk: &mut TableWalk<'_, 'f, NoopObserver>,
    table: TableName,
    action: RuleAction,
    rule: &'f Rule,
) -> SingleRuleOutcome {
    match action {
        RuleAction::Accept => SingleRuleOutcome::MatchedAndDecided(Verdict::Accept),
        RuleAction::Drop => SingleRuleOutcome::MatchedAndDecided(Verdict::Drop),
        RuleAction::CountOnly | RuleAction::Return | RuleAction::Jump(_) | RuleAction::Goto(_) => {
            SingleRuleOutcome::Matched
        }
        RuleAction::EvaluateTarget => match walk.apply_target(table, rule) {
            TargetOutcome::Continue | TargetOutcome::RereadPacket => SingleRuleOutcome::Matched,
            TargetOutcome::Decide(verdict) => SingleRuleOutcome::MatchedAndDecided(verdict),
        },
    }
}
