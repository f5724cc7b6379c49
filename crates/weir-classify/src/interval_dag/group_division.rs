//! Division into groups until each has a search within its budget.
//!
//! First, filters are divided by two words ([`filter_partition`](super::filter_partition)). A group
//! whose search exceeds its budget is divided into the filters that the search copied most and the
//! others ([`filter_copies`](super::filter_copies)), and both are tried again. Narrow filters are
//! copied less than wide ones, and wide filters are copied less where no narrow ones end.
//!
//! Each group costs a look-up one more search, so their number is limited, and the largest group is
//! divided first. A group that is not divided any further may take more memory; filters that no
//! search fits become bit vectors. Divisions have steps of their own, half of what the limits leave,
//! so that filters which are divided in vain are not refused.

use super::block_parser::SEARCH_GROUPS_MAX;
use super::block_writer::GroupStructure;
use super::dag_construction::IntervalDag;
use super::filter_copies::WidthTest;
use super::filter_partition::FilterPartition;
use super::group_builder::GroupBuilder;
use crate::build_limits::ClassifierBuildError;

/// Groups of fewer filters are not divided.
const DIVIDED_GROUP_FILTERS_MIN: usize = 1024;
/// The most groups: where updates are possible, there is one more search.
const GROUPS_MAX: usize = SEARCH_GROUPS_MAX - 1;

/// A group while others are divided.
struct GroupInDivision {
    /// Ascending.
    filters: Vec<u32>,
    search: SearchWithinBudget,
}

enum SearchWithinBudget {
    Built(IntervalDag),
    /// The test that divides the filters; `None` if they are few, or no test tells them apart.
    Exceeded(Option<WidthTest>),
}

/// Divides all filters further than a partition does, and builds the structures of the groups.
///
/// Searches are in the order of the least ranks of their filters, because look-ups for the first
/// match skip groups of which all rules come after the one found so far. Bit vectors follow.
pub(super) fn divide_and_build_groups(
    builder: &GroupBuilder<'_>,
    mut partition: FilterPartition,
) -> Result<(FilterPartition, Vec<GroupStructure>), ClassifierBuildError> {
    let lists = partition.divide_into_groups(builder.columns);
    let mut groups = build_groups_within_budget(builder, lists)?;
    let meter = builder.meter.with_half_of_remaining_steps();
    let divider = GroupBuilder { meter, ..*builder };
    while groups.iter().filter(|group| !group.filters.is_empty()).count() < GROUPS_MAX
        && let Some((largest, test)) = find_largest_divisible_group(&groups)
        && let Ok(halves) = build_halves_within_budget(&divider, &groups[largest].filters, test)
    {
        let wide_group = partition.divide_group(largest, test);
        debug_assert_eq!(wide_group, groups.len());
        let [narrow, wide] = halves;
        groups[largest] = narrow;
        groups.push(wide);
    }
    let least_rank = |group: &GroupInDivision| {
        group.filters.iter().map(|filter| builder.columns.ranks[*filter as usize]).min()
    };
    let mut groups: Vec<_> = groups.into_iter().enumerate().collect();
    groups.retain(|(_, group)| !group.filters.is_empty());
    groups.sort_by_cached_key(|(_, group)| least_rank(group));
    let (mut structures, mut without_search) = (vec![], vec![]);
    for (index, GroupInDivision { filters, search }) in groups {
        let search = match search {
            SearchWithinBudget::Built(search) => Some(search),
            SearchWithinBudget::Exceeded(_) => {
                divider.build_search_of_indivisible_group(&filters).unwrap_or_default()
            }
        };
        match search {
            Some(search) => {
                builder.charge_search_memory(&search)?;
                partition.add_search_of_group(index);
                structures.push(GroupStructure::Search(search));
            }
            None => without_search.extend(filters),
        }
    }
    without_search.sort_unstable();
    structures.extend(builder.build_bit_vector_groups(&without_search)?);
    Ok((partition, structures))
}

fn find_largest_divisible_group(groups: &[GroupInDivision]) -> Option<(usize, WidthTest)> {
    let divisible = groups.iter().enumerate().filter_map(|(index, group)| match group.search {
        SearchWithinBudget::Exceeded(test) => Some((group.filters.len(), index, test?)),
        SearchWithinBudget::Built(_) => None,
    });
    let largest =
        divisible.max_by_key(|(filter_count, index, _)| (*filter_count, usize::MAX - index));
    largest.map(|(_, index, test)| (index, test))
}

