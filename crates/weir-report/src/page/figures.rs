//! The drawings: packets per second, the same for each facet, loading.

use maud::{Markup, html};
use weir_stats::{Quantity, RunSubject, ScenarioAxis};

use crate::chart::lines::{self, PlotLayout};
use crate::chart::{Caption, ChartSize, Series, rows};
use crate::number::{self, Unit};
use crate::report_model::{ReportModel, axis_title, capital};
use crate::series_style::SeriesStyle;

/// What packets per second are, above their axis.
pub(super) const FORWARDED: &str = "packets/s, forwarded";
const WIDE: PlotLayout =
    PlotLayout { size: ChartSize { width: 1008.0, height: 470.0 }, names: 150.0, class: "wide" };
const NARROW: PlotLayout =
    PlotLayout { size: ChartSize { width: 400.0, height: 360.0 }, names: 0.0, class: "narrow" };
pub(super) const SMALL: PlotLayout =
    PlotLayout { size: ChartSize { width: 488.0, height: 320.0 }, names: 0.0, class: "small" };

/// The wide layout, with as much room beside the lines as the longest name needs; names that would
/// take a third of it are left to the legend, and so are more than there is room for.
fn wide(series: &[Series]) -> PlotLayout {
    const LONGEST: usize = 36;
    const MOST: usize = 24;
    let longest = series.iter().map(|one| one.label.chars().count()).max().unwrap_or(0);
    let fit = longest <= LONGEST && series.len() <= MOST;
    PlotLayout { names: if fit { 28.0 + 8.2 * longest as f64 } else { 0.0 }, ..WIDE }
}

/// Whether packets per second were measured anywhere.
fn has_rates(model: &ReportModel<'_>) -> bool {
    let mut facets = model.facets.iter();
    facets.any(|facet| !model.series(Quantity::Pps, &facet.scenario).is_empty())
}

/// The plot that the page is about, or why there is none.
pub(super) fn rates(model: &ReportModel<'_>) -> Markup {
    if !has_rates(model) {
        return html! {
            p.about { "Packet rates are not drawn: no accepted trial measured them." }
        };
    }
    let facet = model.headline.as_ref().map_or(0, |headline| headline.facet);
    let facet = &model.facets[facet];
    let series = model.series(Quantity::Pps, &facet.scenario);
    let title = match model.axis {
        Some(axis) => format!("Packets per second against {}", axis.name),
        None => "Packets per second".to_owned(),
    };
    let about = description(model, &series);
    html! {
        section #rates {
            h2 { (title) }
            p.about {
                @if !facet.sentence.is_empty() { (facet.sentence) " " }
                @if model.axis.is_some() {
                    "Both axes are logarithmic: a line that falls to the right has a cost per "
                    "rule, a flat one does not."
                } @else { "The axis is logarithmic: further right is better." }
            }
            (legend(model, series.iter().map(|one| one.subject)))
            (plot(model.axis, &packets(model, "rates", &title, &about), &series))
            (how_drawn())
        }
    }
}

/// The caption of a drawing of packets per second.
fn packets<'a>(
    model: &ReportModel<'a>,
    id: &'a str,
    title: &'a str,
    about: &'a str,
) -> Caption<'a> {
    let x_title = model.axis.map_or("", axis_title);
    Caption { id, title, about, x_title, y_title: FORWARDED, unit: Unit::Rate }
}

/// A wide and a narrow drawing of which the style sheet shows one.
pub(super) fn plot(
    axis: Option<&ScenarioAxis>,
    caption: &Caption<'_>,
    series: &[Series],
) -> Markup {
    let narrow_id = format!("{}-narrow", caption.id);
    let narrow = Caption { id: &narrow_id, ..*caption };
    html! {
        @if let Some(axis) = axis {
            figure data-plot=(axis.name) {
                (lines::draw(caption, wide(series), series, series))
                (lines::draw(&narrow, NARROW, series, series))
            }
        } @else {
            figure {
                (rows::draw(caption, "wide", WIDE.size.width, series))
                (rows::draw(&narrow, "narrow", NARROW.size.width, series))
            }
        }
    }
}

fn how_drawn() -> Markup {
    html! {
        p.small-print {
            "Small dots are single trials, markers are medians over blocks, shaded areas the 95 % "
            "intervals. Filled markers are weir’s forms, hollow ones the subjects for comparison, "
            "dashed lines a firewall without rules."
        }
    }
}

