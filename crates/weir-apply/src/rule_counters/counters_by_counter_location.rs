//! Counters by the place where they are counted.

use std::collections::HashMap;

use weir_model::{CounterLocation, Counters};

/// The counters of a ruleset in force, by place.
pub(crate) type CountersByCounterLocation = HashMap<CounterLocation, Counters>;

/// The sum of the counters that belong to a rule.
pub(crate) fn sum_counters(
    locations: &[CounterLocation],
    counters: &CountersByCounterLocation,
) -> Counters {
    let found = locations.iter().filter_map(|location| counters.get(location));
    found.fold(Counters::default(), |sum, count| Counters {
        packets: sum.packets + count.packets,
        bytes: sum.bytes + count.bytes,
    })
}
