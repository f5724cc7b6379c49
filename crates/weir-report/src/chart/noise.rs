//! Noise of the machine, trial by trial, in the order in which they were run.

use maud::{Markup, html};
use weir_stats::{State, Trial};

use super::{Caption, ChartSize, drawing, words};
use crate::number::{Unit, percent, pixel};

/// Height of one strip, and the gap to the next.
const STRIP: f64 = 44.0;
const GAP: f64 = 36.0;

/// A quantity that tells of noise.
struct Strip {
    title: &'static str,
    /// 0 is quiet.
    of: fn(&Trial) -> f64,
    /// The strip's top is this at least: small noise is not drawn large.
    least: f64,
}

const STRIPS: [Strip; 3] = [
    Strip { title: "waiting for a processor (PSI)", of: |trial| trial.noise.psi, least: 0.10 },
    Strip { title: "taken by the hypervisor (steal)", of: |trial| trial.noise.steal, least: 0.05 },
    Strip {
        title: "slower calibration loop (spin)",
        of: |trial| if trial.noise.spin_ratio > 0.0 { trial.noise.spin_ratio - 1.0 } else { 0.0 },
        least: 0.05,
    },
];

/// Draws a bar per trial.
pub(crate) fn draw(id: &str, class: &'static str, width: f64, trials: &[Trial]) -> Markup {
    let caption = Caption {
        id,
        title: "How quiet the machine was",
        about: "One bar per trial, in the order in which they were run; trials that were \
                disturbed and repeated are marked.",
        x_title: "",
        y_title: "",
        unit: Unit::Rate,
    };
    let height = STRIPS.len() as f64 * (STRIP + GAP);
    let inside = html! {
        @for (at, strip) in STRIPS.iter().enumerate() {
            (self::strip(strip, at as f64 * (STRIP + GAP) + GAP, width, trials))
        }
    };
    drawing(&caption, ChartSize { width, height }, class, &inside)
}

fn strip(strip: &Strip, top: f64, width: f64, trials: &[Trial]) -> Markup {
    let bottom = top + STRIP;
    let finite = |trial: &Trial| (strip.of)(trial).max(0.0);
    let values = trials.iter().map(finite).filter(|value| value.is_finite());
    let worst = values.fold(0.0, f64::max);
    let most = usual(trials.iter().map(finite).collect()).max(strip.least);
    let step = width / trials.len().max(1) as f64;
    let bars = |wanted: fn(&Trial) -> bool| -> String {
        let mut data = String::new();
        for (at, trial) in trials.iter().enumerate().filter(|(_, trial)| wanted(trial)) {
            let value = finite(trial);
            if value.is_finite() && value > 0.0 {
                let x = (at as f64 + 0.5) * step;
                let height = (value / most).min(1.0) * STRIP;
                data.push_str(&format!(
                    "M{} {}v-{}",
                    pixel(x),
                    pixel(bottom),
                    pixel(height.max(1.0))
                ));
            }
        }
        data
    };
    let thickness = (step * 0.7).clamp(0.5, 8.0);
    html! {
        (words("tick", 0.0, top - 6.0, strip.title))
        (words("tick end", width, top - 6.0, &format!("worst {}", percent(worst))))
        line class="grid" x1="0" x2=(pixel(width)) y1=(pixel(top)) y2=(pixel(top)) {}
        path class="quiet" stroke-width=(pixel(thickness)) d=(bars(is_kept)) {}
        path class="disturbed" stroke-width=(pixel(thickness)) d=(bars(|trial| !is_kept(trial))) {}
        line class="axis" x1="0" x2=(pixel(width)) y1=(pixel(bottom)) y2=(pixel(bottom)) {}
    }
}

/// Nearly the largest value: a few lone ones may reach over the strip's top, or all others would
/// vanish next to them.
fn usual(mut values: Vec<f64>) -> f64 {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get(last * 98 / 100).copied().unwrap_or(0.0)
}

fn is_kept(trial: &Trial) -> bool {
    matches!(trial.state, State::Accepted | State::Warmup)
}
