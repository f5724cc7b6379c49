//! The elements to add to a set and to remove from it so that it contains a list of addresses,
//! contains none of them, or contains exactly them.
//!
//! A set can hold single addresses, prefixes or any ranges. The meaning of a list is the addresses
//! that it contains: the list is merged first and then converted to elements that the set can hold.
//! The result of each operation:
//!
//! * add: the set contains all addresses of the list. A set of ranges cannot hold two that overlap,
//!   so ranges of the set that overlap the list or are adjacent to it are merged with it.
//! * delete: the set contains no address of the list. An element that is partly in the list is
//!   replaced by its remaining addresses.
//! * sync: the set has exactly the elements of the merged list.

use weir_model::Family;
use weir_syntax::address_list::AddressRange;

use super::address_ranges::{merge_ranges, push_prefixes_of_range, subtract_merged_ranges};

/// What one element of a set can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementShape {
    /// A single address.
    Address,
    /// A prefix at least as long as this.
    Prefix {
        /// The minimum length: ipset has no prefix of length 0.
        min_prefix_len: u32,
    },
    /// Any range.
    Range,
}

/// An operation on a set with a list of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressListOperation {
    /// Add the addresses.
    Add,
    /// Delete the addresses.
    Delete,
    /// Make the set contain exactly the addresses.
    Sync,
}

/// The elements of a set that change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetElementDiff {
    /// Elements to add, sorted.
    pub added: Vec<AddressRange>,
    /// Elements to remove, sorted.
    pub removed: Vec<AddressRange>,
    /// Number of elements that are kept.
    pub kept: usize,
    /// Removed elements whose addresses partly stay in the set, in other elements: their timeouts
    /// and comments are lost.
    pub replaced: Vec<AddressRange>,
}

/// A list has more single addresses than a set can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyAddresses;

/// Computes the difference. `present`: the elements of the set, sorted.
///
/// # Errors
/// If the list has more than `capacity` single addresses for a set of these.
pub fn diff_set_against_list(
    shape: ElementShape,
    family: Family,
    present: &[AddressRange],
    list: Vec<AddressRange>,
    change: AddressListOperation,
    capacity: usize,
) -> Result<SetElementDiff, TooManyAddresses> {
    let list = merge_ranges(list);
    match change {
        AddressListOperation::Add if shape == ElementShape::Range => {
            let wanted = merge_into_ranges(present, &list);
            let plan = difference(present, &wanted);
            Ok(SetElementDiff { replaced: plan.removed.clone(), ..plan })
        }
        AddressListOperation::Add => {
            let listed = elements_of_ranges(shape, family, &list, capacity)?;
            let SetElementDiff { added, .. } = difference(present, &listed);
            Ok(SetElementDiff { added, kept: present.len(), ..SetElementDiff::default() })
        }
        AddressListOperation::Delete => Ok(plan_deletion(shape, family, present, &list)),
        AddressListOperation::Sync => {
            let wanted = elements_of_ranges(shape, family, &list, capacity)?;
            Ok(difference(present, &wanted))
        }
    }
}

/// Merges a list with the ranges of a set that overlap it or are adjacent to it; other ranges of
/// the set are kept, even if they are adjacent to each other.
fn merge_into_ranges(present: &[AddressRange], list: &[AddressRange]) -> Vec<AddressRange> {
    let touches_list = |(first, last): &AddressRange| {
        let at = list.partition_point(|listed| listed.1.saturating_add(1) < *first);
        list.get(at).is_some_and(|listed| listed.0 <= last.saturating_add(1))
    };
    let (touched, mut wanted): (Vec<AddressRange>, Vec<AddressRange>) =
        present.iter().partition(|range| touches_list(range));
    wanted.extend(merge_ranges([&touched[..], list].concat()));
    wanted.sort_unstable();
    wanted
}

/// Converts merged ranges to elements, sorted.
fn elements_of_ranges(
    shape: ElementShape,
    family: Family,
    merged: &[AddressRange],
    capacity: usize,
) -> Result<Vec<AddressRange>, TooManyAddresses> {
    let mut elements = Vec::with_capacity(merged.len());
    match shape {
        ElementShape::Range => elements.extend_from_slice(merged),
        ElementShape::Prefix { min_prefix_len } => {
            for range in merged {
                push_prefixes_of_range(&mut elements, *range, family, min_prefix_len);
            }
        }
        ElementShape::Address => {
            for (first, last) in merged {
                let left = (capacity - elements.len()) as u128;
                if last - first >= left {
                    return Err(TooManyAddresses);
                }
                elements.extend((*first..=*last).map(|addr| (addr, addr)));
            }
        }
    }
    Ok(elements)
}

