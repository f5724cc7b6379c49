//! Drawings, written as SVG inside the page: they need no script, print well, and differ only if
//! the records differ.
//!
//! All positions are computed here; colours come from the style sheet. Each drawing has a title and
//! a description for screen readers. The values are in the markers' `data-` attributes, which the
//! page's script reads.

pub(crate) mod linear_curve_chart;
pub(crate) mod log_line_chart;
pub(crate) mod noise_strips;
pub(crate) mod rate_search_chart;
pub(crate) mod subject_row_chart;

use maud::{Markup, html};

use crate::number_format::{ValueUnit, format_svg_coordinate};
use crate::series_style::SeriesStyle;

/// Width and height of a drawing, in its own units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChartSize {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A subject's values.
#[derive(Clone, Debug)]
pub(crate) struct ChartSeries {
    /// Number of the subject, for the switches of the legend.
    pub(crate) subject_index: usize,
    /// What is next to its line.
    pub(crate) label: String,
    /// How it is drawn.
    pub(crate) style: SeriesStyle,
    /// Values by place on the axis, in rising order of `x`.
    pub(crate) points: Vec<ChartPoint>,
}

/// An estimate with the trials that it rests on.
#[derive(Clone, Debug)]
pub(crate) struct ChartPoint {
    pub(crate) x: f64,
    pub(crate) value: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) trial_values: Vec<f64>,
}

/// What a drawing is called and what its values are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartTitlesAndUnit<'a> {
    /// A word for identifiers, distinct in the page.
    pub(crate) id: &'a str,
    /// What it shows.
    pub(crate) title: &'a str,
    /// What one sees in it, for those who do not.
    pub(crate) description: &'a str,
    /// Beside the horizontal axis.
    pub(crate) x_title: &'a str,
    /// Above the vertical axis.
    pub(crate) y_title: &'a str,
    /// What its values are.
    pub(crate) unit: ValueUnit,
}

impl ChartSeries {
    /// All values that must be on the paper.
    fn plotted_values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().flat_map(|point| {
            [point.value, point.lo, point.hi].into_iter().chain(point.trial_values.iter().copied())
        })
    }
}

/// A drawing with its title and description.
fn render_svg(
    caption: &ChartTitlesAndUnit<'_>,
    size: ChartSize,
    class: &str,
    inside: &Markup,
) -> Markup {
    let (title, about) = (format!("{}-t", caption.id), format!("{}-d", caption.id));
    html! {
        svg class={ "chart " (class) } role="img"
            viewBox={ "0 0 " (format_svg_coordinate(size.width)) " " (format_svg_coordinate(size.height)) }
            aria-labelledby={ (title) " " (about) } {
            title id=(title) { (caption.title) }
            desc id=(about) { (caption.description) }
            (inside)
        }
    }
}

/// Stands in place of a drawing without a single value that its axes can show.
fn render_empty_chart_note(caption: &ChartTitlesAndUnit<'_>, class: &str) -> Markup {
    html! { p class={ "chart about " (class) } { "Not drawn, no values: " (caption.title) "." } }
}

/// Text at a place.
fn render_svg_text(class: &str, x: f64, y: f64, text: &str) -> Markup {
    html! { text class=(class) x=(format_svg_coordinate(x)) y=(format_svg_coordinate(y)) { (text) } }
}

/// Dots at places, as one path of points.
fn render_dots(places: &[(f64, f64)]) -> Markup {
    let mut data = String::new();
    for (x, y) in places {
        data.push_str(&format!("M{} {}h0", format_svg_coordinate(*x), format_svg_coordinate(*y)));
    }
    html! { path class="dots" d=(data) {} }
}

/// A line through places.
fn polyline_path(places: &[(f64, f64)]) -> String {
    let mut data = String::new();
    for (at, (x, y)) in places.iter().enumerate() {
        data.push(if at == 0 { 'M' } else { 'L' });
        data.push_str(&format!("{} {}", format_svg_coordinate(*x), format_svg_coordinate(*y)));
    }
    data
}

/// Moves `wanted` places apart until neighbours are `gap` from each other, within `low..=high`.
///
/// The order stays; nothing moves further than it must.
fn spread_labels(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Groups of labels that touch each other: sum of wished first places, count.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let room = (high - low).max(0.0);
    let gap = if wanted.len() > 1 { gap.min(room / (wanted.len() - 1) as f64) } else { gap };
    let first = |group: &(f64, usize)| {
        let length = (group.1 - 1) as f64 * gap;
        (group.0 / group.1 as f64).clamp(low, (high - length).max(low))
    };
    for at in &order {
        groups.push((wanted[*at], 1));
        while let [.., before, last] = groups.as_slice() {
            if first(before) + before.1 as f64 * gap <= first(last) {
                break;
            }
            // The last group's wishes, seen from the first place of the joint one.
            let shift = before.1 as f64 * gap * last.1 as f64;
            let joint = (before.0 + last.0 - shift, before.1 + last.1);
            groups.truncate(groups.len() - 2);
            groups.push(joint);
        }
    }
    let mut placed = vec![0.0; wanted.len()];
    let mut next = order.iter();
    for group in &groups {
        for member in 0..group.1 {
            if let Some(at) = next.next() {
                placed[*at] = first(group) + member as f64 * gap;
            }
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay_where_they_are() {
        assert_eq!(spread_labels(&[10.0, 50.0], 15.0, 0.0, 100.0), [10.0, 50.0]);
        assert!(spread_labels(&[], 15.0, 0.0, 100.0).is_empty());
    }

    #[test]
    fn labels_that_touch_move_apart_around_their_middle() {
        assert_eq!(spread_labels(&[50.0, 50.0], 10.0, 0.0, 100.0), [45.0, 55.0]);
        assert_eq!(spread_labels(&[98.0, 99.0], 10.0, 0.0, 100.0), [90.0, 100.0]);
    }

    #[test]
    fn labels_keep_their_order_and_distance() {
        let wanted = [5.0, 80.0, 6.0, 82.0, 7.0, 81.0, 50.0];
        let placed = spread_labels(&wanted, 14.0, 0.0, 120.0);
        let mut order: Vec<usize> = (0..7).collect();
        order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
        for pair in order.windows(2) {
            assert!(placed[pair[1]] - placed[pair[0]] >= 13.999, "{placed:?}");
        }
        assert!(placed.iter().all(|y| (0.0..=120.0).contains(y)), "{placed:?}");
    }

    #[test]
    fn labels_without_enough_space_share_the_axis_evenly() {
        let placed = spread_labels(&[5.0, 5.0, 5.0], 50.0, 0.0, 20.0);
        assert_eq!(placed, [0.0, 10.0, 20.0]);
    }
}
