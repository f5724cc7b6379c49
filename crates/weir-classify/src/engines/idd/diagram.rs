//! One diagram: nodes in arrays, their construction by apply.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::engines::build_budget::BuildBudget;
use crate::engines::dimension::Dimension;
use crate::filter_set::FilterSet;

/// What the terminals of a diagram are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalKind {
    /// The first rule that decides.
    FirstDeciding,
    /// The list of all rules that match.
    AllMatching,
}

/// A node, or a terminal: the highest bit is set and the others are the index of its list.
type DiagramNodeRef = u32;

const TERMINAL_FLAG: u32 = 1 << 31;
/// The terminal of no rule.
const NO_MATCH: DiagramNodeRef = TERMINAL_FLAG;

#[derive(Clone, Copy, Debug)]
struct DiagramNode {
    dimension: u32,
    first_interval: u32,
    interval_count: u32,
}

/// Nodes, and lists of rules.
#[derive(Clone, Debug)]
pub(super) struct IntervalDiagram {
    dimensions: Vec<Dimension>,
    nodes: Vec<DiagramNode>,
    /// Last value of each interval of each node, and where it leads.
    ends: Vec<u32>,
    children: Vec<DiagramNodeRef>,
    rule_list_starts: Vec<u32>,
    rules: Vec<u32>,
    root: DiagramNodeRef,
}

impl IntervalDiagram {
    pub(super) fn build(
        filters: &FilterSet,
        dimensions: Vec<Dimension>,
        terminal_kind: TerminalKind,
        limits: &BuildLimits,
    ) -> Result<IntervalDiagram, ClassifierBuildError> {
        let mut builder = DiagramBuilder {
            diagram: IntervalDiagram::empty_over_dimensions(dimensions),
            terminal_kind,
            node_of_hash: FastMap::default(),
            terminal_of_rule_list: HashMap::from([(vec![], NO_MATCH)]),
            apply_cache: FastMap::default(),
            budget: BuildBudget::new("idd", limits),
        };
        let all = terminal_kind == TerminalKind::AllMatching;
        let used = (0..filters.filter_count())
            .filter(|at| all || filters.is_deciding(filters.filter(*at).rule));
        let root = builder.combine_filters(filters, &used.collect::<Vec<_>>())?;
        Ok(builder.diagram.copy_reachable(root))
    }

    fn empty_over_dimensions(dimensions: Vec<Dimension>) -> IntervalDiagram {
        IntervalDiagram {
            dimensions,
            nodes: vec![],
            ends: vec![],
            children: vec![],
            rule_list_starts: vec![0, 0],
            rules: vec![],
            root: NO_MATCH,
        }
    }

    /// The list of rules at the end of a key's path.
    #[inline]
    pub(super) fn find_rules(&self, key: &[u32]) -> &[u32] {
        let mut at = self.root;
        while at & TERMINAL_FLAG == 0 {
            let node = self.nodes[at as usize];
            let value = self.dimensions[node.dimension as usize].value(key);
            let intervals =
                node.first_interval as usize..(node.first_interval + node.interval_count) as usize;
            let passed = self.ends[intervals.clone()].partition_point(|end| *end < value);
            at = self.children[intervals.start + passed];
        }
        self.rules_of_terminal(at)
    }

    fn rules_of_terminal(&self, terminal: DiagramNodeRef) -> &[u32] {
        let at = (terminal & !TERMINAL_FLAG) as usize;
        &self.rules[self.rule_list_starts[at] as usize..self.rule_list_starts[at + 1] as usize]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.len() * size_of::<DiagramNode>()
            + (self.ends.len() + self.children.len()) * size_of::<u32>()
            + (self.rule_list_starts.len() + self.rules.len()) * size_of::<u32>()
    }

    /// The diagram without the nodes that only its construction needed.
    fn copy_reachable(&self, root: DiagramNodeRef) -> IntervalDiagram {
        let mut copy = IntervalDiagram::empty_over_dimensions(self.dimensions.clone());
        let mut copies = FastMap::default();
        copies.insert(u64::from(NO_MATCH), NO_MATCH);
        copy.root = self.copy_node(root, &mut copy, &mut copies);
        copy
    }

