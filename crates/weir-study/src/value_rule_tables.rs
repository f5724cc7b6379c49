//! The tables of values: what each field of `study.toml`, `subjects.toml`,
//! `claims.toml` and `hosts.toml` may be.
//!
//! `docs/guide/studies.md` lists the ranges. A number without a row is refused.

use crate::traffic::{
    FIRST_KERNEL_SOCKET_CLIENT_PORT, IPV4_UDP_HEADER_BYTES, MAX_UDP_PACKET_BYTES,
};
use crate::value_limits::{MAX_CONNTRACK_TABLE_ENTRIES, MAX_RATE_PER_SECOND};
use crate::value_rules::{
    NumberRange, ValueRule, ValueRuleAtPath, check_axis_names, check_axis_value_text,
    check_device_name, check_file_name, check_not_blank, check_subject_names,
};

/// Shortest trial, seconds: the kernel takes longer to prepare one.
const MIN_TRIAL_SECONDS: f64 = 0.001;
/// Longest trial, seconds.
const MAX_TRIAL_SECONDS: f64 = 600.0;
/// Largest number that is counted or chosen without a limit of its own: exact as floating point.
const MAX_COUNT: u64 = 1 << 53;
/// Most repetitions of anything.
const MAX_REPETITIONS: u64 = 10_000;

const fn value_rule_at_path(path: &'static str, rule: ValueRule) -> ValueRuleAtPath {
    ValueRuleAtPath { path, rule }
}

const fn number_range(min: f64, max: f64) -> ValueRule {
    ValueRule::Number(NumberRange { min, max, or_zero: false })
}

const fn integer_range(min: u64, max: u64) -> ValueRule {
    number_range(min as f64, max as f64)
}

const DISTINCT_OR_EMPTY: ValueRule = ValueRule::DistinctElements { or_none: true };
const DISTINCT_AND_NOT_EMPTY: ValueRule = ValueRule::DistinctElements { or_none: false };

