//! Masks of contiguous bits, and the intervals that they represent.
//!
//! This is the only definition of "is this mask a prefix". A mask belongs to values of some width,
//! which is given by the highest of them, `max`: all ones. Addresses, marks and TCP flags are such
//! values. A mask is a prefix if its zero bits are the lowest ones; only then do the matching
//! values form one interval.

/// The bits that a mask leaves open, where they are the lowest ones; `None` if it has holes.
///
/// ```
/// use weir_packet::mask::contiguous_host_mask;
/// assert_eq!(contiguous_host_mask(0xffff_ff00, 0xffff_ffff), Some(0xff));
/// assert_eq!(contiguous_host_mask(0xffff_00ff, 0xffff_ffff), None);
/// ```
pub const fn contiguous_host_mask(mask: u128, max: u128) -> Option<u128> {
    let host = max & !mask;
    if host & host.wrapping_add(1) == 0 { Some(host) } else { None }
}

/// The lowest and the highest number whose bits under the mask are `value`; `None` if the mask has
/// holes, or the value a bit that the mask leaves open.
///
/// ```
/// use weir_packet::mask::interval_of_value_under_mask;
/// assert_eq!(interval_of_value_under_mask(0x0a00, 0xff00, 0xffff), Some((0x0a00, 0x0aff)));
/// assert_eq!(interval_of_value_under_mask(0x0a01, 0xff00, 0xffff), None);
/// ```
pub const fn interval_of_value_under_mask(
    value: u128,
    mask: u128,
    max: u128,
) -> Option<(u128, u128)> {
    match contiguous_host_mask(mask, max) {
        Some(host) if value & host == 0 => Some((value, value | host)),
        _ => None,
    }
}

/// The mask of the prefix that is exactly this interval; `None` if none is.
///
/// ```
/// use weir_packet::mask::interval_to_prefix_mask;
/// assert_eq!(interval_to_prefix_mask((0x0a00, 0x0aff), 0xffff), Some(0xff00));
/// assert_eq!(interval_to_prefix_mask((0x0a00, 0x0bfe), 0xffff), None);
/// assert_eq!(interval_to_prefix_mask((0x0aff, 0x0bfe), 0xffff), None);
/// ```
pub const fn interval_to_prefix_mask((lo, hi): (u128, u128), max: u128) -> Option<u128> {
    if lo > hi {
        return None;
    }
    let mask = max & !(hi - lo);
    match interval_of_value_under_mask(lo, mask, max) {
        Some((_, last)) if last == hi => Some(mask),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_contiguous_masked_values_are_intervals() {
        for mask in 0..=0xffu128 {
            let equal = |value: u128| (0..=0xff).filter(move |n| n & mask == value);
            for value in 0..=0xff {
                let of: Vec<u128> = equal(value).collect();
                let contiguous = of.windows(2).all(|w| w[1] == w[0] + 1);
                let interval = of.first().copied().zip(of.last().copied());
                let expected = interval.filter(|_| contiguous);
                assert_eq!(
                    interval_of_value_under_mask(value, mask, 0xff),
                    expected,
                    "{value:x}/{mask:x}"
                );
            }
        }
    }

    #[test]
    fn the_mask_of_an_interval_holds_exactly_that_interval() {
        for lo in 0..=0xffu128 {
            for hi in 0..=0xff {
                let of = |mask: &u128| {
                    lo <= hi && interval_of_value_under_mask(lo, *mask, 0xff) == Some((lo, hi))
                };
                assert_eq!(
                    interval_to_prefix_mask((lo, hi), 0xff),
                    (0..=0xff).find(of),
                    "{lo:x}-{hi:x}"
                );
            }
        }
    }

    #[test]
    fn prefix_masks_work_for_128_bit_values() {
        assert_eq!(contiguous_host_mask(0, u128::MAX), Some(u128::MAX));
        assert_eq!(contiguous_host_mask(u128::MAX, u128::MAX), Some(0));
        assert_eq!(interval_to_prefix_mask((0, u128::MAX), u128::MAX), Some(0));
    }
}
