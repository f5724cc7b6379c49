//! Values over the time of a trial: entries in the connection table, and connections per second.

use std::collections::BTreeMap;

use maud::{Markup, html};
use weir_stats::{Scenario, Trial};

use super::rate_and_load_time_plots::{self, SMALL_LAYOUT};
use crate::chart::ChartTitlesAndUnit;
use crate::chart::linear_curve_chart::{self, Curve};
use crate::number_format::ValueUnit;
use crate::report_model::ReportModel;

/// Points of the grid that are drawn, those with the most connections.
const MAX_DRAWN_SCENARIOS: usize = 4;
/// Parts of a trial over which a rate is taken, and samples of the table that are drawn, about.
const RATE_INTERVALS_PER_TRIAL: u32 = 40;
const MAX_CONNTRACK_SAMPLES: usize = 120;

/// A value over the seconds of a trial.
type TimeSeries = Vec<(f64, f64)>;

/// What is drawn of a trial.
struct TimeSeriesKind {
    id: &'static str,
    title: &'static str,
    y_title: &'static str,
    read_series: fn(&Trial) -> TimeSeries,
}

const TIME_SERIES_KINDS: [TimeSeriesKind; 2] = [
    TimeSeriesKind {
        id: "table",
        title: "Entries in the connection table",
        y_title: "entries",
        read_series: conntrack_entry_series,
    },
    TimeSeriesKind {
        id: "done",
        title: "Complete connections",
        y_title: "connections/s",
        read_series: connection_rate_series,
    },
];

/// All trials that were followed while they lasted; nothing where none was.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    let mut points: BTreeMap<&Scenario, Vec<&Trial>> = BTreeMap::new();
    for trial in model.accepted_trials().filter(|trial| !connection_rate_series(trial).is_empty()) {
        points.entry(&trial.scenario).or_default().push(trial);
    }
    let all = points.len();
    keep_scenarios_with_most_connections(&mut points);
    let subjects = |trials: &[&Trial]| -> Vec<usize> {
        let of = |name: &str| trials.iter().any(|trial| trial.subject == name);
        let named = model.record.run.subjects.iter().enumerate();
        named.filter(|(_, subject)| of(&subject.name)).map(|(at, _)| at).collect()
    };
    html! {
        @if !points.is_empty() {
            section #courses {
                h2 { "During a trial" }
                p.about {
                    "One curve per trial, for every trial that counts."
                    @if all > points.len() {
                        " The " (points.len()) " points with the most connections of " (all) "."
                    }
                }
                @let followed: Vec<&Trial> = points.values().flatten().copied().collect();
                (rate_and_load_time_plots::render_legend(model, subjects(&followed).into_iter()))
                @for (at, (point, trials)) in points.iter().enumerate() {
                    @let said = point.to_string();
                    @if !said.is_empty() { h3 { (said) } }
                    div.pair { @for drawn in &TIME_SERIES_KINDS { (render_time_series(model, drawn, at, trials)) } }
                }
            }
        }
    }
}

/// Leaves the points at which the most connections were there at once, or completed.
fn keep_scenarios_with_most_connections(points: &mut BTreeMap<&Scenario, Vec<&Trial>>) {
    let size = |trials: &[&Trial]| {
        let of = |trial: &&Trial| trial.connection_counts().map_or(0, |all| all.completed);
        trials.iter().map(of).max().unwrap_or(0)
    };
    let mut sizes: Vec<u64> = points.values().map(|trials| size(trials)).collect();
    sizes.sort_unstable();
    let least = sizes.iter().rev().nth(MAX_DRAWN_SCENARIOS - 1).copied().unwrap_or(0);
    points.retain(|_, trials| size(trials) >= least);
}

fn render_time_series(
    model: &ReportModel<'_>,
    drawn: &TimeSeriesKind,
    chart_number: usize,
    trials: &[&Trial],
) -> Markup {
    let curve = |trial: &&Trial| {
        let mut subjects = model.record.run.subjects.iter();
        let subject = subjects.position(|subject| subject.name == trial.subject)?;
        let points = (drawn.read_series)(trial);
        let style = model.styles[subject];
        (!points.is_empty()).then_some(Curve {
            subject_index: subject,
            style,
            has_markers: false,
            points,
        })
    };
    let drawn_curves: Vec<Curve> = trials.iter().filter_map(curve).collect();
    let id = format!("course-{}-{chart_number}", drawn.id);
    let caption = ChartTitlesAndUnit {
        id: &id,
        title: drawn.title,
        description: "One curve per trial over time; the records have every sample.",
        x_title: "since the first connection",
        y_title: drawn.y_title,
        unit: ValueUnit::Rate,
    };
    html! {
        @if !drawn_curves.is_empty() {
            div {
                h3 { (drawn.title) }
                figure { (linear_curve_chart::draw_linear_curve_chart(&caption, SMALL_LAYOUT.size, ValueUnit::Seconds, &drawn_curves)) }
            }
        }
    }
}

/// Entries in the connection table.
fn conntrack_entry_series(trial: &Trial) -> TimeSeries {
    let Some(table) = &trial.observations.table else { return TimeSeries::new() };
    let step = table.samples.len().div_ceil(MAX_CONNTRACK_SAMPLES).max(1);
    let thin = table.samples.iter().step_by(step);
    thin.map(|(seconds, entries)| (*seconds, *entries as f64)).collect()
}

/// Complete connections per second.
fn connection_rate_series(trial: &Trial) -> TimeSeries {
    trial.connection_counts().map_or_else(TimeSeries::new, |all| {
        all.connection_rates_over_time(RATE_INTERVALS_PER_TRIAL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn only_trials_with_time_series_are_drawn() {
        let plain = sample_records::sample_record();
        assert!(render_section(&ReportModel::new(&plain)).into_string().is_empty());
        let followed = sample_records::sample_connections_record();
        let text = render_section(&ReportModel::new(&followed)).into_string();
        assert_eq!(text.matches("<svg class=\"chart small\"").count(), 2);
        let trials =
            followed.trials.iter().filter(|trial| trial.connection_counts().is_some()).count();
        assert_eq!(text.matches("class=\"line thin\"").count(), 2 * trials);
    }

    #[test]
    fn a_halved_connection_rate_is_visible_in_the_series() {
        let trial = &sample_records::sample_connections_record().trials[0];
        let course = connection_rate_series(trial);
        let (first, last) = (course[0].1, course[course.len() - 1].1);
        assert!((first / last - 2.0).abs() < 0.05, "{course:?}");
        assert!((35..=45).contains(&course.len()), "{}", course.len());
        assert!(
            connection_rate_series(&Trial {
                results: weir_stats::TrialResults::PacketSumsOrLoadTime,
                ..trial.clone()
            })
            .is_empty()
        );
    }
}
