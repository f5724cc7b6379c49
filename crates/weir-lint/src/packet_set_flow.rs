//! Follows a set of packets through a chain.
//!
//! It answers two questions about a set of packets at a position of a table:
//!
//! - *Are they all decided before?* ([`PacketSetFlow::shadowing_rules`]) Every rule before the
//!   position removes the packets that it decides, also in the chains that it jumps to, and so do
//!   the rules before each jump that leads here.
//! - *What happens to them?* ([`PacketSetFlow::deciders_without_rule`]) The following rules are
//!   evaluated in turn. There is an answer only if all of the packets get the same verdict, without
//!   effects.
//!
//! Sets are lists of boxes and never smaller than they really are; what rules remove is never
//! larger. So a yes is certain, and a no may only mean that nothing could be shown: if the list
//! becomes long or the work too much, the answer is no.
//!
//! Comparing every rule with every other one would take minutes on large chains. Each chain has an
//! index ([`overlap_index`]) of the fields in which most rules differ. It finds the rules that
//! cover or overlap a box one after another, and each question ends with the first ones that answer
//! it.

mod chain_boxes;
mod first_covering_rules;
mod outcome_after_rule_removal;
mod overlap_index;
#[cfg(test)]
mod work_growth;

use std::cell::{Cell as Counter, OnceCell, RefCell};
use std::ops::Range;

use weir_model::{Chain, ChainGraph, ChainJump, Field, Firewall, Rule, Ruleset, Table, Target};
use weir_partition::{BoxLowering, HyperRect};

use self::chain_boxes::{BoxNumber, ChainBoxes, RuleBoxes};
use self::first_covering_rules::{FirstCoveringRules, SearchAbandoned};
pub(crate) use self::outcome_after_rule_removal::Decider;
use self::overlap_index::OverlapIndex;

/// Maximum number of boxes of a set; with more, nothing is reported.
const MAX_BOXES_PER_SET: usize = 128;
/// Cells that are remembered of what a chain decides.
const MAX_DECIDED_BOXES_PER_CHAIN: usize = 8;
/// Jumps that are followed into each other.
const MAX_JUMP_DEPTH: usize = 12;
/// Jumps to a chain that are distinguished.
const MAX_CALLERS_FOLLOWED: usize = 16;
/// Tests without an axis, such as masks with holes, that take as long to compare as a box.
const AXISLESS_TESTS_PER_EXAMINED_BOX: usize = 8;

/// Cuts a box out of others; whether any of them had packets of it. Those that had none are not
/// moved: a box has hundreds of bytes.
fn subtract_box_and_report_cut(boxes: &mut Vec<HyperRect>, taken: &HyperRect) -> bool {
    let mut parts = Vec::new();
    let whole = boxes.len();
    for i in (0..whole).rev() {
        if boxes[i].intersects(taken) {
            boxes.swap_remove(i).minus(taken, &mut parts);
        }
    }
    let is_cut = boxes.len() < whole;
    boxes.append(&mut parts);
    is_cut
}

/// A box of a rule, or what earlier rules leave of it.
#[derive(Clone, Copy)]
enum WholeOrPartialBox<'b> {
    /// All of it.
    Numbered(BoxNumber),
    /// Part of it.
    Part(&'b HyperRect),
}

/// A rule: chain and index.
pub(crate) type RulePosition = (usize, usize);

/// The rules of a table as what they do to sets of packets.
pub(crate) struct PacketSetFlow<'a> {
    table: &'a Table,
    /// By chain.
    chain_boxes: Vec<ChainBoxes>,
    /// The rules that jump or go to a chain.
    callers: Vec<Vec<RulePosition>>,
    /// The jumps between the chains.
    chain_graph: ChainGraph<'a>,
    /// What a built-in chain may see.
    packets_entering_builtin_chain: Vec<Option<HyperRect>>,
    /// By chain, all rules.
    overlap_indexes: Vec<OnceCell<OverlapIndex>>,
    /// By chain, those that may take packets away from others; none if these are all.
    packet_removing_rule_indexes: Vec<OnceCell<Option<OverlapIndex>>>,
    /// By chain.
    first_covering_rules: Vec<RefCell<FirstCoveringRules>>,
    decided_boxes: Vec<OnceCell<Vec<HyperRect>>>,
    /// Nothing can be concluded: a target may do anything, or jumps form a loop.
    has_loop_or_unknown_target: bool,
    /// Boxes and index nodes.
    examined_box_counter: Counter<u64>,
    max_examined_boxes: u64,
}

