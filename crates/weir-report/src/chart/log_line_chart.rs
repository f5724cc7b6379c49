//! Lines over a logarithmic axis: intervals as bands, every trial as a dot, medians as markers.

use maud::{Markup, html};

use super::{
    ChartSeries, ChartSize, ChartTitlesAndUnit, polyline_path, render_dots,
    render_empty_chart_note, render_svg, render_svg_text, spread_labels,
};
use crate::axis_scale::{LogScale, thin_out_values};
use crate::number_format::{format_count, format_interval, format_svg_coordinate};

/// Places of the drawing's parts.
struct PlotGeometry {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_scale: LogScale,
    y_scale: LogScale,
    x_values: Vec<f64>,
    has_names: bool,
}

/// How a drawing is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChartSizeAndStyle {
    pub(crate) size: ChartSize,
    /// Room for names next to the lines; 0 leaves them to the legend.
    pub(crate) names_width: f64,
    /// Class of the drawing, for the style sheet.
    pub(crate) css_class: &'static str,
}

/// Draws `series`. `axis_defining_series` are the series whose values set the axes, so that
/// drawings side by side share them.
pub(crate) fn draw_log_line_chart(
    caption: &ChartTitlesAndUnit<'_>,
    layout: ChartSizeAndStyle,
    series: &[ChartSeries],
    axis_defining_series: &[ChartSeries],
) -> Markup {
    let frame = PlotGeometry::new(layout, axis_defining_series);
    let mut points = series.iter().flat_map(|one| &one.points);
    if !points.any(|point| frame.position_of(point.x, point.value).is_some()) {
        return render_empty_chart_note(caption, layout.css_class);
    }
    let inside = html! {
        (render_grid(&frame, caption))
        @for one in series { (render_series(&frame, one, caption)) }
        @if frame.has_names { (render_series_names(&frame, series)) }
        line class="cross" x1="0" x2="0" y1=(format_svg_coordinate(frame.top)) y2=(format_svg_coordinate(frame.bottom)) {}
    };
    render_svg(caption, layout.size, layout.css_class, &inside)
}

impl PlotGeometry {
    fn new(layout: ChartSizeAndStyle, axis_defining_series: &[ChartSeries]) -> PlotGeometry {
        let mut xs: Vec<f64> = axis_defining_series
            .iter()
            .flat_map(|one| one.points.iter().map(|point| point.x))
            .collect();
        xs.retain(|x| x.is_finite() && *x >= 0.0);
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (left, right) = (52.0, layout.size.width - layout.names_width.max(16.0));
        let (top, bottom) = (30.0, layout.size.height - 44.0);
        let x = LogScale::with_exact_ends(&xs, left + 14.0, right - 12.0);
        let y = LogScale::with_margins_and_round_ends(
            axis_defining_series.iter().flat_map(ChartSeries::plotted_values),
            bottom,
            top,
        );
        PlotGeometry {
            left,
            right,
            top,
            bottom,
            x_scale: x,
            y_scale: y,
            x_values: xs,
            has_names: layout.names_width > 0.0,
        }
    }

    /// The place of a point; `None` if an axis cannot show it.
    fn position_of(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x_scale.position_of(x)?, self.y_scale.position_of(y)?))
    }
}

