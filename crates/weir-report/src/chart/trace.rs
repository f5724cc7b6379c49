//! The course of a search: each trial's rate in order, and the final bounds.

use maud::{Markup, html};

use super::{Caption, ChartSize, drawing, not_drawn, polyline, words};
use crate::number::pixel;
use crate::scale::{Linear, LogScale};
use crate::series_style::SeriesStyle;

/// The search of one subject.
#[derive(Clone, Debug)]
pub(crate) struct TraceChart {
    /// Number of the subject, for the switches of the legend.
    pub(crate) subject: usize,
    /// How it is drawn.
    pub(crate) style: SeriesStyle,
    /// Rates in their order, packets per second, and whether the loss was within the goal.
    pub(crate) steps: Vec<(f64, bool)>,
    /// Where it ended, as far as it found such bounds.
    pub(crate) bounds: [Option<f64>; 2],
}

/// Draws searches; a full marker is a trial within the goal, a hollow one a trial that lost more.
pub(crate) fn draw(caption: &Caption<'_>, size: ChartSize, traces: &[TraceChart]) -> Markup {
    let (left, right) = (52.0, size.width - 24.0);
    let (top, bottom) = (30.0, size.height - 44.0);
    let rates = || traces.iter().flat_map(|trace| trace.steps.iter().map(|(rate, _)| *rate));
    let longest = traces.iter().map(|trace| trace.steps.len()).max().unwrap_or(0);
    let x = Linear::over(std::iter::once(longest as f64), left, right);
    let y = LogScale::around(rates(), bottom, top);
    if !rates().any(|rate| y.place(rate).is_some()) {
        return not_drawn(caption, "small");
    }
    let ends = (pixel(left), pixel(right));
    let inside = html! {
        @for (value, labelled) in y.ticks() {
            @if let Some(at) = y.place(value) {
                line.grid.faint[!labelled] x1=(ends.0) x2=(ends.1) y1=(pixel(at)) y2=(pixel(at)) {}
                @if labelled { (words("tick end", left - 8.0, at + 4.0, &caption.unit.tick(value))) }
            }
        }
        line class="axis" x1=(ends.0) x2=(ends.1) y1=(pixel(bottom)) y2=(pixel(bottom)) {}
        @for value in x.ticks().into_iter().filter(|value| value.fract() == 0.0) {
            @if let Some(at) = x.place(value) {
                (words("tick mid", at, bottom + 19.0, &format!("{value:.0}")))
            }
        }
        (words("axis-title", 0.0, 14.0, caption.y_title))
        (words("axis-title mid", (left + right) / 2.0, bottom + 38.0, caption.x_title))
        @for trace in traces { (self::trace(&x, &y, trace)) }
    };
    drawing(caption, size, "small", &inside)
}

fn trace(x: &Linear, y: &LogScale, trace: &TraceChart) -> Markup {
    let steps = (1_u32..).zip(&trace.steps);
    let place = |(at, (rate, good)): (u32, &(f64, bool))| {
        Some((x.place(f64::from(at))?, y.place(*rate)?, *good))
    };
    let places: Vec<(f64, f64, bool)> = steps.filter_map(place).collect();
    let way: Vec<(f64, f64)> = places.iter().map(|(x, y, _)| (*x, *y)).collect();
    let [lower, upper] = trace.bounds.map(|bound| bound.and_then(|rate| y.place(rate)));
    html! {
        g class={ "series " (trace.style.class) } data-series=(trace.subject) {
            path class="line thin" d=(polyline(&way)) {}
            @for (x, y, good) in &places {
                circle class=(if *good { "mark full" } else { "mark hollow" })
                    cx=(pixel(*x)) cy=(pixel(*y)) r="3.5" {}
            }
            @if let (Some(lower), Some(upper), Some((x, ..))) = (lower, upper, places.last()) {
                path class="whisker" d={ "M" (pixel(*x)) " " (pixel(lower)) "V" (pixel(upper)) } {}
            }
        }
    }
}
