//! Hash tables over masks, probed in the order of the best rule of each: tuple space search and
//! TupleMerge. They differ only in the table that a filter is placed in ([`TablePlacement`]).

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{
    Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier, UpdateError,
};
use crate::engines::build_budget::BuildBudget;
use crate::engines::filter_test_rows::{FilterTestRows, filters_with_is_deciding};
use crate::engines::masked_table::MaskedTable;
use crate::filter_set::{FilterSet, NO_RULE, WordTest};
use crate::key::{KeySchema, KeyTable, KeyWord};

/// Chooses the table of each filter.
pub trait TablePlacement {
    /// Name of the engine.
    const ENGINE_NAME: &'static str;

    /// The table for a filter; `mask` is the longest that the filter can be hashed by. Tables may
    /// be added, and other filters moved.
    fn choose_table(space: &mut TupleSpace, filter: u32, mask: &[u32]) -> u32;
}

/// A classifier of hash tables.
#[derive(Clone, Debug)]
pub struct TupleSpaceClassifier<P> {
    space: TupleSpace,
    placement: PhantomData<P>,
}

impl<P: TablePlacement> TupleSpaceClassifier<P> {
    /// The tables of a filter set, built by inserting its rules.
    ///
    /// # Errors
    /// They exceed a limit.
    pub fn new(filters: &FilterSet, limits: &BuildLimits) -> Result<Self, ClassifierBuildError> {
        let mut budget = BuildBudget::new(P::ENGINE_NAME, limits);
        let word_count = filters.schema().word_count();
        budget.check_bytes(estimate_tuple_space_bytes(filters.filter_count(), word_count))?;
        let mut space = TupleSpace::new(filters.schema());
        // From the last: each filter is then the first of its chain.
        for (filter, is_deciding) in filters_with_is_deciding(filters).rev() {
            budget.take_steps(1 + space.tables.len() / 16)?;
            let update =
                SingleFilterRule { rule: filter.rule, is_deciding, tests_by_word: filter.tests };
            space.place_without_ordering_probes::<P>(update);
        }
        space.order_probes();
        Ok(TupleSpaceClassifier { space, placement: PhantomData })
    }

    /// How many tables a look-up probes at most.
    pub fn nonempty_table_count(&self) -> usize {
        self.space.tables.iter().filter(|table| !table.is_empty()).count()
    }
}

impl<P: TablePlacement + Send + Sync> Classifier for TupleSpaceClassifier<P> {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.space.find_first_deciding(keys, first);
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        self.space.collect_matching(keys, lists);
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.space.filters_of_rule.get(&rule).is_some_and(|of| of.0)
    }

    fn memory_bytes(&self) -> usize {
        let tables: usize = self.space.tables.iter().map(MaskedTable::memory_bytes).sum();
        self.space.filters.memory_bytes() + tables
    }
}

impl<P: TablePlacement + Send + Sync> UpdatableClassifier for TupleSpaceClassifier<P> {
    fn insert(&mut self, update: SingleFilterRule<'_>) -> Result<(), UpdateError> {
        assert_eq!(
            update.tests_by_word.len(),
            self.space.schema.word_count(),
            "a test for each word"
        );
        if self.space.filters_of_rule.contains_key(&update.rule) {
            return Err(UpdateError::DuplicateRule(update.rule));
        }
        self.space.place_without_ordering_probes::<P>(update);
        self.space.order_probes();
        Ok(())
    }

    fn remove(&mut self, rule: u32) -> Result<(), UpdateError> {
        self.space.remove(rule)?;
        self.space.order_probes();
        Ok(())
    }
}

/// Tables, and the filters in them.
#[derive(Clone, Debug)]
pub struct TupleSpace {
    pub(super) filters: FilterTestRows,
    /// The longest mask that a filter can be hashed by, words of keys after each other.
    longest_hash_masks: Vec<u32>,
    schema: KeySchema,
    table_of_filter: Vec<u32>,
    pub(super) tables: Vec<MaskedTable>,
    /// Tables that have filters, by the smallest rule in each.
    probe_order: Vec<u32>,
    filters_of_rule: BTreeMap<u32, (bool, Vec<u32>)>,
    unused_filters: Vec<u32>,
}

impl TupleSpace {
    fn new(schema: &KeySchema) -> TupleSpace {
        TupleSpace {
            filters: FilterTestRows::empty_with_row_width(schema.word_count()),
            longest_hash_masks: vec![],
            schema: schema.clone(),
            table_of_filter: vec![],
            tables: vec![],
            probe_order: vec![],
            filters_of_rule: BTreeMap::new(),
            unused_filters: vec![],
        }
    }

