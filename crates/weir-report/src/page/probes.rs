//! Results of probes: minimum, mean and percentiles of response times, and losses.

use maud::{Markup, html};
use weir_stats::probe::{KIND_AXIS, LOAD_AXIS};
use weir_stats::probe_totals::ProbeTotals;
use weir_stats::{Coordinate, Estimate, Quantity, Scenario, State, Trial};

use crate::number::{count, interval, percent, plain, seconds};
use crate::report_model::{ReportModel, label};

/// A kind of probe with its title and quantity.
type ProbeRow = (&'static str, Quantity);

const ROUND_TRIP: [ProbeRow; 5] = [
    ("least", Quantity::RoundTripNsMin),
    ("mean", Quantity::RoundTripNsMean),
    ("median", Quantity::RoundTripNsP50),
    ("99 %", Quantity::RoundTripNsP99),
    ("longest", Quantity::RoundTripNsMax),
];
const RESPONSE: [ProbeRow; 3] = [
    ("median", Quantity::ResponseNsP50),
    ("99 %", Quantity::ResponseNsP99),
    ("longest", Quantity::ResponseNsMax),
];

/// A table for each kind of probe and each load.
pub(super) fn section(model: &ReportModel<'_>) -> Markup {
    let asked: Vec<&Trial> = model
        .accepted()
        .filter(|trial| trial.probe().is_some() || trial.stream().is_some())
        .collect();
    let mut points: Vec<Scenario> =
        asked.iter().map(|trial| trial.scenario.on(&[KIND_AXIS, LOAD_AXIS])).collect();
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
                @for point in &points { (table(model, &asked, point)) }
            }
        }
    }
}

fn table(model: &ReportModel<'_>, asked: &[&Trial], point: &Scenario) -> Markup {
    let is = |axis, name: &str| point.coordinate(axis) == Some(&Coordinate::from(name));
    let rows: &[ProbeRow] = match () {
        () if is(KIND_AXIS, "shell") => &RESPONSE,
        () if is(KIND_AXIS, "stream") => &[],
        () => &ROUND_TRIP,
    };
    let subjects = || {
        let all = model.record.run.subjects.iter();
        all.filter(|one| asked.iter().any(|trial| trial.subject == one.name))
    };
    html! {
        div.scroll {
            table {
                caption { (caption(point)) }
                thead {
                    tr {
                        th { "subject" }
                        th.right { (model.axis.map_or("", |axis| axis.name.as_str())) }
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
                        @for value in model.values() {
                            @let at = model.point(point, value);
                            @let found = sums(asked, &subject.name, &at);
                            @if let Some(found) = found {
                                tr {
                                    td { (label(subject)) }
                                    th.right scope="row" {
                                        (value.map(count).unwrap_or_default())
                                    }
                                    @for (_, quantity) in rows {
                                        (time(model.estimate(*quantity, subject, &at)))
                                    }
                                    @if rows.is_empty() {
                                        (number(model.estimate(
                                            Quantity::StreamBytesPerSecond, subject, &at)))
                                        (number(model.estimate(
                                            Quantity::StreamRetransmits, subject, &at)))
                                    } @else {
                                        td.right {
                                            (count(found.lost)) " of " (count(found.planned))
                                            " (" (percent(found.lost_share())) ")"
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
fn caption(point: &Scenario) -> String {
    let is = |axis, name: &str| point.coordinate(axis) == Some(&Coordinate::from(name));
    let what = match () {
        () if is(KIND_AXIS, "icmp") => "ICMP echo",
        () if is(KIND_AXIS, "udp") => "UDP echo",
        () if is(KIND_AXIS, "shell") => "Response of a shell",
        () => "One TCP stream",
    };
    let load = match () {
        () if is(KIND_AXIS, "stream") => "",
        () if is(LOAD_AXIS, "frames") => ", the firewall forwards at full load",
        () if is(LOAD_AXIS, "stream") => ", together with a TCP stream",
        () => ", nothing else is forwarded",
    };
    format!("{what}{load}")
}

/// Questions and those of them that were lost, over all trials at a point; `None` without any.
fn sums(asked: &[&Trial], subject: &str, at: &Scenario) -> Option<ProbeTotals> {
    let mut there = asked
        .iter()
        .copied()
        .filter(|trial| trial.state == State::Accepted)
        .filter(|trial| trial.subject == subject && trial.scenario.contains(at))
        .peekable();
    there.peek()?;
    Some(ProbeTotals::of(there))
}

fn time(estimate: Option<Estimate>) -> Markup {
    let print = |ns: f64| seconds(ns / 1e9);
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (print(estimate.value)) " " span.range { (interval(&estimate, print)) }
            }
        }
    }
}

fn number(estimate: Option<Estimate>) -> Markup {
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (plain(estimate.value)) " " span.range { (interval(&estimate, plain)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use weir_stats::{Probe, Spectrum, TrialKind};

    #[test]
    fn echoes_are_shown_with_what_was_lost() {
        let mut record = sample::record();
        assert!(
            section(&ReportModel::new(&record)).into_string().is_empty(),
            "none asked, none shown"
        );
        let first = record.trials[0].clone();
        let latency = Spectrum::of(&[(21_500.0, 7)]);
        record.trials.push(Trial {
            kind: TrialKind::RoundTrip,
            scenario: first.scenario.with(KIND_AXIS, "icmp").with(LOAD_AXIS, "idle"),
            measured: weir_stats::Measured::Probe(Box::new(Probe {
                planned: 10,
                answered: 7,
                grace_seconds: 1.0,
                latency,
            })),
            ..first
        });
        let page = section(&ReportModel::new(&record)).into_string();
        assert!(page.contains("ICMP echo, nothing else is forwarded"), "{page}");
        assert!(page.contains("3 of 10"), "{page}");
        assert!(page.contains("21.5"), "{page}");
    }
}
