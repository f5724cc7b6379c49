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
//! index of intervals ([`overlap_index`]) for the fields in which most rules differ; a rule is then
//! compared only with those whose interval overlaps its own.

mod outcome_after_rule_removal;
mod overlap_index;

use std::cell::{Cell as Counter, OnceCell};

use weir_model::{Chain, ChainGraph, ChainJump, Field, Firewall, Rule, Ruleset, Table, Target};
use weir_partition::{BoxLowering, HyperRect, RulePacketBoxes};

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
/// Boxes that are examined for one table; with more, nothing further is reported about it.
const MAX_EXAMINED_BOXES_PER_TABLE: u64 = 100_000_000;

/// A rule: chain and index.
pub(crate) type RulePosition = (usize, usize);

/// The rules of a table as what they do to sets of packets.
pub(crate) struct PacketSetFlow<'a> {
    table: &'a Table,
    match_spaces: Vec<Vec<RulePacketBoxes>>,
    /// The rules that jump or go to a chain.
    callers: Vec<Vec<RulePosition>>,
    /// The jumps between the chains.
    graph: ChainGraph<'a>,
    /// What a built-in chain may see.
    entering_packets: Vec<Option<HyperRect>>,
    /// By chain, all rules.
    overlap_indexes: Vec<OnceCell<OverlapIndex>>,
    /// By chain, those that may take packets away from others.
    removing_rule_indexes: Vec<OnceCell<OverlapIndex>>,
    decided_boxes: Vec<OnceCell<Vec<HyperRect>>>,
    /// Nothing can be concluded: a target may do anything, or jumps form a loop.
    is_inconclusive: bool,
    examined_boxes: Counter<u64>,
}

impl<'a> PacketSetFlow<'a> {
    pub fn new(firewall: &'a Firewall, ruleset: &'a Ruleset, table: &'a Table) -> Self {
        let mut lowering = BoxLowering::for_table(firewall, ruleset, table);
        let opaque = lowering.has_unknown_target_in_table();
        let graph = table.chain_graph();
        let position = |jump: ChainJump| (jump.from, jump.rule);
        let callers = graph.jumps_by_callee().into_iter();
        let callers = callers.map(|jumps| jumps.into_iter().map(position).collect()).collect();
        let entering =
            |c: &Chain| c.policy.map(|_| lowering.packets_possible_in_builtin_chain(&c.name));
        let entering = table.chains.iter().map(entering).collect();
        let reaches = table
            .chains
            .iter()
            .map(|c| c.rules.iter().map(|r| lowering.lower_rule(r)).collect())
            .collect();
        let mut flow = PacketSetFlow {
            table,
            match_spaces: reaches,
            callers,
            graph,
            entering_packets: entering,
            overlap_indexes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            removing_rule_indexes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            decided_boxes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            is_inconclusive: opaque,
            examined_boxes: Counter::new(0),
        };
        flow.is_inconclusive |= flow.graph.has_loop();
        flow
    }

    pub fn rule_packet_boxes(&self, (chain, rule): RulePosition) -> &RulePacketBoxes {
        &self.match_spaces[chain][rule]
    }

