//! What every engine answers.

use thiserror::Error;

use crate::filter_set::{FilterSet, WordTest};
use crate::key::KeyTable;

/// A list of rule numbers for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleListsByKey {
    rules: Vec<u32>,
    ends: Vec<usize>,
}

impl RuleListsByKey {
    /// Adds a rule to the list of the current key.
    pub fn push(&mut self, rule: u32) {
        self.rules.push(rule);
    }

    /// Sorts the list of the current key, removes duplicates, and begins the list of the next key.
    pub fn sort_dedup_and_finish_list_of_key(&mut self) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.rules[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.rules.len() {
            if kept == start || self.rules[kept - 1] != self.rules[at] {
                self.rules[kept] = self.rules[at];
                kept += 1;
            }
        }
        self.rules.truncate(kept);
        self.ends.push(kept);
    }

    /// How many lists are finished.
    pub fn row_count(&self) -> usize {
        self.ends.len()
    }

    /// The list of a key: rule numbers in ascending order.
    ///
    /// # Panics
    /// If there is none of that index.
    pub fn row(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rules[start..self.ends[index]]
    }

    /// Total length of the finished lists.
    pub fn total_length(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Removes all lists and keeps the memory.
    pub fn clear(&mut self) {
        self.rules.clear();
        self.ends.clear();
    }
}

/// A structure that finds the rules that match a key.
pub trait Classifier: Send + Sync {
    /// For each key, the first rule that matches and decides; [`NO_RULE`](crate::NO_RULE) if there
    /// is none.
    ///
    /// # Panics
    /// If `first` has not as many places as there are keys, or the keys are of another schema.
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]);

    /// For each key, all rules that match, whether they decide or not; appended to `lists`.
    ///
    /// # Panics
    /// If the keys are of another schema.
    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey);

    /// Whether a rule decides. Rules that do not exist do not.
    fn is_deciding(&self, rule: u32) -> bool;

    /// Bytes that a look-up may read: the structure, without what only its construction or its
    /// updates need.
    fn memory_bytes(&self) -> usize;

    /// How many cache lines of the structure look-ups of the first deciding rule read, for all keys
    /// together; a line that is read twice for a key counts twice. `None` if the engine does not
    /// count them.
    ///
    /// # Panics
    /// If the keys are of another schema.
    fn count_first_match_cache_lines(&self, _keys: &KeyTable) -> Option<usize> {
        None
    }

    /// For each key, the rules that count it: all that match up to the first that decides, that
    /// one included.
    fn collect_rules_up_to_deciding(&self, keys: &KeyTable) -> RuleListsByKey {
        let mut matching = RuleListsByKey::default();
        self.collect_matching(keys, &mut matching);
        let mut credited = RuleListsByKey::default();
        for row in 0..matching.row_count() {
            for &rule in matching.row(row) {
                credited.push(rule);
                if self.is_deciding(rule) {
                    break;
                }
            }
            credited.sort_dedup_and_finish_list_of_key();
        }
        credited
    }

    /// Adds 1 to `counters[rule]` for each key and each rule that matches it, whether it decides
    /// or not: look-ups as a counter per rule needs them.
    ///
    /// # Panics
    /// If `counters` has no place for a rule that matches.
    fn increment_counters_of_all_matching_rules(&self, keys: &KeyTable, counters: &mut [u64]) {
        let mut lists = RuleListsByKey::default();
        self.collect_matching(keys, &mut lists);
        for &rule in &lists.rules {
            counters[rule as usize] += 1;
        }
    }
}

/// A rule to insert: one filter.
#[derive(Clone, Copy, Debug)]
pub struct SingleFilterRule<'a> {
    /// Its number, which no rule has yet.
    pub rule: u32,
    /// Whether it decides.
    pub is_deciding: bool,
    /// A test for each word, as in [`FilterSet`].
    pub tests_by_word: &'a [WordTest],
}

/// Why an update did not change anything.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// A rule of that number exists.
    #[error("insert rule {0}: a rule of that number exists")]
    DuplicateRule(u32),
    /// No rule of that number exists.
    #[error("remove rule {0}: no rule has that number")]
    MissingRule(u32),
    /// The structure has no room left; it must be rebuilt.
    #[error("insert rule {rule}: {limit}")]
    LimitReached {
        /// The rule.
        rule: u32,
        /// Which limit.
        limit: String,
    },
}

/// A classifier that changes rule by rule.
pub trait UpdatableClassifier: Classifier {
    /// Adds a rule.
    ///
    /// # Errors
    /// A rule of that number exists, or there is no room.
    fn insert(&mut self, update: SingleFilterRule<'_>) -> Result<(), UpdateError>;

    /// Removes a rule with all its filters.
    ///
    /// # Errors
    /// No rule has that number.
    fn remove(&mut self, rule: u32) -> Result<(), UpdateError>;
}

/// Whether rules decide, by number: what engines keep to implement [`Classifier::is_deciding`].
pub(crate) fn collect_deciding_rules(filters: &FilterSet) -> Vec<u32> {
    filters.rules().iter().filter(|rule| rule.1).map(|rule| rule.0).collect()
}
