//! Metrics in the text format of Prometheus (version 0.0.4).
//!
//! Values are 64-bit floating-point numbers, as Prometheus stores them: counts are exact up to
//! 2^53.

use anyhow::{Context as _, Result};
use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use weir_apply::counter_listing::OriginalRuleCounterRow;
use weir_apply::firewall_metrics::FirewallMetrics;
use weir_model::Family;

use crate::cli::RuleLabelArg;

/// The media type of the text.
pub const METRICS_MEDIA_TYPE: &str = prometheus::TEXT_FORMAT;

/// The metrics if nothing can be read.
pub const UNREADABLE_METRICS: &str = "\
# HELP weir_counters_readable 1 if the counters of the rules could be read, else 0.
# TYPE weir_counters_readable gauge
weir_counters_readable 0
";

/// Renders the values of one reading. A family without values is left out.
///
/// # Errors
/// Where the encoder refuses a name.
pub fn render_metrics(metrics: &FirewallMetrics, key: RuleLabelArg) -> Result<String> {
    let mut families = Vec::new();
    let mut add_gauge = |name: &str, help: &str, value: Option<f64>| {
        let samples = value.map(|value| (Vec::new(), value));
        families.push(gauge_family(name, help, samples));
    };
    let generation = metrics.generation;
    add_gauge(
        "weir_generation",
        "Number of the generation in force.",
        generation.map(|generation| f64::from(generation.generation)),
    );
    add_gauge(
        "weir_ruleset_applied",
        "1 if a ruleset that weir applied is in force, 0 if that of before weir is, or none.",
        Some(f64::from(u8::from(generation.is_some_and(|generation| generation.is_applied)))),
    );
    add_gauge(
        "weir_generation_created_timestamp_seconds",
        "When the generation in force was made, in seconds since 1970.",
        generation.map(|generation| generation.created_unix_seconds as f64),
    );
    add_gauge(
        "weir_generation_confirmed",
        "1 if the generation in force was confirmed, else 0.",
        generation.map(|generation| f64::from(u8::from(generation.is_confirmed))),
    );
    add_gauge(
        "weir_confirmation_remaining_seconds",
        "Seconds until the generation in force is rolled back unless it is confirmed.",
        generation.and_then(|generation| generation.confirmation_seconds_left).map(|n| n as f64),
    );
    add_gauge(
        "weir_apply_duration_seconds",
        "How long the change of the ruleset to the generation in force took.",
        generation.and_then(|generation| generation.apply_microseconds).map(|n| n as f64 / 1e6),
    );
    add_gauge(
        "weir_counters_readable",
        "1 if the counters of the rules could be read, else 0.",
        Some(f64::from(u8::from(metrics.counters.is_ok()))),
    );
    add_gauge(
        "weir_conntrack_entries",
        "Entries of the connection tracking table.",
        metrics.conntrack.map(|table| table.entries as f64),
    );
    add_gauge(
        "weir_conntrack_entries_limit",
        "Limit of the connection tracking table; 0 is none.",
        metrics.conntrack.map(|table| table.limit as f64),
    );
    let sets = metrics.ipsets.iter().map(|set| {
        let labels = vec![label("set", &set.name), label("type", &set.set_type)];
        (labels, f64::from(set.element_count))
    });
    families.push(gauge_family("weir_ipset_elements", "Elements of a set of ipset.", sets));
    if let Ok(counters) = &metrics.counters {
        add_counter_families(counters, key, &mut families);
    }
    families.retain(|family| !family.get_metric().is_empty());
    TextEncoder::new().encode_to_string(&families).context("encode metrics")
}

fn add_counter_families(
    counters: &[OriginalRuleCounterRow],
    key: RuleLabelArg,
    families: &mut Vec<MetricFamily>,
) {
    type ReadCounter = fn(&OriginalRuleCounterRow) -> u64;
    let quantities: [(&str, ReadCounter); 2] =
        [("packets", |listing| listing.packets), ("bytes", |listing| listing.bytes)];
    for (quantity, read) in quantities {
        for is_policy in [false, true] {
            let listed = counters.iter().filter(|c| c.rule.number.is_none() == is_policy);
            let metrics = listed.map(|listing| counter_sample(listing, key, read(listing)));
            let (name, what) = match is_policy {
                false => (format!("weir_rule_{quantity}_total"), "that matched a rule"),
                true => (
                    format!("weir_chain_policy_{quantity}_total"),
                    "to which the policy of a chain was applied",
                ),
            };
            let help = match quantity {
                "packets" => format!("Packets {what}."),
                _ => format!("Bytes of packets {what}, from the network header on."),
            };
            families.push(new_family(&name, &help, MetricType::COUNTER, metrics.collect()));
        }
    }
}

fn counter_sample(listing: &OriginalRuleCounterRow, key: RuleLabelArg, value: u64) -> Metric {
    let id = &listing.rule;
    let family = match id.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let mut labels =
        vec![label("family", family), label("table", id.table.as_str()), label("chain", &id.chain)];
    if let Some(number) = id.number {
        labels.push(match key {
            RuleLabelArg::Number => label("rule", &number.to_string()),
            RuleLabelArg::Content => label("rule", &listing.content_key),
        });
    }
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

fn gauge_family(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Vec<LabelPair>, f64)>,
) -> MetricFamily {
    let metrics = samples.into_iter().map(|(labels, value)| {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = Metric::from_label(labels);
        metric.set_gauge(gauge);
        metric
    });
    new_family(name, help, MetricType::GAUGE, metrics.collect())
}

fn new_family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
