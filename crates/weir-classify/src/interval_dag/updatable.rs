//! The engine for rules that change while they are looked up.
//!
//! **Two copies.** Readers look up in the published copy, which never changes, and the writer
//! changes another one in place ([`block_edit`](super::block_edit)). Publishing exchanges the two;
//! the writer then repeats its last changes on the copy that it got back. Readers have exactly the
//! structure that they would have without updates.
//!
//! **Retired copies.** A reader that is interrupted during a look-up keeps an old copy until it
//! runs again, which on a busy processor takes longer than many updates. The writer does not wait
//! for it: it makes another copy once, and repeats its changes on whichever of the retired copies
//! is free ([`retired_copies`](super::retired_copies)).
//!
//! **Rebuild.** What is inserted in place makes buckets longer, filters that would be in very many
//! buckets are in one that every key tests, and an insertion into bit vectors sets bits for more
//! keys than it matches. When the room for the first two is half used, or as many filters were
//! inserted into bit vectors as these have bits, a thread builds the structure from the rules, while updates go on in the old one and are repeated on the
//! new. If room ends before that, the update waits for a build.

#[cfg(test)]
mod bit_vector_update_tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::IntervalDagClassifier;
use super::block::ClassifierBlock;
use super::block_edit::{NoRoomInBlock, RankedFilter};
use super::filter_columns::{RULE_NUMBER_MAX, rank_of_rule};
use super::filter_partition::FilterPartition;
use super::retired_copies::RetiredCopies;
use super::word_hasher::BuildWordHasher;
use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{
    Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError,
};
use crate::filter_set::{FilterSet, WordTest};
use crate::key::{KeySchema, KeyTable};

/// The bucket that every key tests is rebuilt into searches above so many blocks.
const OVERFLOW_BUCKET_BLOCKS_MAX: usize = 6;

/// The rules after a number of updates. Does not change.
#[derive(Clone, Debug)]
pub struct IntervalDagSnapshot {
    update_count: u64,
    classifier: IntervalDagClassifier,
    partition: FilterPartition,
    is_deciding: HashMap<u32, bool, BuildWordHasher>,
    spare_blocks_at_build: usize,
    /// Filters that were inserted into bit vectors since.
    bit_vector_insertions: usize,
}

/// A rule, and what became of it.
#[derive(Clone, Debug)]
struct RuleInsertionOrRemoval {
    rule: u32,
    filters: Arc<RuleFilters>,
    is_insertion: bool,
}

#[derive(Debug)]
struct RuleFilters {
    is_deciding: bool,
    /// The tests of all filters, a schema's worth each.
    tests: Box<[WordTest]>,
}

type RulesByNumber = BTreeMap<u32, Arc<RuleFilters>>;

/// A build that goes on in a thread, and the updates since it began.
#[derive(Debug)]
struct RunningBuild {
    thread: JoinHandle<Result<IntervalDagSnapshot, ClassifierBuildError>>,
    edits_since_start: Vec<RuleInsertionOrRemoval>,
}

/// Gives readers the snapshot that was published last.
#[derive(Clone, Debug)]
pub struct IntervalDagReader {
    published: Arc<Mutex<Arc<IntervalDagSnapshot>>>,
}

/// The writer.
#[derive(Debug)]
pub struct UpdatableIntervalDag {
    schema: KeySchema,
    limits: BuildLimits,
    rules: RulesByNumber,
    update_count: u64,
    reader: IntervalDagReader,
    published: Arc<IntervalDagSnapshot>,
    /// The copy that is changed, with all updates; `None` if all are published.
    working_copy: Option<IntervalDagSnapshot>,
    /// Copies that were published before, of the structure of `working_copy`.
    retired_copies: RetiredCopies<IntervalDagSnapshot, RuleInsertionOrRemoval>,
    /// Whether `published` is to be such a copy; not if `working_copy` was built since.
    can_retire_published: bool,
    running_build: Option<RunningBuild>,
    /// No build begins in the background before this generation.
    background_build_min_update_count: u64,
}