fn render_grid(frame: &PlotGeometry, caption: &ChartTitlesAndUnit<'_>) -> Markup {
    let (left, right, bottom) =
        (format_svg_coordinate(frame.left), format_svg_coordinate(frame.right), frame.bottom);
    // A label takes about 50 units of room.
    let ticks = thin_out_values(&frame.x_values, ((frame.right - frame.left) / 50.0) as usize);
    html! {
        @for (value, labelled) in frame.y_scale.ticks_with_label_flag() {
            @if let Some(y) = frame.y_scale.position_of(value) {
                line.grid.faint[!labelled] x1=(left) x2=(right) y1=(format_svg_coordinate(y)) y2=(format_svg_coordinate(y)) {}
                @if labelled {
                    (render_svg_text("tick end", frame.left - 8.0, y + 4.0, &caption.unit.format_single_digit_tick(value)))
                }
            }
        }
        line class="axis" x1=(left) x2=(right) y1=(format_svg_coordinate(bottom)) y2=(format_svg_coordinate(bottom)) {}
        @if let Some(gap) = frame.x_scale.axis_break_position() {
            path class="break"
                d={ "M" (format_svg_coordinate(gap - 5.0)) " " (format_svg_coordinate(bottom + 5.0)) "l4 -10m2 10l4 -10" } {}
        }
        @for value in ticks {
            @if let Some(x) = frame.x_scale.position_of(value) {
                path class="axis" d={ "M" (format_svg_coordinate(x)) " " (format_svg_coordinate(bottom)) "v5" } {}
                (render_svg_text("tick mid", x, bottom + 19.0, &format_count(value as u64)))
            }
        }
        (render_svg_text("axis-title", 0.0, 14.0, caption.y_title))
        (render_svg_text("axis-title mid", (frame.left + frame.right) / 2.0, bottom + 38.0, caption.x_title))
    }
}

fn render_series(
    frame: &PlotGeometry,
    series: &ChartSeries,
    caption: &ChartTitlesAndUnit<'_>,
) -> Markup {
    let places: Vec<(f64, f64)> =
        series.points.iter().filter_map(|point| frame.position_of(point.x, point.value)).collect();
    let trials: Vec<(f64, f64)> = series
        .points
        .iter()
        .flat_map(|point| point.trial_values.iter().filter_map(|y| frame.position_of(point.x, *y)))
        .collect();
    html! {
        g class={ "series " (series.style.color_class) } data-series=(series.subject_index)
            data-run=[series.style.run_index] {
            (render_interval_band(frame, series))
            @if let (true, [(_, y)]) = (series.style.is_dashed, places.as_slice()) {
                // Without rules there is nothing to vary: one value holds for the whole axis.
                path class=(series.style.line_dash_css_classes()) d=(horizontal_line_path(frame.left, *y, frame.right)) {}
            } @else if places.len() > 1 {
                path class=(series.style.line_dash_css_classes()) d=(polyline_path(&places)) {}
            }
            (render_dots(&trials))
            @for point in &series.points {
                @if let Some((x, y)) = frame.position_of(point.x, point.value) {
                    g class="point" data-name=(series.label) data-x=(format_count(point.x as u64))
                        data-at=(format_svg_coordinate(x)) data-value=(caption.unit.format_value(point.value))
                        data-range=(format_point_interval(point, caption)) {
                        title {
                            (series.label) ", " (format_count(point.x as u64)) ": "
                            (caption.unit.format_value(point.value)) " " (format_point_interval(point, caption))
                        }
                        (series.style.render_marker(x, y, series.style.marker_radius()))
                    }
                }
            }
        }
    }
}

fn format_point_interval(point: &super::ChartPoint, caption: &ChartTitlesAndUnit<'_>) -> String {
    let estimate = weir_stats::Estimate {
        value: point.value,
        lo: point.lo,
        hi: point.hi,
        samples: point.trial_values.len(),
    };
    format_interval(&estimate, |value| caption.unit.format_value(value))
}

/// The intervals of neighbouring points, joined to a band; of a lone point, a bar.
fn render_interval_band(frame: &PlotGeometry, series: &ChartSeries) -> Markup {
    let ends: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter_map(|point| {
            let (x, lo) = frame.position_of(point.x, point.lo)?;
            Some((x, lo, frame.y_scale.position_of(point.hi)?))
        })
        .collect();
    let upper = ends.iter().map(|(x, _, hi)| (*x, *hi));
    let lower = ends.iter().rev().map(|(x, lo, _)| (*x, *lo));
    html! {
        @if let [(x, lo, hi)] = ends.as_slice() {
            path class="whisker" d={ "M" (format_svg_coordinate(*x)) " " (format_svg_coordinate(*lo)) "V" (format_svg_coordinate(*hi)) } {}
        } @else if !ends.is_empty() {
            path class="band" d={ (polyline_path(&upper.chain(lower).collect::<Vec<_>>())) "Z" } {}
        }
    }
}

