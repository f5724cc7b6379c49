//! The engine: hash-consed decision diagrams with many terminals.
//!
//! A node tests one variable, given by its *level*, and has a branch for 0 and one for 1; levels
//! increase on the way down. Equal nodes are created once, so two diagrams mean the same exactly if
//! their [`DiagramRef`]s are equal. Terminals are numbers. The engine interprets only 0, which is
//! *nothing yet* (false, undecided), and 1, which is *true*.
//!
//! **Operations** are recursive and memoised in one lossy table, addressed by operator and
//! operands. A new operator is an [`Operator`]: which pairs need no descent, and the result for two
//! terminals. Operators on sets are in [`operators`](crate::bdd::operators);
//! [`balanced_merge`](crate::bdd::balanced_merge) combines many diagrams.
//!
//! **Garbage** is reclaimed where it arises. Children are created before their parents, so a node's
//! number is above those of its children, and nodes that an operation created are unknown to others
//! until it returns. So [`NodeStore::sweep_young_nodes`] marks and compacts the nodes that are
//! younger than a given point, and renumbers the few references that the operation itself holds. No
//! reference counts or handles are needed.
//!
//! **Memory** has a limit, and so has work, counted in *steps*: nodes requested, and
//! [`NonNodeWork`]. When a limit is reached, operations return [`LimitReached`]; the store stays
//! usable. Steps are counted rather than time, so that the same question has the same answer on
//! every machine.

use weir_memory::request_huge_pages;

/// A node or a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DiagramRef(u32);

const LEAF_FLAG: u32 = 1 << 31;

impl DiagramRef {
    /// False; undecided.
    pub const ZERO: DiagramRef = DiagramRef(LEAF_FLAG);
    /// True.
    pub const ONE: DiagramRef = DiagramRef(LEAF_FLAG | 1);

    /// A terminal.
    pub const fn leaf(number: u32) -> DiagramRef {
        DiagramRef(LEAF_FLAG | number)
    }

    /// The terminal's number; `None` for a node.
    pub const fn terminal_number(self) -> Option<u32> {
        if self.0 & LEAF_FLAG != 0 { Some(self.0 & !LEAF_FLAG) } else { None }
    }

    pub const fn is_leaf(self) -> bool {
        self.0 & LEAF_FLAG != 0
    }

    const fn node_index(self) -> usize {
        self.0 as usize
    }
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// That of memory.
    #[error("the memory limit of the diagram is reached")]
    Memory,
    /// That of steps.
    #[error("the step limit of the diagram is reached")]
    Steps,
}

/// The level below all nodes.
pub(crate) const LEAF_LEVEL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    level: u32,
    low: DiagramRef,
    high: DiagramRef,
}

/// What work other than requesting nodes takes: of lists in terminals, for example.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NonNodeWork {
    /// In units of a requested node.
    pub steps: u64,
    /// Memory that it keeps.
    pub bytes: usize,
}

/// What a binary operation does where it need not descend.
pub(crate) trait Operator {
    /// Which entries of the computed table are this operator's.
    fn cache_code(&self, store: &NodeStore) -> u32;
    /// The result, where it is known without looking below; always for two terminals.
    fn terminal_case(&mut self, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef>;
    /// What terminals took since the last call.
    fn take_non_node_work(&mut self) -> NonNodeWork {
        NonNodeWork::default()
    }
}

#[derive(Clone, Copy, Debug)]
struct ComputedEntry {
    code: u32,
    f: DiagramRef,
    g: DiagramRef,
    result: DiagramRef,
}

const EMPTY_COMPUTED_ENTRY: ComputedEntry =
    ComputedEntry { code: 0, f: DiagramRef(0), g: DiagramRef(0), result: DiagramRef(0) };
/// A slot of the unique table: the number of a node, and half of its hash. Its low bits choose the
/// slot (there are at most 2³² slots); the others differ for most nodes of a cluster, so that a
/// probe of another node's slot reads no node, which is rarely in the processor's cache.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UniqueSlot {
    node_index: u32,
    hash_tag: u32,
}

const EMPTY_SLOT: UniqueSlot = UniqueSlot { node_index: NO_NODE, hash_tag: 0 };
/// The number of no node.
const NO_NODE: u32 = u32::MAX;
/// Codes of the operators that keep theirs.
const FIXED_CACHE_CODE_COUNT: u32 = 8;
/// Bytes that a node costs: itself, up to three slots of the unique table, half as many entries of
/// the computed table, and a stamp.
const BYTES_PER_NODE_WITH_TABLE_SHARE: usize = 12 + 24 + 24 + 4;

