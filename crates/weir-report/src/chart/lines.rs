//! Lines over a logarithmic axis: intervals as bands, every trial as a dot, medians as markers.

use maud::{Markup, html};

use super::{Caption, ChartSize, Series, dots, drawing, not_drawn, polyline, spread, words};
use crate::number::{count, interval, pixel};
use crate::scale::{LogScale, thinned};

/// Places of the drawing's parts.
struct PlotFrame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: LogScale,
    y: LogScale,
    xs: Vec<f64>,
    labels: bool,
}

/// How a drawing is laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlotLayout {
    pub(crate) size: ChartSize,
    /// Room for names beside the lines; 0 leaves them to the legend.
    pub(crate) names: f64,
    /// Class of the drawing, for the style sheet.
    pub(crate) class: &'static str,
}

/// Draws `series`. `all` are the series whose values set the axes, so that drawings side by side
/// share them.
pub(crate) fn draw(
    caption: &Caption<'_>,
    layout: PlotLayout,
    series: &[Series],
    all: &[Series],
) -> Markup {
    let frame = PlotFrame::new(layout, all);
    let mut points = series.iter().flat_map(|one| &one.points);
    if !points.any(|point| frame.at(point.x, point.value).is_some()) {
        return not_drawn(caption, layout.class);
    }
    let inside = html! {
        (grid(&frame, caption))
        @for one in series { (line(&frame, one, caption)) }
        @if frame.labels { (names(&frame, series)) }
        line class="cross" x1="0" x2="0" y1=(pixel(frame.top)) y2=(pixel(frame.bottom)) {}
    };
    drawing(caption, layout.size, layout.class, &inside)
}

impl PlotFrame {
    fn new(layout: PlotLayout, all: &[Series]) -> PlotFrame {
        let mut xs: Vec<f64> =
            all.iter().flat_map(|one| one.points.iter().map(|point| point.x)).collect();
        xs.retain(|x| x.is_finite() && *x >= 0.0);
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (left, right) = (52.0, layout.size.width - layout.names.max(16.0));
        let (top, bottom) = (30.0, layout.size.height - 44.0);
        let x = LogScale::over(&xs, left + 14.0, right - 12.0);
        let y = LogScale::around(all.iter().flat_map(Series::extent), bottom, top);
        PlotFrame { left, right, top, bottom, x, y, xs, labels: layout.names > 0.0 }
    }

    /// The place of a point; `None` if an axis cannot show it.
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, self.y.place(y)?))
    }
}

fn grid(frame: &PlotFrame, caption: &Caption<'_>) -> Markup {
    let (left, right, bottom) = (pixel(frame.left), pixel(frame.right), frame.bottom);
    // A label takes about 50 units of room.
    let ticks = thinned(&frame.xs, ((frame.right - frame.left) / 50.0) as usize);
    html! {
        @for (value, labelled) in frame.y.ticks() {
            @if let Some(y) = frame.y.place(value) {
                line.grid.faint[!labelled] x1=(left) x2=(right) y1=(pixel(y)) y2=(pixel(y)) {}
                @if labelled {
                    (words("tick end", frame.left - 8.0, y + 4.0, &caption.unit.tick(value)))
                }
            }
        }
        line class="axis" x1=(left) x2=(right) y1=(pixel(bottom)) y2=(pixel(bottom)) {}
        @if let Some(gap) = frame.x.gap() {
            path class="break"
                d={ "M" (pixel(gap - 5.0)) " " (pixel(bottom + 5.0)) "l4 -10m2 10l4 -10" } {}
        }
        @for value in ticks {
            @if let Some(x) = frame.x.place(value) {
                path class="axis" d={ "M" (pixel(x)) " " (pixel(bottom)) "v5" } {}
                (words("tick mid", x, bottom + 19.0, &count(value as u64)))
            }
        }
        (words("axis-title", 0.0, 14.0, caption.y_title))
        (words("axis-title mid", (frame.left + frame.right) / 2.0, bottom + 38.0, caption.x_title))
    }
}

