//! Where two diagrams of outcomes differ, by the change of the outcome.
//!
//! A difference is described for each change (accepted before and dropped after, for example), with
//! and without corner cases. Sets of packets for each of them would take many traversals of both
//! diagrams. Here both are traversed once: one diagram has a terminal for each change. What all
//! changes have in common (which packets are possible, which are corner cases) is applied to it
//! once.

use weir_semantics::Verdict;

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore, Operator};
use crate::packet_sets::corner_case::CornerCaseKind;
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::terminal::{RuleExit, TerminalTable};

/// How the outcome of a packet changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeChange {
    /// From one verdict to another.
    Verdict { before: Verdict, after: Verdict },
    /// The verdict is the same, something else is not.
    EffectsAlone,
}

/// A difference, with a terminal for each change and 0 where nothing changes.
#[derive(Debug)]
pub(crate) struct DifferenceByChange {
    /// Change number n is the terminal n + 1.
    changes: Vec<OutcomeChange>,
    /// All assignments of the difference.
    all: DiagramRef,
    /// Those that are packets.
    possible: DiagramRef,
}

/// A difference, divided into its corner cases and the rest.
#[derive(Debug)]
pub(crate) struct DifferenceByChangeAndCornerCase {
    by_change: DifferenceByChange,
    /// Assignments outside of corner cases: what is not possible stays in, because it would only
    /// lengthen the words of regions.
    ordinary: DiagramRef,
    possible_ordinary: DiagramRef,
    possible_by_corner_case: Vec<(CornerCaseKind, DiagramRef)>,
}

/// The packets with one change of their outcome.
#[derive(Debug)]
pub(crate) struct PacketsWithChange {
    /// Those that are possible.
    pub possible: DiagramRef,
    /// What regions show: no corner cases, if there is anything else.
    pub shown: DiagramRef,
    /// Whether there is anything but corner cases.
    pub has_ordinary: bool,
    /// The possible packets of corner cases that regions do not show.
    pub corner_cases: Vec<(CornerCaseKind, DiagramRef)>,
}

fn leaf_of_change(number: usize) -> DiagramRef {
    DiagramRef::leaf(number as u32 + 1)
}

impl DifferenceByChange {
    /// Possible packets that differ, with their changes.
    pub fn possible(&self) -> DiagramRef {
        self.possible
    }

    pub fn changes(&self) -> &[OutcomeChange] {
        &self.changes
    }
}

