//! Chains to stretches: runs of entries that one look-up finds.
//!
//! **Jumps.** Where a chain is small, or has one caller, its entries take the place of the jump,
//! each with the packets that the jump matches as well. Otherwise the chain has stretches of its
//! own, and the jump calls it. See [`FlattenLimits`] for what is small.
//!
//! **RETURN and goto.** All entries that match are found, not only the first, so an entry can skip
//! others: RETURN those up to the end of its chain. After the entries of a chain that was reached
//! by goto comes one that skips the rest of the calling chain.
//!
//! **Changes of the packet.** A look-up sees the packet as it was before. A stretch therefore ends
//! before a rule that tests a field which an entry of the stretch may write, and the next stretch
//! is looked up with the packet as it is then. Marks that are set and not tested divide nothing.
//!
//! Chains are processed after those that they lead to, without recursion: the kernel nests chains a
//! thousand deep.

use std::collections::BTreeSet;

use weir_model::{ChainGraph, FieldSet, Firewall, Policy, RulePlaceInTable, Table, Target};
use weir_partition::{BoxLowering, HyperRect};

use super::key_layout::AXISLESS_TESTS_MAX;
use super::lookup_entry::{END_OF_CHAIN, EntryContinuation, FoundEntryMeaning, LookupEntry};
use super::lowered_rule::{RuleForLookup, lower_rule_for_lookup};

/// When the entries of a chain take the place of a jump to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlattenLimits {
    /// Boxes of the jump times boxes of the chain, at most. A chain with one caller whose jump is
    /// one box is not limited. The boxes of a table grow by at most this number per jump.
    pub boxes_per_jump_max: usize,
}

impl Default for FlattenLimits {
    fn default() -> Self {
        FlattenLimits { boxes_per_jump_max: 64 }
    }
}

/// Boxes that may take the place of jumps in a table with few rules, altogether.
const INLINED_BOX_LIMIT_MIN: usize = 1 << 19;
/// The same for each rule of a table with many.
const INLINED_BOX_LIMIT_PER_RULE: usize = 16;

/// An entry with the packets that it matches.
#[derive(Clone)]
pub(super) struct EntryWithBoxes {
    pub entry: LookupEntry,
    pub boxes: Vec<HyperRect>,
}

/// Entries that one look-up finds.
#[derive(Clone, Default)]
pub(super) struct FlattenedStretch {
    pub entries: Vec<EntryWithBoxes>,
    /// Fields that decide which entries are found.
    reads: FieldSet,
    /// Fields that some entry may write.
    writes: FieldSet,
    axisless_test_numbers: BTreeSet<u32>,
    box_count: usize,
}

/// A chain: its stretches in order.
#[derive(Clone, Default)]
pub(super) struct FlattenedChain {
    pub stretches: Vec<FlattenedStretch>,
    writes: FieldSet,
}

/// A table on its way to stretches.
pub(super) struct ChainFlattener<'a> {
    pub table: &'a Table,
    pub firewall: &'a Firewall,
    pub lowering: BoxLowering<'a>,
    pub limits: FlattenLimits,
    graph: ChainGraph<'a>,
    /// How many rules lead to a chain, by chain.
    caller_rule_counts: Vec<usize>,
    chains: Vec<FlattenedChain>,
    /// Boxes that took the place of jumps so far.
    inlined_box_count: usize,
    /// How many may: with chains that nest deeply, each level copies all below it.
    inlined_boxes_max: usize,
}

