//! The drawings of look-ups in user space: rate, memory and build time of each classifier, and the
//! sets that one does not take.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use weir_stats::{Quantity, Scenario, TrialKind};

use super::rate_and_load_time_plots::{self, SMALL_LAYOUT};
use crate::chart::{ChartSeries, ChartTitlesAndUnit, log_line_chart, subject_row_chart};
use crate::number_format::ValueUnit;
use crate::report_model::{ReportModel, axis_title_or_name, capitalize_first};

/// What is drawn for each facet, where it was measured: id, title, axis, unit.
const DRAWN_QUANTITIES: [(Quantity, &str, &str, &str, ValueUnit); 5] = [
    (
        Quantity::LookupsPerSecond,
        "lookups-first",
        "Look-ups per second, first match",
        "look-ups/s",
        ValueUnit::Rate,
    ),
    (
        Quantity::AllMatchesPerSecond,
        "lookups-all",
        "Look-ups per second, all matches counted",
        "look-ups/s",
        ValueUnit::Rate,
    ),
    (Quantity::BytesPerRule, "lookups-memory", "Memory", "bytes per rule", ValueUnit::Rate),
    (Quantity::BuildSeconds, "lookups-build", "Time to build", "seconds", ValueUnit::Seconds),
    (
        Quantity::UpdatesPerSecond,
        "lookups-updates",
        "Rules removed or inserted per second",
        "updates/s",
        ValueUnit::Rate,
    ),
];

/// Whether the run measured look-ups.
fn has_lookups(model: &ReportModel<'_>) -> bool {
    model.accepted_trials().any(|trial| trial.kind == TrialKind::Lookups)
}

/// All of them; nothing if the study measured no look-ups.
pub(super) fn render_section(model: &ReportModel<'_>) -> Markup {
    if !has_lookups(model) {
        return html! {};
    }
    html! {
        section #lookups {
            h2 { "Look-ups in user space" }
            p.about {
                "Each classifier is the published algorithm in a program of its own: no kernel, no "
                "packets on a wire. Rates are of one core and of processor time. Both axes are "
                "logarithmic. A line ends where the classifier does not take the rules."
            }
            (rate_and_load_time_plots::render_legend(model, subjects_with_lookups(model)))
            @for (quantity, id, title, y_title, unit) in DRAWN_QUANTITIES {
                (render_quantity(model, quantity, [id, title, y_title], unit))
            }
            (render_refusals(model))
        }
    }
}

fn subjects_with_lookups<'a>(model: &'a ReportModel<'_>) -> impl Iterator<Item = usize> + 'a {
    let has_trial = |name: &str| {
        let mut trials = model.accepted_trials();
        trials.any(|trial| trial.subject == name && trial.kind == TrialKind::Lookups)
    };
    let subjects = model.record.run.subjects.iter().enumerate();
    subjects.filter(move |(_, subject)| has_trial(&subject.name)).map(|(at, _)| at)
}

/// One plot for each facet, on shared axes.
fn render_quantity(
    model: &ReportModel<'_>,
    quantity: Quantity,
    [id, title, y_title]: [&str; 3],
    unit: ValueUnit,
) -> Markup {
    let facets = model.facets.iter();
    let drawn: Vec<_> = facets
        .map(|facet| (facet, model.chart_series(quantity, &facet.scenario)))
        .filter(|(_, series)| !series.is_empty())
        .collect();
    if drawn.is_empty() {
        return html! {};
    }
    let all: Vec<ChartSeries> = drawn.iter().flat_map(|(_, series)| series).cloned().collect();
    html! {
        h3 { (title) }
        div.pair {
            @for (at, (facet, series)) in drawn.iter().enumerate() {
                @let plot_id = format!("{id}-{at}");
                @let plot_title =
                    if facet.title.is_empty() { title } else { facet.title.as_str() };
                @let caption = ChartTitlesAndUnit {
                    id: &plot_id,
                    title: plot_title,
                    description: "Values by classifier; the records have each trial.",
                    x_title: model.numeric_axis.map_or("", |axis| axis_title_or_name(axis)),
                    y_title,
                    unit,
                };
                div {
                    @if !facet.title.is_empty() { h4 { (capitalize_first(&facet.title)) } }
                    @if let Some(axis) = model.numeric_axis {
                        figure data-plot=(axis.name) {
                            (log_line_chart::draw_log_line_chart(&caption, SMALL_LAYOUT, series, &all))
                        }
                    } @else {
                        figure { (subject_row_chart::draw_subject_row_chart(&caption, "small", SMALL_LAYOUT.size.width, series)) }
                    }
                }
            }
        }
    }
}

/// Why classifiers refused sets, in the order of the subjects.
fn render_refusals(model: &ReportModel<'_>) -> Markup {
    let mut points_by_reason: BTreeMap<(usize, &str), BTreeSet<&Scenario>> = BTreeMap::new();
    for trial in model.accepted_trials() {
        let refusal = trial.lookup_measurement().and_then(|measured| measured.refusal.as_deref());
        let mut subjects = model.record.run.subjects.iter();
        let subject = subjects.position(|subject| subject.name == trial.subject);
        if let (Some(reason), Some(subject)) = (refusal, subject) {
            points_by_reason.entry((subject, reason)).or_default().insert(&trial.scenario);
        }
    }
    if points_by_reason.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Sets that a classifier does not take" }
        div.scroll {
            table {
                thead { tr { th { "classifier" } th { "reason" } th { "sets" } } }
                tbody {
                    @for ((subject, reason), points) in &points_by_reason {
                        tr {
                            th scope="row" {
                                (model.subject_label_by_name(&model.record.run.subjects[*subject].name))
                            }
                            td { (reason) }
                            td { (join_points(points)) }
                        }
                    }
                }
            }
        }
    }
}

fn join_points(points: &BTreeSet<&Scenario>) -> String {
    points.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    #[test]
    fn each_facet_has_plots_and_refused_sets_their_reason() {
        let record = sample_records::sample_lookups_record();
        let page = render_section(&ReportModel::new(&record)).into_string();
        for words in [
            "Look-ups per second, first match",
            "Memory",
            "Time to build",
            "Sources near the rules",
            "Sources far from the rules",
            "needs more than 9 steps",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("updates/s"), "what was not measured is not drawn");
        let frames = sample_records::sample_record();
        assert!(render_section(&ReportModel::new(&frames)).into_string().is_empty());
    }
}
