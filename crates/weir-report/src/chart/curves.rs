//! Curves on linear axes that begin at 0: values over the time of a trial, and figures of papers
//! with such axes.

use maud::{Markup, html};

use super::{Caption, ChartSize, drawing, not_drawn, words};
use crate::number::{Unit, pixel};
use crate::scale::Linear;
use crate::series_style::SeriesStyle;

/// One curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Number of the subject, for the switches of the legend.
    pub(crate) subject: usize,
    /// How it is drawn.
    pub(crate) style: SeriesStyle,
    /// Its points have markers: values that were measured one by one.
    pub(crate) marked: bool,
    /// In rising order of the first.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws curves; `x_unit` is that of the horizontal axis.
pub(crate) fn draw(
    caption: &Caption<'_>,
    size: ChartSize,
    x_unit: Unit,
    curves: &[Curve],
) -> Markup {
    let (left, right) = (52.0, size.width - 24.0);
    let (top, bottom) = (30.0, size.height - 44.0);
    let all = || curves.iter().flat_map(|curve| curve.points.iter());
    let x = Linear::over(all().map(|point| point.0), left, right);
    let y = Linear::over(all().map(|point| point.1), bottom, top);
    if !all().any(|point| x.place(point.0).is_some() && y.place(point.1).is_some()) {
        return not_drawn(caption, "small");
    }
    let ends = (pixel(left), pixel(right));
    let inside = html! {
        @for value in y.ticks() {
            @if let Some(at) = y.place(value) {
                line class="grid" x1=(ends.0) x2=(ends.1) y1=(pixel(at)) y2=(pixel(at)) {}
                (words("tick end", left - 8.0, at + 4.0, &caption.unit.print_short(value)))
            }
        }
        line class="axis" x1=(ends.0) x2=(ends.1) y1=(pixel(bottom)) y2=(pixel(bottom)) {}
        @for value in x.ticks() {
            @if let Some(at) = x.place(value) {
                path class="axis" d={ "M" (pixel(at)) " " (pixel(bottom)) "v5" } {}
                (words("tick mid", at, bottom + 19.0, &x_unit.print_short(value)))
            }
        }
        (words("axis-title", 0.0, 14.0, caption.y_title))
        (words("axis-title mid", (left + right) / 2.0, bottom + 38.0, caption.x_title))
        @for curve in curves { (self::curve(&x, &y, curve)) }
    };
    drawing(caption, size, "small", &inside)
}

fn curve(x: &Linear, y: &Linear, curve: &Curve) -> Markup {
    let place = |(at, value): &(f64, f64)| Some((x.place(*at)?, y.place(*value)?));
    let places: Vec<(f64, f64)> = curve.points.iter().filter_map(place).collect();
    html! {
        g class={ "series " (curve.style.class) } data-series=(curve.subject) {
            path.line.thin[!curve.marked].dashed[curve.style.dashed] d=(super::polyline(&places)) {}
            @if curve.marked {
                @for (x, y) in &places { (curve.style.marker(*x, *y, 3.5)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64)], marked: bool) -> String {
        let style = crate::series_style::styles(&[crate::sample::subject("a", false, false)])[0];
        let curve = Curve { subject: 0, style, marked, points: points.to_vec() };
        let caption = Caption {
            id: "c",
            title: "title",
            about: "about",
            x_title: "seconds",
            y_title: "entries",
            unit: Unit::Rate,
        };
        let size = ChartSize { width: 488.0, height: 320.0 };
        draw(&caption, size, Unit::Seconds, &[curve]).into_string()
    }

    #[test]
    fn a_curve_is_one_line_and_its_points_are_markers_where_asked() {
        let points = [(0.0, 0.0), (1.0, 5.0), (2.0, 5.0)];
        let (plain, marked) = (drawn(&points, false), drawn(&points, true));
        assert_eq!(plain.matches("class=\"line").count(), 1);
        assert_eq!(plain.matches("class=\"mark").count(), 0);
        assert_eq!(marked.matches("class=\"mark").count(), 3);
    }

    #[test]
    fn without_a_value_there_is_no_plot_but_words() {
        for points in [&[][..], &[(0.0, f64::NAN), (1.0, f64::INFINITY)]] {
            let text = drawn(points, true);
            assert!(!text.contains("<svg") && text.contains("no values: title"), "{text}");
        }
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        for points in [&[][..], &[(0.0, f64::NAN), (1.0, f64::INFINITY)], &[(0.0, 0.0)]] {
            let text = drawn(points, true);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
