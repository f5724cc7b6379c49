//! One row per subject: for runs that have no numeric axis.

use maud::{Markup, html};

use super::{
    ChartSeries, ChartSize, ChartTitlesAndUnit, render_dots, render_empty_chart_note, render_svg,
    render_svg_text,
};
use crate::axis_scale::LogScale;
use crate::number_format::{format_interval, format_svg_coordinate};

/// Height of a row.
const ROW_HEIGHT: f64 = 34.0;

/// Draws the first point of each series as a row: trials, interval, median.
pub(crate) fn draw_subject_row_chart(
    caption: &ChartTitlesAndUnit<'_>,
    class: &'static str,
    width: f64,
    all: &[ChartSeries],
) -> Markup {
    let narrow = width < 600.0;
    let (left, right) =
        if narrow { (16.0, width - 24.0) } else { (name_column_width(all), width - 150.0) };
    let row = if narrow { ROW_HEIGHT * 1.4 } else { ROW_HEIGHT };
    let top = 30.0;
    let bottom = top + row * all.len() as f64;
    let axis = LogScale::with_margins_and_round_ends(
        all.iter().flat_map(ChartSeries::plotted_values),
        left,
        right,
    );
    let mut points = all.iter().filter_map(|series| series.points.first());
    if !points.any(|point| axis.position_of(point.value).is_some()) {
        return render_empty_chart_note(caption, class);
    }
    let inside = html! {
        @for (value, labelled) in axis.ticks_with_label_flag() {
            @if let Some(x) = axis.position_of(value) {
                @let line = format!("M{} {}V{}", format_svg_coordinate(x), format_svg_coordinate(top), format_svg_coordinate(bottom));
                path.grid.faint[!labelled] d=(line) {}
                @if labelled { (render_svg_text("tick mid", x, bottom + 18.0, &caption.unit.format_single_digit_tick(value))) }
            }
        }
        (render_svg_text("axis-title", 0.0, 14.0, caption.y_title))
        @for (at, series) in all.iter().enumerate() {
            @let y = top + row * (at as f64 + 0.5);
            (self::render_row(&axis, caption, series, y, width, (!narrow).then_some(left)))
        }
    };
    render_svg(caption, ChartSize { width, height: bottom + 30.0 }, class, &inside)
}

/// Space for the names next to the rows.
fn name_column_width(all: &[ChartSeries]) -> f64 {
    let longest = all.iter().map(|one| one.label.chars().count()).max().unwrap_or(0);
    (20.0 + 6.8 * longest as f64).max(170.0)
}

/// A row at height `y`. Its name is left of `axis_left`, or above the row without it.
fn render_row(
    axis: &LogScale,
    caption: &ChartTitlesAndUnit<'_>,
    series: &ChartSeries,
    y: f64,
    width: f64,
    axis_left: Option<f64>,
) -> Markup {
    let Some(point) = series.points.first() else { return html! {} };
    let estimate = weir_stats::Estimate {
        value: point.value,
        lo: point.lo,
        hi: point.hi,
        samples: point.trial_values.len(),
    };
    let value = caption.unit.format_value(point.value);
    let range = format_interval(&estimate, |value| caption.unit.format_value(value));
    let y = if axis_left.is_none() { y + 7.0 } else { y };
    let trials: Vec<(f64, f64)> = point
        .trial_values
        .iter()
        .filter_map(|trial| Some((axis.position_of(*trial)?, y)))
        .collect();
    html! {
        g class={ "series " (series.style.color_class) } data-series=(series.subject_index)
            data-run=[series.style.run_index] {
            @if let Some(left) = axis_left {
                (render_svg_text("name end", left - 20.0, y + 4.0, &series.label))
                (render_svg_text("tick end", width, y + 4.0, &format!("{value} {range}")))
            } @else {
                (render_svg_text("name", 0.0, y - 13.0, &series.label))
                (render_svg_text("tick end", width, y - 13.0, &format!("{value} {range}")))
            }
            (render_dots(&trials))
            @if let (Some(lo), Some(hi)) = (axis.position_of(point.lo), axis.position_of(point.hi)) {
                path class="whisker" d={ "M" (format_svg_coordinate(lo)) " " (format_svg_coordinate(y)) "H" (format_svg_coordinate(hi)) } {}
            }
            @if let Some(x) = axis.position_of(point.value) {
                g {
                    title { (series.label) ": " (value) " " (range) }
                    (series.style.render_marker(x, y, 5.0))
                }
            }
        }
    }
}
