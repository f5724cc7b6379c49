//! Results of probes: minimum, mean and percentiles of response times, and losses.

use maud::{Markup, html};
use weir_stats::probe_kinds_and_results::{BACKGROUND_LOAD_AXIS, PROBE_KIND_AXIS};
use weir_stats::probe_request_totals::ProbeRequestTotals;
use weir_stats::{Coordinate, Estimate, Quantity, Scenario, Trial, TrialState};

use crate::number_format::{
    format_count, format_interval, format_percent, format_ratio_without_times_sign,
    format_si_seconds,
};
use crate::report_model::{ReportModel, subject_label};

/// A kind of probe with its title and quantity.
type ProbeColumn = (&'static str, Quantity);

const ROUND_TRIP_COLUMNS: [ProbeColumn; 5] = [
    ("least", Quantity::RoundTripNsMin),
    ("mean", Quantity::RoundTripNsMean),
    ("median", Quantity::RoundTripNsP50),
    ("99 %", Quantity::RoundTripNsP99),
    ("longest", Quantity::RoundTripNsMax),
];
const SHELL_RESPONSE_COLUMNS: [ProbeColumn; 3] = [
    ("median", Quantity::ResponseNsP50),
    ("99 %", Quantity::ResponseNsP99),
    ("longest", Quantity::ResponseNsMax),
];

/// A table for each kind of probe and each load.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let probe_trials: Vec<&Trial> = model
        .accepted_trials()
        .filter(|trial| trial.probe_result().is_some() || trial.bulk_tcp_stream_result().is_some())
        .collect();
    let mut points: Vec<Scenario> = probe_trials
        .iter()
        .map(|trial| trial.scenario.project_to_axes(&[PROBE_KIND_AXIS, BACKGROUND_LOAD_AXIS]))
        .collect();
    points.sort_unstable();
    points.dedup();
    html! {
        @if !points.is_empty() {
            section #probes {
                h2 { "Latency probes" }
                p.about {
                    "Requests at planned times; a response time counts from the planned time. "
                    "Values are medians over blocks, each with its interval."
                }
                @for point in &points { (render_probe_table(model, &probe_trials, point)) }
            }
        }
    }
}

fn render_probe_table(
    model: &ReportModel<'_>,
    probe_trials: &[&Trial],
    point: &Scenario,
) -> Markup {
    let is = |axis, name: &str| point.coordinate(axis) == Some(&Coordinate::from(name));
    let rows: &[ProbeColumn] = match () {
        () if is(PROBE_KIND_AXIS, "shell") => &SHELL_RESPONSE_COLUMNS,
        () if is(PROBE_KIND_AXIS, "stream") => &[],
        () => &ROUND_TRIP_COLUMNS,
    };
    let subjects = || {
        let all = model.record.run.subjects.iter();
        all.filter(|one| probe_trials.iter().any(|trial| trial.subject == one.name))
    };
    html! {
        div.scroll {
            table {
                caption { (describe_probe_kind_and_load(point)) }
                thead {
                    tr {
                        th { "subject" }
                        th.right { (model.numeric_axis.map_or("", |axis| axis.name.as_str())) }
                        @for (name, _) in rows { th.right { (name) } }
                        @if rows.is_empty() {
                            th.right { "bytes/s" } th.right { "sent again" }
                        } @else {
                            th.right { "lost" }
                        }
                    }
                }
                tbody {
                    @for subject in subjects() {
                        @for value in model.numeric_axis_values() {
                            @let at = model.scenario_at(point, value);
                            @let found = sum_probe_requests(probe_trials, &subject.name, &at);
                            @if let Some(found) = found {
                                tr {
                                    td { (subject_label(subject)) }
                                    th.right scope="row" {
                                        (value.map(format_count).unwrap_or_default())
                                    }
                                    @for (_, quantity) in rows {
                                        (render_duration_cell(model.estimate_at(*quantity, subject, &at)))
                                    }
                                    @if rows.is_empty() {
                                        (render_number_cell(model.estimate_at(
                                            Quantity::StreamBytesPerSecond, subject, &at)))
                                        (render_number_cell(model.estimate_at(
                                            Quantity::StreamRetransmits, subject, &at)))
                                    } @else {
                                        td.right {
                                            (format_count(found.lost_requests)) " of " (format_count(found.planned_requests))
                                            " (" (format_percent(found.lost_request_share_or_zero())) ")"
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The kind of requests, and the load of the firewall.
fn describe_probe_kind_and_load(point: &Scenario) -> String {
    let is = |axis, name: &str| point.coordinate(axis) == Some(&Coordinate::from(name));
    let what = match () {
        () if is(PROBE_KIND_AXIS, "icmp") => "ICMP echo",
        () if is(PROBE_KIND_AXIS, "udp") => "UDP echo",
        () if is(PROBE_KIND_AXIS, "shell") => "Response of a shell",
        () => "One TCP stream",
    };
    let load = match () {
        () if is(PROBE_KIND_AXIS, "stream") => "",
        () if is(BACKGROUND_LOAD_AXIS, "frames") => ", the firewall forwards at full load",
        () if is(BACKGROUND_LOAD_AXIS, "stream") => ", together with a TCP stream",
        () => ", nothing else is forwarded",
    };
    format!("{what}{load}")
}

/// Questions and those of them that were lost, over all trials at a point; `None` without any.
fn sum_probe_requests(
    probe_trials: &[&Trial],
    subject: &str,
    at: &Scenario,
) -> Option<ProbeRequestTotals> {
    let mut there = probe_trials
        .iter()
        .copied()
        .filter(|trial| trial.state == TrialState::Accepted)
        .filter(|trial| trial.subject == subject && trial.scenario.has_coordinates_of(at))
        .peekable();
    there.peek()?;
    Some(ProbeRequestTotals::from_trials(there))
}

fn render_duration_cell(estimate: Option<Estimate>) -> Markup {
    let print = |ns: f64| format_si_seconds(ns / 1e9);
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (print(estimate.value)) " " span.range { (format_interval(&estimate, print)) }
            }
        }
    }
}

fn render_number_cell(estimate: Option<Estimate>) -> Markup {
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (format_ratio_without_times_sign(estimate.value)) " " span.range { (format_interval(&estimate, format_ratio_without_times_sign)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;
    use weir_stats::{DurationDistribution, ProbeResult, TrialKind};

    #[test]
    fn echo_probes_are_shown_with_their_losses() {
        let mut record = sample_records::sample_record();
        assert!(
            render_section(&ReportModel::new(&record)).into_string().is_empty(),
            "no probes, no section"
        );
        let first = record.trials[0].clone();
        let latency = DurationDistribution::from_counts(&[(21_500.0, 7)]);
        record.trials.push(Trial {
            kind: TrialKind::RoundTrip,
            scenario: first
                .scenario
                .with_coordinate(PROBE_KIND_AXIS, "icmp")
                .with_coordinate(BACKGROUND_LOAD_AXIS, "idle"),
            results: weir_stats::TrialResults::Probe(Box::new(ProbeResult {
                planned: 10,
                answered: 7,
                grace_seconds: 1.0,
                latency_from_planned_time: latency,
            })),
            ..first
        });
        let page = render_section(&ReportModel::new(&record)).into_string();
        assert!(page.contains("ICMP echo, nothing else is forwarded"), "{page}");
        assert!(page.contains("3 of 10"), "{page}");
        assert!(page.contains("21.5"), "{page}");
    }
}
