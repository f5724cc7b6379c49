//! The drawings: packets per second, the same for each facet, loading.

use maud::{Markup, html};
use weir_stats::{Quantity, RunSubject, ScenarioAxis};

use crate::chart::log_line_chart::{self, ChartSizeAndStyle};
use crate::chart::{ChartSeries, ChartSize, ChartTitlesAndUnit, subject_row_chart};
use crate::number_format::{self, ValueUnit};
use crate::report_model::{ReportModel, axis_title_or_name, capitalize_first};
use crate::series_style::SeriesStyle;

/// What packets per second are, above their axis.
pub(super) const FORWARDED_AXIS_TITLE: &str = "packets/s, forwarded";
const WIDE_LAYOUT: ChartSizeAndStyle = ChartSizeAndStyle {
    size: ChartSize { width: 1008.0, height: 470.0 },
    names_width: 150.0,
    css_class: "wide",
};
const NARROW_LAYOUT: ChartSizeAndStyle = ChartSizeAndStyle {
    size: ChartSize { width: 400.0, height: 360.0 },
    names_width: 0.0,
    css_class: "narrow",
};
pub(super) const SMALL_LAYOUT: ChartSizeAndStyle = ChartSizeAndStyle {
    size: ChartSize { width: 488.0, height: 320.0 },
    names_width: 0.0,
    css_class: "small",
};

/// The wide layout, with as much room next to the lines as the longest name needs; names that would
/// take a third of it are left to the legend, and so are more than there is room for.
fn wide_layout_for(series: &[ChartSeries]) -> ChartSizeAndStyle {
    const MAX_NAME_CHARS: usize = 36;
    const MAX_NAMED_SERIES: usize = 24;
    let longest = series.iter().map(|one| one.label.chars().count()).max().unwrap_or(0);
    let fit = longest <= MAX_NAME_CHARS && series.len() <= MAX_NAMED_SERIES;
    ChartSizeAndStyle {
        names_width: if fit { 28.0 + 8.2 * longest as f64 } else { 0.0 },
        ..WIDE_LAYOUT
    }
}

/// Whether packets per second were measured anywhere.
fn has_packet_rates(model: &ReportModel<'_>) -> bool {
    let mut facets = model.facets.iter();
    facets.any(|facet| !model.chart_series(Quantity::Pps, &facet.scenario).is_empty())
}

/// The plot that the page is about, or why there is none.
pub(super) fn render_headline_facet_plot(model: &ReportModel<'_>) -> Markup {
    if model.quantity == Quantity::LookupsPerSecond {
        return html! {};
    }
    if !has_packet_rates(model) {
        return html! {
            p.about { "Packet rates are not drawn: no accepted trial measured them." }
        };
    }
    let facet = model.headline.as_ref().map_or(0, |headline| headline.facet_index);
    let facet = &model.facets[facet];
    let series = model.chart_series(Quantity::Pps, &facet.scenario);
    let title = match model.numeric_axis {
        Some(axis) => format!("Packets per second against {}", axis.name),
        None => "Packets per second".to_owned(),
    };
    let about = describe_first_and_last_packet_rates(model, &series);
    html! {
        section #rates {
            h2 { (title) }
            p.about {
                @if !facet.sentence.is_empty() { (facet.sentence) " " }
                @if model.numeric_axis.is_some() {
                    "Both axes are logarithmic: a line that falls to the right has a cost per "
                    "rule, a flat one does not."
                } @else { "The axis is logarithmic: further right is better." }
            }
            (render_legend(model, series.iter().map(|one| one.subject_index)))
            (render_wide_and_narrow_plot(model.numeric_axis, &build_packet_rate_chart_titles(model, "rates", &title, &about), &series))
            (render_plot_symbol_explanation())
        }
    }
}

/// The caption of a drawing of packets per second.
fn build_packet_rate_chart_titles<'a>(
    model: &ReportModel<'a>,
    id: &'a str,
    title: &'a str,
    about: &'a str,
) -> ChartTitlesAndUnit<'a> {
    let x_title = model.numeric_axis.map_or("", axis_title_or_name);
    ChartTitlesAndUnit {
        id,
        title,
        description: about,
        x_title,
        y_title: FORWARDED_AXIS_TITLE,
        unit: ValueUnit::Rate,
    }
}

/// A wide and a narrow drawing of which the style sheet shows one.
pub(super) fn render_wide_and_narrow_plot(
    axis: Option<&ScenarioAxis>,
    caption: &ChartTitlesAndUnit<'_>,
    series: &[ChartSeries],
) -> Markup {
    let narrow_id = format!("{}-narrow", caption.id);
    let narrow = ChartTitlesAndUnit { id: &narrow_id, ..*caption };
    html! {
        @if let Some(axis) = axis {
            figure data-plot=(axis.name) {
                (log_line_chart::draw_log_line_chart(caption, wide_layout_for(series), series, series))
                (log_line_chart::draw_log_line_chart(&narrow, NARROW_LAYOUT, series, series))
            }
        } @else {
            figure {
                (subject_row_chart::draw_subject_row_chart(caption, "wide", WIDE_LAYOUT.size.width, series))
                (subject_row_chart::draw_subject_row_chart(&narrow, "narrow", NARROW_LAYOUT.size.width, series))
            }
        }
    }
}

fn render_plot_symbol_explanation() -> Markup {
    html! {
        p.small-print {
            "Small dots are single trials, markers are medians over blocks, shaded areas the 95 % "
            "intervals. Filled markers are weir’s forms, hollow ones the subjects for comparison, "
            "dashed lines a firewall without rules."
        }
    }
}

