//! Colour, marker and line of a subject, the same in every drawing of a page.
//!
//! Colours are those of Okabe and Ito, which colour-blind readers can distinguish, darkened or
//! lightened for the background in `page.css`. weir's forms have filled markers, the subjects for
//! comparison hollow ones, and the line without a firewall is grey and dashed, so that a page
//! printed in black is still readable. If several runs are in one drawing, colour and filling
//! belong to the subject, shape and dashes to the run.

use maud::{Markup, html};
use weir_stats::RunSubject;

use crate::number_format::format_svg_coordinate;

/// How a subject is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    /// Class of the style sheet that holds the colour.
    pub(crate) color_class: &'static str,
    /// Shape of the marker.
    shape: MarkerShape,
    /// Markers are filled.
    is_filled: bool,
    /// The line is dashed: there are no rules.
    pub(crate) is_dashed: bool,
    /// The run, where several are in one drawing.
    pub(crate) run_index: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkerShape {
    Circle,
    Square,
    Diamond,
    Triangle,
}

const MARKER_SHAPES: [MarkerShape; 4] =
    [MarkerShape::Circle, MarkerShape::Square, MarkerShape::Diamond, MarkerShape::Triangle];
/// Lines of runs, the first one's whole.
const RUN_DASH_CSS_CLASSES: [&str; 4] = ["line", "line dash-1", "line dash-2", "line dash-3"];
const WEIR_COLOR_CSS_CLASSES: [&str; 4] = ["ink-w0", "ink-w1", "ink-w2", "ink-w3"];
const NON_WEIR_COLOR_CSS_CLASSES: [&str; 4] = ["ink-o0", "ink-o1", "ink-o2", "ink-o3"];

/// The styles of `subjects`, in their order.
pub(crate) fn assign_styles(subjects: &[RunSubject]) -> Vec<SeriesStyle> {
    let (mut weir, mut others) = (0, 0);
    subjects
        .iter()
        .map(|subject| {
            if subject.loads_no_rules {
                let shape = MarkerShape::Circle;
                return SeriesStyle {
                    color_class: "ink-none",
                    shape,
                    is_filled: false,
                    is_dashed: true,
                    run_index: None,
                };
            }
            let (classes, at) = if subject.weir {
                (WEIR_COLOR_CSS_CLASSES, &mut weir)
            } else {
                (NON_WEIR_COLOR_CSS_CLASSES, &mut others)
            };
            // There are sixteen different colours and shapes.
            let shape = MARKER_SHAPES[(*at + *at / classes.len()) % MARKER_SHAPES.len()];
            let class = classes[*at % classes.len()];
            *at += 1;
            SeriesStyle {
                color_class: class,
                shape,
                is_filled: subject.weir,
                is_dashed: false,
                run_index: None,
            }
        })
        .collect()
}

impl SeriesStyle {
    /// The same subject in one of several runs. There are sixteen different dashes and shapes.
    pub(crate) fn for_run(self, run: usize) -> SeriesStyle {
        SeriesStyle {
            shape: MARKER_SHAPES[(run + run / RUN_DASH_CSS_CLASSES.len()) % MARKER_SHAPES.len()],
            run_index: Some(run),
            ..self
        }
    }

    /// A run, whatever the subject.
    pub(crate) fn for_run_without_subject(run: usize) -> SeriesStyle {
        let shape = MarkerShape::Circle;
        SeriesStyle {
            color_class: "ink-run",
            shape,
            is_filled: true,
            is_dashed: false,
            run_index: None,
        }
        .for_run(run)
    }

