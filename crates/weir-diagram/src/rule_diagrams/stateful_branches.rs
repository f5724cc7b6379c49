//! Stateful tests in the diagram of a rule: that a test was evaluated is part of the meaning.

use weir_model::{FieldSet, Match, Rule, Test, match_effects};
use weir_semantics::Verdict;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::packet_sets::free_variable::StatefulTestInput;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::table_hook_context::TableHookContext;
use crate::rule_diagrams::terminal::{RuleExit, StatefulQuestion, Terminal};

impl DiagramContext<'_> {
    /// A stateful test of a packet that is dropped in any case.
    pub fn branch_on_stateful_test_before_certain_drop(
        &mut self,
        ask: StatefulQuestion,
        holds: DiagramRef,
        then: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let (then, drop) = self.record_question_on_continue_and_drop(ask, then)?;
        self.space.store.ite(holds, then, drop)
    }

    /// Whether a stateful test drops the packet is asked first, and that it was asked remembered.
    pub fn branch_on_stateful_hotdrop(
        &mut self,
        ask: StatefulQuestion,
        drops: DiagramRef,
        then: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let (then, drop) = self.record_question_on_continue_and_drop(ask, then)?;
        self.space.store.ite(drops, drop, then)
    }

    /// What follows a stateful test, and a drop; both remember that it was asked.
    fn record_question_on_continue_and_drop(
        &mut self,
        ask: StatefulQuestion,
        then: DiagramRef,
    ) -> Result<(DiagramRef, DiagramRef), LimitReached> {
        let asked = self.terminals.intern_single_question_list(ask);
        let goes_on = self.terminals.intern_leaf(Terminal {
            stateful_questions: asked,
            ..Terminal::from_exit(RuleExit::Continue)
        });
        let then = self.compose_sequential(goes_on, then)?;
        let drop = Terminal {
            stateful_questions: asked,
            ..Terminal::from_exit(RuleExit::Verdict(Verdict::Drop))
        };
        Ok((then, self.terminals.intern_leaf(drop)))
    }

    /// The index of the match, where the answer of a test depends on packets before or on sets
    /// that rules change.
    pub fn stateful_match_index(&self, rule: &Rule, test: &Test) -> Option<usize> {
        match test {
            Test::Opaque { index, stateful: true, .. } => Some(*index),
            Test::Set { index } => match &rule.matches[*index] {
                Match::Set(m) if self.space.can_ipset_change(m) => Some(*index),
                _ => None,
            },
            _ => None,
        }
    }

    /// The question of a match.
    pub fn stateful_question_of_match(
        &self,
        rule: &Rule,
        index: usize,
        (state_id, content_digest): (u64, u64),
        place: TableHookContext,
    ) -> StatefulQuestion {
        let m = &rule.matches[index];
        let reads = match m {
            Match::Set(_) => FieldSet::ALL,
            _ => match_effects(m, self.space.layout.family).reads,
        };
        StatefulQuestion {
            state_id,
            content_digest,
            state_input: StatefulTestInput {
                hook: place.point.hook,
                read_fields: reads,
                change: 0,
            },
        }
    }

    /// A stateful test: that it was asked is part of the meaning, whatever the answer.
    pub fn branch_on_stateful_test(
        &mut self,
        ask: StatefulQuestion,
        holds: DiagramRef,
        then: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let asked = self.terminals.intern_single_question_list(ask);
        let asked = self.terminals.intern_leaf(Terminal {
            stateful_questions: asked,
            ..Terminal::from_exit(RuleExit::Continue)
        });
        let then = self.compose_sequential(asked, then)?;
        self.space.store.ite(holds, then, asked)
    }
}