impl<'a> PacketSetFlow<'a> {
    /// The rules of a table. When more than `max_examined_boxes` boxes and index nodes were
    /// examined, nothing further is reported about it.
    pub fn new(
        firewall: &'a Firewall,
        ruleset: &'a Ruleset,
        table: &'a Table,
        max_examined_boxes: u64,
    ) -> Self {
        let mut lowering = BoxLowering::for_table(firewall, ruleset, table);
        let opaque = lowering.has_unknown_target_in_table();
        let chain_graph = table.chain_graph();
        let position = |jump: ChainJump| (jump.from, jump.rule);
        let callers = chain_graph.jumps_by_callee().into_iter();
        let callers = callers.map(|jumps| jumps.into_iter().map(position).collect()).collect();
        let entering =
            |c: &Chain| c.policy.map(|_| lowering.packets_possible_in_builtin_chain(&c.name));
        let entering = table.chains.iter().map(entering).collect();
        let mut boxes_of_chain = |c: &Chain| {
            let lower = |rule, boxes_max| lowering.lower_rule_with_boxes_max(rule, boxes_max);
            ChainBoxes::of_rules(c.rules.iter(), lower)
        };
        let chain_boxes: Vec<ChainBoxes> = table.chains.iter().map(&mut boxes_of_chain).collect();
        let first_covering_rules = |boxes: &ChainBoxes| {
            RefCell::new(FirstCoveringRules::of_boxes(boxes.distinct_boxes().len()))
        };
        let mut flow = PacketSetFlow {
            table,
            first_covering_rules: chain_boxes.iter().map(first_covering_rules).collect(),
            chain_boxes,
            callers,
            chain_graph,
            packets_entering_builtin_chain: entering,
            overlap_indexes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            packet_removing_rule_indexes: (0..table.chains.len())
                .map(|_| OnceCell::new())
                .collect(),
            decided_boxes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            has_loop_or_unknown_target: opaque,
            examined_box_counter: Counter::new(0),
            max_examined_boxes,
        };
        flow.has_loop_or_unknown_target |= flow.chain_graph.has_loop();
        flow
    }

