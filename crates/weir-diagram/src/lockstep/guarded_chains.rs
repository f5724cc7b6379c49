//! The rules of chains to which only some packets of a cell jump, as rules that test this before.
//!
//! A map of ports has a chain for each port; a list has the same rules in sequence. The rules of
//! such a chain, each with the tests of the jump before its own, do the same as the jump: tests
//! without state give the same answer each time. A goto is a jump if its chain ends with a verdict
//! for every packet.

use weir_model::Target;

use crate::lockstep::packet_cell::{CellTestResult, PacketCell};
use crate::lockstep::remaining_rules::{RemainingRule, RemainingTest};
use crate::lockstep::{LockstepFailure, LockstepTables, REMAINING_RULES_MAX};

/// How deep chains call each other, at most.
const DEPTH_MAX: usize = 8;

/// Appends rules of one side of a cell to a list.
pub(crate) struct GuardedChains<'p, 'm, 'f> {
    pub proof: &'p mut LockstepTables<'m, 'f>,
    pub cell: &'p PacketCell,
    pub side: usize,
    pub list: &'p mut Vec<RemainingRule>,
}

impl GuardedChains<'_, '_, '_> {
    /// Appends what a jump or goto leads to, for packets that pass `guard` and its own tests. All
    /// packets of the cell pass its tests of axes. Whether all that pass `guard` end there.
    pub fn append_called_by(
        &mut self,
        number: u32,
        guard: &[RemainingTest],
        depth: usize,
    ) -> Result<bool, LockstepFailure> {
        let rule = &self.proof.tables[self.side].rules[number as usize];
        let own = RemainingRule::tests_of_jump(rule, self.proof.criteria);
        let (Some(own), Some(to), true) = (own, rule.leads_to, depth < DEPTH_MAX) else {
            return Err(LockstepFailure::StepsDiffer);
        };
        let is_goto = matches!(rule.rule.target, Target::Goto(_));
        let is_unconditional = own.is_empty();
        let guard = [guard, &own].concat();
        let is_end = self.append_chain(to, &guard, depth)?;
        if is_goto && !is_end {
            return Err(LockstepFailure::StepsDiffer);
        }
        Ok(is_end && is_unconditional)
    }

    /// Whether all packets that enter the chain end there.
    fn append_chain(
        &mut self,
        chain: usize,
        guard: &[RemainingTest],
        depth: usize,
    ) -> Result<bool, LockstepFailure> {
        let first = self.list.len();
        let mut is_end = false;
        for number in self.proof.tables[self.side].rule_numbers_of_chain(chain) {
            self.proof.count_visits(1)?;
            let rule = &self.proof.tables[self.side].rules[number as usize];
            let results = self.cell.test_spans(&rule.tests.spans);
            if results.contains(&CellTestResult::Never) {
                continue;
            }
            if results.contains(&CellTestResult::Sometimes) || rule.rule.target == Target::Return {
                return Err(LockstepFailure::StepsDiffer);
            }
            if rule.leads_to.is_some() {
                is_end = self.append_called_by(number, guard, depth + 1)?;
            } else {
                let (criteria, own) = (self.proof.criteria, self.list.len());
                RemainingRule::append_rules_of_cell(rule, self.cell, criteria, self.list)
                    .ok_or(LockstepFailure::StepsDiffer)?;
                is_end = self.list[own..].last().is_some_and(RemainingRule::is_always_last);
                self.list[own..].iter_mut().for_each(|rule| rule.guard_with(guard, criteria));
            }
            if self.list.len() > REMAINING_RULES_MAX {
                return Err(LockstepFailure::StepsDiffer);
            }
            if is_end {
                break;
            }
        }
        if self.list.len() == first {
            self.list.extend(RemainingRule::tests_alone(guard.to_vec()));
        }
        Ok(is_end)
    }
}
