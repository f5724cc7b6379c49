//! Tables of estimates.

use maud::{Markup, html};
use weir_stats::{Estimate, Quantity, RunSubject, Scenario};

use crate::extra::ExtraTable;
use crate::number::{count, interval, plain, rate, seconds, times};
use crate::report_model::{Facet, ReportModel, capital, label};

/// Medians, intervals and ratios at the largest point of each facet, and everything folded away.
pub(super) fn rates(model: &ReportModel<'_>) -> Markup {
    if model.accepted().next().is_none() {
        return html! {};
    }
    html! {
        section #table {
            h2 { "In numbers" }
            p.about {
                "Medians over blocks with their 95 % intervals; ratios are medians of the ratios "
                "within blocks, so that a temporary slowdown of the machine affects both."
            }
            @for facet in &model.facets { (facet_table(model, facet)) }
            (everything(model))
        }
    }
}

/// The points that a table compares: the largest that the reference was measured at, and the
/// smallest above 0.
fn ends(model: &ReportModel<'_>, facet: &Scenario) -> (Scenario, Option<u64>, Option<u64>) {
    let values = model.values();
    let has = |value: &Option<u64>| {
        let point = model.point(facet, *value);
        model.reference.is_none_or(|one| model.estimate(model.quantity, one, &point).is_some())
    };
    let last = values.iter().rev().copied().find(has).flatten();
    let first = values.iter().flatten().copied().find(|value| *value > 0);
    (model.point(facet, last), last, first.filter(|first| Some(*first) != last))
}

fn facet_table(model: &ReportModel<'_>, facet: &Facet) -> Markup {
    let (point, last, first) = ends(model, &facet.scenario);
    let smallest = first.map(|at| model.point(&facet.scenario, Some(at)));
    let place: Vec<String> = [
        model.axis.zip(last).map(|(axis, at)| format!("{} {}", count(at), axis.name)),
        Some(facet.title.clone()).filter(|title| !title.is_empty()),
    ]
    .into_iter()
    .flatten()
    .collect();
    html! {
        div.scroll {
            table.estimates {
                caption { (capital(&place.join(", "))) }
                thead {
                    tr {
                        th { "subject" }
                        th.right { (model.unit()) }
                        @if let Some(reference) = model.reference {
                            th.right { "against " (label(reference)) }
                        }
                        @if model.baseline.is_some() { th.right { "against no rules" } }
                        @if let (Some(first), Some(axis)) = (first, model.axis) {
                            th.right { "against itself at " (count(first)) " " (axis.name) }
                        }
                        th.right { "blocks" }
                    }
                }
                tbody {
                    @for (subject, style) in model.record.run.subjects.iter().zip(&model.styles) {
                        tr.weir[subject.weir] {
                            th scope="row" { span.who { (style.key()) (label(subject)) } }
                            (cells(model, subject, &point, smallest.as_ref()))
                        }
                    }
                }
            }
        }
    }
}

fn cells(
    model: &ReportModel<'_>,
    subject: &RunSubject,
    point: &Scenario,
    first: Option<&Scenario>,
) -> Markup {
    let Some(estimate) = model.estimate(model.quantity, subject, point) else {
        let why = subject.lacking.as_deref().or(subject.limit.as_deref());
        return html! {
            td.about colspan="5" { "not measured" @if let Some(why) = why { ": " (why) } }
        };
    };
    let against = |other: Option<&RunSubject>| {
        let other = other?;
        (other.name != subject.name).then(|| model.ratio(subject, other, point)).flatten()
    };
    html! {
        (cell(Some(&estimate), rate, rate))
        @if model.reference.is_some() { (cell(against(model.reference).as_ref(), times, plain)) }
        @if model.baseline.is_some() { (cell(against(model.baseline).as_ref(), times, plain)) }
        @if let Some(first) = first {
            @let kept = (!subject.baseline).then(|| model.kept(subject, point, first)).flatten();
            (cell(kept.as_ref(), times, plain))
        }
        td.right { (estimate.samples) }
    }
}

/// A value with its interval, or a dash.
pub(super) fn cell(
    estimate: Option<&Estimate>,
    print: fn(f64) -> String,
    ends: fn(f64) -> String,
) -> Markup {
    html! {
        td.right {
            @if let Some(estimate) = estimate {
                (print(estimate.value)) " " span.range { (interval(estimate, ends)) }
            } @else { span.range { "–" } }
        }
    }
}

/// Every estimate of the run.
fn everything(model: &ReportModel<'_>) -> Markup {
    let anywhere = Scenario::default();
    html! {
        details {
            summary { "All points" }
            @for facet in &model.facets {
                @let gap = if facet.title.is_empty() { "" } else { ", " };
                @let caption = format!("{}{gap}{}", capital(model.unit()), facet.title);
                (grid(model, model.quantity, &facet.scenario, rate, &caption))
            }
            (grid(model, Quantity::LoadSeconds, &anywhere, seconds, "Loading at once"))
            (grid(model, Quantity::AddSeconds, &anywhere, seconds, "Adding one rule"))
        }
    }
}

/// Subjects across, values of the axis down.
fn grid(
    model: &ReportModel<'_>,
    quantity: Quantity,
    facet: &Scenario,
    print: fn(f64) -> String,
    caption: &str,
) -> Markup {
    let subjects: Vec<&RunSubject> = model
        .series(quantity, facet)
        .iter()
        .map(|series| &model.record.run.subjects[series.subject])
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
                        th.right { (model.axis.map_or("", |axis| axis.name.as_str())) }
                        @for subject in &subjects { th.right { (label(subject)) } }
                    }
                }
                tbody {
                    @for value in model.values() {
                        @let point = model.point(facet, value);
                        tr {
                            th.right scope="row" { (value.map(count).unwrap_or_default()) }
                            @for subject in &subjects {
                                @let estimate = model.estimate(quantity, subject, &point);
                                (cell(estimate.as_ref(), print, print))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table that came with the page.
pub(super) fn extra(table: &ExtraTable) -> Markup {
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
