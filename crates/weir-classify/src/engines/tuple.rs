//! Tuple space search: a hash table for each combination of prefix lengths.
//!
//! The rules of a filter set have few distinct combinations of masks: source /24 and destination
//! /16 is one. Such a combination is a tuple. All filters of a tuple are in one hash table, under
//! their masked words, so one probe per tuple finds all its filters that match. Ports and protocol
//! are compared after the probe, since each of their lengths would multiply the number of probes. A
//! range of addresses that is no prefix is hashed by the smallest prefix around it, a test of bits
//! under its own mask.
//!
//! *Improvement.* Tables are probed in the order of the best rule of each. The search for the first
//! match ends at a table whose best rule comes after a match that is already found (priority
//! sorting, as in Open vSwitch). It does not help for all matches: these take a probe per tuple.
//!
//! *Cost.* Memory is linear. An update is one insertion or removal in a hash table. Time is
//! proportional to the number of tuples, which depends on how the rules are written: 20 to 300 for
//! ClassBench, but an adversary needs one rule per tuple. Filters that differ only in ranges share
//! a chain, which is searched in order.
//!
//! # Source
//! V. Srinivasan, S. Suri, G. Varghese: Packet Classification using Tuple Space Search, SIGCOMM
//! 1999. B. Pfaff et al.: The Design and Implementation of Open vSwitch, NSDI 2015 (section 3.2 and
//! priority sorting in 5.2).

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, RuleLists, RuleUpdate, UpdatableClassifier, UpdateError};
use crate::engines::budget::BuildBudget;
use crate::engines::flat_filters::zip_with_decisions;
use crate::engines::tuple_space::{TupleSpace, estimate_tuple_space_bytes};
use crate::filter_set::FilterSet;
use crate::key::{KeyTable, KeyWord, KeyWordKind};

/// A hash table per tuple of masks.
#[derive(Clone, Debug)]
pub struct TupleClassifier {
    space: TupleSpace,
}

impl TupleClassifier {
    /// The tuple space of a filter set.
    ///
    /// # Errors
    /// It exceeds a limit.
    pub fn new(
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Result<TupleClassifier, ClassifierBuildError> {
        let mut budget = BuildBudget::new("tuple", limits);
        let word_count = filters.schema().word_count();
        budget.check_bytes(estimate_tuple_space_bytes(filters.filter_count(), word_count))?;
        let mut space = TupleSpace::new(filters.schema());
        // From the last: each filter is then the first of its chain.
        for (filter, is_deciding) in zip_with_decisions(filters).rev() {
            budget.take_steps(1 + space.tables.len() / 16)?;
            let update = RuleUpdate { rule: filter.rule, is_deciding, tests: filter.tests };
            space.place(update, find_table_of_tuple);
        }
        space.order_probes();
        Ok(TupleClassifier { space })
    }
}

/// Words of 32 bits and words of bits make the tuple. Smaller words, such as ports, are hashed only
/// where a filter tests no address: each would multiply the number of tuples.
fn find_table_of_tuple(space: &mut TupleSpace, _filter: u32, mask: &[u32]) -> u32 {
    let is_small = |word: &KeyWord| matches!(word.kind, KeyWordKind::Interval { bits: ..32 });
    let words = space.words().iter().zip(mask);
    let tests_address = words.clone().any(|(word, mask)| *mask != 0 && !is_small(word));
    let hashed_mask = |(word, mask): (&KeyWord, &u32)| match is_small(word) {
        true if tests_address || *mask != word.max_value() => 0,
        _ => *mask,
    };
    let tuple: Vec<u32> = words.map(hashed_mask).collect();
    space.find_or_add_table(&tuple)
}

impl Classifier for TupleClassifier {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.space.find_first_deciding(keys, first);
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleLists) {
        self.space.collect_matching(keys, lists);
    }

    fn is_deciding(&self, rule: u32) -> bool {
        self.space.is_deciding(rule)
    }

    fn memory_bytes(&self) -> usize {
        self.space.memory_bytes()
    }
}

impl UpdatableClassifier for TupleClassifier {
    fn insert(&mut self, update: RuleUpdate<'_>) -> Result<(), UpdateError> {
        self.space.insert(update, find_table_of_tuple)
    }

    fn remove(&mut self, rule: u32) -> Result<(), UpdateError> {
        self.space.remove(rule)
    }
}
