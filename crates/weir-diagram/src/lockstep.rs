//! Runs two lists of rules in lockstep, for all packets of a cell.
//!
//! A pass often leaves a packet the same rules in the same order, and only saves it others that it
//! cannot match: a prefix tree of chains has in each leaf the rules of the list that packets of its
//! prefix may match. To prove that, no diagram is needed. Two programs are equal if each step of
//! one is the same step of the other (a *lockstep simulation*, as in proofs of compilers).
//!
//! **A step** is a rule that some packet of the cell may match. Rules that no packet of the cell
//! can match, because of a test of its addresses or devices, are skipped: nothing that the kernel
//! evaluates before such a test has an effect
//! ([`cell_tests`](crate::lockstep::cell_tests)). The same holds for tests of ports where packets
//! with truncated headers, which such a test drops, are not compared. Rules of both sides are the
//! same step if their other tests, their targets and the identity of their stateful tests are the
//! same, and their tests of addresses, devices and ports hold for the same packets of the cell. A
//! chain that both tables have and that is proven to be the same is a step of both. Other chains are
//! entered, if all packets of the cell enter them. Where other tests decide which packets enter a
//! chain, its rules are compared each behind the tests of the jump
//! ([`guarded_chains`](crate::lockstep::guarded_chains)). The addresses of a packet are not written
//! in the table, or the address is not used.
//!
//! **If steps differ**, the cell is divided, so that tests of an axis hold for all or none of the
//! packets of a part: of the jumps to chains that are to be entered, or else of all rules that are
//! left. Lists are divided with the cell, so that the work is that of sorting the rules into a tree.
//! If no addresses or devices are left to divide, and the rules that are left are few, they are
//! compared as lists of their other tests, then the cell is divided by their ports, and at last
//! diagrams of the lists are compared ([`remaining_rules`](crate::lockstep::remaining_rules)).
//!
//! **Why equality follows.** By induction over the steps: both sides have done the same to the
//! packet, evaluated the same stateful tests on it, and produced the same effects. The next step of
//! both does the same again: it ends with the same verdict, or leaves the chain on both sides, or
//! continues on both. A rule that may leave the chain is a step only outside of chains that were
//! entered, where leaving means the same on both sides. If steps cannot be made the same, nothing
//! is concluded.

pub(crate) mod cell_ipsets;
pub(crate) mod cell_tests;
pub(crate) mod guarded_chains;
pub(crate) mod lockstep_proof;
pub(crate) mod lockstep_rules;
pub(crate) mod lockstep_section_diagrams;
pub(crate) mod packet_cell;
pub(crate) mod proof_diagrams;
pub(crate) mod remaining_rules;

use weir_model::{Family, Match, Rule, Target, Test};

use crate::lockstep::cell_ipsets::CellIpsets;
use crate::lockstep::guarded_chains::GuardedChains;
use crate::lockstep::lockstep_rules::{LockstepRule, LockstepTable};
use crate::lockstep::packet_cell::{
    AxisDivision, CELL_AXIS_COUNT, CellTestResult, CellTestResults, PORT_AXES, PacketCell,
    undecided_address_axis, undecided_port_axis,
};
use crate::lockstep::remaining_rules::{RemainingRule, RemainingRulesComparer};
use crate::same_rule_tests::SameTestCriteria;
use crate::stateful_test_id::StatefulTestIdResolver;

/// Rules of both sides that are compared as lists before the cell is divided by ports, at most.
const RULES_BEFORE_PORT_DIVISION_MAX: usize = 256;
/// Rules of a side that are compared as a list, at most. The time is proportional to the length.
const LIST_RULES_MAX: usize = 4096;
/// Rules of a side that are compared by diagrams, at most.
const DIAGRAM_RULES_MAX: usize = 256;
/// All tests of axes hold.
const ALWAYS_ON_ALL_AXES: CellTestResults = [CellTestResult::Always; CELL_AXIS_COUNT];

