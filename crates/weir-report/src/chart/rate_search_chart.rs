//! The course of a search: each trial's rate in order, and the final bounds.

use maud::{Markup, html};

use super::{
    ChartSize, ChartTitlesAndUnit, polyline_path, render_empty_chart_note, render_svg,
    render_svg_text,
};
use crate::axis_scale::{LinearScale, LogScale};
use crate::number_format::format_svg_coordinate;
use crate::series_style::SeriesStyle;

/// The search of one subject.
#[derive(Clone, Debug)]
pub(crate) struct SearchTrace {
    /// Number of the subject, for the switches of the legend.
    pub(crate) subject_index: usize,
    /// How it is drawn.
    pub(crate) style: SeriesStyle,
    /// Rates in their order, packets per second, and whether the loss was within the goal.
    pub(crate) steps: Vec<(f64, bool)>,
    /// Where it ended, as far as it found such bounds.
    pub(crate) bounds: [Option<f64>; 2],
}

/// Draws searches; a full marker is a trial within the goal, a hollow one a trial that lost more.
pub(crate) fn draw_search_traces(
    caption: &ChartTitlesAndUnit<'_>,
    size: ChartSize,
    traces: &[SearchTrace],
) -> Markup {
    let (left, right) = (52.0, size.width - 24.0);
    let (top, bottom) = (30.0, size.height - 44.0);
    let rates = || traces.iter().flat_map(|trace| trace.steps.iter().map(|(rate, _)| *rate));
    let longest = traces.iter().map(|trace| trace.steps.len()).max().unwrap_or(0);
    let x = LinearScale::with_zero_and_round_maximum(std::iter::once(longest as f64), left, right);
    let y = LogScale::with_margins_and_round_ends(rates(), bottom, top);
    if !rates().any(|rate| y.position_of(rate).is_some()) {
        return render_empty_chart_note(caption, "small");
    }
    let ends = (format_svg_coordinate(left), format_svg_coordinate(right));
    let inside = html! {
        @for (value, labelled) in y.ticks_with_label_flag() {
            @if let Some(at) = y.position_of(value) {
                line.grid.faint[!labelled] x1=(ends.0) x2=(ends.1) y1=(format_svg_coordinate(at)) y2=(format_svg_coordinate(at)) {}
                @if labelled { (render_svg_text("tick end", left - 8.0, at + 4.0, &caption.unit.format_single_digit_tick(value))) }
            }
        }
        line class="axis" x1=(ends.0) x2=(ends.1) y1=(format_svg_coordinate(bottom)) y2=(format_svg_coordinate(bottom)) {}
        @for value in x.ticks().into_iter().filter(|value| value.fract() == 0.0) {
            @if let Some(at) = x.position_of(value) {
                (render_svg_text("tick mid", at, bottom + 19.0, &format!("{value:.0}")))
            }
        }
        (render_svg_text("axis-title", 0.0, 14.0, caption.y_title))
        (render_svg_text("axis-title mid", (left + right) / 2.0, bottom + 38.0, caption.x_title))
        @for trace in traces { (self::render_trace(&x, &y, trace)) }
    };
    render_svg(caption, size, "small", &inside)
}

fn render_trace(x: &LinearScale, y: &LogScale, trace: &SearchTrace) -> Markup {
    let steps = (1_u32..).zip(&trace.steps);
    let place = |(at, (rate, good)): (u32, &(f64, bool))| {
        Some((x.position_of(f64::from(at))?, y.position_of(*rate)?, *good))
    };
    let places: Vec<(f64, f64, bool)> = steps.filter_map(place).collect();
    let way: Vec<(f64, f64)> = places.iter().map(|(x, y, _)| (*x, *y)).collect();
    let [lower, upper] = trace.bounds.map(|bound| bound.and_then(|rate| y.position_of(rate)));
    html! {
        g class={ "series " (trace.style.color_class) } data-series=(trace.subject_index) {
            path class="line thin" d=(polyline_path(&way)) {}
            @for (x, y, good) in &places {
                circle class=(if *good { "mark full" } else { "mark hollow" })
                    cx=(format_svg_coordinate(*x)) cy=(format_svg_coordinate(*y)) r="3.5" {}
            }
            @if let (Some(lower), Some(upper), Some((x, ..))) = (lower, upper, places.last()) {
                path class="whisker" d={ "M" (format_svg_coordinate(*x)) " " (format_svg_coordinate(lower)) "V" (format_svg_coordinate(upper)) } {}
            }
        }
    }
}