/// What a drawing shows, in words: each line's first and last value.
fn describe_first_and_last_packet_rates(model: &ReportModel<'_>, series: &[ChartSeries]) -> String {
    let axis = model.numeric_axis.map_or("rules", |axis| axis.name.as_str());
    let mut parts = Vec::new();
    for one in series {
        let (Some(first), Some(last)) = (one.points.first(), one.points.last()) else { continue };
        parts.push(if first.x == last.x {
            format!(
                "{}: {} packets/s",
                one.label,
                number_format::format_rate_without_unit(last.value)
            )
        } else {
            format!(
                "{}: {} packets/s at {} {axis}, {} at {}",
                one.label,
                number_format::format_rate_without_unit(first.value),
                number_format::format_count(first.x as u64),
                number_format::format_rate_without_unit(last.value),
                number_format::format_count(last.x as u64)
            )
        });
    }
    format!("{}.", parts.join("; "))
}

/// Names of the subjects with their styles; the page's script makes switches of them.
pub(super) fn render_legend(model: &ReportModel<'_>, shown: impl Iterator<Item = usize>) -> Markup {
    let all = &model.record.run.subjects;
    render_subject_legend_with_styles(shown.map(|at| (at, &all[at], model.styles[at])))
}

/// The same of subjects by number.
pub(super) fn render_subject_legend_with_styles<'a>(
    shown: impl Iterator<Item = (usize, &'a RunSubject, SeriesStyle)>,
) -> Markup {
    html! {
        ul.legend {
            @for (at, subject, style) in shown {
                li.weir[subject.weir] data-series=(at) title=(subject.about) {
                    (style.render_legend_key())
                    span { (subject.title) }
                }
            }
        }
    }
}

/// The same plot for every facet, on shared axes.
pub(super) fn render_packet_rate_facet_plots(model: &ReportModel<'_>) -> Markup {
    if !has_packet_rates(model) {
        return html! {};
    }
    if model.facets.len() < 2 || model.numeric_axis.is_none() {
        return html! { @if model.numeric_axis.is_none() { (render_facets_besides_headline(model)) } };
    }
    let drawn: Vec<Vec<ChartSeries>> = model
        .facets
        .iter()
        .map(|facet| model.chart_series(Quantity::Pps, &facet.scenario))
        .collect();
    let all: Vec<ChartSeries> = drawn.iter().flatten().cloned().collect();
    html! {
        section #facets {
            h2 { "Side by side" }
            p.about { "The same measurement for each kind of traffic, on the same axes." }
            div.pair {
                @for (at, (facet, series)) in model.facets.iter().zip(&drawn).enumerate() {
                    @let id = format!("facet-{at}");
                    @let about = describe_first_and_last_packet_rates(model, series);
                    @let caption = build_packet_rate_chart_titles(model, &id, &facet.title, &about);
                    div {
                        h3 { (capitalize_first(&facet.title)) }
                        figure data-plot=[model.numeric_axis.map(|axis| axis.name.as_str())] {
                            (log_line_chart::draw_log_line_chart(&caption, SMALL_LAYOUT, series, &all))
                        }
                    }
                }
            }
        }
    }
}

/// Rows of the facets that the first plot does not show.
fn render_facets_besides_headline(model: &ReportModel<'_>) -> Markup {
    let shown = model.headline.as_ref().map_or(0, |headline| headline.facet_index);
    html! {
        @for (at, facet) in model.facets.iter().enumerate().filter(|(at, _)| *at != shown) {
            @let series = model.chart_series(Quantity::Pps, &facet.scenario);
            @let (id, about) = (format!("rows-{at}"), describe_first_and_last_packet_rates(model, &series));
            section {
                h2 { (capitalize_first(&facet.title)) }
                (render_wide_and_narrow_plot(model.numeric_axis, &build_packet_rate_chart_titles(model, &id, &facet.title, &about), &series))
            }
        }
    }
}

/// How long it takes to put the rules in force.
pub(super) fn render_load_time_plots(model: &ReportModel<'_>) -> Markup {
    let anywhere = weir_stats::Scenario::default();
    let shown = [
        (Quantity::LoadSeconds, "load", "All rules at once", "seconds to load"),
        (Quantity::AddSeconds, "add", "One more rule", "seconds to add one rule"),
    ];
    let drawn: Vec<_> = shown
        .into_iter()
        .map(|(quantity, id, title, y_title)| {
            (id, title, y_title, model.chart_series(quantity, &anywhere))
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
                        (render_load_time_plot(model, id, title, y_title, series))
                    }
                }
            }
        }
    }
}

fn render_load_time_plot(
    model: &ReportModel<'_>,
    id: &str,
    title: &str,
    y_title: &str,
    series: &[ChartSeries],
) -> Markup {
    let x_title = model.numeric_axis.map_or("", |axis| axis_title_or_name(axis));
    let unit = ValueUnit::Seconds;
    let about = "Seconds by subject; the table below has the values.";
    let caption = ChartTitlesAndUnit { id, title, description: about, x_title, y_title, unit };
    html! {
        @if let Some(axis) = model.numeric_axis {
            figure data-plot=(axis.name) { (log_line_chart::draw_log_line_chart(&caption, SMALL_LAYOUT, series, series)) }
        } @else {
            figure { (subject_row_chart::draw_subject_row_chart(&caption, "small", SMALL_LAYOUT.size.width, series)) }
        }
    }
}