/// What a drawing shows, in words: each line's first and last value.
fn description(model: &ReportModel<'_>, series: &[Series]) -> String {
    let axis = model.axis.map_or("rules", |axis| axis.name.as_str());
    let mut parts = Vec::new();
    for one in series {
        let (Some(first), Some(last)) = (one.points.first(), one.points.last()) else { continue };
        parts.push(if first.x == last.x {
            format!("{}: {} packets/s", one.label, number::rate(last.value))
        } else {
            format!(
                "{}: {} packets/s at {} {axis}, {} at {}",
                one.label,
                number::rate(first.value),
                number::count(first.x as u64),
                number::rate(last.value),
                number::count(last.x as u64)
            )
        });
    }
    format!("{}.", parts.join("; "))
}

/// Names of the subjects with their styles; the page's script makes switches of them.
pub(super) fn legend(model: &ReportModel<'_>, shown: impl Iterator<Item = usize>) -> Markup {
    let all = &model.record.run.subjects;
    legend_of(shown.map(|at| (at, &all[at], model.styles[at])))
}

/// The same of subjects by number.
pub(super) fn legend_of<'a>(
    shown: impl Iterator<Item = (usize, &'a RunSubject, SeriesStyle)>,
) -> Markup {
    html! {
        ul.legend {
            @for (at, subject, style) in shown {
                li.weir[subject.weir] data-series=(at) title=(subject.about) {
                    (style.key())
                    span { (subject.title) }
                }
            }
        }
    }
}

/// The same plot for every facet, on shared axes.
pub(super) fn facets(model: &ReportModel<'_>) -> Markup {
    if !has_rates(model) {
        return html! {};
    }
    if model.facets.len() < 2 || model.axis.is_none() {
        return html! { @if model.axis.is_none() { (other_rows(model)) } };
    }
    let drawn: Vec<Vec<Series>> =
        model.facets.iter().map(|facet| model.series(Quantity::Pps, &facet.scenario)).collect();
    let all: Vec<Series> = drawn.iter().flatten().cloned().collect();
    html! {
        section #facets {
            h2 { "Side by side" }
            p.about { "The same measurement for each kind of traffic, on the same axes." }
            div.pair {
                @for (at, (facet, series)) in model.facets.iter().zip(&drawn).enumerate() {
                    @let id = format!("facet-{at}");
                    @let about = description(model, series);
                    @let caption = packets(model, &id, &facet.title, &about);
                    div {
                        h3 { (capital(&facet.title)) }
                        figure data-plot=[model.axis.map(|axis| axis.name.as_str())] {
                            (lines::draw(&caption, SMALL, series, &all))
                        }
                    }
                }
            }
        }
    }
}

/// Rows of the facets that the first plot does not show.
fn other_rows(model: &ReportModel<'_>) -> Markup {
    let shown = model.headline.as_ref().map_or(0, |headline| headline.facet);
    html! {
        @for (at, facet) in model.facets.iter().enumerate().filter(|(at, _)| *at != shown) {
            @let series = model.series(Quantity::Pps, &facet.scenario);
            @let (id, about) = (format!("rows-{at}"), description(model, &series));
            section {
                h2 { (capital(&facet.title)) }
                (plot(model.axis, &packets(model, &id, &facet.title, &about), &series))
            }
        }
    }
}

/// How long it takes to put the rules in force.
pub(super) fn loads(model: &ReportModel<'_>) -> Markup {
    let anywhere = weir_stats::Scenario::default();
    let shown = [
        (Quantity::LoadSeconds, "load", "All rules at once", "seconds to load"),
        (Quantity::AddSeconds, "add", "One more rule", "seconds to add one rule"),
    ];
    let drawn: Vec<_> = shown
        .into_iter()
        .map(|(quantity, id, title, y_title)| {
            (id, title, y_title, model.series(quantity, &anywhere))
        })
        .filter(|(.., series)| !series.is_empty())
        .collect();
    if drawn.is_empty() {
        return html! {};
    }
    html! {
        section #loads {
            h2 { "Loading" }
            p.about {
                "The duration of the command that loads the rules, and, if it was "
                "measured, of the one that adds a single rule to a loaded ruleset."
            }
            div.pair {
                @for (id, title, y_title, series) in &drawn {
                    div {
                        h3 { (title) }
                        (load_plot(model, id, title, y_title, series))
                    }
                }
            }
        }
    }
}

fn load_plot(
    model: &ReportModel<'_>,
    id: &str,
    title: &str,
    y_title: &str,
    series: &[Series],
) -> Markup {
    let x_title = model.axis.map_or("", |axis| axis_title(axis));
    let unit = Unit::Seconds;
    let about = "Seconds by subject; the table below has the values.";
    let caption = Caption { id, title, about, x_title, y_title, unit };
    html! {
        @if let Some(axis) = model.axis {
            figure data-plot=(axis.name) { (lines::draw(&caption, SMALL, series, series)) }
        } @else {
            figure { (rows::draw(&caption, "small", SMALL.size.width, series)) }
        }
    }
}