/// Two tables that are run in lockstep.
pub(crate) struct LockstepTables<'m, 'f> {
    pub tables: [LockstepTable<'f>; 2],
    pub state_ids: [&'m StatefulTestIdResolver; 2],
    pub criteria: SameTestCriteria,
    pub ipsets: &'m CellIpsets<'f>,
    pub device_number_max: u128,
    /// Compares what is left of a cell.
    pub remaining_rules: RemainingRulesComparer<'f>,
    /// By chain of each table: the number of its proven pair.
    pub proven_pairs: [Vec<Option<usize>>; 2],
    /// Visits of rules, and intervals of divided cells, that are left.
    pub visits_left: u64,
}

/// Why nothing is concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockstepFailure {
    /// The steps differ.
    StepsDiffer,
    /// Too many rules were visited.
    TooManyVisits,
}

/// A chain that is being run, or a part of it.
#[derive(Clone, Debug)]
struct LockstepChainFrame {
    /// The numbers of the rules that packets of the cell may match; others may be among them.
    rules: Vec<u32>,
    next: usize,
}

/// How far one side is.
#[derive(Clone, Debug)]
struct SideProgress {
    /// The list, and the chains that were entered by jumps from it.
    frames: Vec<LockstepChainFrame>,
    /// A goto led from the list to another chain, which does not come back.
    has_left_list: bool,
}

/// A cell, and how far both sides are with it.
struct CellProgress {
    cell: PacketCell,
    sides: [SideProgress; 2],
}

/// What comes next on one side.
#[derive(Clone, Copy, Debug)]
enum NextStepOfSide {
    Rule {
        number: u32,
        results: CellTestResults,
    },
    /// A jump to a chain that is to be entered, by some packets of the cell.
    JumpOfSome {
        axis: usize,
    },
    /// The list is at its end.
    EndOfList,
    /// The chain is left without a verdict.
    ChainLeft,
    /// Something that is no step.
    Unsupported,
}

impl SideProgress {
    fn new(rules: impl Iterator<Item = u32>) -> SideProgress {
        SideProgress {
            frames: vec![LockstepChainFrame { rules: rules.collect(), next: 0 }],
            has_left_list: false,
        }
    }

    fn advance(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.next += 1;
        }
    }

    /// The rules that are left.
    fn remaining(&self) -> impl Iterator<Item = u32> + '_ {
        self.frames
            .iter()
            .flat_map(|frame| frame.rules[frame.next.min(frame.rules.len())..].iter().copied())
    }
}

impl LockstepTables<'_, '_> {
    /// Whether two lists of rules do the same for all packets: parts of two chains. `is_last`
    /// states that the chains end with the lists.
    pub fn run(
        &mut self,
        lists: [std::ops::Range<u32>; 2],
        is_last: bool,
    ) -> Result<(), LockstepFailure> {
        let cell = PacketCell::all_packets(self.criteria.family, self.device_number_max);
        let mut open = vec![CellProgress { cell, sides: lists.map(SideProgress::new) }];
        while let Some(progress) = open.pop() {
            self.run_cell_until_end_or_division(progress, is_last, &mut open)?;
        }
        Ok(())
    }

    /// Runs both sides until they end, or the cell is divided.
    fn run_cell_until_end_or_division(
        &mut self,
        mut at: CellProgress,
        is_last: bool,
        open: &mut Vec<CellProgress>,
    ) -> Result<(), LockstepFailure> {
        loop {
            let next = [
                self.advance_to_next_step(&mut at, 0, is_last)?,
                self.advance_to_next_step(&mut at, 1, is_last)?,
            ];
            match next {
                [NextStepOfSide::JumpOfSome { axis }, _] => {
                    return self.divide_by_jumps(at, 0, axis, open);
                }
                [_, NextStepOfSide::JumpOfSome { axis }] => {
                    return self.divide_by_jumps(at, 1, axis, open);
                }
                [NextStepOfSide::EndOfList, NextStepOfSide::EndOfList]
                | [NextStepOfSide::ChainLeft, NextStepOfSide::ChainLeft] => return Ok(()),
                [NextStepOfSide::EndOfList, NextStepOfSide::ChainLeft]
                | [NextStepOfSide::ChainLeft, NextStepOfSide::EndOfList]
                    if is_last =>
                {
                    return Ok(());
                }
                [
                    NextStepOfSide::Rule { number: a, results: results_a },
                    NextStepOfSide::Rule { number: b, results: results_b },
                ] if self.are_same_step([a, b], [results_a, results_b]) => {
                    if self.is_always_last([a, b], results_a) {
                        return Ok(());
                    }
                    at.sides.iter_mut().for_each(SideProgress::advance);
                }
                _ => {
                    return match self.choose_division_axis(&at, &next) {
                        Some(axis) if !self.is_list_comparison_tried_first(&at, axis) => {
                            self.divide_by_all_rules(at, axis, open)
                        }
                        _ => self.compare_remaining_rules_or_divide(at, is_last, open),
                    };
                }
            }
        }
    }

