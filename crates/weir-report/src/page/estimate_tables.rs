//! Tables of estimates.

use maud::{Markup, html};
use weir_stats::{Estimate, Quantity, RunSubject, Scenario};

use crate::extra_section::ExtraTable;
use crate::number_format::{
    format_count, format_interval, format_rate_without_unit, format_ratio,
    format_ratio_without_times_sign, format_si_seconds,
};
use crate::report_model::{Facet, ReportModel, capitalize_first, subject_label};

/// Medians, intervals and ratios at the largest point of each facet, and everything folded away.
pub(super) fn render_estimates_section(model: &ReportModel<'_>) -> Markup {
    if model.accepted_trials().next().is_none() {
        return html! {};
    }
    html! {
        section #table {
            h2 { "In numbers" }
            p.about {
                "Medians over blocks with their 95 % intervals; ratios are medians of the ratios "
                "within blocks, so that a temporary slowdown of the machine affects both."
            }
            @for facet in &model.facets { (render_facet_table(model, facet)) }
            (render_all_points(model))
        }
    }
}

/// The points that a table compares: the largest that the reference was measured at, and the
/// smallest above 0.
fn reference_point_with_last_and_first_value(
    model: &ReportModel<'_>,
    facet: &Scenario,
) -> (Scenario, Option<u64>, Option<u64>) {
    let values = model.numeric_axis_values();
    let has = |value: &Option<u64>| {
        let point = model.scenario_at(facet, *value);
        model.reference.is_none_or(|one| model.estimate_at(model.quantity, one, &point).is_some())
    };
    let last = values.iter().rev().copied().find(has).flatten();
    let first = values.iter().flatten().copied().find(|value| *value > 0);
    (model.scenario_at(facet, last), last, first.filter(|first| Some(*first) != last))
}

fn render_facet_table(model: &ReportModel<'_>, facet: &Facet) -> Markup {
    let (point, last, first) = reference_point_with_last_and_first_value(model, &facet.scenario);
    let smallest = first.map(|at| model.scenario_at(&facet.scenario, Some(at)));
    let place: Vec<String> = [
        model
            .numeric_axis
            .zip(last)
            .map(|(axis, at)| format!("{} {}", format_count(at), axis.name)),
        Some(facet.title.clone()).filter(|title| !title.is_empty()),
    ]
    .into_iter()
    .flatten()
    .collect();
    html! {
        div.scroll {
            table.estimates {
                caption { (capitalize_first(&place.join(", "))) }
                thead {
                    tr {
                        th { "subject" }
                        th.right { (model.main_quantity_unit()) }
                        @if let Some(reference) = model.reference {
                            th.right { "against " (subject_label(reference)) }
                        }
                        @if model.baseline.is_some() { th.right { "against no rules" } }
                        @if let (Some(first), Some(axis)) = (first, model.numeric_axis) {
                            th.right { "against itself at " (format_count(first)) " " (axis.name) }
                        }
                        th.right { "blocks" }
                    }
                }
                tbody {
                    @for (subject, style) in model.record.run.subjects.iter().zip(&model.styles) {
                        tr.weir[subject.weir] {
                            th scope="row" { span.who { (style.render_legend_key()) (subject_label(subject)) } }
                            (render_subject_cells(model, subject, &point, smallest.as_ref()))
                        }
                    }
                }
            }
        }
    }
}

fn render_subject_cells(
    model: &ReportModel<'_>,
    subject: &RunSubject,
    point: &Scenario,
    first: Option<&Scenario>,
) -> Markup {
    let Some(estimate) = model.estimate_at(model.quantity, subject, point) else {
        let why = subject.lacking.as_deref().or(subject.excluded_points_and_reason.as_deref());
        return html! {
            td.about colspan="5" { "not measured" @if let Some(why) = why { ": " (why) } }
        };
    };
    let against = |other: Option<&RunSubject>| {
        let other = other?;
        (other.name != subject.name)
            .then(|| model.estimate_two_subject_ratio(subject, other, point))
            .flatten()
    };
    html! {
        (render_estimate_cell(Some(&estimate), format_rate_without_unit, format_rate_without_unit))
        @if model.reference.is_some() { (render_estimate_cell(against(model.reference).as_ref(), format_ratio, format_ratio_without_times_sign)) }
        @if model.baseline.is_some() { (render_estimate_cell(against(model.baseline).as_ref(), format_ratio, format_ratio_without_times_sign)) }
        @if let Some(first) = first {
            @let kept = (!subject.loads_no_rules).then(|| model.estimate_one_subject_scenario_ratio(subject, point, first)).flatten();
            (render_estimate_cell(kept.as_ref(), format_ratio, format_ratio_without_times_sign))
        }
        td.right { (estimate.samples) }
    }
}

