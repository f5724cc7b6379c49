//! One rule after the other: what every other engine is compared with.
//!
//! The filters are rows of one array, read in order, each left at its first test that fails.
//! A look-up costs time proportional to the number of filters before the first match; this is what
//! iptables does, without its function calls per match.

use crate::classifier::{Classifier, RuleListsByKey, collect_deciding_rules};
use crate::engines::filter_test_rows::FilterTestRows;
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

/// The rules as a list.
#[derive(Clone, Debug)]
pub struct LinearClassifier {
    filters: FilterTestRows,
    deciding_rules: Vec<u32>,
}

impl LinearClassifier {
    /// The list of a filter set.
    pub fn new(filters: &FilterSet) -> LinearClassifier {
        let deciding_rules = collect_deciding_rules(filters);
        LinearClassifier { filters: FilterTestRows::new(filters), deciding_rules }
    }
}

impl Classifier for LinearClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (key, first) in keys.keys().zip(first) {
            let mut matching = self.filters.find_matching(key);
            *first = matching
                .find(|filter| self.filters.decides(*filter))
                .map_or(NO_RULE, |filter| self.filters.rule(filter));
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            self.filters.push_matching_rules(key, lists);
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        self.filters.memory_bytes()
    }
}
