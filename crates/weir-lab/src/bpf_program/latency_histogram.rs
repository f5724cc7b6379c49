//! Histograms of durations: buckets of equal relative width, as in `src/bpf/histogram.h`.
//!
//! 32 buckets per power of two, as in HDR histograms: any duration is known to 3 %, and a count
//! costs one addition, in the kernel as well.

use weir_stats::DurationDistribution;

/// Buckets of one histogram.
pub(crate) const BUCKET_COUNT: usize = 1024;

/// The middle of a bucket, in units.
fn compute_bucket_midpoint_in_units(bucket: usize) -> f64 {
    if bucket < 32 {
        return bucket as f64;
    }
    let top = bucket / 32 + 4;
    let width = (1_u64 << (top - 5)) as f64;
    ((1_u64 << top) as f64) + (bucket % 32) as f64 * width + (width - 1.0) / 2.0
}

/// The bucket of a number of units.
#[cfg(test)]
pub(crate) fn bucket_index(units: u32) -> usize {
    if units < 32 {
        return units as usize;
    }
    let top = 31 - units.leading_zeros();
    ((top - 4) * 32 + (units >> (top - 5) & 31)) as usize
}

/// What is kept of the counts. A unit is `unit_ns` nanoseconds.
pub(crate) fn summarise_histogram(counts: &[u64], unit_ns: f64) -> DurationDistribution {
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let counts: Vec<(f64, u64)> = filled
        .map(|(bucket, count)| (compute_bucket_midpoint_in_units(bucket) * unit_ns, *count))
        .collect();
    DurationDistribution::from_counts(&counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_buckets_are_contiguous() {
        let mut last = 0;
        for units in 0..200_000 {
            let now = bucket_index(units);
            assert!(now == last || now == last + 1, "{units}");
            last = now;
        }
        assert!(bucket_index(u32::MAX) < BUCKET_COUNT);
    }

    #[test]
    fn a_bucket_midpoint_is_within_three_percent() {
        for units in [1, 31, 32, 100, 4711, 1 << 20, u32::MAX] {
            let known = compute_bucket_midpoint_in_units(bucket_index(units));
            assert!((known / f64::from(units) - 1.0).abs() < 0.03, "{units} is {known}");
        }
    }
}
