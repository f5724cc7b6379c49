//! The tables of values: what each field of `study.toml`, `subjects.toml`,
//! `claims.toml` and `hosts.toml` may be.
//!
//! `docs/guide/studies.md` lists the ranges. A number without a row is refused.

use crate::traffic::{
    FIRST_KERNEL_SOCKET_CLIENT_PORT, IPV4_UDP_HEADER_BYTES, MAX_UDP_PACKET_BYTES,
};
use crate::value_limits::{MAX_RATE_PER_SECOND, MAX_TABLE_ENTRIES};
use crate::value_rules::{
    NumberRange, ValueRow, ValueRule, check_axis_names, check_coordinate, check_device_name,
    check_file_name, check_not_blank, check_subject_names,
};

/// Shortest trial, seconds: the kernel takes longer to prepare one.
const MIN_TRIAL_SECONDS: f64 = 0.001;
/// Longest trial, seconds.
const MAX_TRIAL_SECONDS: f64 = 600.0;
/// Largest number that is counted or chosen without a limit of its own: exact as floating point.
const MAX_COUNT: u64 = 1 << 53;
/// Most repetitions of anything.
const MAX_REPETITIONS: u64 = 10_000;

const fn value_row(path: &'static str, rule: ValueRule) -> ValueRow {
    ValueRow { path, rule }
}

const fn number_range(min: f64, max: f64) -> ValueRule {
    ValueRule::Number(NumberRange { min, max, or_zero: false })
}

const fn integer_range(min: u64, max: u64) -> ValueRule {
    number_range(min as f64, max as f64)
}

const DISTINCT: ValueRule = ValueRule::DistinctElements { or_none: true };
const DISTINCT_AND_NOT_EMPTY: ValueRule = ValueRule::DistinctElements { or_none: false };