    /// Classes of its line.
    pub(crate) fn line_dash_css_classes(&self) -> &'static str {
        match self.run_index {
            Some(run) => RUN_DASH_CSS_CLASSES[run % RUN_DASH_CSS_CLASSES.len()],
            None if self.is_dashed => "line dashed",
            None => "line",
        }
    }

    /// Radius of its markers in a drawing; the line without rules has small ones, because it has no
    /// shape to show.
    pub(crate) fn marker_radius(&self) -> f64 {
        if self.is_dashed && self.run_index.is_none() { 2.5 } else { 4.0 }
    }

    /// The marker, centred at a place.
    pub(crate) fn render_marker(&self, x: f64, y: f64, radius: f64) -> Markup {
        let class = if self.is_filled { "mark full" } else { "mark hollow" };
        let path = |points: &[(f64, f64)]| -> String {
            let mut data = String::new();
            for (at, (dx, dy)) in points.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                let (x, y) = (
                    format_svg_coordinate(x + dx * radius),
                    format_svg_coordinate(y + dy * radius),
                );
                data.push_str(&format!("{command}{x} {y}"));
            }
            data + "Z"
        };
        let data = match self.shape {
            MarkerShape::Circle => {
                return html! {
                    circle class=(class) cx=(format_svg_coordinate(x)) cy=(format_svg_coordinate(y)) r=(format_svg_coordinate(radius)) {}
                };
            }
            MarkerShape::Square => path(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            MarkerShape::Diamond => path(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            MarkerShape::Triangle => path(&[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)]),
        };
        html! { path class=(class) d=(data) {} }
    }

    /// A small sample of line and marker, for legends and tables; that of a run is long enough to
    /// show its dashes.
    pub(crate) fn render_legend_key(&self) -> Markup {
        let (class, width) =
            if self.run_index.is_some() { ("key long ", 48) } else { ("key ", 26) };
        html! {
            svg class={ (class) (self.color_class) } viewBox={ "0 0 " (width) " 12" } aria-hidden="true" {
                path class=(self.line_dash_css_classes()) d={ "M1 6H" (width - 1) } {}
                @if !self.is_dashed || self.run_index.is_some() {
                    (self.render_marker(f64::from(width / 2), 6.0, 4.0))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_records;

    /// Relative luminance of `#rrggbb` (WCAG 2.1).
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour is hex");
            let share = f64::from(value) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(first: &str, second: &str) -> f64 {
        let (first, second) = (luminance(first) + 0.05, luminance(second) + 0.05);
        (first / second).max(second / first)
    }

    /// The value of a variable in a part of the style sheet, e.g. `#0072b2`.
    fn colour<'a>(part: &'a str, name: &str) -> &'a str {
        let at = part.find(&format!("--{name}: #")).expect("the part sets the variable");
        &part[at + name.len() + 4..][..7]
    }

    #[test]
    fn every_colour_has_enough_contrast_with_its_background() {
        assert!(contrast("#000000", "#ffffff") > 20.9 && contrast("#777777", "#888888") < 1.5);
        let sheet = include_str!("page.css");
        let dark = sheet.find("prefers-color-scheme: dark").expect("there is a dark part");
        for part in [&sheet[..dark], &sheet[dark..]] {
            let paper = colour(part, "paper");
            for style in ["w0", "w1", "w2", "w3", "o0", "o1", "o2", "o3", "none", "text", "soft"] {
                let contrast = contrast(colour(part, style), paper);
                assert!(contrast >= 4.5, "{style} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn four_subjects_of_each_group_have_distinct_colours() {
        let subjects: Vec<RunSubject> = ["a", "b", "c", "d"]
            .iter()
            .flat_map(|name| {
                [
                    sample_records::sample_subject(name, false, true),
                    sample_records::sample_subject(name, false, false),
                ]
            })
            .collect();
        let styles = assign_styles(&subjects);
        for (at, style) in styles.iter().enumerate() {
            assert!(
                styles[..at]
                    .iter()
                    .all(|other| other != style && other.color_class != style.color_class)
            );
        }
    }

    #[test]
    fn sixteen_subjects_of_one_group_have_distinct_styles() {
        let names: Vec<String> = (0..16).map(|n| n.to_string()).collect();
        let subjects: Vec<RunSubject> =
            names.iter().map(|name| sample_records::sample_subject(name, false, false)).collect();
        let styles = assign_styles(&subjects);
        for (at, style) in styles.iter().enumerate() {
            assert!(styles[..at].iter().all(|other| other != style), "subject {at}");
        }
    }

    #[test]
    fn runs_of_a_subject_share_colour_but_differ_in_style() {
        let style = assign_styles(&[sample_records::sample_subject("a", false, false)])[0];
        let runs: Vec<SeriesStyle> = (0..16).map(|run| style.for_run(run)).collect();
        let look = |style: &SeriesStyle| {
            (style.line_dash_css_classes(), style.render_marker(0.0, 0.0, 4.0).into_string())
        };
        for (at, run) in runs.iter().enumerate() {
            assert_eq!((run.color_class, run.is_filled), (style.color_class, style.is_filled));
            assert!(runs[..at].iter().all(|other| look(other) != look(run)), "run {at}");
        }
        assert_ne!(runs[0].line_dash_css_classes(), runs[1].line_dash_css_classes());
        assert_eq!(look(&style.for_run(0)), look(&style.for_run(16)), "there are sixteen");
        let none = assign_styles(&[sample_records::sample_subject("none", true, false)])[0];
        assert_eq!(
            (none.line_dash_css_classes(), none.for_run(0).line_dash_css_classes()),
            ("line dashed", "line")
        );
    }
}
