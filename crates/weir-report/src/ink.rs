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
