//! Traces are those of their seed, and repeat packets and rules as their pattern states.

use std::collections::{HashMap, HashSet};

use weir_bench::{TraceOptions, TracePattern, generate_trace};
use weir_classify::classbench::parse_filter_set;
use weir_classify::{FilterSet, KeyTable};

fn disjoint_filters() -> FilterSet {
    let lines = (0..100).map(|n| format!("@10.{n}.0.0/16 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n"));
    parse_filter_set(&lines.collect::<String>(), true).expect("filters of the format")
}

fn trace(pattern: TracePattern, seed: u64) -> KeyTable {
    let options = TraceOptions { pattern, packet_count: 20_000, seed };
    generate_trace(&disjoint_filters(), &options)
}

/// Packets of the filter that has most of them.
fn busiest_filter_packet_count(keys: &KeyTable) -> usize {
    let mut counts = HashMap::new();
    keys.keys().for_each(|key| *counts.entry(key[0] >> 16).or_insert(0) += 1);
    counts.into_values().max().expect("packets")
}

fn distinct_count(keys: &KeyTable) -> usize {
    keys.keys().collect::<HashSet<_>>().len()
}

#[test]
fn every_packet_matches_a_filter_and_seeds_are_reproducible() {
    let filters = disjoint_filters();
    for pattern in [TracePattern::Uniform, TracePattern::Zipf, TracePattern::Local] {
        let keys = trace(pattern, 1);
        assert_eq!(keys.key_count(), 20_000);
        assert!(keys.keys().all(|key| filters.filters().any(|filter| filter.matches(key))));
        assert_eq!(keys, trace(pattern, 1));
        assert_ne!(keys, trace(pattern, 2));
    }
}

#[test]
fn uniform_traces_rarely_repeat_and_zipf_traces_favour_one_rule() {
    let (uniform, zipf) = (trace(TracePattern::Uniform, 1), trace(TracePattern::Zipf, 1));
    assert!(distinct_count(&uniform) > 19_900);
    assert!((200..300).contains(&busiest_filter_packet_count(&uniform)));
    // The share of rank 1 of 100 is 1 / (1 + 1/2 + … + 1/100) = 0.193.
    assert!((3600..4100).contains(&busiest_filter_packet_count(&zipf)));
}

#[test]
fn local_traces_repeat_flows() {
    let distinct = distinct_count(&trace(TracePattern::Local, 1));
    assert!((1000..1500).contains(&distinct), "a sixteenth is new: {distinct}");
}

#[test]
fn random_packets_are_spread_over_all_values() {
    let keys = trace(TracePattern::Random, 1);
    let matched = keys.keys().filter(|key| disjoint_filters().filter(0).matches(key)).count();
    assert_eq!(matched, 0, "one in 2^32 packets is in the filter");
    let networks: HashSet<u32> = keys.keys().map(|key| key[0] >> 24).collect();
    assert_eq!(networks.len(), 256, "every first byte occurs");
    assert!(keys.keys().all(|key| key[2] <= 0xffff && key[4] <= 0xff), "values fit their words");
    assert_eq!(keys, trace(TracePattern::Random, 1));
}
