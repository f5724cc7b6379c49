//! An axis that a field of `[traffic]` names, and what its values may be.

use std::ops::RangeInclusive;

/// An axis that traffic depends on.
pub(crate) struct TrafficAxis<'a> {
    pub(crate) name: &'a str,
    /// The field of `[traffic]` that names it.
    pub(crate) traffic_field: &'static str,
    /// Where in the text that field names it; at the field without it.
    pub(crate) offset: Option<usize>,
    /// The numbers that its values must be, if the field gives them a meaning.
    pub(crate) allowed_numbers: Option<RangeInclusive<u64>>,
}
