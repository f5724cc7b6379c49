//! The possible outcomes of all packets of a class in a chain.
//!
//! A class is a list of tests, for example those of one rule. The traversal skips the rules that no
//! packet of the class matches; for each of the others the caller decides whether it is acceptable.
//! A rule whose tests match the whole class ends the traversal, or continues it elsewhere, for all
//! of it; if it matches a part, the outcome of the rest stays open.

use weir_model::{Rule, Table, Target, Test};

use weir_partition::{TestAlgebra, take_tests_before_transport};

/// The outcome of a class in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketClassWalkOutcome {
    /// A rule was reached that the caller rejects.
    CallbackRejectedRule,
    /// Rules decide all of it.
    AllDecided,
    /// Some of it may come to the policy of the chain.
    ReachesPolicy,
    /// Some of it may come out of the chain undecided.
    LeavesChain,
}

/// A walk through a table by all packets that pass some tests.
pub(crate) struct PacketClassWalk<'a> {
    pub table: &'a Table,
    pub algebra: TestAlgebra,
    pub tests: &'a [Test],
}

impl PacketClassWalk<'_> {
    /// Traverses a chain. `visit_rule` is called for each rule that a packet of the class may
    /// match, and is given whether all of them do.
    pub fn walk(
        &self,
        chain: &str,
        visit_rule: &mut dyn FnMut(&Rule, bool) -> bool,
    ) -> PacketClassWalkOutcome {
        self.walk_chain(chain, visit_rule, self.table.chains.len())
    }

    fn walk_chain(
        &self,
        chain: &str,
        visit_rule: &mut dyn FnMut(&Rule, bool) -> bool,
        depth: usize,
    ) -> PacketClassWalkOutcome {
        // A loop is refused at load; this one ends all the same.
        let (Some(chain), Some(depth)) = (self.table.chain(chain), depth.checked_sub(1)) else {
            return PacketClassWalkOutcome::CallbackRejectedRule;
        };
        let out = if chain.policy.is_some() {
            PacketClassWalkOutcome::ReachesPolicy
        } else {
            PacketClassWalkOutcome::LeavesChain
        };
        let mut some_left = false;
        for rule in &chain.rules {
            let tests = self.algebra.tests_of_rule(rule);
            let Some(whole) = self.all_match_if_any_match(&tests) else { continue };
            if !visit_rule(rule, whole) {
                return PacketClassWalkOutcome::CallbackRejectedRule;
            }
            let inside = match &rule.target {
                Target::Jump(to) | Target::Goto(to) => self.walk_chain(to, visit_rule, depth),
                _ => PacketClassWalkOutcome::LeavesChain,
            };
            if inside == PacketClassWalkOutcome::CallbackRejectedRule {
                return PacketClassWalkOutcome::CallbackRejectedRule;
            }
            let end = |ends: bool| {
                if ends && !some_left { PacketClassWalkOutcome::AllDecided } else { out }
            };
            match &rule.target {
                t if t.is_terminating() && whole => return end(true),
                Target::Jump(_) if whole && inside == PacketClassWalkOutcome::AllDecided => {
                    return end(true);
                }
                Target::Goto(_) if whole => {
                    return end(inside == PacketClassWalkOutcome::AllDecided);
                }
                Target::Return if whole => return out,
                Target::Goto(_) => some_left |= inside != PacketClassWalkOutcome::AllDecided,
                Target::Return => some_left = true,
                _ => {}
            }
        }
        out
    }

    /// Whether all packets of the class match the tests; `None` if none does. A packet of the class
    /// whose header is truncated gets to the tests before those of the header.
    fn all_match_if_any_match(&self, tests: &[Test]) -> Option<bool> {
        if !self.algebra.is_disjoint(self.tests, tests) {
            return Some(self.algebra.first_covers_second(tests, self.tests));
        }
        let cut = take_tests_before_transport(self.tests);
        let headless =
            cut.len() < self.tests.len() && take_tests_before_transport(tests).len() == tests.len();
        (headless && !self.algebra.is_disjoint(cut, tests)).then_some(false)
    }
}