    /// An axis on which the tests of a next step hold for some packets of the cell: where ports may
    /// be divided, the one with the fewest rules that would be repeated in each part.
    fn choose_division_axis(&self, at: &CellProgress, next: &[NextStepOfSide; 2]) -> Option<usize> {
        let is_undecided = |axis: &usize| {
            next.iter().any(|next| match next {
                NextStepOfSide::Rule { results, .. } => results[*axis] == CellTestResult::Sometimes,
                _ => false,
            })
        };
        let undecided: Vec<usize> = (0..CELL_AXIS_COUNT).filter(is_undecided).collect();
        // Without ports, the first one serves as well, and rules need not be counted.
        if undecided.len() < 2 || !self.criteria.headers_are_whole {
            return undecided.first().copied();
        }
        let mut repeated = [0_usize; CELL_AXIS_COUNT];
        for (side, progress) in at.sides.iter().enumerate() {
            for number in progress.remaining() {
                let spans = &self.tables[side].rules[number as usize].tests.spans;
                for axis in undecided.iter().filter(|axis| spans[**axis].is_none()) {
                    repeated[*axis] += 1;
                }
            }
        }
        undecided.into_iter().min_by_key(|axis| repeated[*axis])
    }

    /// Few rules are compared as lists, with their tests of ports, before the cell is divided by
    /// ports.
    fn is_list_comparison_tried_first(&self, at: &CellProgress, axis: usize) -> bool {
        let count = at.sides.iter().flat_map(SideProgress::remaining);
        PORT_AXES.contains(&axis)
            && count.take(RULES_BEFORE_PORT_DIVISION_MAX + 1).count()
                <= RULES_BEFORE_PORT_DIVISION_MAX
    }

    /// Skips what packets of the cell cannot match, and enters chains that all of them enter.
    fn advance_to_next_step(
        &mut self,
        at: &mut CellProgress,
        side: usize,
        is_last: bool,
    ) -> Result<NextStepOfSide, LockstepFailure> {
        let CellProgress { cell, sides } = at;
        let progress = &mut sides[side];
        loop {
            let depth = progress.frames.len();
            let frame = &mut progress.frames[depth - 1];
            let Some(number) = frame.rules.get(frame.next).copied() else {
                if depth > 1 {
                    progress.frames.pop();
                    continue;
                }
                return Ok(match progress.has_left_list {
                    true => NextStepOfSide::ChainLeft,
                    false => NextStepOfSide::EndOfList,
                });
            };
            self.visits_left =
                self.visits_left.checked_sub(1).ok_or(LockstepFailure::TooManyVisits)?;
            let table = &self.tables[side];
            let rule = &table.rules[number as usize];
            let results = cell.test_spans(&rule.tests.spans);
            if results.contains(&CellTestResult::Never) {
                frame.next += 1;
                continue;
            }
            if self.is_without_effect(rule) {
                frame.next += 1;
                continue;
            }
            let is_for_all = results == ALWAYS_ON_ALL_AXES && !rule.tests.has_other_tests;
            let is_goto = matches!(rule.rule.target, Target::Goto(_));
            if let Some(to) = rule.leads_to.filter(|to| self.proven_pairs[side][*to].is_none()) {
                if is_for_all {
                    frame.next += 1;
                    self.enter_chain(side, progress, (to, is_goto), is_last);
                    continue;
                }
                let undecided = results.iter().position(|r| *r == CellTestResult::Sometimes);
                return Ok(match undecided {
                    Some(axis) if !rule.tests.has_other_tests => {
                        NextStepOfSide::JumpOfSome { axis }
                    }
                    _ => NextStepOfSide::Unsupported,
                });
            }
            if is_for_all && rule.rule.target == Target::Return {
                if depth == 1 {
                    return Ok(NextStepOfSide::ChainLeft);
                }
                progress.frames.pop();
                continue;
            }
            // Both sides must leave the same chain.
            if depth > 1 && (is_goto || rule.rule.target == Target::Return) {
                return Ok(NextStepOfSide::Unsupported);
            }
            return Ok(NextStepOfSide::Rule { number, results });
        }
    }

