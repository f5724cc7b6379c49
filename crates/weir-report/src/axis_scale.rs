//! Axes: the mapping from values to positions, and the positions of ticks.

/// A logarithmic axis. A value of 0, which has no logarithm, gets a place of its own before the
/// smallest value, with a gap that says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogScale {
    min_value: f64,
    max_value: f64,
    start_position: f64,
    end_position: f64,
    zero_position: Option<f64>,
}

impl LogScale {
    /// An axis from `low` at place `start` to `high` at place `end`.
    fn new(low: f64, high: f64, start: f64, end: f64) -> LogScale {
        assert!(low > 0.0 && low < high && high.is_finite(), "no axis from {low} to {high}");
        LogScale {
            min_value: low,
            max_value: high,
            start_position: start,
            end_position: end,
            zero_position: None,
        }
    }

    /// An axis that holds `values`, with room at both ends.
    pub(crate) fn with_margins_and_round_ends(
        values: impl Iterator<Item = f64>,
        start: f64,
        end: f64,
    ) -> LogScale {
        let (low, high) = positive_extent(values).unwrap_or((1.0, 10.0));
        // A little room on both sides, and never less than a factor of 1.1.
        let room = (high / low).powf(0.03).max(1.1);
        LogScale::new(round_number_below(low / room), round_number_above(high * room), start, end)
    }

    /// An axis whose ends are the smallest and the largest of `values`; 0 is drawn apart.
    pub(crate) fn with_exact_ends(values: &[f64], start: f64, end: f64) -> LogScale {
        let has_zero = values.contains(&0.0);
        let (low, high) = match positive_extent(values.iter().copied()) {
            Some((low, high)) if low < high => (low, high),
            Some((only, _)) => (only / 2.0, only * 2.0),
            None => (1.0, 10.0),
        };
        let gap = if has_zero { (end - start) * 0.09 } else { 0.0 };
        let zero = has_zero.then_some(start);
        LogScale { zero_position: zero, ..LogScale::new(low, high, start + gap, end) }
    }

    /// Where `value` lies; `None` for what this axis cannot show.
    pub(crate) fn position_of(&self, value: f64) -> Option<f64> {
        if value == 0.0 {
            return self.zero_position;
        }
        if !value.is_finite() || value < 0.0 {
            return None;
        }
        let share = (value / self.min_value).ln() / (self.max_value / self.min_value).ln();
        Some(
            self.start_position
                + share.clamp(-0.02, 1.02) * (self.end_position - self.start_position),
        )
    }

    /// Where the axis is broken, between the place of 0 and the others.
    pub(crate) fn axis_break_position(&self) -> Option<f64> {
        self.zero_position.map(|zero| (zero + self.start_position) / 2.0)
    }

    /// Ticks of this axis: those with a label are `true`.
    pub(crate) fn ticks_with_label_flag(&self) -> Vec<(f64, bool)> {
        let decades = (self.max_value / self.min_value).log10();
        let labelled: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        let first = self.min_value.log10().floor() as i32;
        let last = self.max_value.log10().ceil() as i32;
        for power in first..=last {
            for step in [1.0, 2.0, 5.0] {
                let value = step * 10f64.powi(power);
                if value >= self.min_value * 0.999 && value <= self.max_value * 1.001 {
                    ticks.push((value, labelled.contains(&step)));
                }
            }
        }
        ticks
    }
}

/// An axis with even steps that begins at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearScale {
    max_value: f64,
    start_position: f64,
    end_position: f64,
}

impl LinearScale {
    /// An axis from 0 at place `start` that holds `values`, with a round upper end.
    pub(crate) fn with_zero_and_round_maximum(
        values: impl Iterator<Item = f64>,
        start: f64,
        end: f64,
    ) -> LinearScale {
        let most = positive_extent(values).map_or(1.0, |(_, high)| high);
        let step = tick_step(most);
        LinearScale {
            max_value: (most / step).ceil() * step,
            start_position: start,
            end_position: end,
        }
    }

    /// Where `value` lies; `None` for what this axis cannot show.
    pub(crate) fn position_of(&self, value: f64) -> Option<f64> {
        let share = value / self.max_value;
        (0.0..=1.02)
            .contains(&share)
            .then_some(self.start_position + share * (self.end_position - self.start_position))
    }

    /// Round values, four to ten of them.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let step = tick_step(self.max_value);
        (0..=(self.max_value / step).round() as u32).map(|at| f64::from(at) * step).collect()
    }
}

/// A round step of which four to ten make `most`.
fn tick_step(most: f64) -> f64 {
    round_number_below(most / 4.0)
}