/// A value with its interval, or a dash.
pub(super) fn render_estimate_cell(
    estimate: Option<&Estimate>,
    print: fn(f64) -> String,
    ends: fn(f64) -> String,
) -> Markup {
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (print(estimate.value)) " " span.range { (format_interval(estimate, ends)) }
            } @else { span.range { "–" } }
        }
    }
}

/// What studies of look-ups measure in addition to the rate.
const CLASSIFIER_QUANTITIES: [Quantity; 3] =
    [Quantity::AllMatchesPerSecond, Quantity::BytesPerRule, Quantity::BuildSeconds];

fn choose_classifier_format(quantity: Quantity) -> fn(f64) -> String {
    if quantity == Quantity::BuildSeconds { format_si_seconds } else { format_rate_without_unit }
}

/// Every estimate of the run.
fn render_all_points(model: &ReportModel<'_>) -> Markup {
    let anywhere = Scenario::default();
    html! {
        details {
            summary { "All points" }
            @for facet in &model.facets {
                @let gap = if facet.title.is_empty() { "" } else { ", " };
                @let caption = format!("{}{gap}{}", capitalize_first(model.main_quantity_unit()), facet.title);
                (render_estimates_by_axis_value(model, model.quantity, &facet.scenario, format_rate_without_unit, &caption))
                @for quantity in CLASSIFIER_QUANTITIES {
                    @let print = choose_classifier_format(quantity);
                    @let caption = format!("{}{gap}{}", capitalize_first(quantity.title()), facet.title);
                    (render_estimates_by_axis_value(model, quantity, &facet.scenario, print, &caption))
                }
            }
            (render_estimates_by_axis_value(model, Quantity::LoadSeconds, &anywhere, format_si_seconds, "Loading at once"))
            (render_estimates_by_axis_value(model, Quantity::AddSeconds, &anywhere, format_si_seconds, "Adding one rule"))
        }
    }
}

/// Subjects across, values of the axis down.
fn render_estimates_by_axis_value(
    model: &ReportModel<'_>,
    quantity: Quantity,
    facet: &Scenario,
    print: fn(f64) -> String,
    caption: &str,
) -> Markup {
    let subjects: Vec<&RunSubject> = model
        .chart_series(quantity, facet)
        .iter()
        .map(|series| &model.record.run.subjects[series.subject_index])
        .collect();
    if subjects.is_empty() {
        return html! {};
    }
    html! {
        div.scroll {
            table {
                caption { (caption) }
                thead {
                    tr {
                        th.right { (model.numeric_axis.map_or("", |axis| axis.name.as_str())) }
                        @for subject in &subjects { th.right { (subject_label(subject)) } }
                    }
                }
                tbody {
                    @for value in model.numeric_axis_values() {
                        @let point = model.scenario_at(facet, value);
                        tr {
                            th.right scope="row" { (value.map(format_count).unwrap_or_default()) }
                            @for subject in &subjects {
                                @let estimate = model.estimate_at(quantity, subject, &point);
                                (render_estimate_cell(estimate.as_ref(), print, print))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table that came with the page.
pub(super) fn render_extra_table(table: &ExtraTable) -> Markup {
    let is_number = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column)).peekable();
        let numeric =
            |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit());
        cells.peek().is_some() && cells.all(numeric)
    };
    let right: Vec<bool> = (0..table.columns.len()).map(is_number).collect();
    html! {
        div.scroll {
            table {
                @if !table.caption.is_empty() { caption { (table.caption) } }
                thead {
                    tr {
                        @for (column, right) in table.columns.iter().zip(&right) {
                            th.right[*right] { (column) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (at, right) in right.iter().enumerate() {
                                td.right[*right] { (row.get(at).map_or("", String::as_str)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