/// The difference of two sorted lists.
fn difference(present: &[AddressRange], wanted: &[AddressRange]) -> SetElementDiff {
    let mut plan = SetElementDiff::default();
    let (mut present, mut wanted) = (present.iter().peekable(), wanted.iter().peekable());
    loop {
        match (present.peek(), wanted.peek()) {
            (Some(old), Some(new)) if old == new => {
                plan.kept += 1;
                present.next();
                wanted.next();
            }
            (Some(&&old), Some(&&new)) if old < new => {
                plan.removed.push(old);
                present.next();
            }
            (_, Some(&&new)) => {
                plan.added.push(new);
                wanted.next();
            }
            (Some(&&old), None) => {
                plan.removed.push(old);
                present.next();
            }
            (None, None) => return plan,
        }
    }
}

fn plan_deletion(
    shape: ElementShape,
    family: Family,
    present: &[AddressRange],
    list: &[AddressRange],
) -> SetElementDiff {
    let mut plan = SetElementDiff::default();
    for element in present {
        let rest = subtract_merged_ranges(*element, list);
        if rest == [*element] {
            plan.kept += 1;
            continue;
        }
        plan.removed.push(*element);
        if !rest.is_empty() {
            plan.replaced.push(*element);
        }
        match shape {
            ElementShape::Prefix { min_prefix_len } => {
                for range in rest {
                    push_prefixes_of_range(&mut plan.added, range, family, min_prefix_len);
                }
            }
            ElementShape::Address | ElementShape::Range => plan.added.extend(rest),
        }
    }
    // Nested prefixes may leave equal remainders, or one that is an element already.
    plan.added.sort_unstable();
    plan.added.dedup();
    plan.added.retain(|added| present.binary_search(added).is_err());
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: ElementShape = ElementShape::Prefix { min_prefix_len: 1 };

    fn plan(
        shape: ElementShape,
        present: &[AddressRange],
        list: &[AddressRange],
        change: AddressListOperation,
    ) -> SetElementDiff {
        diff_set_against_list(shape, Family::V4, present, list.to_vec(), change, 1000)
            .expect("it fits")
    }

    #[test]
    fn sync_changes_only_what_differs() {
        let present = [(0, 3), (8, 15), (32, 32)];
        let plan = plan(
            PREFIX,
            &present,
            &[(8, 15), (0, 1), (2, 3), (64, 65)],
            AddressListOperation::Sync,
        );
        assert_eq!((plan.added, plan.removed, plan.kept), (vec![(64, 65)], vec![(32, 32)], 2));
    }

    #[test]
    fn add_keeps_elements_and_merges_only_ranges() {
        let present = [(0, 3), (8, 15)];
        let prefixes =
            plan(PREFIX, &present, &[(0, 1), (2, 3), (16, 16)], AddressListOperation::Add);
        assert_eq!((prefixes.added, prefixes.removed), (vec![(16, 16)], vec![]));
        assert_eq!(prefixes.kept, 2);
        let ranges =
            plan(ElementShape::Range, &present, &[(4, 9), (20, 20)], AddressListOperation::Add);
        assert_eq!((ranges.added, ranges.removed), (vec![(0, 15), (20, 20)], present.to_vec()));
    }

    #[test]
    fn add_keeps_adjacent_ranges_that_the_list_does_not_touch() {
        let present = [(0, 3), (4, 7), (8, 15), (u128::MAX, u128::MAX)];
        let plan = |list: &[AddressRange]| {
            plan(ElementShape::Range, &present, list, AddressListOperation::Add)
        };
        let apart = plan(&[(40, 49)]);
        assert_eq!((apart.added, apart.replaced, apart.kept), (vec![(40, 49)], vec![], 4));
        let touching = plan(&[(16, 17)]);
        assert_eq!((touching.added, touching.replaced), (vec![(8, 17)], vec![(8, 15)]));
        assert_eq!(plan(&[(5, 6)]), SetElementDiff { kept: 4, ..SetElementDiff::default() });
    }

    #[test]
    fn delete_keeps_the_rest_of_an_element_that_is_partly_in_the_list() {
        let present = [(0, 7), (4, 7), (8, 8)];
        let plan = plan(PREFIX, &present, &[(0, 0), (8, 8)], AddressListOperation::Delete);
        // 4 to 7 is in the set already.
        assert_eq!(plan.added, [(1, 1), (2, 3)]);
        assert_eq!((plan.removed, plan.kept), (vec![(0, 7), (8, 8)], 1));
        assert_eq!(plan.replaced, [(0, 7)]);
    }

    #[test]
    fn single_addresses_are_expanded_up_to_the_capacity() {
        let shape = ElementShape::Address;
        let expanded = plan(shape, &[(2, 2)], &[(1, 3)], AddressListOperation::Add);
        assert_eq!(expanded.added, [(1, 1), (3, 3)]);
        let list = vec![(0, 4), (10, 14)];
        let fits = |capacity| {
            diff_set_against_list(
                shape,
                Family::V4,
                &[],
                list.clone(),
                AddressListOperation::Sync,
                capacity,
            )
            .is_ok()
        };
        assert!(fits(10) && !fits(9));
        let whole = vec![(0, u128::MAX)];
        let plan = diff_set_against_list(
            shape,
            Family::V6,
            &[],
            whole,
            AddressListOperation::Sync,
            1 << 20,
        );
        assert_eq!(plan, Err(TooManyAddresses));
    }
}