    pub fn rule_boxes(&self, (chain, rule): RulePosition) -> RuleBoxes<'_> {
        self.chain_boxes[chain].boxes_of_rule(rule)
    }

    /// The jumps between the chains.
    pub fn chain_graph(&self) -> &ChainGraph<'a> {
        &self.chain_graph
    }

    /// The rules that jump or go to a chain.
    pub fn callers_of_chain(&self, chain: usize) -> &[RulePosition] {
        &self.callers[chain]
    }

    /// Whether a rule may match ICMPv6 neighbour solicitations or advertisements.
    pub fn may_match_neighbour_discovery(&self, at: RulePosition) -> bool {
        let proto = |c: &HyperRect| c.restrict_to_interval(Field::Proto, (58, 58));
        let kinds = |c: HyperRect| {
            c.restrict_to_interval(Field::IcmpTypeAndCode, (135 << 8, (136 << 8) | 0xff)).is_some()
        };
        self.rule_boxes(at).boxes_maybe_matched().any(|c| proto(c).is_some_and(kinds))
    }

    /// The deciding rules before one in its chain that have packets in common with it, in order.
    pub fn find_earlier_overlapping_deciders(&self, at: RulePosition) -> Vec<RulePosition> {
        if self.is_over_budget() {
            return Vec::new();
        }
        let cells = self.rule_boxes(at).boxes_maybe_matched();
        let search = self.packet_removing_rule_index(at.0).rules_overlapping(
            cells.clone(),
            0..at.1,
            &self.examined_box_counter,
        );
        let rules: Vec<usize> = search.collect();
        if self.is_over_budget_counting_boxes(rules.len()) {
            return Vec::new();
        }
        let overlaps_rule = |e: &RulePosition| {
            let theirs = self.rule_boxes(*e).boxes_maybe_matched();
            self.rule(*e).target.is_terminating()
                && cells.clone().any(|c| theirs.clone().any(|t| t.intersects(c)))
        };
        let before = rules.into_iter().map(|rule| (at.0, rule));
        before.filter(overlaps_rule).collect()
    }

    /// Boxes and index nodes that were visited so far.
    pub fn examined_box_count(&self) -> u64 {
        self.examined_box_counter.get()
    }

    fn rule(&self, (chain, rule): RulePosition) -> &'a Rule {
        &self.table.chains[chain].rules[rule]
    }

    /// Counts work; whether there was too much.
    fn is_over_budget_counting_boxes(&self, cells: usize) -> bool {
        self.examined_box_counter.set(self.examined_box_counter.get() + cells as u64);
        self.is_over_budget()
    }

    /// The same for boxes that were compared with all of their tests: rules with masks with holes
    /// leave one more test in a box each.
    fn is_over_budget_counting_tests_of_boxes(&self, cells: &[HyperRect]) -> bool {
        let tests = cells.iter().map(|cell| cell.axisless_tests().len()).sum::<usize>();
        self.is_over_budget_counting_boxes(cells.len() + tests / AXISLESS_TESTS_PER_EXAMINED_BOX)
    }

    /// Whether the table is so large that some shadowed, redundant or overlapping rules may not be
    /// found.
    pub fn is_incompletely_searched(&self) -> bool {
        self.is_over_budget() || self.chain_boxes.iter().any(ChainBoxes::has_approximated_rules)
    }

    /// Whether there was so much work that questions are no longer answered.
    pub fn is_over_budget(&self) -> bool {
        self.examined_box_counter.get() > self.max_examined_boxes
    }

    /// Whether no packet reaches the rule that it matches, drops or evaluates a stateful match for;
    /// and which rules decided them. An empty list means: the rules that lead to its chain leave it
    /// none.
    pub fn shadowing_rules(&self, at: RulePosition) -> Option<Vec<RulePosition>> {
        if self.has_loop_or_unknown_target || self.is_over_budget() {
            return None;
        }
        let numbers = self.rule_boxes(at).numbers();
        if numbers.len() > MAX_BOXES_PER_SET {
            return None;
        }
        let (mut by, mut left) = (Vec::new(), Vec::new());
        for number in numbers {
            let parts =
                self.subtract_earlier_rules(at, WholeOrPartialBox::Numbered(*number), &mut by);
            // One part is enough if no jumps lead to the chain.
            let entering = self.packets_entering_builtin_chain[at.0].as_ref();
            if entering.is_some_and(|all| parts.iter().any(|cell| cell.intersects(all))) {
                return None;
            }
            left.extend(parts);
        }
        self.are_boxes_left_to_rule_decided(at, left, 0, &mut by).then(|| {
            by.sort_unstable();
            by.dedup();
            by
        })
    }

    /// Whether none of the packets arrives at a rule.
    fn are_boxes_decided_before_rule(
        &self,
        at: RulePosition,
        cells: Vec<HyperRect>,
        depth: usize,
        by: &mut Vec<RulePosition>,
    ) -> bool {
        let left = cells.into_iter();
        let left = left
            .flat_map(|cell| self.subtract_earlier_rules(at, WholeOrPartialBox::Part(&cell), by))
            .collect();
        self.are_boxes_left_to_rule_decided(at, left, depth, by)
    }

    /// The same for packets that no earlier rule of its chain decides.
    fn are_boxes_left_to_rule_decided(
        &self,
        at: RulePosition,
        left: Vec<HyperRect>,
        depth: usize,
        by: &mut Vec<RulePosition>,
    ) -> bool {
        if left.is_empty() {
            return true;
        }
        if let Some(entering) = &self.packets_entering_builtin_chain[at.0] {
            return !left.iter().any(|cell| cell.intersects(entering));
        }
        let callers = &self.callers[at.0];
        if depth == MAX_JUMP_DEPTH || callers.is_empty() || callers.len() > MAX_CALLERS_FOLLOWED {
            return false;
        }
        callers.iter().all(|caller| match self.intersect_with_matched_boxes(*caller, &left) {
            Some(cells) => self.are_boxes_decided_before_rule(*caller, cells, depth + 1, by),
            None => false,
        })
    }

    /// The part of a set that a rule matches at most; `None` if it falls into too many cells.
    fn intersect_with_matched_boxes(
        &self,
        at: RulePosition,
        cells: &[HyperRect],
    ) -> Option<Vec<HyperRect>> {
        let boxes = self.rule_boxes(at);
        let both = cells.iter().flat_map(|c| boxes.boxes_maybe_matched().filter_map(|r| r.and(c)));
        let both: Vec<HyperRect> = both.collect();
        (both.len() <= MAX_BOXES_PER_SET && !self.is_over_budget_counting_tests_of_boxes(&both))
            .then_some(both)
    }

    /// What is left of a box when it arrives at a rule from the head of its chain.
    fn subtract_earlier_rules(
        &self,
        at: RulePosition,
        of: WholeOrPartialBox<'_>,
        by: &mut Vec<RulePosition>,
    ) -> Vec<HyperRect> {
        let (cell, covering) = match of {
            WholeOrPartialBox::Part(cell) => {
                (cell, self.find_first_covering_rule(at.0, cell, 0..at.1))
            }
            WholeOrPartialBox::Numbered(number) => {
                let cell = self.chain_boxes[at.0].distinct_box(number);
                let search = |rules| self.find_first_covering_rule(at.0, cell, rules);
                let mut known = self.first_covering_rules[at.0].borrow_mut();
                (cell, known.find_or_search(number, at.1, search))
            }
        };
        match covering {
            Ok(None) => {}
            Ok(Some(rule)) => {
                by.push((at.0, rule));
                return Vec::new();
            }
            Err(SearchAbandoned) => return vec![cell.clone()],
        }
        let index = self.packet_removing_rule_index(at.0);
        let mut left = vec![cell.clone()];
        let cells = std::iter::once(cell);
        for rule in index.rules_overlapping(cells, 0..at.1, &self.examined_box_counter) {
            let rule = (at.0, rule);
            let mut cut = false;
            self.visit_boxes_removed_by_rule(rule, cell, &mut |taken| {
                cut |= subtract_box_and_report_cut(&mut left, taken);
                left.is_empty() || left.len() > MAX_BOXES_PER_SET
            });
            if cut {
                by.push(rule);
            }
            if left.is_empty() {
                return left;
            }
            if left.len() > MAX_BOXES_PER_SET || self.is_over_budget_counting_tests_of_boxes(&left)
            {
                break;
            }
        }
        if left.len() > MAX_BOXES_PER_SET { vec![cell.clone()] } else { left }
    }

    /// The first of some rules of a chain that removes all packets of a box.
    fn find_first_covering_rule(
        &self,
        chain: usize,
        cell: &HyperRect,
        rules: Range<usize>,
    ) -> Result<Option<usize>, SearchAbandoned> {
        let index = self.packet_removing_rule_index(chain);
        for rule in index.rules_covering(cell, rules, &self.examined_box_counter) {
            if self.is_over_budget_counting_boxes(1) {
                return Err(SearchAbandoned);
            }
            let at = (chain, rule);
            if self.visit_boxes_removed_by_rule(at, cell, &mut |taken| taken.covers(cell)) {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }

    /// Reports what each rule certainly removes from a box, until `done` returns true; returns
    /// whether it did.
    fn visit_boxes_removed_by_rule(
        &self,
        at: RulePosition,
        cell: &HyperRect,
        done: &mut dyn FnMut(&HyperRect) -> bool,
    ) -> bool {
        let boxes = self.rule_boxes(at);
        if boxes.exact_hotdrop().any(&mut *done) {
            return true;
        }
        if !boxes.is_exact() {
            return false;
        }
        let rule = self.rule(at);
        if rule.target.leaves_chain() {
            return boxes.boxes_maybe_matched().any(done);
        }
        let Some(to) = self.chain_graph.chain_entered_by_rule(at.0, at.1) else { return false };
        let mut near = boxes.boxes_maybe_matched().filter(|c| c.intersects(cell));
        near.any(|jump| {
            let ends = self.boxes_decided_in_chain(to, 0).iter().filter_map(|end| end.and(jump));
            ends.into_iter().any(|taken| done(&taken))
        })
    }

    /// Packets that surely do not return out of a chain, some of them.
    fn boxes_decided_in_chain(&self, chain: usize, depth: usize) -> &[HyperRect] {
        if depth == MAX_JUMP_DEPTH {
            return &[];
        }
        self.decided_boxes[chain].get_or_init(|| self.compute_decided_boxes(chain, depth))
    }

    fn compute_decided_boxes(&self, chain: usize, depth: usize) -> Vec<HyperRect> {
        let mut ends: Vec<HyperRect> = Vec::new();
        // What may have returned before it was decided.
        let mut back: Vec<&HyperRect> = Vec::new();
        for (i, boxes) in self.chain_boxes[chain].rules_from(0).enumerate() {
            let rule = self.rule((chain, i));
            let mut found: Vec<HyperRect> = boxes.exact_hotdrop().cloned().collect();
            match (&rule.target, self.chain_graph.chain_entered_by_rule(chain, i)) {
                (Target::Jump(_) | Target::Goto(_), Some(to)) if boxes.is_exact() => {
                    let ends = self.boxes_decided_in_chain(to, depth + 1);
                    let both =
                        |c: &HyperRect| ends.iter().filter_map(|e| e.and(c)).collect::<Vec<_>>();
                    found.extend(boxes.boxes_maybe_matched().flat_map(both));
                }
                (target, _) if target.is_terminating() && boxes.is_exact() => {
                    found.extend(boxes.boxes_maybe_matched().cloned());
                }
                _ => {}
            }
            found.retain(|c| {
                !back.iter().any(|b| b.intersects(c)) && !ends.iter().any(|e| e.covers(c))
            });
            for cell in found {
                ends.retain(|e| !cell.covers(e));
                if ends.len() < MAX_DECIDED_BOXES_PER_CHAIN {
                    ends.push(cell);
                }
            }
            if matches!(rule.target, Target::Return | Target::Goto(_)) {
                back.extend(boxes.boxes_maybe_matched());
            }
            if back.len() > MAX_BOXES_PER_SET {
                break;
            }
        }
        ends
    }

    /// The rules of a chain that do anything to packets.
    fn overlap_index(&self, chain: usize) -> &OverlapIndex {
        let index = || OverlapIndex::new(&self.chain_boxes[chain], &|_| true);
        self.overlap_indexes[chain].get_or_init(index)
    }

    /// The same for rules that may remove packets.
    fn packet_removing_rule_index(&self, chain: usize) -> &OverlapIndex {
        let takes = |rule: usize| {
            !self.rule((chain, rule)).target.falls_through()
                || self.rule_boxes((chain, rule)).boxes_maybe_dropped().len() > 0
        };
        let boxes = &self.chain_boxes[chain];
        let index = || match (0..boxes.rule_count()).all(takes) {
            true => None,
            false => Some(OverlapIndex::new(boxes, &takes)),
        };
        let index = self.packet_removing_rule_indexes[chain].get_or_init(index);
        index.as_ref().unwrap_or_else(|| self.overlap_index(chain))
    }
}
