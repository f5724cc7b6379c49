//! One rule after the other: what every other engine is compared with.

use crate::classifier::{Classifier, RuleLists, collect_deciding_rules};
use crate::filter_set::{FilterSet, NO_RULE};
use crate::key::KeyTable;

/// The rules as a list.
#[derive(Clone, Debug)]
pub struct LinearClassifier {
    filters: FilterSet,
    /// Whether the rule of each filter decides.
    filter_decides: Vec<bool>,
    deciding_rules: Vec<u32>,
}

impl LinearClassifier {
    /// The list of a filter set.
    pub fn new(filters: &FilterSet) -> LinearClassifier {
        let filter_decides = filters.filters().map(|f| filters.is_deciding(f.rule)).collect();
        let deciding_rules = collect_deciding_rules(filters);
        LinearClassifier { filters: filters.clone(), filter_decides, deciding_rules }
    }
}

impl Classifier for LinearClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        for (key, first) in keys.keys().zip(first) {
            let mut filters = self.filters.filters().zip(&self.filter_decides);
            *first = filters
                .find(|(filter, decides)| **decides && filter.matches(key))
                .map_or(NO_RULE, |(filter, _)| filter.rule);
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleLists) {
        for key in keys.keys() {
            for filter in self.filters.filters().filter(|filter| filter.matches(key)) {
                lists.push(filter.rule);
            }
            lists.finish_row();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        let test_bytes = size_of::<crate::WordTest>() * self.filters.schema().word_count();
        self.filters.filter_count() * (test_bytes + size_of::<u32>())
    }
}
