//! A set of addresses: what `ipset` offers to rules that differ in one field alone.
//!
//! A block list of a thousand `-s ADDRESS -j DROP` is one rule with a set. `hash:ip` finds an
//! address by one probe; `hash:net` probes once for each prefix length that occurs, with the
//! address cut to that length. The cost does not depend on the number of entries.
//!
//! *Where it applies.* All filters test the same word, by prefixes, and no other; and all rules
//! decide, or none does, since the rule with the set has one target. Everything else is refused
//! with the first rule that does not fit. Prefixes may contain each other: an entry keeps its
//! rules, so that look-ups report the same rules as the list, which the kernel's set cannot.
//!
//! # Source
//! ipset(8); net/netfilter/ipset/ip_set_hash_gen.h: `mtype_test_cidrs` is the loop over prefix
//! lengths.

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleListsByKey, collect_deciding_rules};
use crate::engines::build_budget::BuildBudget;
use crate::engines::filter_test_rows::{FilterTestRows, filters_with_is_deciding};
use crate::engines::masked_table::MaskedTable;
use crate::filter_set::{Filter, FilterSet, NO_RULE, WordTest};
use crate::key::KeyTable;

const ENGINE_NAME: &str = "ipset";

/// A hash table for each prefix length of one word.
#[derive(Clone, Debug)]
pub struct OneWordIpsetClassifier {
    filters: FilterTestRows,
    table_per_prefix_length: Vec<MaskedTable>,
    deciding_rules: Vec<u32>,
}

impl OneWordIpsetClassifier {
    /// The set of a filter set.
    ///
    /// # Errors
    /// A rule tests more than the word of the others, or not by a prefix, or decides where others
    /// do not; or the set exceeds a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<OneWordIpsetClassifier, ClassifierBuildError> {
        let words = filters.schema().word_count();
        let budget = BuildBudget::new(ENGINE_NAME, limits);
        budget.check_bytes(
            filters.filter_count() * (24 + FilterTestRows::estimate_bytes(1, words)),
        )?;
        let masks = masks_if_filters_form_one_set(filters)?;
        let flat = FilterTestRows::new(filters);
        let mut tables: Vec<MaskedTable> = vec![];
        // From the last: each filter is then the first of its chain.
        for (filter, mask) in masks.iter().enumerate().rev() {
            let known = tables.iter().position(|table| table.has_mask(mask));
            let table = known.unwrap_or_else(|| {
                tables.push(MaskedTable::new(mask));
                tables.len() - 1
            });
            tables[table].insert(&flat, filter as u32);
        }
        let deciding_rules = collect_deciding_rules(filters);
        Ok(OneWordIpsetClassifier {
            filters: flat,
            table_per_prefix_length: tables,
            deciding_rules,
        })
    }

    fn find_matching_rules<'a>(&'a self, key: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let candidates =
            self.table_per_prefix_length.iter().flat_map(|table| table.find_candidates(key));
        let matching = candidates.filter(|(_, filter)| self.filters.matches(*filter, key));
        matching.map(|(rule, _)| rule)
    }
}

/// The mask of each filter over all words, if the filters make a set.
fn masks_if_filters_form_one_set(
    filters: &FilterSet,
) -> Result<Vec<Vec<u32>>, ClassifierBuildError> {
    let refuse = |filter: &Filter<'_>, reason: String| ClassifierBuildError::UnsupportedRule {
        engine: ENGINE_NAME,
        rule: filter.rule,
        reason,
    };
    let set_decides = filters.rules().first().is_some_and(|rule| rule.1);
    let mut word_of_set = None;
    let mut masks = Vec::with_capacity(filters.filter_count());
    for (filter, decides) in filters_with_is_deciding(filters) {
        if decides != set_decides {
            return Err(refuse(&filter, "some rules of the set decide and some do not".into()));
        }
        let mut entry_mask = vec![0; filter.tests.len()];
        for (word, test) in filter.tests.iter().enumerate() {
            let of = &filters.schema().words()[word];
            let mask = find_prefix_mask(of.max_value(), *test)
                .ok_or_else(|| refuse(&filter, format!("it tests {} not by a prefix", of.name)))?;
            if mask != 0 {
                let first = *word_of_set.get_or_insert(word);
                if first != word {
                    let first = &filters.schema().words()[first].name;
                    let reason = format!(
                        "a set holds one field: the rule tests {}, others {first}",
                        of.name
                    );
                    return Err(refuse(&filter, reason));
                }
            }
            entry_mask[word] = mask;
        }
        masks.push(entry_mask);
    }
    Ok(masks)
}

/// The bits of a prefix, an exact value included; none for a test that every value passes.
fn find_prefix_mask(max_value: u32, test: WordTest) -> Option<u32> {
    match test {
        WordTest::Within { lo, hi } => {
            let varying = lo ^ hi;
            let is_prefix = varying & varying.wrapping_add(1) == 0 && lo & varying == 0;
            is_prefix.then_some(max_value & !varying)
        }
        WordTest::Masked { mask: 0, .. } => Some(0),
        WordTest::Masked { .. } => None,
    }
}

impl Classifier for OneWordIpsetClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(first.len(), keys.key_count(), "a place for each key");
        let set_decides = !self.deciding_rules.is_empty();
        for (key, first) in keys.keys().zip(first) {
            let matching = self.find_matching_rules(key).filter(|_| set_decides);
            *first = matching.min().unwrap_or(NO_RULE);
        }
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        for key in keys.keys() {
            self.find_matching_rules(key).for_each(|rule| lists.push(rule));
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.deciding_rules.binary_search(&rule).is_ok()
    }

    fn memory_bytes(&self) -> usize {
        let tables: usize =
            self.table_per_prefix_length.iter().map(MaskedTable::memory_bytes).sum();
        self.filters.memory_bytes() + tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeySchema, KeyWord};

    #[test]
    fn a_rule_that_is_not_a_set_entry_is_named() {
        let words = vec![KeyWord::interval("saddr", 32), KeyWord::interval("dport", 16)];
        let mut filters = FilterSet::new(KeySchema::new(words));
        filters.push_rule(1, true, &[WordTest::prefix(0x0a00_0000, 8), WordTest::ANY]);
        filters.push_rule(2, true, &[WordTest::exactly(0x0a00_0001), WordTest::ANY]);
        let limits = BuildLimits::default();
        let set = OneWordIpsetClassifier::new(&filters, &limits).unwrap();
        let mut keys = KeyTable::new(filters.schema());
        keys.push(&[0x0a00_0001, 80]);
        assert_eq!(set.collect_rules_up_to_deciding(&keys).row(0), [1]);
        let refusal = |rule, is_deciding, tests: [WordTest; 2]| {
            let mut filters = filters.clone();
            filters.push_rule(rule, is_deciding, &tests);
            OneWordIpsetClassifier::new(&filters, &limits).map(|_| ()).unwrap_err().to_string()
        };
        let any = WordTest::ANY;
        let error = refusal(3, true, [any, WordTest::exactly(80)]);
        assert_eq!(
            error,
            "ipset cannot represent rule 3 (counted from 0): a set holds one field: \
             the rule tests dport, others saddr"
        );
        let error = refusal(4, true, [WordTest::Within { lo: 1, hi: 2 }, any]);
        assert_eq!(
            error,
            "ipset cannot represent rule 4 (counted from 0): it tests saddr not by a prefix"
        );
        assert!(refusal(5, false, [any, any]).contains("rule 5"));
    }
}