impl DiagramContext<'_> {
    /// Where two diagrams of outcomes differ; `None` if only packets do that are not possible.
    pub fn find_difference_by_change(
        &mut self,
        [before, after]: [DiagramRef; 2],
    ) -> Result<Option<DifferenceByChange>, LimitReached> {
        if before == after {
            return Ok(None);
        }
        let DiagramContext { space, terminals, .. } = self;
        let code = space.store.fresh_cache_code();
        let mut operator = OutcomeChangeOperator { code, terminals, changes: Vec::new() };
        let all = space.store.apply_operator(&mut operator, before, after)?;
        let changes = operator.changes;
        let possible = space.store.and(space.possible_packets, all)?;
        Ok((possible != DiagramRef::ZERO).then_some(DifferenceByChange { changes, all, possible }))
    }

    /// A set of packets whose effects differ, but not their verdicts.
    pub fn make_difference_of_effects_alone(
        &mut self,
        differ: DiagramRef,
    ) -> Result<DifferenceByChange, LimitReached> {
        let all = self.space.store.and(differ, leaf_of_change(0))?;
        let possible = self.space.store.and(self.space.possible_packets, all)?;
        Ok(DifferenceByChange { changes: vec![OutcomeChange::EffectsAlone], all, possible })
    }

    /// All assignments of a difference, as a set.
    pub fn assignments_of_difference(
        &mut self,
        difference: &DifferenceByChange,
    ) -> Result<DiagramRef, LimitReached> {
        self.map_to_set(difference.all, |_| true)
    }

    /// Its possible packets, as a set.
    pub fn possible_packets_of_difference(
        &mut self,
        difference: &DifferenceByChange,
    ) -> Result<DiagramRef, LimitReached> {
        self.map_to_set(difference.possible, |_| true)
    }

    /// Divides a difference into its corner cases and the rest. `journey`: it is about whole
    /// journeys, not about one hook.
    pub fn divide_by_corner_cases(
        &mut self,
        by_change: DifferenceByChange,
        journey: bool,
    ) -> Result<DifferenceByChangeAndCornerCase, LimitReached> {
        let corner_cases = self.space.corner_case_sets(journey)?;
        let store = &mut self.space.store;
        let mut in_corner_case = DiagramRef::ZERO;
        let mut possible_by_corner_case = Vec::new();
        for (kind, packets) in corner_cases {
            in_corner_case = store.first_nonzero(in_corner_case, packets)?;
            possible_by_corner_case.push((kind, store.and(packets, by_change.possible)?));
        }
        Ok(DifferenceByChangeAndCornerCase {
            ordinary: store.minus(by_change.all, in_corner_case)?,
            possible_ordinary: store.minus(by_change.possible, in_corner_case)?,
            possible_by_corner_case,
            by_change,
        })
    }

    /// The packets whose outcome changes in one of the ways of
    /// [`changes`](DifferenceByChange::changes); `None` if these are no possible packets.
    pub fn packets_with_change(
        &mut self,
        difference: &DifferenceByChangeAndCornerCase,
        change: OutcomeChange,
    ) -> Result<Option<PacketsWithChange>, LimitReached> {
        let DifferenceByChangeAndCornerCase { by_change, ordinary, .. } = difference;
        let Some(number) = by_change.changes.iter().position(|other| *other == change) else {
            return Ok(None);
        };
        let leaf = leaf_of_change(number);
        let packets_with_change = |context: &mut Self, of| context.map_to_set(of, |at| at == leaf);
        let possible = packets_with_change(self, by_change.possible)?;
        if possible == DiagramRef::ZERO {
            return Ok(None);
        }
        let mut has_ordinary = false;
        self.space.store.visit_nodes_and_terminals(difference.possible_ordinary, |_, at| {
            has_ordinary |= at == leaf;
        });
        let shown =
            packets_with_change(self, if has_ordinary { *ordinary } else { by_change.all })?;
        let mut corner_cases = Vec::new();
        for (kind, packets) in &difference.possible_by_corner_case {
            let packets = packets_with_change(self, *packets)?;
            if has_ordinary && packets != DiagramRef::ZERO {
                corner_cases.push((*kind, packets));
            }
        }
        Ok(Some(PacketsWithChange { possible, shown, has_ordinary, corner_cases }))
    }

    /// Where a diagram leads to such a terminal other than 0.
    fn map_to_set(
        &mut self,
        f: DiagramRef,
        is_inside: impl Fn(DiagramRef) -> bool,
    ) -> Result<DiagramRef, LimitReached> {
        let code = self.space.store.fresh_cache_code();
        self.space.store.map_terminals(code, f, &mut |leaf| match leaf != DiagramRef::ZERO
            && is_inside(leaf)
        {
            true => DiagramRef::ONE,
            false => DiagramRef::ZERO,
        })
    }
}

impl DifferenceByChangeAndCornerCase {
    pub fn changes(&self) -> &[OutcomeChange] {
        self.by_change.changes()
    }
}

/// The change from a terminal to another.
struct OutcomeChangeOperator<'t> {
    code: u32,
    terminals: &'t TerminalTable,
    changes: Vec<OutcomeChange>,
}

impl Operator for OutcomeChangeOperator<'_> {
    fn cache_code(&self, _: &NodeStore) -> u32 {
        self.code
    }

    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        if f == g {
            return Some(DiagramRef::ZERO);
        }
        if !f.is_leaf() || !g.is_leaf() {
            return None;
        }
        let change = match [f, g].map(|leaf| self.terminals.terminal_of_leaf(leaf).exit) {
            [RuleExit::Verdict(before), RuleExit::Verdict(after)] if before != after => {
                OutcomeChange::Verdict { before, after }
            }
            _ => OutcomeChange::EffectsAlone,
        };
        let known = self.changes.iter().position(|other| *other == change);
        Some(leaf_of_change(known.unwrap_or_else(|| {
            self.changes.push(change);
            self.changes.len() - 1
        })))
    }
}