    /// Enters a chain that all packets enter. If nothing follows the jump, returning from the chain
    /// is the same as the end of the chain that it is in: the jump is a goto that does not leave
    /// the list.
    fn enter_chain(
        &self,
        side: usize,
        progress: &mut SideProgress,
        (chain, is_goto): (usize, bool),
        is_last: bool,
    ) {
        let table = &self.tables[side];
        let depth = progress.frames.len();
        let rest = progress.frames.last().map_or(&[][..], |frame| &frame.rules[frame.next..]);
        let is_last_step = (depth > 1 || is_last)
            && rest.iter().all(|number| self.is_without_effect(&table.rules[*number as usize]));
        progress.has_left_list |= is_goto && depth == 1;
        if is_goto || is_last_step {
            progress.frames.pop();
        }
        let rules = table.rule_numbers_of_chain(chain).collect();
        progress.frames.push(LockstepChainFrame { rules, next: 0 });
    }

    /// Whether a rule only counts. Its tests have no effect either.
    fn is_without_effect(&self, rule: &LockstepRule<'_>) -> bool {
        // ip6tables looks for the protocol among the extension headers, and may drop a packet.
        let may_drop = self.criteria.family == Family::V6 && rule.rule.base.proto.is_some();
        rule.rule.target == Target::None && rule.rule.matches.is_empty() && !may_drop
    }

    /// Compares what is left of both sides, if all or none of the packets of the cell pass the
    /// tests of addresses and devices of each rule; else divides the cell. It is also divided by
    /// ports, if that is what is left to do.
    fn compare_remaining_rules_or_divide(
        &mut self,
        at: CellProgress,
        is_last: bool,
        open: &mut Vec<CellProgress>,
    ) -> Result<(), LockstepFailure> {
        let mut lists = [Vec::new(), Vec::new()];
        let mut port_axis = None;
        let mut are_described = true;
        for (side, list) in lists.iter_mut().enumerate() {
            let mut progress = at.sides[side].clone();
            let cell = (&at.cell, is_last);
            let collected =
                self.collect_remaining_rules(cell, side, &mut progress, (list, &mut port_axis));
            match collected {
                Ok(Some(axis)) => return self.divide_by_all_rules(at, axis, open),
                Ok(None) => {}
                Err(LockstepFailure::StepsDiffer) => are_described = false,
                Err(too_many) => return Err(too_many),
            }
            // If nothing follows in the chain, leaving it is the same as its end.
            let is_decided = list.last().is_some_and(RemainingRule::is_always_last);
            if !is_decided && (is_last || progress.has_left_list) {
                list.push(RemainingRule::LEAVE_CHAIN);
            }
        }
        if are_described && RemainingRulesComparer::normalize_and_compare(&mut lists) {
            return Ok(());
        }
        match port_axis {
            Some(axis) => self.divide_by_all_rules(at, axis, open),
            None if are_described
                && lists.iter().all(|list| list.len() <= DIAGRAM_RULES_MAX)
                && self.remaining_rules.have_equal_diagrams(&lists, &mut self.visits_left) =>
            {
                Ok(())
            }
            None => Err(LockstepFailure::StepsDiffer),
        }
    }