impl<'a> ChainFlattener<'a> {
    pub fn new(
        firewall: &'a Firewall,
        table: &'a Table,
        lowering: BoxLowering<'a>,
        limits: FlattenLimits,
    ) -> ChainFlattener<'a> {
        let graph = table.chain_graph();
        let caller_counts = graph.jumps_by_callee().iter().map(Vec::len).collect();
        let chains = vec![FlattenedChain::default(); table.chains.len()];
        let rule_count: usize = table.chains.iter().map(|chain| chain.rules.len()).sum();
        ChainFlattener {
            table,
            firewall,
            lowering,
            limits,
            graph,
            caller_rule_counts: caller_counts,
            chains,
            inlined_box_count: 0,
            inlined_boxes_max: INLINED_BOX_LIMIT_MIN
                .max(INLINED_BOX_LIMIT_PER_RULE.saturating_mul(rule_count)),
        }
    }

    /// Flattens a chain and all that it leads to.
    ///
    /// # Errors
    /// A chain that reaches itself.
    pub fn flatten_from(&mut self, start: usize) -> Result<Vec<FlattenedChain>, usize> {
        for chain in self.graph.callees_first_from(start)? {
            let flat = self.flatten_chain(chain);
            self.chains[chain] = flat;
        }
        Ok(std::mem::take(&mut self.chains))
    }

    fn flatten_chain(&mut self, chain: usize) -> FlattenedChain {
        let table = self.table;
        let mut flat = FlattenedChain::default();
        let mut stretch = FlattenedStretch::default();
        for (index, rule) in table.chains[chain].rules.iter().enumerate() {
            let place = RulePlaceInTable { chain: chain as u32, rule: index as u32 };
            let lowered = lower_rule_for_lookup(&mut self.lowering, self.firewall, rule);
            let callee = self.graph.chain_entered_by_rule(chain, index);
            let mut part =
                FlattenedStretch { writes: lowered.writes, ..FlattenedStretch::default() };
            if let Some(callee) = callee {
                part.writes = part.writes.union(self.chains[callee].writes);
            }
            let mut copied_boxes = None;
            part.push_rule(place, &rule.target, lowered, callee, |matched_boxes| {
                let inlined = self.find_inlined_stretch(callee?, matched_boxes)?;
                copied_boxes = Some(inlined.box_count.saturating_mul(matched_boxes.len()));
                Some(inlined)
            });
            if let (Some(callee), Some(copied)) = (callee, copied_boxes) {
                self.inlined_box_count = self.inlined_box_count.saturating_add(copied);
                if self.caller_rule_counts[callee] == 1 {
                    // Nobody else needs them.
                    self.chains[callee].stretches = Vec::new();
                }
            }
            flat.writes = flat.writes.union(part.writes);
            if !stretch.can_be_merged_with_next(&part) {
                flat.stretches.push(std::mem::take(&mut stretch));
            }
            stretch.append(part);
        }
        if !stretch.entries.is_empty() {
            flat.stretches.push(stretch);
        }
        flat
    }

    /// The entries of a chain, if they may take the place of a jump to it.
    fn find_inlined_stretch(
        &self,
        callee: usize,
        matched_boxes: &[HyperRect],
    ) -> Option<&FlattenedStretch> {
        static EMPTY_CHAIN: FlattenedStretch = FlattenedStretch {
            entries: Vec::new(),
            reads: FieldSet::NONE,
            writes: FieldSet::NONE,
            axisless_test_numbers: BTreeSet::new(),
            box_count: 0,
        };
        let stretch = match &self.chains[callee].stretches[..] {
            [] => &EMPTY_CHAIN,
            [stretch] => stretch,
            _ => return None,
        };
        let is_sole_caller = self.caller_rule_counts[callee] == 1 && matched_boxes.len() == 1;
        let is_small = stretch.box_count * matched_boxes.len() <= self.limits.boxes_per_jump_max;
        // A jump has few tests without an axis of its own: its chain must leave room for them.
        let has_few_atoms = stretch.axisless_test_numbers.len() <= AXISLESS_TESTS_MAX / 2;
        let copied = stretch.box_count.saturating_mul(matched_boxes.len());
        let is_affordable = self.inlined_box_count.saturating_add(copied) <= self.inlined_boxes_max;
        ((is_sole_caller || is_small) && has_few_atoms && is_affordable).then_some(stretch)
    }
}

impl FlattenedStretch {
    /// Whether a look-up before this stretch may also find what comes after it.
    fn can_be_merged_with_next(&self, next: &FlattenedStretch) -> bool {
        let is_told_by_written = !is_disjoint(next.reads, self.writes);
        let atom_count = self.axisless_test_numbers.union(&next.axisless_test_numbers).count();
        self.entries.is_empty() || !is_told_by_written && atom_count <= AXISLESS_TESTS_MAX
    }

    /// Adds entries whose places count from 0.
    fn append(&mut self, next: FlattenedStretch) {
        let offset = self.entries.len() as u32;
        let place = |at| if at == END_OF_CHAIN { END_OF_CHAIN } else { offset + at };
        let moved = next
            .entries
            .into_iter()
            .map(|e| EntryWithBoxes { entry: e.entry.with_renumbered_resume_entries(place), ..e });
        self.entries.extend(moved);
        self.reads = self.reads.union(next.reads);
        self.writes = self.writes.union(next.writes);
        self.axisless_test_numbers.extend(next.axisless_test_numbers);
        self.box_count += next.box_count;
    }

