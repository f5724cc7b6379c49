//! The packets that rules alter before they evaluate stateful tests.
//!
//! Diagrams take a test of a changed packet for another one than the test of the packet as it came.
//! If the change has no effect on a packet (a mark gets the value that it had), both are the same
//! test, and the interpreter sees no difference for that packet. A witness is looked for among the
//! packets that a change alters.

use std::collections::BTreeSet;

use crate::bdd::node_store::{DiagramRef, LimitReached};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::packet_change::XorBitSource;

impl DiagramContext<'_> {
    /// For each bit that a change writes before a stateful test of the diagrams is evaluated, the
    /// packets in which it alters the bit; `None` if no test is evaluated after a change. Changes of
    /// the time to live alone are not listed.
    ///
    /// Bits are not combined: that all bits of a mark are those of another is a predicate that can
    /// have exponentially many nodes.
    pub fn list_packets_altered_before_stateful_tests(
        &mut self,
        diagrams: [DiagramRef; 2],
    ) -> Result<Option<Vec<DiagramRef>>, LimitReached> {
        let mut changes = BTreeSet::new();
        for diagram in diagrams {
            let DiagramContext { space, terminals, .. } = self;
            space.store.visit_nodes_and_terminals(diagram, |_, at| {
                if at.is_leaf() {
                    let list = terminals.terminal_of_leaf(at).stateful_questions;
                    let questions = terminals.list_questions(list).iter();
                    changes.extend(questions.map(|question| question.state_input.change));
                }
            });
        }
        changes.remove(&0);
        if changes.is_empty() {
            return Ok(None);
        }
        let mut alterations = Vec::new();
        for change in changes {
            let sources = self.terminals.get_change(change).bit_sources.clone();
            for (level, mut source) in sources {
                source.xor_with(&XorBitSource::from_level(level, false));
                let altered = self.build_xor_predicate(&source)?;
                if altered != DiagramRef::ZERO && !alterations.contains(&altered) {
                    alterations.push(altered);
                }
            }
        }
        Ok(Some(alterations))
    }

    /// Where the exclusive or of some bits is 1.
    fn build_xor_predicate(&mut self, source: &XorBitSource) -> Result<DiagramRef, LimitReached> {
        // What the bits from a level on give, and the opposite.
        let (mut value, mut opposite) = match source.is_inverted {
            false => (DiagramRef::ZERO, DiagramRef::ONE),
            true => (DiagramRef::ONE, DiagramRef::ZERO),
        };
        for level in source.xor_levels.iter().rev() {
            let store = &mut self.space.store;
            (value, opposite) = (
                store.make_node(*level, value, opposite)?,
                store.make_node(*level, opposite, value)?,
            );
        }
        Ok(value)
    }
}