fn line(frame: &PlotFrame, series: &Series, caption: &Caption<'_>) -> Markup {
    let places: Vec<(f64, f64)> =
        series.points.iter().filter_map(|point| frame.at(point.x, point.value)).collect();
    let trials: Vec<(f64, f64)> = series
        .points
        .iter()
        .flat_map(|point| point.trials.iter().filter_map(|y| frame.at(point.x, *y)))
        .collect();
    html! {
        g class={ "series " (series.style.class) } data-series=(series.subject)
            data-run=[series.style.run] {
            (band(frame, series))
            @if let (true, [(_, y)]) = (series.style.dashed, places.as_slice()) {
                // Without rules there is nothing to vary: one value holds for the whole axis.
                path class=(series.style.line()) d=(rule(frame.left, *y, frame.right)) {}
            } @else if places.len() > 1 {
                path class=(series.style.line()) d=(polyline(&places)) {}
            }
            (dots(&trials))
            @for point in &series.points {
                @if let Some((x, y)) = frame.at(point.x, point.value) {
                    g class="point" data-name=(series.label) data-x=(count(point.x as u64))
                        data-at=(pixel(x)) data-value=(caption.unit.print(point.value))
                        data-range=(range(point, caption)) {
                        title {
                            (series.label) ", " (count(point.x as u64)) ": "
                            (caption.unit.print(point.value)) " " (range(point, caption))
                        }
                        (series.style.marker(x, y, series.style.radius()))
                    }
                }
            }
        }
    }
}

fn range(point: &super::ChartPoint, caption: &Caption<'_>) -> String {
    let estimate = weir_stats::Estimate {
        value: point.value,
        lo: point.lo,
        hi: point.hi,
        samples: point.trials.len(),
    };
    interval(&estimate, |value| caption.unit.print(value))
}

/// The intervals of neighbouring points, joined to a band; of a lone point, a bar.
fn band(frame: &PlotFrame, series: &Series) -> Markup {
    let ends: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter_map(|point| {
            let (x, lo) = frame.at(point.x, point.lo)?;
            Some((x, lo, frame.y.place(point.hi)?))
        })
        .collect();
    let upper = ends.iter().map(|(x, _, hi)| (*x, *hi));
    let lower = ends.iter().rev().map(|(x, lo, _)| (*x, *lo));
    html! {
        @if let [(x, lo, hi)] = ends.as_slice() {
            path class="whisker" d={ "M" (pixel(*x)) " " (pixel(*lo)) "V" (pixel(*hi)) } {}
        } @else if !ends.is_empty() {
            path class="band" d={ (polyline(&upper.chain(lower).collect::<Vec<_>>())) "Z" } {}
        }
    }
}

/// A line from left to right.
fn rule(left: f64, y: f64, right: f64) -> String {
    format!("M{} {}H{}", pixel(left), pixel(y), pixel(right))
}

/// The names of the series, beside the ends of their lines.
fn names(frame: &PlotFrame, series: &[Series]) -> Markup {
    let ends: Vec<(&Series, f64, f64)> = series
        .iter()
        .filter_map(|one| {
            let last = one.points.last()?;
            let (x, y) = frame.at(last.x, last.value)?;
            let lone = one.style.dashed && one.points.len() == 1;
            Some((one, if lone { frame.right - 4.0 } else { x }, y))
        })
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, _, y)| *y).collect();
    let placed = spread(&wanted, 17.0, frame.top, frame.bottom - 4.0);
    let start = frame.right + 14.0;
    html! {
        @for ((one, x, y), label) in ends.iter().zip(&placed) {
            g class={ "series " (one.style.class) } data-series=(one.subject)
                data-run=[one.style.run] {
                @let (from, to) = ((x + 8.0, *y), (start - 6.0, *label));
                path class="leader" d=(polyline(&[from, to, (start - 2.0, *label)])) {}
                (words("name", start, label + 4.0, &one.label))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::ChartPoint;
    use crate::series_style;

    fn series(points: &[(f64, f64)]) -> Series {
        let style = series_style::styles(&[crate::sample::subject("a", false, false)])[0];
        let point = |(x, value): &(f64, f64)| ChartPoint {
            x: *x,
            value: *value,
            lo: value * 0.9,
            hi: value * 1.1,
            trials: vec![*value, value * 1.05],
        };
        let points = points.iter().map(point).collect();
        Series { subject: 0, label: "a".to_owned(), style, points }
    }

    fn drawn(all: &[Series]) -> String {
        let caption = Caption {
            id: "c",
            title: "title",
            about: "about",
            x_title: "x",
            y_title: "y",
            unit: crate::number::Unit::Rate,
        };
        let size = ChartSize { width: 400.0, height: 300.0 };
        draw(&caption, PlotLayout { size, names: 100.0, class: "" }, all, all).into_string()
    }

    #[test]
    fn few_points_are_drawn_and_none_too() {
        for points in [&[][..], &[(0.0, 5.0)], &[(16.0, 5.0)], &[(0.0, 5.0), (16.0, 6.0)]] {
            let text = drawn(&[series(points)]);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert_eq!(text.matches("class=\"point\"").count(), points.len());
        }
        assert!(!drawn(&[]).contains("<svg") && drawn(&[]).contains("no values: title"));
    }

    #[test]
    fn values_that_no_axis_holds_are_left_out() {
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
