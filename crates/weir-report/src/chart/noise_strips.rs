//! Noise of the machine, trial by trial, in the order in which they were run.

use maud::{Markup, html};
use weir_stats::{Trial, TrialState};

use super::{ChartSize, ChartTitlesAndUnit, render_svg, render_svg_text};
use crate::number_format::{ValueUnit, format_percent, format_svg_coordinate};

/// Height of one strip, and the gap to the next.
const STRIP_HEIGHT: f64 = 44.0;
const STRIP_GAP: f64 = 36.0;

/// A quantity that tells of noise.
struct NoiseStrip {
    title: &'static str,
    /// 0 is quiet.
    noise_value: fn(&Trial) -> f64,
    /// The strip's top is this at least: small noise is not drawn large.
    min_full_scale: f64,
}

const NOISE_STRIPS: [NoiseStrip; 3] = [
    NoiseStrip {
        title: "waiting for a processor (PSI)",
        noise_value: |trial| trial.noise.psi,
        min_full_scale: 0.10,
    },
    NoiseStrip {
        title: "taken by the hypervisor (steal)",
        noise_value: |trial| trial.noise.steal,
        min_full_scale: 0.05,
    },
    NoiseStrip {
        title: "slower calibration loop (spin)",
        noise_value: |trial| {
            if trial.noise.spin_ratio > 0.0 { trial.noise.spin_ratio - 1.0 } else { 0.0 }
        },
        min_full_scale: 0.05,
    },
];

/// Draws a bar per trial.
pub(crate) fn draw_noise_strips(
    id: &str,
    class: &'static str,
    width: f64,
    trials: &[Trial],
) -> Markup {
    let caption = ChartTitlesAndUnit {
        id,
        title: "How quiet the machine was",
        description: "One bar per trial, in the order in which they were run; trials that were \
                disturbed and repeated are marked.",
        x_title: "",
        y_title: "",
        unit: ValueUnit::Rate,
    };
    let height = NOISE_STRIPS.len() as f64 * (STRIP_HEIGHT + STRIP_GAP);
    let inside = html! {
        @for (at, strip) in NOISE_STRIPS.iter().enumerate() {
            (self::render_strip(strip, at as f64 * (STRIP_HEIGHT + STRIP_GAP) + STRIP_GAP, width, trials))
        }
    };
    render_svg(&caption, ChartSize { width, height }, class, &inside)
}

fn render_strip(strip: &NoiseStrip, top: f64, width: f64, trials: &[Trial]) -> Markup {
    let bottom = top + STRIP_HEIGHT;
    let finite = |trial: &Trial| (strip.noise_value)(trial).max(0.0);
    let values = trials.iter().map(finite).filter(|value| value.is_finite());
    let worst = values.fold(0.0, f64::max);
    let most = percentile_98(trials.iter().map(finite).collect()).max(strip.min_full_scale);
    let step = width / trials.len().max(1) as f64;
    let bars = |wanted: fn(&Trial) -> bool| -> String {
        let mut data = String::new();
        for (at, trial) in trials.iter().enumerate().filter(|(_, trial)| wanted(trial)) {
            let value = finite(trial);
            if value.is_finite() && value > 0.0 {
                let x = (at as f64 + 0.5) * step;
                let height = (value / most).min(1.0) * STRIP_HEIGHT;
                data.push_str(&format!(
                    "M{} {}v-{}",
                    format_svg_coordinate(x),
                    format_svg_coordinate(bottom),
                    format_svg_coordinate(height.max(1.0))
                ));
            }
        }
        data
    };
    let thickness = (step * 0.7).clamp(0.5, 8.0);
    html! {
        (render_svg_text("tick", 0.0, top - 6.0, strip.title))
        (render_svg_text("tick end", width, top - 6.0, &format!("worst {}", format_percent(worst))))
        line class="grid" x1="0" x2=(format_svg_coordinate(width)) y1=(format_svg_coordinate(top)) y2=(format_svg_coordinate(top)) {}
        path class="quiet" stroke-width=(format_svg_coordinate(thickness)) d=(bars(is_accepted_or_warmup)) {}
        path class="disturbed" stroke-width=(format_svg_coordinate(thickness)) d=(bars(|trial| !is_accepted_or_warmup(trial))) {}
        line class="axis" x1="0" x2=(format_svg_coordinate(width)) y1=(format_svg_coordinate(bottom)) y2=(format_svg_coordinate(bottom)) {}
    }
}

/// Nearly the largest value: a few lone ones may reach over the strip's top, or all others would
/// vanish next to them.
fn percentile_98(mut values: Vec<f64>) -> f64 {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get(last * 98 / 100).copied().unwrap_or(0.0)
}

fn is_accepted_or_warmup(trial: &Trial) -> bool {
    matches!(trial.state, TrialState::Accepted | TrialState::Warmup)
}