    /// Places a filter without putting its table into the order of probes.
    fn place_without_ordering_probes<P: TablePlacement>(&mut self, update: SingleFilterRule<'_>) {
        let SingleFilterRule { rule, is_deciding, tests_by_word: tests } = update;
        let words = self.schema.words().iter();
        let mask: Vec<u32> =
            words.zip(tests).map(|(word, test)| longest_hash_mask(word, *test)).collect();
        let filter = match self.unused_filters.pop() {
            Some(filter) => {
                self.filters.replace(filter, rule, is_deciding, tests);
                self.longest_hash_masks[filter as usize * self.schema.word_count()..]
                    [..self.schema.word_count()]
                    .copy_from_slice(&mask);
                filter
            }
            None => {
                self.longest_hash_masks.extend_from_slice(&mask);
                self.table_of_filter.push(0);
                self.filters.push(rule, is_deciding, tests)
            }
        };
        self.filters_of_rule.entry(rule).or_insert((is_deciding, vec![])).1.push(filter);
        let table = P::choose_table(self, filter, &mask);
        self.enter_into_table(filter, table);
    }

    /// Enters a filter into a table.
    pub(super) fn enter_into_table(&mut self, filter: u32, table: u32) {
        self.tables[table as usize].insert(&self.filters, filter);
        self.table_of_filter[filter as usize] = table;
    }

    /// Removes the filters of a rule without changing the order of probes.
    fn remove(&mut self, rule: u32) -> Result<(), UpdateError> {
        let (_, filters) =
            self.filters_of_rule.remove(&rule).ok_or(UpdateError::MissingRule(rule))?;
        for filter in filters {
            let table = self.table_of_filter[filter as usize];
            self.tables[table as usize].remove(&self.filters, filter);
            self.unused_filters.push(filter);
        }
        Ok(())
    }

    /// Sorts the tables by their best rules; a few hundred at most, nearly sorted before.
    fn order_probes(&mut self) {
        let used = |table: &u32| !self.tables[*table as usize].is_empty();
        self.probe_order.retain(used);
        let mut is_listed = vec![false; self.tables.len()];
        for table in &self.probe_order {
            is_listed[*table as usize] = true;
        }
        let others = (0..self.tables.len() as u32).filter(|table| !is_listed[*table as usize]);
        self.probe_order.extend(others.filter(used));
        self.probe_order.sort_by_key(|table| self.tables[*table as usize].smallest_rule());
    }

    /// The words of keys.
    pub(super) fn words(&self) -> &[KeyWord] {
        self.schema.words()
    }

    /// The longest mask that a filter can be hashed by.
    pub(super) fn mask(&self, filter: u32) -> &[u32] {
        &self.longest_hash_masks[filter as usize * self.schema.word_count()..]
            [..self.schema.word_count()]
    }

    /// The table of exactly that mask, which is created if there is none.
    pub(super) fn find_or_add_table(&mut self, mask: &[u32]) -> u32 {
        let known = self.tables.iter().position(|table| table.has_mask(mask));
        known.unwrap_or_else(|| {
            self.tables.push(MaskedTable::new(mask));
            self.tables.len() - 1
        }) as u32
    }

    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        let tables: Vec<&MaskedTable> =
            self.probe_order.iter().map(|table| &self.tables[*table as usize]).collect();
        for (key, first) in keys.keys().zip(first) {
            *first = NO_RULE;
            for table in &tables {
                if table.smallest_rule() >= *first {
                    break;
                }
                let better = table.find_candidates(key).take_while(|(rule, _)| rule < first);
                let mut better = better.filter(|(_, filter)| {
                    self.filters.matches(*filter, key) && self.filters.decides(*filter)
                });
                if let Some((rule, _)) = better.next() {
                    *first = rule;
                }
            }
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            for table in &self.probe_order {
                for (rule, filter) in self.tables[*table as usize].find_candidates(key) {
                    if self.filters.matches(filter, key) {
                        lists.push(rule);
                    }
                }
            }
            lists.sort_dedup_and_finish_list_of_key();
        }
    }
}

/// What look-ups read of so many filters at most: hash tables are at least half full.
fn estimate_tuple_space_bytes(filter_count: usize, word_count: usize) -> usize {
    FilterTestRows::estimate_bytes(filter_count, word_count) + filter_count * 24
}

/// The bits that all values of a test have in common: of a prefix its own, of another range those
/// of the smallest prefix around it.
fn longest_hash_mask(word: &KeyWord, test: WordTest) -> u32 {
    match test {
        WordTest::Within { lo, hi } => {
            let varying_bits = u32::MAX.checked_shr((lo ^ hi).leading_zeros()).unwrap_or(0);
            word.max_value() & !varying_bits
        }
        WordTest::Masked { mask, .. } => mask,
    }
}