/// What the values of a study may be.
pub(crate) const STUDY_ROWS: &[ValueRow] = &[
    value_row("subjects", DISTINCT_AND_NOT_EMPTY),
    value_row("paper.year", integer_range(0, 9999)),
    value_row("paper.figures.[].to", integer_range(1, MAX_COUNT)),
    value_row("axes", ValueRule::Keys(check_axis_names)),
    value_row("axes.*.values", DISTINCT_AND_NOT_EMPTY),
    value_row("axes.*.values.[]", integer_range(0, MAX_COUNT)),
    value_row("axes.*.values.[]", ValueRule::Text(check_coordinate)),
    value_row("devices", ValueRule::DifferentTexts("input", "output")),
    value_row("devices.*", ValueRule::Text(check_device_name)),
    value_row("ruleset.axes", DISTINCT),
    value_row("more.axes", DISTINCT),
    value_row("traffic.axes", DISTINCT),
    value_row("ruleset.command", ValueRule::Text(check_not_blank)),
    value_row("more.command", ValueRule::Text(check_not_blank)),
    value_row("traffic.command", ValueRule::Text(check_not_blank)),
    value_row("traffic.connections", integer_range(1, MAX_TABLE_ENTRIES)),
    value_row("traffic.clients", integer_range(1, u32::MAX as u64)),
    value_row("traffic.servers", integer_range(1, u32::MAX as u64)),
    value_row("traffic.port", integer_range(1, u16::MAX as u64)),
    value_row(
        "traffic.ports",
        integer_range(1, u16::MAX as u64 - FIRST_KERNEL_SOCKET_CLIENT_PORT as u64 + 1),
    ),
    value_row("traffic.at_once", integer_range(1, u16::MAX as u64)),
    value_row(
        "traffic.bytes",
        integer_range(IPV4_UDP_HEADER_BYTES as u64, MAX_UDP_PACKET_BYTES as u64),
    ),
    value_row("probe.kinds", DISTINCT_AND_NOT_EMPTY),
    value_row("probe.loads", DISTINCT_AND_NOT_EMPTY),
    value_row("probe.rate_per_second", integer_range(1, 100_000)),
    value_row("probe.lines_per_second", integer_range(1, 500)),
    value_row("probe.subjects", DISTINCT_AND_NOT_EMPTY),
    value_row("again.at.*", integer_range(0, MAX_COUNT)),
    // A ratio below 1 is a limit that every trial exceeds.
    value_row("noise.spin_ratio", number_range(0.0, 1000.0)),
    // A share above 1 is a limit that nothing reaches.
    value_row("noise.steal", number_range(0.0, 100.0)),
    value_row("noise.psi", number_range(0.0, 100.0)),
    value_row("noise.switches", integer_range(0, MAX_COUNT)),
    value_row("noise.repeats", integer_range(0, 100)),
    value_row("presets.*.trial_seconds", number_range(MIN_TRIAL_SECONDS, MAX_TRIAL_SECONDS)),
    value_row(
        "presets.*.probe_seconds",
        ValueRule::Number(NumberRange {
            min: MIN_TRIAL_SECONDS,
            max: MAX_TRIAL_SECONDS,
            or_zero: true,
        }),
    ),
    value_row("presets.*.blocks", integer_range(1, MAX_REPETITIONS)),
    value_row("presets.*.loads", integer_range(0, MAX_REPETITIONS)),
    value_row("presets.*.adds", integer_range(0, MAX_REPETITIONS)),
    value_row("presets.*.rate_pps", integer_range(0, MAX_RATE_PER_SECOND)),
    value_row("presets.*.table_entries", integer_range(0, MAX_TABLE_ENTRIES)),
    value_row("presets.*.axes.*", DISTINCT_AND_NOT_EMPTY),
    value_row("presets.*.axes.*.[]", integer_range(0, MAX_COUNT)),
    value_row("claims", ValueRule::DistinctInKey("id")),
    value_row("claims.[].id", ValueRule::Text(check_not_blank)),
    value_row("claims.[].test", ValueRule::Ascending("from", "to")),
    value_row("claims.[].test", ValueRule::Contains("shape", "within")),
    value_row("claims.[].test.from", integer_range(1, MAX_COUNT)),
    value_row("claims.[].test.to", integer_range(1, MAX_COUNT)),
    value_row("claims.[].test.at.*", integer_range(0, MAX_COUNT)),
    value_row("claims.[].test.of.at.*", integer_range(0, MAX_COUNT)),
    value_row("claims.[].test.to.at.*", integer_range(0, MAX_COUNT)),
    value_row("claims.[].test.above.at.*", integer_range(0, MAX_COUNT)),
    value_row("claims.[].test.within", ValueRule::Interval("min", "max")),
    value_row("claims.[].test.within.*", number_range(-1e18, 1e18)),
    value_row("claims.[].test.shape", ValueRule::Interval("min", "max")),
    value_row("claims.[].test.shape.*", number_range(-1e18, 1e18)),
];

/// What the values of a file of subjects may be.
pub(crate) const SUBJECTS_ROWS: &[ValueRow] = &[
    value_row("", ValueRule::Keys(check_subject_names)),
    value_row("*.needs.[]", ValueRule::Text(check_not_blank)),
    value_row("*.lets_through_pps", integer_range(0, MAX_RATE_PER_SECOND)),
];

/// What the values of a registry of claims may be: it has no numbers.
pub(crate) const CLAIMS_ROWS: &[ValueRow] = &[
    value_row("items", ValueRule::DistinctInKey("number")),
    value_row("items.[].number", ValueRule::Text(check_not_blank)),
];

/// What the values of a file of hosts may be.
pub(crate) const HOSTS_ROWS: &[ValueRow] = &[
    value_row("firewall.kernels", ValueRule::DistinctInKey("name")),
    value_row("firewall.kernels.[].name", ValueRule::Text(check_file_name)),
    value_row("firewall.kernels.[].boot", ValueRule::Text(check_not_blank)),
    value_row("firewall.boot_limit_seconds", integer_range(1, 24 * 60 * 60)),
];
