//! Division into groups until each has a search within its budget.
//!
//! First, filters are divided by two words ([`filter_partition`](super::filter_partition)). A group
//! whose search exceeds its budget is divided into the filters that the search copied most and the
//! others ([`filter_copies`](super::filter_copies)), and both are tried again. Narrow filters are
//! copied less than wide ones, and wide filters are copied less where no narrow ones end.
//!
//! Each group costs a look-up one more search, so their number is limited, and the largest group is
//! divided first. A group that cannot be divided may take more memory, and becomes bit vectors if
//! that is not sufficient.

use super::block_parser::SEARCH_GROUPS_MAX;
use super::block_writer::GroupStructure;
use super::dag_construction::IntervalDag;
use super::filter_copies::{FilterCopies, WidthTest};
use super::filter_partition::FilterPartition;
use super::group_builder::GroupBuilder;
use crate::build_limits::ClassifierBuildError;

/// Groups of fewer filters are not divided.
const DIVIDED_GROUP_FILTERS_MIN: usize = 1024;
/// The most groups: where updates are possible, there is one more search.
const GROUPS_MAX: usize = SEARCH_GROUPS_MAX - 1;

/// A group while others are divided.
struct Group {
    /// Ascending.
    filters: Vec<u32>,
    state: GroupState,
}

enum GroupState {
    Search(IntervalDag),
    /// Its search exceeds its budget, and copied these filters.
    OverBudget(Box<FilterCopies>),
    Indivisible,
}

/// Divides all filters, and builds the structures of the groups.
///
/// They are in the order of the least ranks of their filters, because look-ups for the first match
/// skip groups of which all rules come after the one found so far.
pub(super) fn divide_and_build_groups(
    builder: &GroupBuilder<'_>,
) -> Result<(FilterPartition, Vec<GroupStructure>), ClassifierBuildError> {
    let mut partition = FilterPartition::by_two_words(builder.columns);
    let mut groups = try_searches(builder, partition.divide_into_groups(builder.columns))?;
    while groups.len() < GROUPS_MAX
        && let Some(largest) = find_largest_divisible_group(&groups)
    {
        let Some((test, halves)) = divide_group(builder, &groups[largest]) else {
            groups[largest].state = GroupState::Indivisible;
            continue;
        };
        let wide_group = partition.divide_group(largest, test);
        debug_assert_eq!(wide_group, groups.len());
        let mut halves = try_searches(builder, halves)?;
        groups.extend(halves.pop());
        groups[largest] = halves.pop().expect("two halves");
    }
    let best_rank = |group: &Group| {
        group.filters.iter().map(|filter| builder.columns.ranks[*filter as usize]).min()
    };
    let mut order: Vec<_> =
        groups.iter().enumerate().map(|(index, group)| (best_rank(group), index)).collect();
    order.sort_unstable();
    let mut states: Vec<_> = groups.into_iter().map(Some).collect();
    let mut structures = vec![];
    for (_, index) in order {
        let Group { filters, state } = states[index].take().expect("each group once");
        if filters.is_empty() {
            continue;
        }
        let built = match state {
            GroupState::Search(search) => vec![GroupStructure::Search(search)],
            _ => builder.build_indivisible_group(&filters)?,
        };
        if let [search @ GroupStructure::Search(_)] = &built[..] {
            builder.charge_search_memory(search)?;
            partition.add_search_of_group(index);
        }
        structures.extend(built);
    }
    Ok((partition, structures))
}

fn find_largest_divisible_group(groups: &[Group]) -> Option<usize> {
    let is_divisible = |group: &Group| {
        matches!(group.state, GroupState::OverBudget(_))
            && group.filters.len() >= DIVIDED_GROUP_FILTERS_MIN
    };
    let divisible = (0..groups.len()).filter(|group| is_divisible(&groups[*group]));
    divisible.rev().max_by_key(|group| groups[*group].filters.len())
}

/// The narrow and the wide filters of a group; `None` if no test tells them apart.
fn divide_group(builder: &GroupBuilder<'_>, group: &Group) -> Option<(WidthTest, Vec<Vec<u32>>)> {
    let GroupState::OverBudget(copies) = &group.state else { return None };
    let test = copies.choose_width_test()?;
    let column = &builder.columns.words[test.word];
    let is_wide =
        |filter: &&u32| test.is_wide(column.lo[**filter as usize], column.hi[**filter as usize]);
    let (wide, narrow): (Vec<u32>, Vec<u32>) = group.filters.iter().partition(is_wide);
    (!wide.is_empty() && !narrow.is_empty()).then_some((test, vec![narrow, wide]))
}

/// Tries a search of each list within its budget.
fn try_searches(
    builder: &GroupBuilder<'_>,
    lists: Vec<Vec<u32>>,
) -> Result<Vec<Group>, ClassifierBuildError> {
    let searches = builder.try_searches(&lists)?;
    let groups = lists.into_iter().zip(searches).map(|(filters, search)| {
        let state = match search {
            Ok(search) => GroupState::Search(search),
            Err(copies) => GroupState::OverBudget(copies),
        };
        Group { filters, state }
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
    use super::super::{InstructionSet, IntervalDagClassifier};
    use super::*;
    use crate::build_limits::BuildLimits;
    use crate::classifier::{Classifier, RuleListsByKey};
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
        divide_and_build_groups(&builder).expect("within the limits")
    }

    #[test]
    fn filters_that_nest_are_divided_until_searches_fit() {
        let filters = nested_filters(40_000);
        let (_, structures) = divide(&filters);
        let is_search = |structure: &GroupStructure| matches!(structure, GroupStructure::Search(_));
        assert!(structures.iter().all(is_search));
        assert!((5..=GROUPS_MAX).contains(&structures.len()), "{} groups", structures.len());
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

    #[test]
    fn answers_of_divided_filters_are_those_of_linear() {
        let filters = nested_filters(40_000);
        let mut rng = Rng::new(2);
        let mut keys = KeyTable::new(filters.schema());
        for _ in 0..400 {
            let filter = filters.filter(rng.below(filters.filter_count()));
            let word = |test: &WordTest| match *test {
                WordTest::Within { lo, hi } => *rng.pick(&[lo, hi, lo + (hi - lo) / 2]),
                WordTest::Masked { value, .. } => value,
            };
            keys.push(&filter.tests.iter().map(word).collect::<Vec<u32>>());
        }
        let answer = |classifier: &dyn Classifier| {
            let mut first = vec![0; keys.key_count()];
            classifier.find_first_deciding(&keys, &mut first);
            let mut lists = RuleListsByKey::default();
            classifier.collect_matching(&keys, &mut lists);
            (first, lists)
        };
        let expected = answer(&LinearClassifier::new(&filters));
        let dag = IntervalDagClassifier::build(&filters, &BuildLimits::default());
        let dag = dag.expect("within the limits");
        for instructions in InstructionSet::available() {
            let dag = dag.clone().with_instructions(instructions);
            assert!(answer(&dag) == expected, "{instructions:?}");
        }
    }
}