    fn copy_node(
        &self,
        from: DiagramNodeRef,
        copy: &mut IntervalDiagram,
        copies: &mut FastMap<DiagramNodeRef>,
    ) -> DiagramNodeRef {
        if let Some(known) = copies.get(&u64::from(from)) {
            return *known;
        }
        let to = if from & TERMINAL_FLAG != 0 {
            copy.rules.extend_from_slice(self.rules_of_terminal(from));
            copy.rule_list_starts.push(copy.rules.len() as u32);
            (copy.rule_list_starts.len() as u32 - 2) | TERMINAL_FLAG
        } else {
            let node = self.nodes[from as usize];
            let intervals =
                node.first_interval as usize..(node.first_interval + node.interval_count) as usize;
            let of_copy = self.children[intervals.clone()].iter();
            let children: Vec<_> = of_copy.map(|of| self.copy_node(*of, copy, copies)).collect();
            copy.nodes.push(DiagramNode { first_interval: copy.ends.len() as u32, ..node });
            copy.ends.extend_from_slice(&self.ends[intervals]);
            copy.children.extend(children);
            (copy.nodes.len() - 1) as u32
        };
        copies.insert(u64::from(from), to);
        to
    }
}

struct DiagramBuilder {
    diagram: IntervalDiagram,
    terminal_kind: TerminalKind,
    node_of_hash: FastMap<u32>,
    terminal_of_rule_list: HashMap<Vec<u32>, DiagramNodeRef>,
    /// What apply returned for a pair, during one combination.
    apply_cache: FastMap<DiagramNodeRef>,
    budget: BuildBudget,
}

impl DiagramBuilder {
    fn combine_filters(
        &mut self,
        filters: &FilterSet,
        used: &[usize],
    ) -> Result<DiagramNodeRef, ClassifierBuildError> {
        match used {
            [] => Ok(NO_MATCH),
            [filter] => self.make_filter_diagram(filters, *filter),
            _ => {
                let (earlier, later) = used.split_at(used.len() / 2);
                let earlier = self.combine_filters(filters, earlier)?;
                let later = self.combine_filters(filters, later)?;
                self.apply_cache = FastMap::default();
                self.apply(earlier, later)
            }
        }
    }

    fn make_filter_diagram(
        &mut self,
        filters: &FilterSet,
        index: usize,
    ) -> Result<DiagramNodeRef, ClassifierBuildError> {
        let filter = filters.filter(index);
        let mut child = self.make_terminal(vec![filter.rule]);
        for at in (0..self.diagram.dimensions.len()).rev() {
            let dimension = self.diagram.dimensions[at];
            let (lo, hi) = dimension.interval(filter.tests);
            let mut intervals = Vec::with_capacity(3);
            intervals.extend(lo.checked_sub(1).map(|end| (end, NO_MATCH)));
            intervals.push((hi, child));
            if hi < dimension.max {
                intervals.push((dimension.max, NO_MATCH));
            }
            child = self.make_node(at as u32, &mut intervals)?;
        }
        Ok(child)
    }

    fn make_terminal(&mut self, rules: Vec<u32>) -> DiagramNodeRef {
        if let Some(known) = self.terminal_of_rule_list.get(&rules) {
            return *known;
        }
        self.diagram.rules.extend_from_slice(&rules);
        self.diagram.rule_list_starts.push(self.diagram.rules.len() as u32);
        let terminal = (self.diagram.rule_list_starts.len() as u32 - 2) | TERMINAL_FLAG;
        self.terminal_of_rule_list.insert(rules, terminal);
        terminal
    }

    /// The one node of these intervals; adjacent ones of equal children are merged.
    fn make_node(
        &mut self,
        dimension: u32,
        intervals: &mut Vec<(u32, DiagramNodeRef)>,
    ) -> Result<DiagramNodeRef, ClassifierBuildError> {
        intervals.dedup_by(|next, kept| {
            let is_equal = next.1 == kept.1;
            if is_equal {
                kept.0 = next.0;
            }
            is_equal
        });
        if let [(_, child)] = intervals[..] {
            return Ok(child);
        }
        let mut hash = intervals.iter().fold(u64::from(dimension), |hash, (end, child)| {
            mix_bits(hash ^ (u64::from(*end) << 32 | u64::from(*child)))
        });
        while let Some(&known) = self.node_of_hash.get(&hash) {
            if self.is_node_with_intervals(known, dimension, intervals) {
                return Ok(known);
            }
            hash = mix_bits(hash);
        }
        let diagram = &mut self.diagram;
        let (first_interval, interval_count) = (diagram.ends.len() as u32, intervals.len() as u32);
        diagram.nodes.push(DiagramNode { dimension, first_interval, interval_count });
        diagram.ends.extend(intervals.iter().map(|interval| interval.0));
        diagram.children.extend(intervals.iter().map(|interval| interval.1));
        let node = (diagram.nodes.len() - 1) as u32;
        self.node_of_hash.insert(hash, node);
        // An entry of a table takes 16 bytes, and half of them are empty.
        let tables = 32 * (self.node_of_hash.len() + self.apply_cache.len())
            + 64 * self.terminal_of_rule_list.len()
            + size_of_val(&self.diagram.rules[..]);
        self.budget.check_bytes(self.diagram.memory_bytes() + tables)?;
        Ok(node)
    }