/// The groups of the narrow and the wide filters of a list.
fn build_halves_within_budget(
    builder: &GroupBuilder<'_>,
    list: &[u32],
    test: WidthTest,
) -> Result<[GroupInDivision; 2], ClassifierBuildError> {
    let column = &builder.columns.words[test.word];
    let is_wide =
        |filter: &&u32| test.is_wide(column.lo[**filter as usize], column.hi[**filter as usize]);
    let (wide, narrow) = list.iter().partition(is_wide);
    let groups = build_groups_within_budget(builder, vec![narrow, wide])?;
    Ok(groups.try_into().ok().expect("two lists make two groups"))
}

/// Builds a search of each list within its budget, or chooses the test that divides it.
fn build_groups_within_budget(
    builder: &GroupBuilder<'_>,
    lists: Vec<Vec<u32>>,
) -> Result<Vec<GroupInDivision>, ClassifierBuildError> {
    let searches = builder.build_searches_within_budget(&lists)?;
    let groups = lists.into_iter().zip(searches).map(|(filters, search)| {
        let search = match search {
            Ok(search) => SearchWithinBudget::Built(search),
            Err(_) if filters.len() < DIVIDED_GROUP_FILTERS_MIN => {
                SearchWithinBudget::Exceeded(None)
            }
            Err(copies) => SearchWithinBudget::Exceeded(copies.choose_width_test()),
        };
        GroupInDivision { filters, search }
    });
    Ok(groups.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_random::Rng;

    use super::super::bucket_block_bytes_of_schema;
    use super::super::build_meter::BuildMeter;
    use super::super::cache_line::LANES;
    use super::super::filter_columns::FilterColumns;
    use super::super::group_builder::SearchMemoryBudget;
    use super::super::{InstructionSet, IntervalDagClassifier, UpdatableIntervalDag};
    use super::*;
    use crate::build_limits::BuildLimits;
    use crate::classifier::{Classifier, RuleListsByKey, SingleFilterRule, UpdatableClassifier};
    use crate::engines::linear::LinearClassifier;
    use crate::filter_set::{FilterSet, WordTest};
    use crate::key::{KeySchema, KeyTable};

    /// Networks of /20 to /32 that contain each other, with ports and without.
    fn nested_filters(filter_count: u32) -> FilterSet {
        let mut rng = Rng::new(1);
        let mut filters = FilterSet::new(KeySchema::five_tuple());
        for rule in 0..filter_count {
            let prefix = |rng: &mut Rng| {
                let bits = rng.between(20, 32) as u32;
                WordTest::prefix(0x0a00_0000 | rng.next_u64() as u32 & 0x0000_3fff, bits)
            };
            let (saddr, daddr) = (prefix(&mut rng), prefix(&mut rng));
            let port = WordTest::exactly(rng.below(50) as u32);
            let dport = *rng.pick(&[WordTest::ANY, port]);
            let tests = [saddr, daddr, WordTest::ANY, dport, WordTest::ANY];
            filters.push_rule(rule, rng.below(5) != 0, &tests);
        }
        filters
    }

    fn divide(filters: &FilterSet) -> (FilterPartition, Vec<GroupStructure>) {
        let columns = FilterColumns::new(filters);
        let builder = GroupBuilder {
            columns: &columns,
            bucket_block_bytes: bucket_block_bytes_of_schema(filters),
            bucket_filters_max: LANES,
            has_spare_bits: false,
            budget: SearchMemoryBudget::default(),
            meter: BuildMeter::new(&BuildLimits::default()),
            is_parallel: true,
        };
        divide_and_build_groups(&builder, FilterPartition::by_two_words(&columns))
            .expect("within the limits")
    }

    #[test]
    fn filters_that_nest_are_divided_until_searches_fit() {
        let filters = nested_filters(40_000);
        let (_, structures) = divide(&filters);
        assert!(structures.len() > 4, "{} groups", structures.len());
        for structure in &structures {
            let GroupStructure::Search(dag) = structure else { panic!("bit vectors") };
            let found: HashSet<&u32> = dag.bucket_blocks.iter().flatten().collect();
            let bytes = dag.memory_bytes(bucket_block_bytes_of_schema(&filters));
            assert!(bytes <= (256 << 10) + 128 * found.len(), "{} filters", found.len());
        }
    }

    #[test]
    fn searches_are_in_the_order_of_their_least_ranks() {
        let filters = nested_filters(40_000);
        let columns = FilterColumns::new(&filters);
        let (_, structures) = divide(&filters);
        let least_ranks = structures.iter().map(|structure| {
            let GroupStructure::Search(dag) = structure else { panic!("bit vectors") };
            let found = dag.bucket_blocks.iter().flatten();
            found.map(|filter| columns.ranks[*filter as usize]).min()
        });
        assert!(least_ranks.is_sorted());
    }

    #[test]
    fn a_set_is_always_divided_alike() {
        let filters = nested_filters(40_000);
        let build = || IntervalDagClassifier::build(&filters, &BuildLimits::default());
        let bytes = || build().expect("within the limits").block().to_bytes();
        assert!(bytes() == bytes());
    }

    #[test]
    fn filters_that_are_divided_in_vain_are_not_refused() {
        // Equally wide on two words, and a few narrow ones, so that there is a width to divide at.
        let mut rng = Rng::new(5);
        let mut filters = FilterSet::new(KeySchema::five_tuple());
        for rule in 0..6_000 {
            let open = if rule % 8 == 0 { 1 << 20 } else { 1 << 28 };
            let mut wide = || {
                let lo = rng.next_u64() as u32 >> 1;
                WordTest::Within { lo, hi: lo + open }
            };
            let tests = [wide(), wide(), WordTest::ANY, WordTest::ANY, WordTest::ANY];
            filters.push_rule(rule, true, &tests);
        }
        let build = |steps_max| {
            let limits = BuildLimits { steps_max, ..BuildLimits::default() };
            IntervalDagClassifier::build(&filters, &limits).map(|dag| dag.memory_bytes())
        };
        // Bit vectors of two words take about 600 steps for each filter.
        assert!(build(6_000 * 800).is_ok());
        assert!(build(6_000 * 100).is_err(), "steps are limited");
    }

    #[test]
    fn the_partition_finds_the_search_of_each_filter() {
        let filters = nested_filters(40_000);
        let (partition, structures) = divide(&filters);
        let searches = structures.iter().filter_map(|structure| match structure {
            GroupStructure::Search(dag) => Some(&dag.bucket_blocks),
            GroupStructure::BitVectors(_) => None,
        });
        let filters_of_searches: Vec<HashSet<u32>> =
            searches.map(|blocks| blocks.iter().flatten().copied().collect()).collect();
        for (index, filter) in filters.filters().enumerate() {
            let search = partition.search_of_filter(filter.tests).expect("all are in searches");
            assert!(filters_of_searches[search].contains(&(index as u32)), "filter {index}");
        }
    }

    fn keys_in_filters(rng: &mut Rng, filters: &FilterSet, count: usize) -> KeyTable {
        let mut keys = KeyTable::new(filters.schema());
        for _ in 0..count {
            let filter = filters.filter(rng.below(filters.filter_count()));
            let word = |test: &WordTest| match *test {
                WordTest::Within { lo, hi } => *rng.pick(&[lo, hi, lo + (hi - lo) / 2]),
                WordTest::Masked { value, .. } => value,
            };
            keys.push(&filter.tests.iter().map(word).collect::<Vec<u32>>());
        }
        keys
    }

    fn answers(classifier: &dyn Classifier, keys: &KeyTable) -> (Vec<u32>, RuleListsByKey) {
        let mut first = vec![0; keys.key_count()];
        classifier.find_first_deciding(keys, &mut first);
        let mut lists = RuleListsByKey::default();
        classifier.collect_matching(keys, &mut lists);
        (first, lists)
    }

    #[test]
    fn answers_of_divided_filters_are_those_of_linear() {
        let filters = nested_filters(40_000);
        let keys = keys_in_filters(&mut Rng::new(2), &filters, 400);
        let expected = answers(&LinearClassifier::new(&filters), &keys);
        let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default());
        let dag = dag.expect("within the limits");
        for instructions in InstructionSet::available() {
            let dag = dag.clone().with_instructions(instructions);
            assert!(answers(&dag, &keys) == expected, "{instructions:?}");
        }
    }

    #[test]
    fn rules_of_divided_filters_are_changed_in_their_searches() {
        let all = nested_filters(20_000);
        let select = |is_present: &dyn Fn(u32) -> bool| {
            let mut present = FilterSet::new(all.schema().clone());
            for filter in all.filters().filter(|filter| is_present(filter.rule)) {
                present.push_rule(filter.rule, all.is_deciding(filter.rule), filter.tests);
            }
            present
        };
        // Of each 20 rules, one is inserted and one removed.
        let before = select(&|rule| rule % 20 != 0);
        let after = select(&|rule| rule % 20 != 1);
        let limits = BuildLimits::default();
        let mut dag = UpdatableIntervalDag::build(&before, &limits).expect("within the limits");
        for rule in (0..20_000).step_by(20) {
            let (tests_by_word, is_deciding) =
                (all.filter(rule as usize).tests, all.is_deciding(rule));
            dag.insert(SingleFilterRule { rule, is_deciding, tests_by_word }).expect("room");
            dag.remove(rule + 1).expect("it is there");
        }
        dag.publish();
        let keys = keys_in_filters(&mut Rng::new(4), &all, 200);
        assert!(answers(&dag, &keys) == answers(&LinearClassifier::new(&after), &keys));
    }
}