    /// The rules that are left of one side; an axis of addresses or devices if there is one of
    /// which not all packets of the cell are treated alike. An axis of ports of which this holds is
    /// written to the last argument.
    fn collect_remaining_rules(
        &mut self,
        (cell, is_last): (&PacketCell, bool),
        side: usize,
        progress: &mut SideProgress,
        (list, port_axis): (&mut Vec<RemainingRule>, &mut Option<usize>),
    ) -> Result<Option<usize>, LockstepFailure> {
        loop {
            let depth = progress.frames.len();
            let frame = &mut progress.frames[depth - 1];
            let Some(number) = frame.rules.get(frame.next).copied() else {
                if depth == 1 {
                    return Ok(None);
                }
                progress.frames.pop();
                continue;
            };
            frame.next += 1;
            self.spend_visits(1)?;
            let table = &self.tables[side];
            let rule = &table.rules[number as usize];
            let results = cell.test_spans(&rule.tests.spans);
            if results.contains(&CellTestResult::Never) {
                continue;
            }
            if let Some(axis) = undecided_address_axis(&results) {
                return Ok(Some(axis));
            }
            *port_axis = port_axis.or(undecided_port_axis(&results));
            let is_for_all = results == ALWAYS_ON_ALL_AXES && !rule.tests.has_other_tests;
            if let Some(to) = rule.leads_to {
                if self.proven_pairs[side][to].is_some() {
                    return Err(LockstepFailure::StepsDiffer);
                }
                if !is_for_all {
                    let mut chains = GuardedChains {
                        table: &self.tables[side],
                        criteria: self.criteria,
                        cell,
                        list: &mut *list,
                        list_max: LIST_RULES_MAX,
                        visits_left: &mut self.visits_left,
                    };
                    chains
                        .append_rules_of_called_chain(number, &[], 0)
                        .ok_or(LockstepFailure::StepsDiffer)?;
                    continue;
                }
                let is_goto = matches!(rule.rule.target, Target::Goto(_));
                self.enter_chain(side, progress, (to, is_goto), is_last);
                continue;
            }
            if rule.rule.target == Target::Return && depth > 1 {
                if !is_for_all {
                    return Err(LockstepFailure::StepsDiffer);
                }
                progress.frames.pop();
                continue;
            }
            let of_cell = (cell, results);
            let is_described =
                RemainingRule::append_rule_as_seen_in_cell(rule, of_cell, self.criteria, list)
                    .is_some();
            if !is_described || list.len() > LIST_RULES_MAX {
                return Err(LockstepFailure::StepsDiffer);
            }
            if list.last().is_some_and(RemainingRule::is_always_last) {
                return Ok(None);
            }
        }
    }

    fn spend_visits(&mut self, visits: u64) -> Result<(), LockstepFailure> {
        self.visits_left =
            self.visits_left.checked_sub(visits).ok_or(LockstepFailure::TooManyVisits)?;
        Ok(())
    }

    fn rules(&self, numbers: [u32; 2]) -> [&LockstepRule<'_>; 2] {
        [0, 1].map(|side| &self.tables[side].rules[numbers[side] as usize])
    }

    /// Whether a rule of each side does the same to packets of a cell, for which these are the
    /// results of their tests of axes.
    fn are_same_step(&self, numbers: [u32; 2], results: [CellTestResults; 2]) -> bool {
        let [a, b] = self.rules(numbers);
        let are_for_same_packets = (0..CELL_AXIS_COUNT).all(|axis| {
            results[0][axis] == results[1][axis]
                && (results[0][axis] == CellTestResult::Always
                    || a.tests.spans[axis] == b.tests.spans[axis])
        });
        are_for_same_packets
            && self.are_same_targets([a, b])
            && self.have_same_tests_beyond_cell_axes([a, b])
            && self.depend_on_same_or_no_state([a, b])
    }