    fn is_node_with_intervals(
        &self,
        node: u32,
        dimension: u32,
        intervals: &[(u32, DiagramNodeRef)],
    ) -> bool {
        let of = self.diagram.nodes[node as usize];
        let range = of.first_interval as usize..(of.first_interval + of.interval_count) as usize;
        of.dimension == dimension
            && of.interval_count as usize == intervals.len()
            && self.diagram.ends[range.clone()].iter().eq(intervals.iter().map(|i| &i.0))
            && self.diagram.children[range].iter().eq(intervals.iter().map(|i| &i.1))
    }

    /// What `earlier` and `later` say together.
    fn apply(
        &mut self,
        earlier: DiagramNodeRef,
        later: DiagramNodeRef,
    ) -> Result<DiagramNodeRef, ClassifierBuildError> {
        if earlier == later || later == NO_MATCH {
            return Ok(earlier);
        }
        if earlier == NO_MATCH {
            return Ok(later);
        }
        let is_terminal = |of: DiagramNodeRef| of & TERMINAL_FLAG != 0;
        if is_terminal(earlier) && self.terminal_kind == TerminalKind::FirstDeciding {
            return Ok(earlier);
        }
        if is_terminal(earlier) && is_terminal(later) {
            let mut rules = self.diagram.rules_of_terminal(earlier).to_vec();
            rules.extend_from_slice(self.diagram.rules_of_terminal(later));
            rules.sort_unstable();
            rules.dedup();
            self.budget.take_steps(1 + rules.len())?;
            return Ok(self.make_terminal(rules));
        }
        let pair = u64::from(earlier) << 32 | u64::from(later);
        if let Some(known) = self.apply_cache.get(&pair) {
            return Ok(*known);
        }
        let dimension = self.dimension_of(earlier).min(self.dimension_of(later));
        let [mut a, mut b] =
            [earlier, later].map(|of| self.cursor_at_first_interval(of, dimension));
        let mut intervals = Vec::with_capacity(a.intervals_remaining.max(b.intervals_remaining));
        loop {
            self.budget.take_steps(1)?;
            let [(a_end, a_child), (b_end, b_child)] = [a, b].map(|of| self.interval_at(of));
            let end = a_end.min(b_end);
            intervals.push((end, self.apply(a_child, b_child)?));
            if a_end == b_end && a.intervals_remaining <= 1 && b.intervals_remaining <= 1 {
                break;
            }
            a.advance(a_end == end);
            b.advance(b_end == end);
        }
        let node = self.make_node(dimension, &mut intervals)?;
        self.apply_cache.insert(pair, node);
        Ok(node)
    }

    fn dimension_of(&self, node: DiagramNodeRef) -> u32 {
        match self.diagram.nodes.get(node as usize) {
            Some(of) if node & TERMINAL_FLAG == 0 => of.dimension,
            _ => u32::MAX,
        }
    }

    /// The intervals of a node; all values lead to it if it tests a later dimension.
    fn cursor_at_first_interval(&self, node: DiagramNodeRef, dimension: u32) -> IntervalCursor {
        if self.dimension_of(node) == dimension {
            let of = self.diagram.nodes[node as usize];
            IntervalCursor {
                at: of.first_interval as usize,
                intervals_remaining: of.interval_count as usize,
                only_interval: None,
            }
        } else {
            let max = self.diagram.dimensions[dimension as usize].max;
            IntervalCursor { at: 0, intervals_remaining: 1, only_interval: Some((max, node)) }
        }
    }

    fn interval_at(&self, cursor: IntervalCursor) -> (u32, DiagramNodeRef) {
        let of_node = |at: usize| (self.diagram.ends[at], self.diagram.children[at]);
        cursor.only_interval.unwrap_or_else(|| of_node(cursor.at))
    }
}

/// A place in the intervals of a node.
#[derive(Clone, Copy)]
struct IntervalCursor {
    at: usize,
    /// How many remain, this one included.
    intervals_remaining: usize,
    only_interval: Option<(u32, DiagramNodeRef)>,
}

impl IntervalCursor {
    fn advance(&mut self, is_passed: bool) {
        self.at += usize::from(is_passed);
        self.intervals_remaining -= usize::from(is_passed);
    }
}

type FastMap<T> = HashMap<u64, T, BuildHasherDefault<SingleIntegerHasher>>;

/// For keys that are one number; the tables are of no use to an attacker, who cannot see the time
/// that a construction takes.
#[derive(Clone, Copy, Default)]
struct SingleIntegerHasher(u64);

impl Hasher for SingleIntegerHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| mix_bits(hash ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix_bits(number);
    }
}

/// A hash of a number; no number is drawn, so weir-random is not used.
fn mix_bits(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (z >> 32)
}