    /// The jumps between the chains.
    pub fn chain_graph(&self) -> &ChainGraph<'a> {
        &self.graph
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
        self.rule_packet_boxes(at).matched_boxes.iter().any(|c| proto(c).is_some_and(kinds))
    }

    /// The deciding rules before one in its chain that have packets in common with it, in order.
    pub fn find_earlier_overlapping_deciders(&self, at: RulePosition) -> Vec<RulePosition> {
        let cells = &self.rule_packet_boxes(at).matched_boxes;
        let mut rules: Vec<usize> =
            cells.iter().flat_map(|cell| self.rules_maybe_removing_from_box(at.0, cell)).collect();
        rules.sort_unstable();
        rules.dedup();
        if self.is_over_budget_after_boxes(rules.len()) {
            return Vec::new();
        }
        let meets = |e: &RulePosition| {
            let theirs = &self.rule_packet_boxes(*e).matched_boxes;
            self.rule(*e).target.is_terminating()
                && cells.iter().any(|c| theirs.iter().any(|t| t.intersects(c)))
        };
        let before = rules.into_iter().take_while(|e| *e < at.1).map(|e| (at.0, e));
        before.filter(meets).collect()
    }

    /// Cells that were looked at so far.
    #[cfg(test)]
    fn work(&self) -> u64 {
        self.examined_boxes.get()
    }

    fn rule(&self, (chain, rule): RulePosition) -> &'a Rule {
        &self.table.chains[chain].rules[rule]
    }

    /// Counts work; whether there was too much.
    fn is_over_budget_after_boxes(&self, cells: usize) -> bool {
        self.examined_boxes.set(self.examined_boxes.get() + cells as u64);
        self.examined_boxes.get() > MAX_EXAMINED_BOXES_PER_TABLE
    }

    /// Whether no packet reaches the rule that it matches, drops or evaluates a stateful match for;
    /// and which rules decided them. An empty list means: the rules that lead to its chain leave it
    /// none.
    pub fn shadowing_rules(&self, at: RulePosition) -> Option<Vec<RulePosition>> {
        if self.is_inconclusive {
            return None;
        }
        let reach = self.rule_packet_boxes(at);
        let hot = reach.dropped_boxes.iter().map(|(cell, _)| cell);
        let cells: Vec<HyperRect> =
            reach.matched_boxes.iter().chain(hot).chain(&reach.stateful_boxes).cloned().collect();
        if cells.len() > MAX_BOXES_PER_SET {
            return None;
        }
        let mut by = Vec::new();
        self.are_boxes_decided_before_rule(at, cells, 0, &mut by).then(|| {
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
        let left: Vec<HyperRect> =
            cells.into_iter().flat_map(|cell| self.subtract_earlier_rules(at, cell, by)).collect();
        if left.is_empty() {
            return true;
        }
        if let Some(entering) = &self.entering_packets[at.0] {
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
        let reach = self.rule_packet_boxes(at);
        let both = cells.iter().flat_map(|c| reach.matched_boxes.iter().filter_map(|r| r.and(c)));
        let both: Vec<HyperRect> = both.collect();
        (both.len() <= MAX_BOXES_PER_SET && !self.is_over_budget_after_boxes(both.len()))
            .then_some(both)
    }

    /// What is left of a cell when it arrives at a rule from the head of its chain.
    fn subtract_earlier_rules(
        &self,
        at: RulePosition,
        cell: HyperRect,
        by: &mut Vec<RulePosition>,
    ) -> Vec<HyperRect> {
        let mut before = self.rules_maybe_removing_from_box(at.0, &cell);
        before.retain(|rule| *rule < at.1);
        if self.is_over_budget_after_boxes(1 + before.len()) {
            return vec![cell];
        }
        for rule in &before {
            if self
                .visit_boxes_removed_by_rule((at.0, *rule), &cell, &mut |taken| taken.covers(&cell))
            {
                by.push((at.0, *rule));
                return Vec::new();
            }
        }
        let mut left = vec![cell.clone()];
        for rule in before {
            let rule = (at.0, rule);
            let mut cut = false;
            self.visit_boxes_removed_by_rule(rule, &cell, &mut |taken| {
                if left.iter().any(|l| l.intersects(taken)) {
                    cut = true;
                    let mut next = Vec::new();
                    left.iter().for_each(|l| l.minus(taken, &mut next));
                    left = next;
                }
                left.is_empty() || left.len() > MAX_BOXES_PER_SET
            });
            if cut {
                by.push(rule);
            }
            if left.is_empty() {
                return left;
            }
            if left.len() > MAX_BOXES_PER_SET || self.is_over_budget_after_boxes(left.len()) {
                break;
            }
        }
        if left.len() > MAX_BOXES_PER_SET { vec![cell] } else { left }
    }

    /// Reports what each rule certainly removes from a box, until `done` returns true; returns
    /// whether it did.
    fn visit_boxes_removed_by_rule(
        &self,
        at: RulePosition,
        cell: &HyperRect,
        done: &mut dyn FnMut(&HyperRect) -> bool,
    ) -> bool {
        let reach = self.rule_packet_boxes(at);
        if reach.dropped_boxes.iter().any(|(hot, exact)| *exact && done(hot)) {
            return true;
        }
        if !reach.is_exact {
            return false;
        }
        let rule = self.rule(at);
        if rule.target.leaves_chain() {
            return reach.matched_boxes.iter().any(done);
        }
        let Some(to) = self.graph.chain_entered_by_rule(at.0, at.1) else { return false };
        let near = reach.matched_boxes.iter().filter(|c| c.intersects(cell));
        near.into_iter().any(|jump| {
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
        for (i, reach) in self.match_spaces[chain].iter().enumerate() {
            let rule = self.rule((chain, i));
            let hot = reach.dropped_boxes.iter().filter(|h| h.1).map(|h| h.0.clone());
            let mut found: Vec<HyperRect> = hot.collect();
            match (&rule.target, self.graph.chain_entered_by_rule(chain, i)) {
                (Target::Jump(_) | Target::Goto(_), Some(to)) if reach.is_exact => {
                    let ends = self.boxes_decided_in_chain(to, depth + 1);
                    let both =
                        |c: &HyperRect| ends.iter().filter_map(|e| e.and(c)).collect::<Vec<_>>();
                    found.extend(reach.matched_boxes.iter().flat_map(both));
                }
                (target, _) if target.is_terminating() && reach.is_exact => {
                    found.extend(reach.matched_boxes.iter().cloned());
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
                back.extend(&reach.matched_boxes);
            }
            if back.len() > MAX_BOXES_PER_SET {
                break;
            }
        }
        ends
    }

    /// The rules of a chain that do anything to packets of a cell, in order.
    fn rules_overlapping_box(&self, chain: usize, cell: &HyperRect) -> Vec<usize> {
        let index = || OverlapIndex::new(&self.match_spaces[chain], &|_| true);
        self.overlap_indexes[chain].get_or_init(index).rules_overlapping(cell)
    }

    /// The same for rules that may remove packets.
    fn rules_maybe_removing_from_box(&self, chain: usize, cell: &HyperRect) -> Vec<usize> {
        let takes = |rule: usize| {
            !self.rule((chain, rule)).target.falls_through()
                || !self.match_spaces[chain][rule].dropped_boxes.is_empty()
        };
        let index = || OverlapIndex::new(&self.match_spaces[chain], &takes);
        self.removing_rule_indexes[chain].get_or_init(index).rules_overlapping(cell)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::{Addr, AddrMatch, Chain, Family, Policy, TableName};

    use super::*;

    /// The cost of answering both questions for rules that drop one source each.
    fn work(rules: u32) -> u64 {
        let mut chain = Chain::new("FORWARD", Some(Policy::Accept));
        for i in 0..rules {
            let mut rule = Rule::unconditional(Target::Drop);
            // Shuffled, so that no order helps.
            let addr = Addr(u128::from(0x0a00_0000 | (i.wrapping_mul(48_271) % 0x0100_0000)));
            let mask = Addr(u32::MAX.into());
            rule.base.saddr = Some(AddrMatch { negated: false, addr, mask });
            chain.rules.push(rule);
        }
        let mut ruleset = Ruleset::new(Family::V4);
        ruleset.tables.push(Table {
            name: TableName::Filter,
            chains: vec![chain],
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        });
        let firewall = Firewall::default();
        let flow = PacketSetFlow::new(&firewall, &ruleset, &ruleset.tables[0]);
        let ghosts = std::collections::HashSet::new();
        for i in 0..rules as usize {
            assert_eq!(flow.shadowing_rules((0, i)), None);
            assert_eq!(flow.deciders_without_rule((0, i), &ghosts), None);
        }
        flow.work()
    }

    #[test]
    fn the_work_grows_with_the_rules_and_not_with_their_pairs() {
        let (few, many) = (work(1_000), work(8_000));
        assert!(few > 1_000, "{few}");
        assert!(many < 10 * few, "{few} for 1,000 rules, {many} for 8,000");
    }
}
