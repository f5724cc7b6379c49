//! One row per subject: for runs that have no numeric axis.

use maud::{Markup, html};

use super::{Caption, ChartSize, Series, dots, drawing, not_drawn, words};
use crate::number::{interval, pixel};
use crate::scale::LogScale;

/// Height of a row.
const ROW: f64 = 34.0;

/// Draws the first point of each series as a row: trials, interval, median.
pub(crate) fn draw(
    caption: &Caption<'_>,
    class: &'static str,
    width: f64,
    all: &[Series],
) -> Markup {
    let narrow = width < 600.0;
    let (left, right) = if narrow { (16.0, width - 24.0) } else { (names(all), width - 150.0) };
    let row = if narrow { ROW * 1.4 } else { ROW };
    let top = 30.0;
    let bottom = top + row * all.len() as f64;
    let axis = LogScale::around(all.iter().flat_map(Series::extent), left, right);
    let mut points = all.iter().filter_map(|series| series.points.first());
    if !points.any(|point| axis.place(point.value).is_some()) {
        return not_drawn(caption, class);
    }
    let inside = html! {
        @for (value, labelled) in axis.ticks() {
            @if let Some(x) = axis.place(value) {
                @let line = format!("M{} {}V{}", pixel(x), pixel(top), pixel(bottom));
                path.grid.faint[!labelled] d=(line) {}
                @if labelled { (words("tick mid", x, bottom + 18.0, &caption.unit.tick(value))) }
            }
        }
        (words("axis-title", 0.0, 14.0, caption.y_title))
        @for (at, series) in all.iter().enumerate() {
            @let y = top + row * (at as f64 + 0.5);
            (self::row(&axis, caption, series, y, width, (!narrow).then_some(left)))
        }
    };
    drawing(caption, ChartSize { width, height: bottom + 30.0 }, class, &inside)
}

/// Space for the names next to the rows.
fn names(all: &[Series]) -> f64 {
    let longest = all.iter().map(|one| one.label.chars().count()).max().unwrap_or(0);
    (20.0 + 6.8 * longest as f64).max(170.0)
}

/// A row at height `y`. Its name is left of `beside`, or above the row without it.
fn row(
    axis: &LogScale,
    caption: &Caption<'_>,
    series: &Series,
    y: f64,
    width: f64,
    beside: Option<f64>,
) -> Markup {
    let Some(point) = series.points.first() else { return html! {} };
    let estimate = weir_stats::Estimate {
        value: point.value,
        lo: point.lo,
        hi: point.hi,
        samples: point.trials.len(),
    };
    let value = caption.unit.print(point.value);
    let range = interval(&estimate, |value| caption.unit.print(value));
    let y = if beside.is_none() { y + 7.0 } else { y };
    let trials: Vec<(f64, f64)> =
        point.trials.iter().filter_map(|trial| Some((axis.place(*trial)?, y))).collect();
    html! {
        g class={ "series " (series.style.class) } data-series=(series.subject)
            data-run=[series.style.run] {
            @if let Some(left) = beside {
                (words("name end", left - 20.0, y + 4.0, &series.label))
                (words("tick end", width, y + 4.0, &format!("{value} {range}")))
            } @else {
                (words("name", 0.0, y - 13.0, &series.label))
                (words("tick end", width, y - 13.0, &format!("{value} {range}")))
            }
            (dots(&trials))
            @if let (Some(lo), Some(hi)) = (axis.place(point.lo), axis.place(point.hi)) {
                path class="whisker" d={ "M" (pixel(lo)) " " (pixel(y)) "H" (pixel(hi)) } {}
            }
            @if let Some(x) = axis.place(point.value) {
                g {
                    title { (series.label) ": " (value) " " (range) }
                    (series.style.marker(x, y, 5.0))
                }
            }
        }
    }
}