/// The nodes that fit into so much memory; a few in any case.
fn nodes_in_bytes(bytes: usize) -> usize {
    (bytes / BYTES_PER_NODE_WITH_TABLE_SHARE).clamp(1 << 6, LEAF_FLAG as usize - 1)
}

/// All nodes of some diagrams.
#[derive(Debug)]
pub(crate) struct NodeStore {
    nodes: Vec<Node>,
    unique_table: Vec<UniqueSlot>,
    computed_table: Vec<ComputedEntry>,
    /// Codes below this one belong to nodes that were swept away.
    first_valid_cache_code: u32,
    next_cache_code: u32,
    /// All memory that may be taken.
    bytes_max: usize,
    /// That of work that makes no nodes.
    non_node_bytes: usize,
    /// How many nodes the rest suffices for.
    nodes_max: usize,
    /// Most nodes at one time.
    pub nodes_peak: usize,
    /// Requested nodes, found or created, and work that makes no nodes.
    pub steps: u64,
    /// How many may be.
    pub steps_max: u64,
    /// Sweep when there are more nodes than this.
    sweep_threshold: usize,
    /// The last traversal that visited a node.
    visit_stamps: Vec<u32>,
    current_stamp: u32,
}

impl NodeStore {
    /// An empty store that takes at most about `bytes`.
    pub fn new(bytes: usize) -> Self {
        NodeStore {
            nodes: Vec::new(),
            unique_table: vec![EMPTY_SLOT; 1 << 10],
            computed_table: vec![EMPTY_COMPUTED_ENTRY; 1 << 10],
            first_valid_cache_code: 1,
            next_cache_code: 1 + FIXED_CACHE_CODE_COUNT,
            bytes_max: bytes,
            non_node_bytes: 0,
            nodes_max: nodes_in_bytes(bytes),
            nodes_peak: 0,
            steps: 0,
            steps_max: u64::MAX,
            sweep_threshold: 1 << 16,
            visit_stamps: Vec::new(),
            current_stamp: 0,
        }
    }