    fn push(&mut self, entry: LookupEntry, boxes: Vec<HyperRect>) {
        if boxes.is_empty() {
            return;
        }
        self.axisless_test_numbers
            .extend(boxes.iter().flat_map(HyperRect::axisless_tests).map(|a| a.0));
        self.box_count += boxes.len();
        self.entries.push(EntryWithBoxes { entry, boxes });
    }

    /// Adds the entries of one rule. `inlined` gives the entries of the chain to which a jump that
    /// matches some packets leads, unless that chain is called.
    fn push_rule<'s>(
        &mut self,
        rule: RulePlaceInTable,
        target: &Target,
        lowered: RuleForLookup,
        callee: Option<usize>,
        inlined: impl FnOnce(&[HyperRect]) -> Option<&'s FlattenedStretch>,
    ) {
        let RuleForLookup {
            matched_or_candidate_boxes: matched_boxes,
            truncated_header_drop_boxes,
            evaluation_reason,
            reads,
            ..
        } = lowered;
        self.reads = reads;
        let meaning_if_found =
            evaluation_reason.map_or(FoundEntryMeaning::Match, FoundEntryMeaning::Candidate);
        let entry = |meaning_if_found, then| LookupEntry { rule, meaning_if_found, then };
        let dropped = entry(
            FoundEntryMeaning::DroppedForTruncatedHeader,
            EntryContinuation::Decide(Policy::Drop),
        );
        self.push(dropped, truncated_header_drop_boxes);
        let Some(callee) = callee else {
            self.push(
                entry(meaning_if_found, continuation_of_target(target, meaning_if_found)),
                matched_boxes,
            );
            return;
        };
        let resume_at = if matches!(target, Target::Goto(_)) { END_OF_CHAIN } else { 0 };
        let inlined = if evaluation_reason.is_some() { None } else { inlined(&matched_boxes) };
        let Some(inlined) = inlined else {
            let call = EntryContinuation::Call { chain: callee as u32, resume_at };
            self.push(entry(meaning_if_found, call), matched_boxes);
            return;
        };
        self.push(entry(meaning_if_found, EntryContinuation::NextEntry), matched_boxes.clone());
        self.push_inlined(inlined, &matched_boxes);
        if resume_at == END_OF_CHAIN {
            let end =
                entry(FoundEntryMeaning::GotoChainEnded, EntryContinuation::ResumeAt(END_OF_CHAIN));
            self.push(end, matched_boxes);
        }
    }

    /// Adds the entries of a chain with the packets that a jump to it matches.
    fn push_inlined(&mut self, callee: &FlattenedStretch, jump: &[HyperRect]) {
        if jump.is_empty() {
            return;
        }
        let first = self.entries.len();
        let mut new_places = Vec::with_capacity(callee.entries.len() + 1);
        for EntryWithBoxes { entry, boxes } in &callee.entries {
            new_places.push(self.entries.len() as u32);
            let both = jump.iter().flat_map(|j| boxes.iter().filter_map(|b| j.and(b)));
            self.push(*entry, both.collect());
        }
        let end = self.entries.len() as u32;
        let place = |at: u32| new_places.get(at as usize).copied().unwrap_or(end);
        for inlined in &mut self.entries[first..] {
            inlined.entry = inlined.entry.with_renumbered_resume_entries(place);
        }
        self.reads = self.reads.union(callee.reads);
    }
}

fn is_disjoint(a: FieldSet, b: FieldSet) -> bool {
    a.without(b) == a
}

/// What follows a rule that leads to no chain. An evaluated rule has its target applied by who
/// evaluates it.
fn continuation_of_target(
    target: &Target,
    meaning_if_found: FoundEntryMeaning,
) -> EntryContinuation {
    match (target, meaning_if_found) {
        (Target::Return, _) => EntryContinuation::ResumeAt(END_OF_CHAIN),
        (_, FoundEntryMeaning::Candidate(_)) | (Target::None, _) => EntryContinuation::NextEntry,
        (Target::Accept, _) => EntryContinuation::Decide(Policy::Accept),
        (Target::Drop, _) => EntryContinuation::Decide(Policy::Drop),
        _ => EntryContinuation::ApplyTarget,
    }
}
