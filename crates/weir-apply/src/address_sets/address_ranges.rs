//! Ranges of addresses: merging, subtracting, splitting into prefixes.

use weir_model::Family;
use weir_syntax::address_list::AddressRange;

/// Sorts ranges and merges those that overlap or are adjacent.
pub fn merge_ranges(mut ranges: Vec<AddressRange>) -> Vec<AddressRange> {
    ranges.sort_unstable();
    let mut merged: Vec<AddressRange> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if before.1 == u128::MAX || first <= before.1 + 1 => {
                before.1 = before.1.max(last);
            }
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The parts of a range that none of the merged ranges contains.
pub(super) fn subtract_merged_ranges(
    range: AddressRange,
    merged: &[AddressRange],
) -> Vec<AddressRange> {
    let mut rest = Vec::new();
    let (mut first, last) = range;
    let from = merged.partition_point(|(_, end)| *end < first);
    for &(cut_first, cut_last) in &merged[from..] {
        if cut_first > last {
            break;
        }
        if cut_first > first {
            rest.push((first, cut_first - 1));
        }
        if cut_last >= last {
            return rest;
        }
        first = cut_last + 1;
    }
    rest.push((first, last));
    rest
}

/// Appends the fewest prefixes that a range consists of, none of them shorter than
/// `min_prefix_len`.
pub(super) fn push_prefixes_of_range(
    out: &mut Vec<AddressRange>,
    range: AddressRange,
    family: Family,
    min_prefix_len: u32,
) {
    let (mut first, last) = range;
    let bits = family.addr_bits();
    loop {
        // The largest block that begins here: as aligned as its first address, within the range.
        let aligned_bits = first.trailing_zeros().min(bits - min_prefix_len);
        let fits = |size_bits: u32| last - first >= last_offset_of_block(size_bits);
        let size_bits = (0..=aligned_bits).rev().find(|bits| fits(*bits)).unwrap_or(0);
        let block_last = first + last_offset_of_block(size_bits);
        out.push((first, block_last));
        if block_last >= last {
            return;
        }
        first = block_last + 1;
    }
}

/// The last address of a block of this size in bits, relative to its first address.
const fn last_offset_of_block(size_bits: u32) -> u128 {
    match size_bits {
        128.. => u128::MAX,
        _ => (1 << size_bits) - 1,
    }
}

/// The prefix length of a range, if it is a prefix.
pub(super) fn prefix_len_of_range((first, last): AddressRange, family: Family) -> Option<u32> {
    let size_bits = match (last - first).checked_add(1) {
        None => 128,
        Some(count) if count.is_power_of_two() => count.trailing_zeros(),
        Some(_) => return None,
    };
    (first & last_offset_of_block(size_bits) == 0).then(|| family.addr_bits() - size_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4_MAX: u128 = u32::MAX as u128;

    fn prefixes(range: AddressRange, family: Family, min_prefix_len: u32) -> Vec<AddressRange> {
        let mut out = Vec::new();
        push_prefixes_of_range(&mut out, range, family, min_prefix_len);
        out
    }

    #[test]
    fn adjacent_nested_and_overlapping_ranges_become_one() {
        let ranges = vec![(10, 19), (20, 29), (0, 3), (12, 13), (25, 40), (50, 50), (5, 5)];
        assert_eq!(merge_ranges(ranges), [(0, 3), (5, 5), (10, 40), (50, 50)]);
        let whole = (0, u128::MAX);
        assert_eq!(merge_ranges(vec![whole, (3, 4), whole]), [whole]);
        assert_eq!(merge_ranges(Vec::new()), []);
    }

    #[test]
    fn subtraction_leaves_the_parts_outside_the_merged_ranges() {
        let merged = [(5, 9), (20, 29), (u128::MAX - 1, u128::MAX)];
        assert_eq!(subtract_merged_ranges((0, 40), &merged), [(0, 4), (10, 19), (30, 40)]);
        assert_eq!(subtract_merged_ranges((6, 8), &merged), []);
        assert_eq!(subtract_merged_ranges((9, 20), &merged), [(10, 19)]);
        assert_eq!(subtract_merged_ranges((30, 31), &merged), [(30, 31)]);
        assert_eq!(subtract_merged_ranges((40, u128::MAX), &merged), [(40, u128::MAX - 2)]);
    }

    #[test]
    fn a_range_is_split_into_the_fewest_prefixes() {
        assert_eq!(prefixes((0, 255), Family::V4, 0), [(0, 255)]);
        assert_eq!(prefixes((1, 6), Family::V4, 0), [(1, 1), (2, 3), (4, 5), (6, 6)]);
        assert_eq!(prefixes((0, V4_MAX), Family::V4, 0), [(0, V4_MAX)]);
        let halves = [(0, V4_MAX / 2), (V4_MAX / 2 + 1, V4_MAX)];
        assert_eq!(prefixes((0, V4_MAX), Family::V4, 1), halves);
        assert_eq!(prefixes((0, u128::MAX), Family::V6, 0), [(0, u128::MAX)]);
        assert_eq!(prefixes((0, u128::MAX), Family::V6, 1).len(), 2);
        assert_eq!(prefixes((V4_MAX, V4_MAX), Family::V4, 1), [(V4_MAX, V4_MAX)]);
    }

    #[test]
    fn a_prefix_has_a_length_and_other_ranges_have_none() {
        assert_eq!(prefix_len_of_range((0, V4_MAX), Family::V4), Some(0));
        assert_eq!(prefix_len_of_range((256, 511), Family::V4), Some(24));
        assert_eq!(prefix_len_of_range((7, 7), Family::V4), Some(32));
        assert_eq!(prefix_len_of_range((0, u128::MAX), Family::V6), Some(0));
        assert_eq!(prefix_len_of_range((1, 2), Family::V4), None);
        assert_eq!(prefix_len_of_range((0, 2), Family::V4), None);
    }
}