impl IntervalDagReader {
    /// The snapshot that was published last.
    pub fn snapshot(&self) -> Arc<IntervalDagSnapshot> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl IntervalDagSnapshot {
    /// How many updates it contains.
    pub fn update_count(&self) -> u64 {
        self.update_count
    }

    /// Its structure, which has room for changes.
    pub fn block(&self) -> &ClassifierBlock {
        self.classifier.block()
    }

    fn build(
        filters: &FilterSet,
        limits: &BuildLimits,
        generation: u64,
    ) -> Result<IntervalDagSnapshot, ClassifierBuildError> {
        let (classifier, partition) =
            IntervalDagClassifier::build_with_spare_blocks(filters, limits)?;
        Ok(IntervalDagSnapshot {
            update_count: generation,
            spare_blocks_at_build: classifier.block.spare_bucket_blocks.len(),
            bit_vector_insertions: 0,
            classifier,
            partition,
            is_deciding: filters.rules().iter().copied().collect(),
        })
    }

    /// Applies an update. On an error, the rule may be in some of its groups only.
    fn apply_insertion_or_removal(
        &mut self,
        edit: &RuleInsertionOrRemoval,
    ) -> Result<(), NoRoomInBlock> {
        let RuleInsertionOrRemoval { rule, filters, is_insertion } = edit;
        let block = &mut self.classifier.block;
        let rank = rank_of_rule(*rule, filters.is_deciding);
        let word_count = block.word_test_methods.len();
        for tests in filters.tests.chunks_exact(word_count) {
            let filter = RankedFilter { tests, rank };
            let own = self.partition.search_of_filter(tests);
            let common = self.partition.overflow_search;
            if *is_insertion {
                let inserted = own.map(|search| block.insert_filter(search, filter));
                if inserted == Some(Ok(())) {
                    continue;
                }
                if block.insert_filter_into_bit_vectors(filter).is_ok() {
                    self.bit_vector_insertions += 1;
                } else {
                    block.insert_filter(common, filter)?;
                }
            } else {
                let was_in_own = own.is_some_and(|search| block.remove_filter(search, filter));
                if !was_in_own && !block.remove_filter(common, filter) {
                    block.remove_rank_from_bit_vectors(rank);
                }
            }
        }
        if *is_insertion {
            self.is_deciding.insert(*rule, filters.is_deciding);
        } else {
            self.is_deciding.remove(rule);
        }
        self.update_count += 1;
        Ok(())
    }

    fn needs_rebuild(&self) -> bool {
        let block = &self.classifier.block;
        let bits: usize = block.groups.bit_vectors.iter().map(|group| group.filter_count).sum();
        block.spare_bucket_blocks.len() < self.spare_blocks_at_build / 2
            || self.bit_vector_insertions > bits
            || block.root_bucket_block_count_or_zero(self.partition.overflow_search)
                > OVERFLOW_BUCKET_BLOCKS_MAX
    }
}

impl UpdatableIntervalDag {
    /// Builds the structure and publishes it as generation 0.
    ///
    /// # Errors
    /// It would be larger than allowed.
    pub fn build(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<UpdatableIntervalDag, ClassifierBuildError> {
        let published = Arc::new(IntervalDagSnapshot::build(filters, limits, 0)?);
        let mut tests_of_rule: BTreeMap<u32, Vec<WordTest>> = BTreeMap::new();
        for filter in filters.filters() {
            tests_of_rule.entry(filter.rule).or_default().extend_from_slice(filter.tests);
        }
        let is_deciding = &published.is_deciding;
        let rules = tests_of_rule.into_iter().map(|(rule, tests)| {
            (rule, Arc::new(RuleFilters { is_deciding: is_deciding[&rule], tests: tests.into() }))
        });
        Ok(UpdatableIntervalDag {
            schema: filters.schema().clone(),
            limits: *limits,
            rules: rules.collect(),
            update_count: 0,
            reader: IntervalDagReader { published: Arc::new(Mutex::new(published.clone())) },
            published,
            working_copy: None,
            retired_copies: RetiredCopies::default(),
            can_retire_published: true,
            running_build: None,
            background_build_min_update_count: 0,
        })
    }

    /// What readers ask for snapshots; can be cloned and sent to threads.
    pub fn reader(&self) -> IntervalDagReader {
        self.reader.clone()
    }

    /// Lets readers see all updates so far.
    pub fn publish(&mut self) {
        let Some(working_copy) = self.working_copy.take() else { return };
        let before = std::mem::replace(&mut self.published, Arc::new(working_copy));
        {
            let mut slot = self.reader.published.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = self.published.clone();
        }
        if std::mem::replace(&mut self.can_retire_published, true) {
            self.retired_copies.retire(before);
        }
    }

    fn newest_snapshot(&self) -> &IntervalDagSnapshot {
        self.working_copy.as_ref().unwrap_or(&self.published)
    }

    fn apply_insertion_or_removal(
        &mut self,
        edit: RuleInsertionOrRemoval,
    ) -> Result<(), ClassifierBuildError> {
        self.update_count += 1;
        self.adopt_finished_build();
        if self.take_working_copy().apply_insertion_or_removal(&edit).is_err() {
            return self.rebuild_now();
        }
        if let Some(running_build) = &mut self.running_build {
            running_build.edits_since_start.push(edit.clone());
        }
        if self.can_retire_published {
            self.retired_copies.push_edit(edit);
        }
        let may_build = self.running_build.is_none()
            && self.update_count >= self.background_build_min_update_count;
        if may_build && self.newest_snapshot().needs_rebuild() {
            let (schema, rules) = (self.schema.clone(), self.rules.clone());
            let (limits, generation) = (self.limits, self.update_count);
            let build = move || {
                IntervalDagSnapshot::build(
                    &build_filter_set_of_rules(&schema, &rules),
                    &limits,
                    generation,
                )
            };
            self.running_build =
                Some(RunningBuild { thread: std::thread::spawn(build), edits_since_start: vec![] });
        }
        Ok(())
    }

    /// The copy that is changed, with all updates.
    fn take_working_copy(&mut self) -> &mut IntervalDagSnapshot {
        let (published, retired_copies) = (&self.published, &mut self.retired_copies);
        self.working_copy.get_or_insert_with(|| {
            retired_copies
                .take_free_copy(|copy, edit| copy.apply_insertion_or_removal(edit).is_ok())
                .unwrap_or_else(|| IntervalDagSnapshot::clone(published))
        })
    }

    fn adopt_finished_build(&mut self) {
        let Some(running_build) =
            self.running_build.take_if(|running_build| running_build.thread.is_finished())
        else {
            return;
        };
        let built = running_build.thread.join().expect("construction panicked");
        let with_edits = built.ok().and_then(|mut built| {
            running_build
                .edits_since_start
                .iter()
                .try_for_each(|edit| built.apply_insertion_or_removal(edit))
                .ok()?;
            Some(built)
        });
        match with_edits {
            Some(built) => self.replace_working(built),
            None => {
                self.background_build_min_update_count =
                    self.update_count + 1 + self.rules.len() as u64 / 4
            }
        }
    }

    fn replace_working(&mut self, snapshot: IntervalDagSnapshot) {
        self.working_copy = Some(snapshot);
        self.retired_copies = RetiredCopies::default();
        self.can_retire_published = false;
    }

    /// Builds the structure from the rules.
    fn rebuild_now(&mut self) -> Result<(), ClassifierBuildError> {
        self.running_build = None;
        let filters = build_filter_set_of_rules(&self.schema, &self.rules);
        self.replace_working(IntervalDagSnapshot::build(
            &filters,
            &self.limits,
            self.update_count,
        )?);
        Ok(())
    }

    /// Takes back an insertion for which there is no room.
    fn undo_insertion(&mut self, removal: RuleInsertionOrRemoval) {
        self.update_count -= 1;
        if let Some(working_copy) = &mut self.working_copy {
            working_copy.apply_insertion_or_removal(&removal).expect("removals need no room");
            working_copy.update_count = self.update_count;
        }
        // Their edits contain the insertion.
        self.retired_copies = RetiredCopies::default();
        self.can_retire_published = false;
    }

    /// The tests of a rule as a filter set has them.
    fn normalise_tests(&self, update: &SingleFilterRule<'_>) -> Box<[WordTest]> {
        let mut filters = FilterSet::new(self.schema.clone());
        filters.push_rule(update.rule, update.is_deciding, update.tests_by_word);
        filters.filter(0).tests.into()
    }
}

fn build_filter_set_of_rules(schema: &KeySchema, rules: &RulesByNumber) -> FilterSet {
    let mut filters = FilterSet::new(schema.clone());
    for (number, rule) in rules {
        let mut of_rule = rule.tests.chunks_exact(schema.word_count());
        let first = of_rule.next().expect("a rule has a filter");
        filters.push_rule(*number, rule.is_deciding, first);
        of_rule.for_each(|tests| filters.push_filter_of_last_rule(tests));
    }
    filters
}

impl UpdatableClassifier for UpdatableIntervalDag {
    fn insert(&mut self, update: SingleFilterRule<'_>) -> Result<(), UpdateError> {
        let rule = update.rule;
        let refuse = |limit| UpdateError::LimitReached { rule, limit };
        if self.rules.contains_key(&rule) {
            return Err(UpdateError::DuplicateRule(rule));
        }
        if rule > RULE_NUMBER_MAX {
            return Err(refuse(format!("its number is above {RULE_NUMBER_MAX}")));
        }
        let tests = self.normalise_tests(&update);
        let filters = Arc::new(RuleFilters { is_deciding: update.is_deciding, tests });
        self.rules.insert(rule, filters.clone());
        self.apply_insertion_or_removal(RuleInsertionOrRemoval {
            rule,
            filters: filters.clone(),
            is_insertion: true,
        })
        .map_err(|error| {
            self.rules.remove(&rule);
            self.undo_insertion(RuleInsertionOrRemoval { rule, filters, is_insertion: false });
            refuse(error.to_string())
        })
    }

