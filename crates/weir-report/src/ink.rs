//! Which colour, marker and line a subject has, the same in every drawing of a page.
//!
//! Colours are those of Okabe and Ito, which stay apart for colour-blind eyes, darkened or
//! lightened for the background in `page.css`. weir's forms are drawn full, what they are compared
//! with hollow, and the line without a firewall is grey and dashed: a page printed in black can
//! still be read.

use maud::{Markup, html};
use weir_stats::Subject;

use crate::number::pixel;

/// How a subject is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ink {
    /// Class of the style sheet that holds the colour.
    pub(crate) class: &'static str,
    /// Shape of the marker.
    shape: Shape,
    /// Markers are filled.
    full: bool,
    /// The line is dashed.
    pub(crate) dashed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Diamond,
    Triangle,
}

const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Diamond, Shape::Triangle];
const WEIR: [&str; 4] = ["ink-w0", "ink-w1", "ink-w2", "ink-w3"];
const OTHERS: [&str; 4] = ["ink-o0", "ink-o1", "ink-o2", "ink-o3"];

/// The inks of `subjects`, in their order.
pub(crate) fn inks(subjects: &[Subject]) -> Vec<Ink> {
    let (mut weir, mut others) = (0, 0);
    subjects
        .iter()
        .map(|subject| {
            if subject.baseline {
                return Ink { class: "ink-none", shape: Shape::Circle, full: false, dashed: true };
            }
            let (classes, at) =
                if subject.weir { (WEIR, &mut weir) } else { (OTHERS, &mut others) };
            let slot = *at % SHAPES.len();
            *at += 1;
            Ink { class: classes[slot], shape: SHAPES[slot], full: subject.weir, dashed: false }
        })
        .collect()
}

impl Ink {
    /// The marker, centred at a place.
    pub(crate) fn marker(&self, x: f64, y: f64, radius: f64) -> Markup {
        let class = if self.full { "mark full" } else { "mark hollow" };
        let path = |points: &[(f64, f64)]| -> String {
            let mut data = String::new();
            for (at, (dx, dy)) in points.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                let (x, y) = (pixel(x + dx * radius), pixel(y + dy * radius));
                data.push_str(&format!("{command}{x} {y}"));
            }
            data + "Z"
        };
        let data = match self.shape {
            Shape::Circle => {
                return html! {
                    circle class=(class) cx=(pixel(x)) cy=(pixel(y)) r=(pixel(radius)) {}
                };
            }
            Shape::Square => path(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Shape::Diamond => path(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            Shape::Triangle => path(&[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)]),
        };
        html! { path class=(class) d=(data) {} }
    }

    /// A small sample of line and marker, for legends and tables.
    pub(crate) fn key(&self) -> Markup {
        html! {
            svg class={ "key " (self.class) } viewBox="0 0 26 12" aria-hidden="true" {
                path.line.dashed[self.dashed] d="M1 6H25" {}
                @if !self.dashed { (self.marker(13.0, 6.0, 4.0)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

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
    fn every_ink_can_be_read_on_its_paper() {
        assert!(contrast("#000000", "#ffffff") > 20.9 && contrast("#777777", "#888888") < 1.5);
        let sheet = include_str!("page.css");
        let dark = sheet.find("prefers-color-scheme: dark").expect("there is a dark part");
        for part in [&sheet[..dark], &sheet[dark..]] {
            let paper = colour(part, "paper");
            for ink in ["w0", "w1", "w2", "w3", "o0", "o1", "o2", "o3", "none", "text", "soft"] {
                let contrast = contrast(colour(part, ink), paper);
                assert!(contrast >= 4.5, "{ink} on {paper}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn subjects_of_one_side_differ_in_shape_and_colour() {
        let subjects: Vec<Subject> = ["a", "b", "c", "d"]
            .iter()
            .flat_map(|name| {
                [sample::subject(name, false, true), sample::subject(name, false, false)]
            })
            .collect();
        let inks = inks(&subjects);
        for (at, ink) in inks.iter().enumerate() {
            assert!(inks[..at].iter().all(|other| other != ink && other.class != ink.class));
        }
    }
}
