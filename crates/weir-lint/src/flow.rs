//! Follows a set of packets through a chain.
//!
//! It answers two questions about a set of packets at a position of a table:
//!
//! - *Are they all decided before?* ([`Flow::taken`]) Every rule before the position removes the
//!   packets that it decides, also in the chains that it jumps to, and so do the rules before each
//!   jump that leads here.
//! - *What happens to them?* ([`Flow::same_without`]) The following rules are evaluated in turn.
//!   There is an answer only if all of the packets get the same verdict, without effects.
//!
//! Sets are lists of boxes and never smaller than they really are; what rules remove is never
//! larger. So a yes is certain, and a no may only mean that nothing could be shown: if the list
//! becomes long or the work too much, the answer is no.
//!
//! Comparing every rule with every other one would take minutes on large chains. Each chain has an
//! index of intervals ([`index`]) for the fields in which most rules differ; a rule is then
//! compared only with those whose interval overlaps its own.

mod index;
mod sweep;

use std::cell::{Cell as Counter, OnceCell};

use weir_model::{Chain, ChainGraph, ChainJump, Field, Firewall, Rule, Ruleset, Table, Target};
use weir_partition::{HyperRect, Lowering, MatchSpace};

use self::index::Index;
pub(crate) use self::sweep::Decider;

/// Maximum number of boxes of a set; with more, nothing is reported.
const CELLS: usize = 128;
/// Cells that are remembered of what a chain decides.
const ENDS: usize = 8;
/// Jumps that are followed into each other.
const DEPTH: usize = 12;
/// Jumps to a chain that are distinguished.
const CALLERS: usize = 16;
/// Boxes that are examined for one table; with more, nothing further is reported about it.
const WORK: u64 = 100_000_000;

/// A rule: chain and index.
pub(crate) type FlowPosition = (usize, usize);

/// The rules of a table as what they do to sets of packets.
pub(crate) struct Flow<'a> {
    table: &'a Table,
    reaches: Vec<Vec<MatchSpace>>,
    /// The rules that jump or go to a chain.
    callers: Vec<Vec<FlowPosition>>,
    /// The jumps between the chains.
    graph: ChainGraph<'a>,
    /// What a built-in chain may see.
    entering: Vec<Option<HyperRect>>,
    /// By chain, all rules.
    indexes: Vec<OnceCell<Index>>,
    /// By chain, those that may take packets away from others.
    takers: Vec<OnceCell<Index>>,
    ends: Vec<OnceCell<Vec<HyperRect>>>,
    /// Nothing can be concluded: a target may do anything, or jumps form a loop.
    opaque: bool,
    work: Counter<u64>,
}

impl<'a> Flow<'a> {
    pub fn new(firewall: &'a Firewall, ruleset: &'a Ruleset, table: &'a Table) -> Self {
        let mut lowering = Lowering::new(firewall, ruleset, table);
        let opaque = lowering.is_opaque();
        let graph = table.graph();
        let position = |jump: ChainJump| (jump.from, jump.rule);
        let callers = graph.callers().into_iter();
        let callers = callers.map(|jumps| jumps.into_iter().map(position).collect()).collect();
        let entering = |c: &Chain| c.policy.map(|_| lowering.entering(&c.name));
        let entering = table.chains.iter().map(entering).collect();
        let reaches = table
            .chains
            .iter()
            .map(|c| c.rules.iter().map(|r| lowering.reach(r)).collect())
            .collect();
        let mut flow = Flow {
            table,
            reaches,
            callers,
            graph,
            entering,
            indexes: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            takers: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            ends: (0..table.chains.len()).map(|_| OnceCell::new()).collect(),
            opaque,
            work: Counter::new(0),
        };
        flow.opaque |= flow.graph.has_loop();
        flow
    }

    pub fn reach(&self, (chain, rule): FlowPosition) -> &MatchSpace {
        &self.reaches[chain][rule]
    }