    fn remove(&mut self, rule: u32) -> Result<(), UpdateError> {
        let filters = self.rules.remove(&rule).ok_or(UpdateError::MissingRule(rule))?;
        self.apply_insertion_or_removal(RuleInsertionOrRemoval {
            rule,
            filters,
            is_insertion: false,
        })
        .map_err(|error| UpdateError::LimitReached { rule, limit: error.to_string() })
    }
}

/// Look-ups in the newest state, whether published or not.
impl Classifier for UpdatableIntervalDag {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.newest_snapshot().find_first_deciding(keys, first);
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        self.newest_snapshot().collect_matching(keys, lists);
    }

    fn increment_counters_of_all_matching_rules(&self, keys: &KeyTable, counters: &mut [u64]) {
        self.newest_snapshot().increment_counters_of_all_matching_rules(keys, counters);
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.newest_snapshot().is_deciding(rule)
    }

    fn memory_bytes(&self) -> usize {
        self.newest_snapshot().memory_bytes()
    }
}

impl Classifier for IntervalDagSnapshot {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.classifier.find_first_deciding(keys, first);
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        self.classifier.collect_matching(keys, lists);
    }

    fn increment_counters_of_all_matching_rules(&self, keys: &KeyTable, counters: &mut [u64]) {
        self.classifier.increment_counters_of_all_matching_rules(keys, counters);
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.is_deciding.get(&rule) == Some(&true)
    }

    fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes()
    }
}