    fn are_same_targets(&self, [a, b]: [&LockstepRule<'_>; 2]) -> bool {
        match (&a.rule.target, &b.rule.target) {
            (Target::Jump(_), Target::Jump(_)) | (Target::Goto(_), Target::Goto(_)) => {
                let [pair_a, pair_b] =
                    [(0, a), (1, b)].map(|(side, rule)| self.proven_pairs[side][rule.leads_to?]);
                pair_a.is_some() && pair_a == pair_b
            }
            (a, b) => a == b,
        }
    }

    fn have_same_tests_beyond_cell_axes(&self, [a, b]: [&LockstepRule<'_>; 2]) -> bool {
        if a.tests.has_other_tests != b.tests.has_other_tests {
            return false;
        }
        if ![a, b].into_iter().all(|rule| self.has_comparable_ipsets(rule)) {
            return false;
        }
        let is_other = |rule: &Rule, from: Option<usize>, test: &Test| {
            let of = if std::ptr::eq(rule, a.rule) { a } else { b };
            !of.tests.decided_tests.is_decidable_by_cells(from, test)
        };
        !a.tests.has_other_tests
            || a.rule.base == b.rule.base && a.rule.matches == b.rule.matches
            || self.criteria.have_same_lowered_tests([a.rule, b.rule], &is_other)
    }

    /// Sets of two firewalls may differ, whatever their names are.
    fn has_comparable_ipsets(&self, rule: &LockstepRule<'_>) -> bool {
        rule.rule.matches.iter().enumerate().all(|(index, m)| match m {
            Match::Set(m) => {
                rule.tests.decided_tests.is_match_decidable_by_cells(index)
                    || self.ipsets.is_same_on_both_sides(&m.name)
            }
            _ => true,
        })
    }

    /// Whether what the rules do besides depends on nothing, or on the same state.
    fn depend_on_same_or_no_state(&self, [a, b]: [&LockstepRule<'_>; 2]) -> bool {
        self.criteria.have_no_state_set_or_effect([a.rule, b.rule])
            || self.state_ids[0].stateful_test_id(a.rule)
                == self.state_ids[1].stateful_test_id(b.rule)
    }

    /// Whether no packet of a cell gets beyond this step.
    fn is_always_last(&self, numbers: [u32; 2], results: CellTestResults) -> bool {
        let [a, b] = self.rules(numbers);
        let ends = matches!(
            a.rule.target,
            Target::Accept | Target::Drop | Target::Reject(_) | Target::Goto(_)
        );
        ends && results == ALWAYS_ON_ALL_AXES
            && !a.tests.has_other_tests
            && !b.tests.has_other_tests
    }

    /// Divides a cell by the jumps of the chain that a side is in, to chains that are to be
    /// entered.
    fn divide_by_jumps(
        &mut self,
        at: CellProgress,
        side: usize,
        axis: usize,
        open: &mut Vec<CellProgress>,
    ) -> Result<(), LockstepFailure> {
        let Some(frame) = at.sides[side].frames.last() else {
            return Err(LockstepFailure::StepsDiffer);
        };
        let rules = frame.rules[frame.next..].iter().map(|n| &self.tables[side].rules[*n as usize]);
        let is_entered = |rule: &&LockstepRule<'_>| {
            rule.leads_to.is_some_and(|to| self.proven_pairs[side][to].is_none())
        };
        let sets = rules.filter(is_entered).filter_map(|rule| rule.tests.spans[axis].as_deref());
        let division = AxisDivision::new(&at.cell.values[axis], sets);
        self.divide(&at, axis, division, open)
    }

    fn divide_by_all_rules(
        &mut self,
        at: CellProgress,
        axis: usize,
        open: &mut Vec<CellProgress>,
    ) -> Result<(), LockstepFailure> {
        let rules = [0, 1].map(|side| at.sides[side].remaining().map(move |number| (side, number)));
        let rules = rules.into_iter().flatten();
        let sets = rules.filter_map(|(side, number)| {
            self.tables[side].rules[number as usize].tests.spans[axis].as_deref()
        });
        let division = AxisDivision::new(&at.cell.values[axis], sets);
        self.divide(&at, axis, division, open)
    }

    /// Both sides continue with each part of the cell, with the rules that may match its packets.
    fn divide(
        &mut self,
        at: &CellProgress,
        axis: usize,
        mut division: AxisDivision,
        open: &mut Vec<CellProgress>,
    ) -> Result<(), LockstepFailure> {
        if division.parts.len() < 2 {
            return Err(LockstepFailure::StepsDiffer);
        }
        self.spend_visits(division.interval_count() as u64)?;
        let parts = std::mem::take(&mut division.parts);
        let first = open.len();
        for part in parts {
            let cell = at.cell.part(axis, part);
            let sides = at.sides.each_ref().map(|side| SideProgress {
                frames: vec![LockstepChainFrame { rules: Vec::new(), next: 0 }; side.frames.len()],
                has_left_list: side.has_left_list,
            });
            open.push(CellProgress { cell, sides });
        }
        let count = open.len() - first;
        let mut listed = Vec::new();
        for (side, progress) in at.sides.iter().enumerate() {
            for (depth, frame) in progress.frames.iter().enumerate() {
                for number in &frame.rules[frame.next.min(frame.rules.len())..] {
                    match &self.tables[side].rules[*number as usize].tests.spans[axis] {
                        Some(spans) => division.list_overlapping_parts(spans, &mut listed),
                        None => {
                            listed.clear();
                            listed.extend(0..count as u32);
                        }
                    }
                    self.spend_visits(1 + listed.len() as u64)?;
                    for part in &listed {
                        let frames = &mut open[first + *part as usize].sides[side].frames;
                        frames[depth].rules.push(*number);
                    }
                }
            }
        }
        Ok(())
    }
}
