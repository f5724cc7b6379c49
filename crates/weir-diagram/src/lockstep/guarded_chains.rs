//! The rules of chains to which only some packets of a cell jump, as rules that test this before.
//!
//! A map of ports has a chain for each port; a list has the same rules in sequence. The rules of
//! such a chain, each with the tests of the jump before its own (the *guard*), do the same as the
//! jump: tests without state give the same answer each time. A goto is a jump if every packet that
//! enters the chain gets a verdict there. Chains with RETURN, and those with tests of addresses that
//! hold for some packets of the cell, are not described: sections of chains may still be compared
//! by diagrams ([`lockstep_section_diagrams`](crate::lockstep::lockstep_section_diagrams)).

use weir_model::Target;

use crate::lockstep::lockstep_rules::LockstepTable;
use crate::lockstep::packet_cell::{CellTestResult, PacketCell, undecided_address_axis};
use crate::lockstep::remaining_rules::{RemainingRule, RemainingTest};
use crate::same_rule_tests::SameTestCriteria;

/// How deep chains call each other, at most: compiled forms need two. It bounds the recursion.
const GUARDED_CHAIN_CALL_DEPTH_MAX: usize = 8;

/// What happens to the packets that enter a chain and that no test of the cell excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainEnd {
    /// All of them get a verdict in it.
    AlwaysVerdict,
    /// Some may come back.
    MayReturn,
}

/// Appends rules of one side of a cell to a list.
pub(crate) struct GuardedChains<'p, 'f> {
    pub table: &'p LockstepTable<'f>,
    pub criteria: SameTestCriteria,
    pub cell: &'p PacketCell,
    pub list: &'p mut Vec<RemainingRule>,
    /// The most rules of the list.
    pub list_max: usize,
    /// Visits of rules that are left.
    pub visits_left: &'p mut u64,
}

impl GuardedChains<'_, '_> {
    /// Appends what a jump or goto leads to, for packets that pass `guard` and its own tests. All
    /// packets of the cell pass its tests of addresses and devices. What happens to those that pass
    /// `guard`; `None` if a list cannot describe it, or a limit is reached.
    pub fn append_rules_of_called_chain(
        &mut self,
        number: u32,
        guard: &[RemainingTest],
        depth: usize,
    ) -> Option<ChainEnd> {
        let rule = &self.table.rules[number as usize];
        let results = self.cell.test_spans(&rule.tests.spans);
        let own = RemainingRule::tests_of_jump(rule, (self.cell, results), self.criteria)?;
        let to = rule.leads_to.filter(|_| depth < GUARDED_CHAIN_CALL_DEPTH_MAX)?;
        let is_goto = matches!(rule.rule.target, Target::Goto(_));
        let is_unconditional = own.is_empty();
        let guard = [guard, &own].concat();
        match self.append_guarded_rules_of_chain(to, &guard, depth)? {
            ChainEnd::AlwaysVerdict if is_unconditional => Some(ChainEnd::AlwaysVerdict),
            ChainEnd::MayReturn if is_goto => None,
            _ => Some(ChainEnd::MayReturn),
        }
    }

    fn append_guarded_rules_of_chain(
        &mut self,
        chain: usize,
        guard: &[RemainingTest],
        depth: usize,
    ) -> Option<ChainEnd> {
        let first = self.list.len();
        let mut end = ChainEnd::MayReturn;
        for number in self.table.rule_numbers_of_chain(chain) {
            *self.visits_left = self.visits_left.checked_sub(1)?;
            let rule = &self.table.rules[number as usize];
            let results = self.cell.test_spans(&rule.tests.spans);
            if results.contains(&CellTestResult::Never) {
                continue;
            }
            if undecided_address_axis(&results).is_some() || rule.rule.target == Target::Return {
                return None;
            }
            if rule.leads_to.is_some() {
                end = self.append_rules_of_called_chain(number, guard, depth + 1)?;
            } else {
                let own = self.list.len();
                let of_cell = (self.cell, results);
                RemainingRule::append_rule_as_seen_in_cell(
                    rule,
                    of_cell,
                    self.criteria,
                    self.list,
                )?;
                if self.list[own..].last().is_some_and(RemainingRule::is_always_last) {
                    end = ChainEnd::AlwaysVerdict;
                }
                let added = self.list[own..].iter_mut();
                added.for_each(|rule| rule.prepend_guard(guard, self.criteria));
            }
            if self.list.len() > self.list_max {
                return None;
            }
            if end == ChainEnd::AlwaysVerdict {
                break;
            }
        }
        if self.list.len() == first {
            self.list.extend(RemainingRule::only_tests_if_they_may_drop(guard.to_vec()));
        }
        Some(end)
    }
}
