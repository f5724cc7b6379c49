//! The quality of a run, and the resulting shortcomings.

use serde::Serialize;

use crate::estimate::Estimate;
use crate::evidence_limits::{
    EvidenceShortcoming, MAX_GIVEN_UP_SHARE, MAX_NOISE_FLOOR, MIN_NOISE_FLOOR,
};
use crate::run::Run;

/// The quality of a run: the noise floor from the subject that it measured twice, and the trials
/// that count although they were disturbed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunQuality {
    /// Ratio of the second copy of a subject to its first; `None` if no subject was measured
    /// twice.
    pub noise_floor: Option<Estimate>,
    /// Trials that count.
    pub accepted_trials: u64,
    /// Those of them that were disturbed to the last repetition.
    pub given_up_trials: u64,
    /// Processor of the machine whose rules were measured.
    pub cpu_model: String,
}

impl RunQuality {
    /// The quality of a run. Its noise floor is computed from the trials whenever records are read.
    pub fn from_run(run: &Run) -> RunQuality {
        RunQuality {
            noise_floor: run.noise_floor.as_ref().map(|floor| floor.ratio),
            accepted_trials: run.counts.accepted,
            given_up_trials: run.counts.accepted_despite_disturbance,
            cpu_model: run.firewall_environment().cpu_model.clone(),
        }
    }

    /// Share of the accepted trials that were disturbed to the last repetition; 0 without trials.
    pub fn given_up_share(&self) -> f64 {
        self.given_up_trials as f64 / self.accepted_trials.max(1) as f64
    }

    /// The largest factor by which the interval of the noise floor differs from 1, at least 1;
    /// infinite without a noise floor.
    pub fn max_noise_floor_factor(&self) -> f64 {
        self.noise_floor.as_ref().map_or(f64::INFINITY, |floor| floor.hi.max(1.0 / floor.lo))
    }

    /// Why this run decides no claims; empty if it does.
    pub fn shortcomings(&self) -> Vec<EvidenceShortcoming> {
        let mut found = Vec::new();
        match &self.noise_floor {
            None => found.push(EvidenceShortcoming::UnknownNoiseFloor),
            Some(floor) if floor.lo < MIN_NOISE_FLOOR || floor.hi > MAX_NOISE_FLOOR => {
                found.push(EvidenceShortcoming::WideNoiseFloor { lo: floor.lo, hi: floor.hi });
            }
            Some(_) => {}
        }
        if self.given_up_share() > MAX_GIVEN_UP_SHARE {
            found.push(EvidenceShortcoming::ManyGivenUpTrials {
                given_up: self.given_up_trials,
                accepted: self.accepted_trials,
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(lo: f64, hi: f64, given_up: u64) -> RunQuality {
        RunQuality {
            noise_floor: Some(Estimate { value: 1.0, lo, hi, samples: 8 }),
            accepted_trials: 100,
            given_up_trials: given_up,
            cpu_model: "a processor".to_owned(),
        }
    }

    #[test]
    fn a_quiet_run_has_no_shortcomings_and_each_fault_is_named() {
        assert_eq!(quality(0.95, 1.05, 10).shortcomings(), []);
        let wide = EvidenceShortcoming::WideNoiseFloor { lo: 0.949, hi: 1.0 };
        assert_eq!(quality(0.949, 1.0, 0).shortcomings(), [wide]);
        let wide = EvidenceShortcoming::WideNoiseFloor { lo: 1.0, hi: 1.051 };
        assert_eq!(quality(1.0, 1.051, 0).shortcomings(), [wide]);
        let given_up = EvidenceShortcoming::ManyGivenUpTrials { given_up: 11, accepted: 100 };
        assert_eq!(quality(0.99, 1.01, 11).shortcomings(), [given_up]);
        let none = RunQuality { noise_floor: None, ..quality(1.0, 1.0, 0) };
        assert_eq!(none.shortcomings(), [EvidenceShortcoming::UnknownNoiseFloor]);
        assert_eq!(none.max_noise_floor_factor(), f64::INFINITY);
    }

    #[test]
    fn the_noise_floor_factor_is_that_of_the_end_farther_from_1() {
        assert!((quality(0.8, 1.1, 0).max_noise_floor_factor() - 1.25).abs() < 1e-12);
        assert!((quality(0.99, 1.1, 0).max_noise_floor_factor() - 1.1).abs() < 1e-12);
    }
}