    /// Bytes taken now.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.unique_table.len() * size_of::<UniqueSlot>()
            + self.computed_table.len() * size_of::<ComputedEntry>()
            + self.visit_stamps.len() * size_of::<u32>()
            + self.non_node_bytes
    }

    /// Nodes there are, garbage included; also the point that a
    /// [`sweep_young_nodes`](NodeStore::sweep_young_nodes) may start from.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The variable that a node tests; [`LEAF_LEVEL`] for a terminal.
    pub fn level(&self, f: DiagramRef) -> u32 {
        if f.is_leaf() { LEAF_LEVEL } else { self.nodes[f.node_index()].level }
    }

    /// The branches of a node.
    pub fn branches(&self, f: DiagramRef) -> (DiagramRef, DiagramRef) {
        let node = self.nodes[f.node_index()];
        (node.low, node.high)
    }

    /// The branches with respect to a level that is not below the node's own.
    pub fn cofactors(&self, f: DiagramRef, level: u32) -> (DiagramRef, DiagramRef) {
        if self.level(f) == level { self.branches(f) } else { (f, f) }
    }

    /// Counts work against the limit: also what takes time and makes no node.
    pub fn count_step(&mut self) -> Result<(), LimitReached> {
        if self.steps >= self.steps_max {
            return Err(LimitReached::Steps);
        }
        self.steps += 1;
        Ok(())
    }

    /// Counts other work and the memory that it keeps.
    pub fn count_non_node_work(&mut self, work: NonNodeWork) -> Result<(), LimitReached> {
        self.steps += work.steps;
        if self.steps > self.steps_max {
            return Err(LimitReached::Steps);
        }
        if work.bytes > 0 {
            self.non_node_bytes += work.bytes;
            if self.non_node_bytes > self.bytes_max {
                return Err(LimitReached::Memory);
            }
            self.nodes_max = nodes_in_bytes(self.bytes_max - self.non_node_bytes);
        }
        Ok(())
    }

    /// The node that tests `level`.
    pub fn make_node(
        &mut self,
        level: u32,
        low: DiagramRef,
        high: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        // Also without a node: most pairs of a conjunction of disjoint sets end in zero.
        self.count_step()?;
        if low == high {
            return Ok(low);
        }
        debug_assert!(level < self.level(low) && level < self.level(high));
        let node = Node { level, low, high };
        let mask = self.unique_table.len() - 1;
        let hash = hash_table_key(level, low, high);
        let (mut slot, hash_tag) = (hash as usize & mask, hash as u32);
        loop {
            let found = self.unique_table[slot];
            if found == EMPTY_SLOT {
                break;
            }
            if found.hash_tag == hash_tag && self.nodes[found.node_index as usize] == node {
                return Ok(DiagramRef(found.node_index));
            }
            slot = (slot + 1) & mask;
        }
        if self.nodes.len() >= self.nodes_max {
            return Err(LimitReached::Memory);
        }
        let at = self.nodes.len() as u32;
        if self.nodes.len() == self.nodes.capacity() {
            let more = (self.nodes.len() / 2).clamp(1 << 10, 1 << 22);
            self.nodes.reserve_exact(more.min(self.nodes_max - self.nodes.len()));
            request_huge_pages(&mut self.nodes);
        }
        self.nodes.push(node);
        self.unique_table[slot] = UniqueSlot { node_index: at, hash_tag };
        self.nodes_peak = self.nodes_peak.max(self.nodes.len());
        if self.nodes.len() * 3 > self.unique_table.len() * 2 {
            self.double_unique_and_grow_computed_table();
        }
        Ok(DiagramRef(at))
    }

    /// Slots follow from tags, so no node is read; and since the entries of old neighbours come into
    /// two places, each in order, nearly all memory is accessed in sequence.
    fn double_unique_and_grow_computed_table(&mut self) {
        let slots = self.unique_table.len() * 2;
        let old = std::mem::replace(&mut self.unique_table, build_table(slots, EMPTY_SLOT));
        for entry in old.into_iter().filter(|entry| *entry != EMPTY_SLOT) {
            self.insert_unique(entry);
        }
        // Half an entry a slot is two thirds of an entry a node.
        if self.computed_table.len() * 2 < slots && slots > 1 << 11 {
            self.computed_table = Vec::new();
            self.computed_table = build_table(slots / 2, EMPTY_COMPUTED_ENTRY);
        }
    }

    /// The unique table of nodes that were moved.
    fn rebuild_unique_table(&mut self) {
        self.unique_table.fill(EMPTY_SLOT);
        for node_index in 0..self.nodes.len() {
            let Node { level, low, high } = self.nodes[node_index];
            let hash_tag = hash_table_key(level, low, high) as u32;
            self.insert_unique(UniqueSlot { node_index: node_index as u32, hash_tag });
        }
    }

    fn insert_unique(&mut self, entry: UniqueSlot) {
        let mask = self.unique_table.len() - 1;
        let mut slot = entry.hash_tag as usize & mask;
        while self.unique_table[slot] != EMPTY_SLOT {
            slot = (slot + 1) & mask;
        }
        self.unique_table[slot] = entry;
    }

    /// A code for its own operation, as a substitution is.
    pub fn fresh_cache_code(&mut self) -> u32 {
        self.next_cache_code += 1;
        self.next_cache_code - 1
    }

    /// The code of the operator with a number of its own below 8.
    pub fn fixed_cache_code(&self, number: u32) -> u32 {
        debug_assert!(number < FIXED_CACHE_CODE_COUNT);
        self.first_valid_cache_code + number
    }

    fn computed_slot(&self, code: u32, f: DiagramRef, g: DiagramRef) -> usize {
        hash_table_key(code, f, g) as usize & (self.computed_table.len() - 1)
    }

    /// What was computed before.
    pub fn lookup_computed(&self, code: u32, f: DiagramRef, g: DiagramRef) -> Option<DiagramRef> {
        let entry = self.computed_table[self.computed_slot(code, f, g)];
        (entry.code == code && entry.f == f && entry.g == g).then_some(entry.result)
    }

    /// Keeps what was computed.
    pub fn insert_computed(&mut self, code: u32, f: DiagramRef, g: DiagramRef, result: DiagramRef) {
        let slot = self.computed_slot(code, f, g);
        self.computed_table[slot] = ComputedEntry { code, f, g, result };
    }

    /// Applies an operator to two diagrams.
    pub fn apply_operator<O: Operator>(
        &mut self,
        op: &mut O,
        f: DiagramRef,
        g: DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        if let Some(result) = op.terminal_case(f, g) {
            self.count_non_node_work(op.take_non_node_work())?;
            return Ok(result);
        }
        let code = op.cache_code(self);
        if let Some(result) = self.lookup_computed(code, f, g) {
            return Ok(result);
        }
        let level = self.level(f).min(self.level(g));
        debug_assert!(level != LEAF_LEVEL, "an operator knows what comes of two terminals");
        let (f0, f1) = self.cofactors(f, level);
        let (g0, g1) = self.cofactors(g, level);
        let low = self.apply_operator(op, f0, g0)?;
        let high = self.apply_operator(op, f1, g1)?;
        let result = self.make_node(level, low, high)?;
        self.insert_computed(code, f, g, result);
        Ok(result)
    }

    /// Calls `see` once for every node and terminal below `f`.
    pub fn visit_nodes_and_terminals(
        &mut self,
        f: DiagramRef,
        mut see: impl FnMut(&NodeStore, DiagramRef),
    ) {
        let mut seen_leaves = std::collections::HashSet::new();
        let mut stamps = std::mem::take(&mut self.visit_stamps);
        stamps.resize(self.nodes.len().max(stamps.len()), 0);
        self.current_stamp += 1;
        let mut stack = vec![f];
        while let Some(f) = stack.pop() {
            if f.is_leaf() {
                if seen_leaves.insert(f) {
                    see(self, f);
                }
            } else if std::mem::replace(&mut stamps[f.node_index()], self.current_stamp)
                != self.current_stamp
            {
                see(self, f);
                let (low, high) = self.branches(f);
                stack.extend([high, low]);
            }
        }
        self.visit_stamps = stamps;
    }

    /// The diagram with other terminals. `code` is the operation's own.
    pub fn map_terminals(
        &mut self,
        code: u32,
        f: DiagramRef,
        terminal: &mut dyn FnMut(DiagramRef) -> DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        if f.is_leaf() {
            return Ok(terminal(f));
        }
        if let Some(result) = self.lookup_computed(code, f, DiagramRef::ZERO) {
            return Ok(result);
        }
        let level = self.level(f);
        let (low, high) = self.branches(f);
        let low = self.map_terminals(code, low, terminal)?;
        let high = self.map_terminals(code, high, terminal)?;
        let result = self.make_node(level, low, high)?;
        self.insert_computed(code, f, DiagramRef::ZERO, result);
        Ok(result)
    }

    /// The same, where the variable `level` is 0 as well.
    pub fn map_terminals_where_zero(
        &mut self,
        code: u32,
        f: DiagramRef,
        level: u32,
        terminal: &mut dyn FnMut(DiagramRef) -> DiagramRef,
    ) -> Result<DiagramRef, LimitReached> {
        let top = self.level(f);
        if top > level {
            return self.map_terminals(code, f, terminal);
        }
        if let Some(result) = self.lookup_computed(code, f, DiagramRef::ZERO) {
            return Ok(result);
        }
        let (low, high) = self.branches(f);
        let low_result = self.map_terminals_where_zero(code, low, level, terminal)?;
        let result = if top == level {
            low_result
        } else {
            let high = self.map_terminals_where_zero(code, high, level, terminal)?;
            self.make_node(top, low_result, high)?
        };
        self.insert_computed(code, f, DiagramRef::ZERO, result);
        Ok(result)
    }

    /// Whether there is enough garbage for a sweep.
    pub fn needs_sweep(&self) -> bool {
        self.node_count() > self.sweep_threshold
    }

    /// Forgets the nodes from number `from` on that no root leads to, and renumbers the roots.
    /// Whatever else refers to a node from `from` on is void.
    pub fn sweep_young_nodes(&mut self, from: usize, roots: &mut [DiagramRef]) {
        let young = self.nodes.len() - from;
        let mut keep = vec![NO_NODE; young];
        let is_young = |f: DiagramRef| !f.is_leaf() && f.node_index() >= from;
        for root in roots.iter().filter(|r| is_young(**r)) {
            keep[root.node_index() - from] = 0;
        }
        for i in (0..young).rev() {
            if keep[i] == NO_NODE {
                continue;
            }
            let node = self.nodes[from + i];
            for child in [node.low, node.high] {
                if is_young(child) {
                    keep[child.node_index() - from] = 0;
                }
            }
        }
        let moved = |keep: &[u32], f: DiagramRef| match is_young(f) {
            true => DiagramRef(keep[f.node_index() - from]),
            false => f,
        };
        let mut end = from;
        for i in 0..young {
            if keep[i] == NO_NODE {
                continue;
            }
            let Node { level, low, high } = self.nodes[from + i];
            self.nodes[end] = Node { level, low: moved(&keep, low), high: moved(&keep, high) };
            keep[i] = end as u32;
            end += 1;
        }
        for root in roots {
            *root = moved(&keep, *root);
        }
        self.nodes.truncate(end);
        self.first_valid_cache_code = self.next_cache_code;
        self.next_cache_code += FIXED_CACHE_CODE_COUNT;
        self.rebuild_unique_table();
        // As much garbage again before the next sweep as there is to keep, so that sweeping costs
        // a constant share.
        self.sweep_threshold = (2 * end).max(1 << 16).min((end + self.nodes_max) / 2);
    }
}

