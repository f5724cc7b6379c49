//! Which groups a small set is divided into: what takes the fewest steps on sample keys.
//!
//! Dividing filters keeps searches small where filters are many, but each group costs a look-up
//! a search. Few filters often fit one search, or two; and a search for the first match alone,
//! which leaves out what lies behind filters that match everything, fits where one for all matches
//! does not. Several divisions are therefore built, and the best is kept.

use super::block_writer::GroupStructure;
use super::dag_construction::{DagLimits, FirstMatchTestedWords};
use super::filter_columns::{COUNTS_ONLY_RANK_FLAG, FilterColumns};
use super::filter_partition::FilterPartition;
use super::group_builder::{GroupBuilder, SearchMemoryBudget};
use super::group_division::divide_and_build_groups;
use crate::build_limits::ClassifierBuildError;
use crate::filter_set::FilterSet;

/// The most filters for which several divisions are built.
pub(super) const TRIAL_FILTERS_MAX: usize = 16_384;
/// Keys that the divisions are compared with.
const SAMPLE_KEYS_MAX: usize = 512;
/// How many searches of few filters the trials of a set may take as much memory as.
const TRIAL_SEARCHES: usize = 4;
/// About how many instructions the root of a search takes.
const ROOT_COST: f64 = 15.0;
/// About how many instructions a node takes.
const NODE_COST: f64 = 40.0;
/// About how many instructions a block of a bucket takes.
const BUCKET_BLOCK_COST: f64 = 30.0;
/// How much faster a structure for the first match alone must be to be worth its memory.
const FIRST_MATCH_COST_RATIO_MAX: f64 = 0.85;

/// A division with its structures.
#[derive(Debug)]
pub(super) struct GroupChoice {
    pub(super) partition: FilterPartition,
    pub(super) groups: Vec<GroupStructure>,
    cost: f64,
}

/// Builds divisions, and keeps the best.
pub(super) struct GroupChooser<'a> {
    builder: &'a GroupBuilder<'a>,
    /// Whether coarser divisions are built.
    makes_trials: bool,
    sample_keys: Vec<Vec<u32>>,
}

impl<'a> GroupChooser<'a> {
    /// Chooses among several divisions, if filters are few.
    pub(super) fn new(builder: &'a GroupBuilder<'a>) -> GroupChooser<'a> {
        let makes_trials = builder.columns.ranks.len() <= TRIAL_FILTERS_MAX;
        GroupChooser { builder, makes_trials, sample_keys: sample_keys(builder.columns) }
    }

    /// Divides by two words and further, as all large sets are divided.
    pub(super) fn without_trials(builder: &'a GroupBuilder<'a>) -> GroupChooser<'a> {
        GroupChooser { builder, makes_trials: false, sample_keys: vec![] }
    }

    /// The groups for all matches. Only the division by two words and further may take too many
    /// steps: coarser divisions that do are not considered.
    pub(super) fn choose_groups(&self) -> Result<GroupChoice, ClassifierBuildError> {
        let by_two_words = FilterPartition::by_two_words(self.builder.columns);
        let coarser_partitions = by_two_words.coarser_partitions();
        let (partition, groups) = divide_and_build_groups(self.builder, by_two_words)?;
        let finest = GroupChoice { cost: self.average_cost(&groups), partition, groups };
        if !self.makes_trials {
            return Ok(finest);
        }
        let coarser = self.best_trial(coarser_partitions, None);
        Ok(coarser.filter(|coarser| coarser.cost < finest.cost).unwrap_or(finest))
    }

    /// The groups for the first match alone, if they are much faster than those for all and within
    /// the limits.
    pub(super) fn choose_first_match_groups(
        &self,
        filters: &FilterSet,
        all_matches: &GroupChoice,
    ) -> Vec<GroupStructure> {
        if !self.makes_trials {
            return vec![];
        }
        let by_two_words = FilterPartition::by_two_words(self.builder.columns);
        let mut partitions = by_two_words.coarser_partitions();
        partitions.push(by_two_words);
        let tested = FilterColumns::tested_words_of_filters(filters);
        let first_match = FirstMatchTestedWords { tested_words_of_filters: &tested };
        let best = self.best_trial(partitions, Some(first_match));
        let best = best.filter(|best| best.cost < FIRST_MATCH_COST_RATIO_MAX * all_matches.cost);
        let groups = best.map(|best| best.groups).unwrap_or_default();
        let charge = |group: &GroupStructure| match group {
            GroupStructure::Search(search) => self.builder.charge_search_memory(search),
            GroupStructure::BitVectors(_) => Ok(()),
        };
        if groups.iter().try_for_each(charge).is_ok() { groups } else { vec![] }
    }

    /// The best of the divisions whose searches are within the limits. The steps of trials are
    /// those that the construction so far has left.
    fn best_trial(
        &self,
        partitions: Vec<FilterPartition>,
        first_match: Option<FirstMatchTestedWords<'_>>,
    ) -> Option<GroupChoice> {
        let meter = self.builder.meter.with_remaining_limits();
        let builder = GroupBuilder { meter, ..*self.builder };
        let mut best: Option<GroupChoice> = None;
        for mut partition in partitions {
            let searches = build_searches(&builder, &mut partition, first_match);
            let Some(groups) = searches else { continue };
            let cost = self.average_cost(&groups);
            if best.as_ref().is_none_or(|best| cost < best.cost) {
                best = Some(GroupChoice { partition, groups, cost });
            }
        }
        self.builder.meter.charge_trial_steps_up_to_limit(&builder.meter);
        best
    }

    /// About how many instructions a look-up takes.
    fn average_cost(&self, groups: &[GroupStructure]) -> f64 {
        let cost = |group: &GroupStructure| match group {
            GroupStructure::Search(dag) => {
                let steps = dag.average_steps(&self.sample_keys);
                ROOT_COST + NODE_COST * steps.nodes + BUCKET_BLOCK_COST * steps.bucket_blocks
            }
            // A search for each word, and the bitmaps.
            GroupStructure::BitVectors(vectors) => {
                vectors.words.len() as f64 * (ROOT_COST + 2.0 * NODE_COST) + 2.0 * NODE_COST
            }
        };
        groups.iter().map(cost).sum()
    }
}