    /// The jumps between the chains.
    pub fn graph(&self) -> &ChainGraph<'a> {
        &self.graph
    }

    /// The rules that jump or go to a chain.
    pub fn callers(&self, chain: usize) -> &[FlowPosition] {
        &self.callers[chain]
    }

    /// Whether a rule may match ICMPv6 neighbour solicitations or advertisements.
    pub fn may_be_neighbour(&self, at: FlowPosition) -> bool {
        let proto = |c: &HyperRect| c.within(Field::Proto, (58, 58));
        let kinds = |c: HyperRect| c.within(Field::Icmp, (135 << 8, (136 << 8) | 0xff)).is_some();
        self.reach(at).cells.iter().any(|c| proto(c).is_some_and(kinds))
    }

    /// The deciding rules before one in its chain that have packets in common with it, in order.
    pub fn deciding_before(&self, at: FlowPosition) -> Vec<FlowPosition> {
        let cells = &self.reach(at).cells;
        let mut rules: Vec<usize> =
            cells.iter().flat_map(|cell| self.takers_meeting(at.0, cell)).collect();
        rules.sort_unstable();
        rules.dedup();
        if self.spend(rules.len()) {
            return Vec::new();
        }
        let meets = |e: &FlowPosition| {
            let theirs = &self.reach(*e).cells;
            self.rule(*e).target.decides()
                && cells.iter().any(|c| theirs.iter().any(|t| t.meets(c)))
        };
        let before = rules.into_iter().take_while(|e| *e < at.1).map(|e| (at.0, e));
        before.filter(meets).collect()
    }

    /// Cells that were looked at so far.
    #[cfg(test)]
    fn work(&self) -> u64 {
        self.work.get()
    }

    fn rule(&self, (chain, rule): FlowPosition) -> &'a Rule {
        &self.table.chains[chain].rules[rule]
    }

    /// Counts work; whether there was too much.
    fn spend(&self, cells: usize) -> bool {
        self.work.set(self.work.get() + cells as u64);
        self.work.get() > WORK
    }

    /// Whether no packet reaches the rule that it matches, drops or evaluates a stateful match for;
    /// and which rules decided them. An empty list means: the rules that lead to its chain leave it
    /// none.
    pub fn taken(&self, at: FlowPosition) -> Option<Vec<FlowPosition>> {
        if self.opaque {
            return None;
        }
        let reach = self.reach(at);
        let hot = reach.hot.iter().map(|(cell, _)| cell);
        let cells: Vec<HyperRect> =
            reach.cells.iter().chain(hot).chain(&reach.asks).cloned().collect();
        if cells.len() > CELLS {
            return None;
        }
        let mut by = Vec::new();
        self.gone(at, cells, 0, &mut by).then(|| {
            by.sort_unstable();
            by.dedup();
            by
        })
    }

    /// Whether none of the packets arrives at a rule.
    fn gone(
        &self,
        at: FlowPosition,
        cells: Vec<HyperRect>,
        depth: usize,
        by: &mut Vec<FlowPosition>,
    ) -> bool {
        let left: Vec<HyperRect> =
            cells.into_iter().flat_map(|cell| self.drain(at, cell, by)).collect();
        if left.is_empty() {
            return true;
        }
        if let Some(entering) = &self.entering[at.0] {
            return !left.iter().any(|cell| cell.meets(entering));
        }
        let callers = &self.callers[at.0];
        if depth == DEPTH || callers.is_empty() || callers.len() > CALLERS {
            return false;
        }
        callers.iter().all(|caller| match self.through(*caller, &left) {
            Some(cells) => self.gone(*caller, cells, depth + 1, by),
            None => false,
        })
    }

    /// The part of a set that a rule matches at most; `None` if it falls into too many cells.
    fn through(&self, at: FlowPosition, cells: &[HyperRect]) -> Option<Vec<HyperRect>> {
        let reach = self.reach(at);
        let both = cells.iter().flat_map(|c| reach.cells.iter().filter_map(|r| r.and(c)));
        let both: Vec<HyperRect> = both.collect();
        (both.len() <= CELLS && !self.spend(both.len())).then_some(both)
    }

    /// What is left of a cell when it arrives at a rule from the head of its chain.
    fn drain(
        &self,
        at: FlowPosition,
        cell: HyperRect,
        by: &mut Vec<FlowPosition>,
    ) -> Vec<HyperRect> {
        let mut before = self.takers_meeting(at.0, &cell);
        before.retain(|rule| *rule < at.1);
        if self.spend(1 + before.len()) {
            return vec![cell];
        }
        for rule in &before {
            if self.takes((at.0, *rule), &cell, &mut |taken| taken.holds(&cell)) {
                by.push((at.0, *rule));
                return Vec::new();
            }
        }
        let mut left = vec![cell.clone()];
        for rule in before {
            let rule = (at.0, rule);
            let mut cut = false;
            self.takes(rule, &cell, &mut |taken| {
                if left.iter().any(|l| l.meets(taken)) {
                    cut = true;
                    let mut next = Vec::new();
                    left.iter().for_each(|l| l.minus(taken, &mut next));
                    left = next;
                }
                left.is_empty() || left.len() > CELLS
            });
            if cut {
                by.push(rule);
            }
            if left.is_empty() {
                return left;
            }
            if left.len() > CELLS || self.spend(left.len()) {
                break;
            }
        }
        if left.len() > CELLS { vec![cell] } else { left }
    }

    /// Reports what each rule certainly removes from a box, until `done` returns true; returns
    /// whether it did.
    fn takes(
        &self,
        at: FlowPosition,
        cell: &HyperRect,
        done: &mut dyn FnMut(&HyperRect) -> bool,
    ) -> bool {
        let reach = self.reach(at);
        if reach.hot.iter().any(|(hot, exact)| *exact && done(hot)) {
            return true;
        }
        if !reach.exact {
            return false;
        }
        let rule = self.rule(at);
        if rule.target.leaves_chain() {
            return reach.cells.iter().any(done);
        }
        let Some(to) = self.graph.callee(at.0, at.1) else { return false };
        let near = reach.cells.iter().filter(|c| c.meets(cell));
        near.into_iter().any(|jump| {
            let ends = self.ends(to, 0).iter().filter_map(|end| end.and(jump));
            ends.into_iter().any(|taken| done(&taken))
        })
    }

    /// Packets that surely do not return out of a chain, some of them.
    fn ends(&self, chain: usize, depth: usize) -> &[HyperRect] {
        if depth == DEPTH {
            return &[];
        }
        self.ends[chain].get_or_init(|| self.find_ends(chain, depth))
    }

    fn find_ends(&self, chain: usize, depth: usize) -> Vec<HyperRect> {
        let mut ends: Vec<HyperRect> = Vec::new();
        // What may have returned before it was decided.
        let mut back: Vec<&HyperRect> = Vec::new();
        for (i, reach) in self.reaches[chain].iter().enumerate() {
            let rule = self.rule((chain, i));
            let hot = reach.hot.iter().filter(|h| h.1).map(|h| h.0.clone());
            let mut found: Vec<HyperRect> = hot.collect();
            match (&rule.target, self.graph.callee(chain, i)) {
                (Target::Jump(_) | Target::Goto(_), Some(to)) if reach.exact => {
                    let ends = self.ends(to, depth + 1);
                    let both =
                        |c: &HyperRect| ends.iter().filter_map(|e| e.and(c)).collect::<Vec<_>>();
                    found.extend(reach.cells.iter().flat_map(both));
                }
                (target, _) if target.decides() && reach.exact => {
                    found.extend(reach.cells.iter().cloned());
                }
                _ => {}
            }
            found.retain(|c| !back.iter().any(|b| b.meets(c)) && !ends.iter().any(|e| e.holds(c)));
            for cell in found {
                ends.retain(|e| !cell.holds(e));
                if ends.len() < ENDS {
                    ends.push(cell);
                }
            }
            if matches!(rule.target, Target::Return | Target::Goto(_)) {
                back.extend(&reach.cells);
            }
            if back.len() > CELLS {
                break;
            }
        }
        ends
    }

    /// The rules of a chain that do anything to packets of a cell, in order.
    fn meeting(&self, chain: usize, cell: &HyperRect) -> Vec<usize> {
        let index = || Index::new(&self.reaches[chain], &|_| true);
        self.indexes[chain].get_or_init(index).meeting(cell)
    }

    /// The same for rules that may remove packets.
    fn takers_meeting(&self, chain: usize, cell: &HyperRect) -> Vec<usize> {
        let takes = |rule: usize| {
            !self.rule((chain, rule)).target.falls_through()
                || !self.reaches[chain][rule].hot.is_empty()
        };
        let index = || Index::new(&self.reaches[chain], &takes);
        self.takers[chain].get_or_init(index).meeting(cell)
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
            let mut rule = Rule::new(Target::Drop);
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
        let flow = Flow::new(&firewall, &ruleset, &ruleset.tables[0]);
        let ghosts = std::collections::HashSet::new();
        for i in 0..rules as usize {
            assert_eq!(flow.taken((0, i)), None);
            assert_eq!(flow.same_without((0, i), &ghosts), None);
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
