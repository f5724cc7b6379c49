//! Curves on linear axes that begin at 0: values over the time of a trial, and figures of papers
//! with such axes.

use maud::{Markup, html};

use super::{ChartSize, ChartTitlesAndUnit, render_empty_chart_note, render_svg, render_svg_text};
use crate::axis_scale::LinearScale;
use crate::number_format::{ValueUnit, format_svg_coordinate};
use crate::series_style::SeriesStyle;

/// One curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Number of the subject, for the switches of the legend.
    pub(crate) subject_index: usize,
    /// How it is drawn.
    pub(crate) style: SeriesStyle,
    /// Its points have markers: values that were measured one by one.
    pub(crate) has_markers: bool,
    /// In rising order of the first.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws curves; `x_unit` is that of the horizontal axis.
pub(crate) fn draw_linear_curve_chart(
    caption: &ChartTitlesAndUnit<'_>,
    size: ChartSize,
    x_unit: ValueUnit,
    curves: &[Curve],
) -> Markup {
    let (left, right) = (52.0, size.width - 24.0);
    let (top, bottom) = (30.0, size.height - 44.0);
    let all = || curves.iter().flat_map(|curve| curve.points.iter());
    let x = LinearScale::with_zero_and_round_maximum(all().map(|point| point.0), left, right);
    let y = LinearScale::with_zero_and_round_maximum(all().map(|point| point.1), bottom, top);
    if !all().any(|point| x.position_of(point.0).is_some() && y.position_of(point.1).is_some()) {
        return render_empty_chart_note(caption, "small");
    }
    let ends = (format_svg_coordinate(left), format_svg_coordinate(right));
    let inside = html! {
        @for value in y.ticks() {
            @if let Some(at) = y.position_of(value) {
                line class="grid" x1=(ends.0) x2=(ends.1) y1=(format_svg_coordinate(at)) y2=(format_svg_coordinate(at)) {}
                (render_svg_text("tick end", left - 8.0, at + 4.0, &caption.unit.format_without_trailing_zeros(value)))
            }
        }
        line class="axis" x1=(ends.0) x2=(ends.1) y1=(format_svg_coordinate(bottom)) y2=(format_svg_coordinate(bottom)) {}
        @for value in x.ticks() {
            @if let Some(at) = x.position_of(value) {
                path class="axis" d={ "M" (format_svg_coordinate(at)) " " (format_svg_coordinate(bottom)) "v5" } {}
                (render_svg_text("tick mid", at, bottom + 19.0, &x_unit.format_without_trailing_zeros(value)))
            }
        }
        (render_svg_text("axis-title", 0.0, 14.0, caption.y_title))
        (render_svg_text("axis-title mid", (left + right) / 2.0, bottom + 38.0, caption.x_title))
        @for curve in curves { (self::render_curve(&x, &y, curve)) }
    };
    render_svg(caption, size, "small", &inside)
}

fn render_curve(x: &LinearScale, y: &LinearScale, curve: &Curve) -> Markup {
    let place = |(at, value): &(f64, f64)| Some((x.position_of(*at)?, y.position_of(*value)?));
    let places: Vec<(f64, f64)> = curve.points.iter().filter_map(place).collect();
    html! {
        g class={ "series " (curve.style.color_class) } data-series=(curve.subject_index) {
            path.line.thin[!curve.has_markers].dashed[curve.style.is_dashed] d=(super::polyline_path(&places)) {}
            @if curve.has_markers {
                @for (x, y) in &places { (curve.style.render_marker(*x, *y, 3.5)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64)], marked: bool) -> String {
        let style = crate::series_style::assign_styles(&[crate::sample_records::sample_subject(
            "a", false, false,
        )])[0];
        let curve = Curve { subject_index: 0, style, has_markers: marked, points: points.to_vec() };
        let caption = ChartTitlesAndUnit {
            id: "c",
            title: "title",
            description: "about",
            x_title: "seconds",
            y_title: "entries",
            unit: ValueUnit::Rate,
        };
        let size = ChartSize { width: 488.0, height: 320.0 };
        draw_linear_curve_chart(&caption, size, ValueUnit::Seconds, &[curve]).into_string()
    }

    #[test]
    fn a_curve_is_one_line_with_optional_markers() {
        let points = [(0.0, 0.0), (1.0, 5.0), (2.0, 5.0)];
        let (plain, marked) = (drawn(&points, false), drawn(&points, true));
        assert_eq!(plain.matches("class=\"line").count(), 1);
        assert_eq!(plain.matches("class=\"mark").count(), 0);
        assert_eq!(marked.matches("class=\"mark").count(), 3);
    }

    #[test]
    fn a_curve_without_values_is_replaced_by_a_message() {
        for points in [&[][..], &[(0.0, f64::NAN), (1.0, f64::INFINITY)]] {
            let text = drawn(points, true);
            assert!(!text.contains("<svg") && text.contains("no values: title"), "{text}");
        }
    }

    #[test]
    fn values_without_a_position_are_omitted() {
        for points in [&[][..], &[(0.0, f64::NAN), (1.0, f64::INFINITY)], &[(0.0, 0.0)]] {
            let text = drawn(points, true);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
