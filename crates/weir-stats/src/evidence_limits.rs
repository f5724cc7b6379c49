//! The limits within which the numbers of a run decide claims, and the shortcomings of runs outside
//! them.
//!
//! `docs/lab.md` has the same table; a test compares the two. [`RunQuality`] is compared with it.
//!
//! [`RunQuality`]: crate::run_quality::RunQuality

use std::fmt;

use serde::{Deserialize, Serialize};

/// Lowest end that the interval of a run's noise floor may have.
pub const MIN_NOISE_FLOOR: f64 = 0.95;
/// Highest end that it may have.
pub const MAX_NOISE_FLOOR: f64 = 1.05;
/// Highest share of the accepted trials that may have been disturbed to the last repetition.
pub const MAX_GIVEN_UP_SHARE: f64 = 0.10;
/// Fewest samples that an estimate may rest on.
pub const MIN_SAMPLES: usize = 5;

/// Why an estimate decides no claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EvidenceShortcoming {
    /// No subject was measured twice.
    UnknownNoiseFloor,
    /// The noise floor exceeds its limits.
    WideNoiseFloor {
        /// Lower end of its interval.
        lo: f64,
        /// Upper end.
        hi: f64,
    },
    /// Too many trials count although they were disturbed, because repetition did not help.
    ManyGivenUpTrials {
        /// Number of such trials.
        given_up: u64,
        /// Number of accepted trials.
        accepted: u64,
    },
    /// The estimate rests on too few samples.
    FewSamples {
        /// Number of samples.
        samples: usize,
    },
    /// The study has changed since the run: it now defines this part differently.
    ChangedDefinition {
        /// `ruleset`, `traffic` or `subject NAME`.
        part: String,
    },
    /// The interval contains a bound of the test.
    StraddledBound {
        /// That bound.
        bound: f64,
    },
}

impl fmt::Display for EvidenceShortcoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvidenceShortcoming::UnknownNoiseFloor => {
                f.write_str("no subject was measured twice, so the noise floor is unknown")
            }
            EvidenceShortcoming::WideNoiseFloor { lo, hi } => write!(
                f,
                "the noise floor of the run is {lo:.3} to {hi:.3}, wider than {MIN_NOISE_FLOOR} to \
                 {MAX_NOISE_FLOOR}"
            ),
            EvidenceShortcoming::ManyGivenUpTrials { given_up, accepted } => write!(
                f,
                "{given_up} of {accepted} accepted trials were disturbed to the last repetition, \
                 more than {:.0} %",
                MAX_GIVEN_UP_SHARE * 100.0
            ),
            EvidenceShortcoming::FewSamples { samples } => {
                let plural = if *samples == 1 { "" } else { "s" };
                write!(f, "{samples} sample{plural}, fewer than {MIN_SAMPLES}")
            }
            EvidenceShortcoming::ChangedDefinition { part } => {
                write!(f, "the {part} of the study changed after the run")
            }
            EvidenceShortcoming::StraddledBound { bound } => {
                write!(f, "the interval reaches over the bound {bound}")
            }
        }
    }
}