/// A table of equal entries. Every step goes to another page of it.
fn build_table<T: Copy>(length: usize, entry: T) -> Vec<T> {
    let mut table = Vec::with_capacity(length);
    request_huge_pages(&mut table);
    table.resize(length, entry);
    table
}

/// Both halves of a long product: the low bits of a short one would not depend on the high bits of
/// the hashed value, and adjacent nodes would fill the same part of the table.
fn hash_table_key(level: u32, low: DiagramRef, high: DiagramRef) -> u64 {
    let a = u64::from(low.0) << 32 | u64::from(high.0);
    let a = a ^ u64::from(level).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(a) * 0xd6e8_feb8_6659_fd93;
    let h = product as u64 ^ (product >> 64) as u64;
    h ^ h >> 32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The diagram of a truth table over levels 0..n, first level highest bit.
    pub(crate) fn build_diagram_of_truth_table(
        store: &mut NodeStore,
        table: &[u32],
        level: u32,
    ) -> DiagramRef {
        if let [one] = table {
            return DiagramRef::leaf(*one);
        }
        let (low, high) = table.split_at(table.len() / 2);
        let low = build_diagram_of_truth_table(store, low, level + 1);
        let high = build_diagram_of_truth_table(store, high, level + 1);
        store.make_node(level, low, high).expect("room")
    }

    /// A table of 16 numbers below `max`, out of a seed.
    pub(crate) fn random_truth_table(seed: u64, max: u32) -> [u32; 16] {
        let mut state = seed.wrapping_add(1);
        std::array::from_fn(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % max
        })
    }

    #[test]
    fn a_sweep_keeps_roots_and_older_nodes() {
        let mut store = NodeStore::new(1 << 20);
        let old = build_diagram_of_truth_table(&mut store, &random_truth_table(1, 4), 0);
        let from = store.node_count();
        let made: Vec<DiagramRef> = (0..50)
            .map(|seed| {
                build_diagram_of_truth_table(&mut store, &random_truth_table(seed + 9, 4), 0)
            })
            .collect();
        let before = store.node_count();
        let mut roots = [made[7], old, made[33]];
        store.sweep_young_nodes(from, &mut roots);
        assert!(
            store.node_count() < before / 3,
            "{} of {before} nodes are left",
            store.node_count()
        );
        assert_eq!(roots[1], old);
        // Building the same diagrams again finds the existing nodes.
        let len = store.node_count();
        assert_eq!(
            build_diagram_of_truth_table(&mut store, &random_truth_table(16, 4), 0),
            roots[0]
        );
        assert_eq!(
            build_diagram_of_truth_table(&mut store, &random_truth_table(42, 4), 0),
            roots[2]
        );
        assert_eq!(build_diagram_of_truth_table(&mut store, &random_truth_table(1, 4), 0), old);
        assert_eq!(store.node_count(), len);
    }

    #[test]
    fn a_full_store_returns_an_error_and_stays_usable() {
        let mut store = NodeStore::new(0);
        let small = build_diagram_of_truth_table(&mut store, &random_truth_table(3, 3), 0);
        let mut full = false;
        for seed in 0..10_000 {
            let mut last = Ok(DiagramRef::ZERO);
            for level in (0..12).rev() {
                let leaf = DiagramRef::leaf(seed * 12 + level);
                last = last.and_then(|low| store.make_node(level, low, leaf));
            }
            full |= last == Err(LimitReached::Memory);
        }
        assert!(full, "120,000 nodes fit into a store of none");
        assert_eq!(build_diagram_of_truth_table(&mut store, &random_truth_table(3, 3), 0), small);
    }
}