/// A line from left to right.
fn horizontal_line_path(left: f64, y: f64, right: f64) -> String {
    format!(
        "M{} {}H{}",
        format_svg_coordinate(left),
        format_svg_coordinate(y),
        format_svg_coordinate(right)
    )
}

/// The names of the series, next to the ends of their lines.
fn render_series_names(frame: &PlotGeometry, series: &[ChartSeries]) -> Markup {
    let ends: Vec<(&ChartSeries, f64, f64)> = series
        .iter()
        .filter_map(|one| {
            let last = one.points.last()?;
            let (x, y) = frame.position_of(last.x, last.value)?;
            let lone = one.style.is_dashed && one.points.len() == 1;
            Some((one, if lone { frame.right - 4.0 } else { x }, y))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, _, y)| *y).collect();
    let placed = spread_labels(&wanted, 17.0, frame.top, frame.bottom - 4.0);
    let start = frame.right + 14.0;
    html! {
        @for ((one, x, y), label) in ends.iter().zip(&placed) {
            g class={ "series " (one.style.color_class) } data-series=(one.subject_index)
                data-run=[one.style.run_index] {
                @let (from, to) = ((x + 8.0, *y), (start - 6.0, *label));
                path class="leader" d=(polyline_path(&[from, to, (start - 2.0, *label)])) {}
                (render_svg_text("name", start, label + 4.0, &one.label))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::ChartPoint;
    use crate::series_style;

    fn series(points: &[(f64, f64)]) -> ChartSeries {
        let style = series_style::assign_styles(&[crate::sample_records::sample_subject(
            "a", false, false,
        )])[0];
        let point = |(x, value): &(f64, f64)| ChartPoint {
            x: *x,
            value: *value,
            lo: value * 0.9,
            hi: value * 1.1,
            trial_values: vec![*value, value * 1.05],
        };
        let points = points.iter().map(point).collect();
        ChartSeries { subject_index: 0, label: "a".to_owned(), style, points }
    }

    fn drawn(all: &[ChartSeries]) -> String {
        let caption = ChartTitlesAndUnit {
            id: "c",
            title: "title",
            description: "about",
            x_title: "x",
            y_title: "y",
            unit: crate::number_format::ValueUnit::Rate,
        };
        let size = ChartSize { width: 400.0, height: 300.0 };
        draw_log_line_chart(
            &caption,
            ChartSizeAndStyle { size, names_width: 100.0, css_class: "" },
            all,
            all,
        )
        .into_string()
    }

    #[test]
    fn few_points_are_drawn_and_no_points_give_a_message() {
        for points in [&[][..], &[(0.0, 5.0)], &[(16.0, 5.0)], &[(0.0, 5.0), (16.0, 6.0)]] {
            let text = drawn(&[series(points)]);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert_eq!(text.matches("class=\"point\"").count(), points.len());
        }
        assert!(!drawn(&[]).contains("<svg") && drawn(&[]).contains("no values: title"));
    }

    #[test]
    fn values_outside_a_log_axis_are_omitted() {
        let text = drawn(&[series(&[(16.0, f64::NAN), (32.0, 0.0), (64.0, 7.0)])]);
        assert_eq!(text.matches("class=\"point\"").count(), 1);
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn every_trial_is_a_dot() {
        let text = drawn(&[series(&[(16.0, 5.0), (32.0, 6.0), (64.0, 7.0)])]);
        assert_eq!(text.matches("h0").count(), 6);
    }
}