/// A search for each group; `None` if they exceed what the trials of a set may take, or a limit.
fn build_searches(
    builder: &GroupBuilder<'_>,
    partition: &mut FilterPartition,
    first_match: Option<FirstMatchTestedWords<'_>>,
) -> Option<Vec<GroupStructure>> {
    let columns = builder.columns;
    let SearchMemoryBudget { memory_bytes_base, memory_bytes_per_filter } = builder.budget;
    let mut bytes_left =
        TRIAL_SEARCHES * memory_bytes_base + memory_bytes_per_filter * columns.ranks.len();
    let mut groups = vec![];
    for (index, mut list) in partition.divide_into_groups(columns).into_iter().enumerate() {
        if first_match.is_some() {
            list.retain(|filter| columns.ranks[*filter as usize] < COUNTS_ONLY_RANK_FLAG);
        }
        if list.is_empty() {
            continue;
        }
        let limits = DagLimits {
            bucket_block_bytes: builder.bucket_block_bytes,
            memory_bytes_max: bytes_left,
            // A trial may list a filter for each byte.
            listed_filters_max: bytes_left,
            bucket_filters_max: builder.bucket_filters_max,
            prefers_buckets: false,
            is_parallel: builder.is_parallel,
        };
        let search = builder.build_search_within(&list, first_match, limits);
        let search = search.ok()?.ok()?;
        bytes_left -= search.memory_bytes(builder.bucket_block_bytes);
        partition.add_search_of_group(index);
        groups.push(GroupStructure::Search(search));
    }
    Some(groups)
}

/// Keys of filters all over the set: at the start of some intervals and the end of others.
fn sample_keys(columns: &FilterColumns) -> Vec<Vec<u32>> {
    let count = columns.ranks.len();
    let step = count.div_ceil(SAMPLE_KEYS_MAX).max(1);
    let key = |filter: usize| {
        let words = columns.words.iter().enumerate();
        let value = |(word, column): (usize, &super::filter_columns::IntervalColumn)| {
            if (filter / step + word).is_multiple_of(2) {
                column.lo[filter]
            } else {
                column.hi[filter]
            }
        };
        words.map(value).collect()
    };
    (0..count).step_by(step).map(key).collect()
}

#[cfg(test)]
mod tests {
    use weir_random::Rng;

    use super::super::{InstructionSet, IntervalDagClassifier};
    use crate::build_limits::BuildLimits;
    use crate::classifier::{Classifier, RuleListsByKey};
    use crate::engines::linear::LinearClassifier;
    use crate::filter_set::{FilterSet, WordTest};
    use crate::key::{KeySchema, KeyTable, KeyWord};