/// What the values of a study may be.
pub(crate) const STUDY_VALUE_RULES: &[ValueRuleAtPath] = &[
    value_rule_at_path("subjects", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("paper.year", integer_range(0, 9999)),
    value_rule_at_path("paper.figures.[].to", integer_range(1, MAX_COUNT)),
    value_rule_at_path("axes", ValueRule::Keys(check_axis_names)),
    value_rule_at_path("axes.*.values", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("axes.*.values.[]", integer_range(0, MAX_COUNT)),
    value_rule_at_path("axes.*.values.[]", ValueRule::Text(check_axis_value_text)),
    value_rule_at_path("devices", ValueRule::DifferentTexts("input", "output")),
    value_rule_at_path("devices.*", ValueRule::Text(check_device_name)),
    value_rule_at_path("ruleset.axes", DISTINCT_OR_EMPTY),
    value_rule_at_path("more.axes", DISTINCT_OR_EMPTY),
    value_rule_at_path("traffic.axes", DISTINCT_OR_EMPTY),
    value_rule_at_path("ruleset.command", ValueRule::Text(check_not_blank)),
    value_rule_at_path("more.command", ValueRule::Text(check_not_blank)),
    value_rule_at_path("traffic.command", ValueRule::Text(check_not_blank)),
    value_rule_at_path("traffic.hits.*", ValueRule::AtLeastOneOrderedBound("min", "max")),
    value_rule_at_path("traffic.hits.*.*", number_range(0.0, 1e18)),
    value_rule_at_path("accepted_changes.[].run", ValueRule::Text(check_not_blank)),
    value_rule_at_path("accepted_changes.[].parts", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("accepted_changes.[].reason", ValueRule::Text(check_not_blank)),
    value_rule_at_path("traffic.connections", integer_range(1, MAX_CONNTRACK_TABLE_ENTRIES)),
    value_rule_at_path("traffic.clients", integer_range(1, u32::MAX as u64)),
    value_rule_at_path("traffic.servers", integer_range(1, u32::MAX as u64)),
    value_rule_at_path("traffic.port", integer_range(1, u16::MAX as u64)),
    value_rule_at_path(
        "traffic.ports",
        integer_range(1, u16::MAX as u64 - FIRST_KERNEL_SOCKET_CLIENT_PORT as u64 + 1),
    ),
    value_rule_at_path("traffic.at_once", integer_range(1, u16::MAX as u64)),
    value_rule_at_path(
        "traffic.bytes",
        integer_range(IPV4_UDP_HEADER_BYTES as u64, MAX_UDP_PACKET_BYTES as u64),
    ),
    value_rule_at_path("probe.kinds", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("probe.loads", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("probe.rate_per_second", integer_range(1, 100_000)),
    value_rule_at_path("probe.lines_per_second", integer_range(1, 500)),
    value_rule_at_path("probe.subjects", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("again.at.*", integer_range(0, MAX_COUNT)),
    // A ratio below 1 is a limit that every trial exceeds.
    value_rule_at_path("noise.spin_ratio", number_range(0.0, 1000.0)),
    // A share above 1 is a limit that nothing reaches.
    value_rule_at_path("noise.steal", number_range(0.0, 100.0)),
    value_rule_at_path("noise.psi", number_range(0.0, 100.0)),
    value_rule_at_path("noise.switches", integer_range(0, MAX_COUNT)),
    value_rule_at_path("noise.repeats", integer_range(0, 100)),
    value_rule_at_path(
        "presets.*.trial_seconds",
        number_range(MIN_TRIAL_SECONDS, MAX_TRIAL_SECONDS),
    ),
    value_rule_at_path(
        "presets.*.probe_seconds",
        ValueRule::Number(NumberRange {
            min: MIN_TRIAL_SECONDS,
            max: MAX_TRIAL_SECONDS,
            or_zero: true,
        }),
    ),
    value_rule_at_path("presets.*.blocks", integer_range(1, MAX_REPETITIONS)),
    value_rule_at_path("presets.*.loads", integer_range(0, MAX_REPETITIONS)),
    value_rule_at_path("presets.*.adds", integer_range(0, MAX_REPETITIONS)),
    value_rule_at_path("presets.*.rate_pps", integer_range(0, MAX_RATE_PER_SECOND)),
    value_rule_at_path("presets.*.table_entries", integer_range(0, MAX_CONNTRACK_TABLE_ENTRIES)),
    value_rule_at_path("presets.*.axes.*", DISTINCT_AND_NOT_EMPTY),
    value_rule_at_path("presets.*.axes.*.[]", integer_range(0, MAX_COUNT)),
    value_rule_at_path("claims", ValueRule::DistinctInKey("id")),
    value_rule_at_path("claims.[].id", ValueRule::Text(check_not_blank)),
    value_rule_at_path("claims.[].test", ValueRule::StrictlyAscendingPair("from", "to")),
    value_rule_at_path("claims.[].test", ValueRule::FirstIntervalContainsSecond("shape", "within")),
    value_rule_at_path("claims.[].expects.value", number_range(-1e18, 1e18)),
    value_rule_at_path("claims.[].expects.below", number_range(-1e18, 1e18)),
    value_rule_at_path("claims.[].expects.above", number_range(-1e18, 1e18)),
    value_rule_at_path("claims.[].test.from", integer_range(1, MAX_COUNT)),
    value_rule_at_path("claims.[].test.to", integer_range(1, MAX_COUNT)),
    value_rule_at_path("claims.[].test.at.*", integer_range(0, MAX_COUNT)),
    value_rule_at_path("claims.[].test.of.at.*", integer_range(0, MAX_COUNT)),
    value_rule_at_path("claims.[].test.to.at.*", integer_range(0, MAX_COUNT)),
    value_rule_at_path("claims.[].test.above.at.*", integer_range(0, MAX_COUNT)),
    value_rule_at_path("claims.[].test.within", ValueRule::AtLeastOneOrderedBound("min", "max")),
    value_rule_at_path("claims.[].test.within.*", number_range(-1e18, 1e18)),
    value_rule_at_path("claims.[].test.shape", ValueRule::AtLeastOneOrderedBound("min", "max")),
    value_rule_at_path("claims.[].test.shape.*", number_range(-1e18, 1e18)),
];

/// What the values of a file of subjects may be.
pub(crate) const SUBJECTS_VALUE_RULES: &[ValueRuleAtPath] = &[
    value_rule_at_path("", ValueRule::Keys(check_subject_names)),
    value_rule_at_path("*.needs.[]", ValueRule::Text(check_not_blank)),
    value_rule_at_path("*.lets_through_pps", integer_range(0, MAX_RATE_PER_SECOND)),
];

/// What the values of a registry of claims may be: it has no numbers.
pub(crate) const CLAIMS_VALUE_RULES: &[ValueRuleAtPath] = &[
    value_rule_at_path("items", ValueRule::DistinctInKey("number")),
    value_rule_at_path("items.[].number", ValueRule::Text(check_not_blank)),
];

/// What the values of a file of hosts may be.
pub(crate) const HOSTS_VALUE_RULES: &[ValueRuleAtPath] = &[
    value_rule_at_path("firewall.kernels", ValueRule::DistinctInKey("name")),
    value_rule_at_path("firewall.kernels.[].name", ValueRule::Text(check_file_name)),
    value_rule_at_path("firewall.kernels.[].boot", ValueRule::Text(check_not_blank)),
    value_rule_at_path("firewall.boot_limit_seconds", integer_range(1, 24 * 60 * 60)),
];