/// At most `most` of `values`, evenly spread, with both ends.
pub(crate) fn thin_out_values(values: &[f64], most: usize) -> Vec<f64> {
    let step = values.len().div_ceil(most.max(1)).max(1);
    let Some(last) = values.len().checked_sub(1) else { return Vec::new() };
    let mut kept: Vec<f64> = (0..=last).rev().step_by(step).map(|at| values[at]).collect();
    kept.reverse();
    // The smallest says where the axis begins; a neighbour that comes too close makes way.
    if kept.first() != values.first() {
        if kept.len() > 1 && step > 1 && (last % step) < step.div_ceil(2) {
            kept.remove(0);
        }
        kept.insert(0, values[0]);
    }
    kept
}

fn positive_extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |extent, value| {
        let (low, high) = extent.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

/// The largest 1, 2 or 5 times a power of ten that is not above `value`.
fn round_number_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let step = value / power;
    power * [5.0, 2.0, 1.0].into_iter().find(|nice| *nice <= step * 1.000_001).unwrap_or(1.0)
}

/// The smallest 1, 2 or 5 times a power of ten that is not below `value`.
fn round_number_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let step = value / power;
    power * [1.0, 2.0, 5.0].into_iter().find(|nice| *nice * 1.000_001 >= step).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_decades_of_a_log_axis_have_equal_length() {
        let axis = LogScale::new(1.0, 1000.0, 0.0, 300.0);
        assert_eq!(axis.position_of(10.0).map(f64::round), Some(100.0));
        assert_eq!(axis.position_of(100.0).map(f64::round), Some(200.0));
        assert_eq!(axis.position_of(0.0), None);
        assert_eq!(axis.position_of(f64::NAN), None);
        assert_eq!(axis.position_of(-1.0), None);
    }

    #[test]
    fn zero_has_its_own_position_on_a_log_axis() {
        let axis = LogScale::with_exact_ends(&[0.0, 16.0, 16_384.0], 0.0, 1000.0);
        let places: Vec<f64> =
            [0.0, 16.0, 16_384.0].iter().filter_map(|value| axis.position_of(*value)).collect();
        assert_eq!(places[0], 0.0);
        assert!(places[1] > 50.0 && places[1] < 150.0, "{places:?}");
        assert_eq!(places[2].round(), 1000.0);
        assert!(
            LogScale::with_exact_ends(&[16.0, 32.0], 0.0, 1000.0).axis_break_position().is_none()
        );
    }

    #[test]
    fn an_axis_without_values_still_has_ticks() {
        for values in [&[][..], &[0.0], &[7.0], &[f64::NAN]] {
            assert!(
                !LogScale::with_margins_and_round_ends(values.iter().copied(), 0.0, 100.0)
                    .ticks_with_label_flag()
                    .is_empty()
            );
            assert!(
                !LogScale::with_exact_ends(values, 0.0, 100.0).ticks_with_label_flag().is_empty()
            );
        }
    }

    #[test]
    fn axis_ends_are_round_numbers_around_the_values() {
        let axis =
            LogScale::with_margins_and_round_ends([41_000.0, 1_400_000.0].into_iter(), 0.0, 100.0);
        assert_eq!((axis.min_value.round(), axis.max_value.round()), (20_000.0, 2_000_000.0));
    }

    #[test]
    fn a_linear_axis_starts_at_0_and_contains_all_values() {
        for most in [0.3, 1.0, 7.0, 80_000.0, 3_456_789.0] {
            let axis = LinearScale::with_zero_and_round_maximum(
                [0.0, most / 2.0, most].into_iter(),
                0.0,
                100.0,
            );
            let ticks = axis.ticks();
            assert!((5..=11).contains(&ticks.len()), "{most}: {ticks:?}");
            assert_eq!((ticks[0], axis.position_of(0.0)), (0.0, Some(0.0)));
            let place = axis.position_of(most).unwrap();
            assert!((75.0..=100.0).contains(&place), "{most} at {place}");
            assert!((axis.position_of(most / 2.0).unwrap() * 2.0 - place).abs() < 1e-9);
        }
        let empty = LinearScale::with_zero_and_round_maximum(std::iter::empty(), 0.0, 100.0);
        assert!(!empty.ticks().is_empty());
        assert_eq!((empty.position_of(f64::NAN), empty.position_of(-1.0)), (None, None));
    }

    #[test]
    fn thinning_keeps_both_ends() {
        let all: Vec<f64> = (4..15).map(|power| f64::from(1 << power)).collect();
        for most in 1..12 {
            let kept = thin_out_values(&all, most);
            assert_eq!((kept.first(), kept.last()), (all.first(), all.last()), "{most}");
            assert!(kept.len() <= most + 1, "{most}: {kept:?}");
            assert!(kept.is_sorted() && kept.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert!(thin_out_values(&[], 5).is_empty());
    }
}
