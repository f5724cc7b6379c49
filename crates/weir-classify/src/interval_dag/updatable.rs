//! The engine for rules that change while they are looked up.
//!
//! **Two copies.** Readers look up in the published copy, which never changes, and the writer
//! changes another one in place ([`block_edit`](super::block_edit)). Publishing exchanges the two;
//! the writer then repeats its last changes on the copy that it got back. Readers have exactly the
//! structure that they would have without updates. A reader that keeps a snapshot costs the writer
//! a copy, and nothing else.
//!
//! **Rebuild.** What is inserted in place makes buckets longer, and filters that would be in very
//! many buckets are in one that every key tests. When the room for either is half used, a thread
//! builds the structure from the rules, while updates go on in the old one and are repeated on the
//! new. If room ends before that, the update waits for a build.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::IntervalDagClassifier;
use super::block_edit::{NoRoomInBlock, RankedFilter};
use super::filter_columns::{RULE_NUMBER_MAX, rank_of_rule};
use super::filter_partition::FilterPartition;
use super::word_hasher::BuildWordHasher;
use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{
    Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError,
};
use crate::filter_set::{FilterSet, WordTest};
use crate::key::{KeySchema, KeyTable};

/// The bucket that every key tests is rebuilt into searches above so many blocks.
const OVERFLOW_BUCKET_BLOCKS_MAX: usize = 6;

/// How often the writer gives way to readers that still look up in the copy that it needs.
const READER_WAIT_YIELDS_MAX: usize = 5_000;

/// The rules after a number of updates. Does not change.
#[derive(Clone, Debug)]
pub struct IntervalDagSnapshot {
    update_count: u64,
    classifier: IntervalDagClassifier,
    partition: FilterPartition,
    is_deciding: HashMap<u32, bool, BuildWordHasher>,
    spare_blocks_at_build: usize,
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
    /// The copy that is changed.
    working_copy: Arc<IntervalDagSnapshot>,
    /// What `working_copy` lacks of `published`, while nothing has changed since; `None` if it must
    /// be copied.
    edits_missing_in_working: Option<Vec<RuleInsertionOrRemoval>>,
    /// What `published` lacks of `working_copy`; `None` if it must be copied.
    unpublished_edits: Option<Vec<RuleInsertionOrRemoval>>,
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
                if inserted != Some(Ok(())) {
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
        block.spare_bucket_blocks.len() < self.spare_blocks_at_build / 2
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
            working_copy: published.clone(),
            published,
            edits_missing_in_working: None,
            unpublished_edits: Some(vec![]),
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
        if self.has_published_all_edits() {
            return;
        }
        let before = std::mem::replace(&mut self.published, self.working_copy.clone());
        self.working_copy = before;
        self.edits_missing_in_working = self.unpublished_edits.replace(vec![]);
        let mut slot = self.reader.published.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = self.published.clone();
    }

    fn has_published_all_edits(&self) -> bool {
        self.unpublished_edits.as_ref().is_some_and(Vec::is_empty)
    }

    fn newest_snapshot(&self) -> &IntervalDagSnapshot {
        if self.has_published_all_edits() { &self.published } else { &self.working_copy }
    }

    fn apply_insertion_or_removal(
        &mut self,
        edit: RuleInsertionOrRemoval,
    ) -> Result<(), ClassifierBuildError> {
        self.update_count += 1;
        self.adopt_finished_build();
        if self
            .bring_working_copy_up_to_date()
            .is_none_or(|working_copy| working_copy.apply_insertion_or_removal(&edit).is_err())
        {
            return self.rebuild_now();
        }
        if let Some(running_build) = &mut self.running_build {
            running_build.edits_since_start.push(edit.clone());
        }
        if let Some(unpublished_edits) = &mut self.unpublished_edits {
            unpublished_edits.push(edit);
        }
        let may_build = self.running_build.is_none()
            && self.update_count >= self.background_build_min_update_count;
        if may_build && self.working_copy.needs_rebuild() {
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

    /// The copy that is changed, with all updates; `None` if they do not fit.
    fn bring_working_copy_up_to_date(&mut self) -> Option<&mut IntervalDagSnapshot> {
        if self.has_published_all_edits() {
            // A reader that does not give back the old copy keeps it; the writer takes another.
            let edits_missing_in_working = self
                .edits_missing_in_working
                .take()
                .filter(|_| wait_for_readers(&mut self.working_copy));
            match edits_missing_in_working {
                Some(edits) => {
                    let working_copy = Arc::get_mut(&mut self.working_copy)?;
                    edits
                        .iter()
                        .try_for_each(|edit| working_copy.apply_insertion_or_removal(edit))
                        .ok()?;
                }
                None => self.working_copy = Arc::new(IntervalDagSnapshot::clone(&self.published)),
            }
            self.edits_missing_in_working = Some(vec![]);
        }
        Arc::get_mut(&mut self.working_copy)
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
        self.working_copy = Arc::new(snapshot);
        (self.edits_missing_in_working, self.unpublished_edits) = (Some(vec![]), None);
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
        if let Some(working_copy) = Arc::get_mut(&mut self.working_copy) {
            working_copy.apply_insertion_or_removal(&removal).expect("removals need no room");
            working_copy.update_count = self.update_count;
        }
        self.unpublished_edits = None;
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

/// Waits until readers have given back a copy, about as long as it would take to make another.
/// Whether they did.
fn wait_for_readers(copy: &mut Arc<IntervalDagSnapshot>) -> bool {
    (0..READER_WAIT_YIELDS_MAX).any(|_| {
        let is_free = Arc::get_mut(copy).is_some();
        if !is_free {
            std::thread::yield_now();
        }
        is_free
    })
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