    /// Networks of all widths with ports, where later rules are behind wide earlier ones; with a
    /// word of bits, rules that test it cover nothing.
    fn layered_filters(rng: &mut Rng, rule_count: u32, with_bits: bool) -> FilterSet {
        let mut words = KeySchema::five_tuple().words().to_vec();
        if with_bits {
            words.push(KeyWord::bits("state"));
        }
        let mut filters = FilterSet::new(KeySchema::new(words));
        for rule in 0..rule_count {
            let prefix = |rng: &mut Rng| {
                let bits = *rng.pick(&[0, 8, 12, 16, 24, 32]);
                WordTest::prefix(0x0a00_0000 | rng.next_u64() as u32 & 0x000f_030f, bits)
            };
            let (saddr, daddr) = (prefix(rng), prefix(rng));
            let port = rng.below(6) as u32 * 100;
            let dport = *rng.pick(&[
                WordTest::ANY,
                WordTest::exactly(port),
                WordTest::Within { lo: port, hi: port + 150 },
            ]);
            let mut tests = vec![saddr, daddr, WordTest::ANY, dport, WordTest::ANY];
            if with_bits {
                let mask = rng.below(4) as u32;
                tests.push(WordTest::Masked { value: mask & 1, mask });
            }
            filters.push_rule(2 * rule, rng.below(5) != 0, &tests);
        }
        filters
    }

    fn keys_at_ends(rng: &mut Rng, filters: &FilterSet) -> KeyTable {
        let mut keys = KeyTable::new(filters.schema());
        for _ in 0..400 {
            let filter = filters.filter(rng.below(filters.filter_count()));
            let word = |test: &WordTest| match *test {
                WordTest::Within { lo, hi } => *rng.pick(&[lo, hi, lo + (hi - lo) / 2]),
                WordTest::Masked { value, mask } => value | rng.next_u64() as u32 & !mask,
            };
            keys.push(&filter.tests.iter().map(word).collect::<Vec<u32>>());
        }
        keys
    }

    /// The least limit with which a construction succeeds, and that those above are sufficient.
    fn least_sufficient_limit(is_built: impl Fn(u64) -> bool) -> u64 {
        let (mut too_low, mut sufficient) = (0, 1 << 24);
        while too_low + 1 < sufficient {
            let middle = (too_low + sufficient) / 2;
            if is_built(middle) {
                sufficient = middle;
            } else {
                too_low = middle;
            }
        }
        assert!(sufficient > 1, "a construction needs something");
        for limit in (sufficient..8 * sufficient).step_by(sufficient as usize / 32 + 1) {
            assert!(is_built(limit), "{limit}, where {sufficient} is sufficient");
        }
        sufficient
    }

    #[test]
    fn trials_beyond_a_limit_are_given_up_not_the_construction() {
        let filters = layered_filters(&mut Rng::new(1), 400, false);
        let build = |limits: &BuildLimits| IntervalDagClassifier::build(&filters, limits);
        let of_steps = |steps_max| BuildLimits { steps_max, ..BuildLimits::default() };
        let of_memory = |memory_bytes_max: u64| BuildLimits {
            memory_bytes_max: memory_bytes_max as usize,
            ..BuildLimits::default()
        };
        let size = |limits: &BuildLimits| build(limits).expect("sufficient").memory_bytes();
        let with_trials = size(&BuildLimits::default());
        let steps = least_sufficient_limit(|steps| build(&of_steps(steps)).is_ok());
        assert_ne!(size(&of_steps(steps)), with_trials, "trials are made with more steps");
        let bytes = least_sufficient_limit(|bytes| build(&of_memory(bytes)).is_ok());
        assert!((bytes as usize) < with_trials, "trials are made with more memory");
    }

    #[test]
    fn answers_are_those_of_linear_with_separate_first_match_groups() {
        let mut with_own_groups = 0;
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let filters = layered_filters(&mut rng, 40 + 30 * seed as u32, seed % 3 == 0);
            let keys = keys_at_ends(&mut rng, &filters);
            let answer = |classifier: &dyn Classifier| {
                let mut first = vec![0; keys.key_count()];
                classifier.find_first_deciding(&keys, &mut first);
                let mut lists = RuleListsByKey::default();
                classifier.collect_matching(&keys, &mut lists);
                (first, lists)
            };
            let expected = answer(&LinearClassifier::new(&filters));
            let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default());
            let dag = dag.expect("a small set");
            with_own_groups += usize::from(dag.block().first_match_groups.is_some());
            for instructions in InstructionSet::available() {
                let dag = dag.clone().with_instructions(instructions);
                assert!(answer(&dag) == expected, "seed {seed}, {instructions:?}");
            }
        }
        assert!(with_own_groups > 5, "{with_own_groups} of 30 sets have groups of their own");
    }
}
