//! What the threads of a construction have used of its limits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::build_limits::{BuildLimits, ClassifierBuildError};

/// Steps and bytes of all groups. Whether a sum exceeds its limit does not depend on the order in
/// which threads add to it, so a filter set is refused always or never.
#[derive(Debug)]
pub(super) struct BuildMeter {
    limits: BuildLimits,
    steps: AtomicU64,
    bytes: AtomicUsize,
}

impl BuildMeter {
    pub(super) fn new(limits: &BuildLimits) -> BuildMeter {
        BuildMeter { limits: *limits, steps: AtomicU64::new(0), bytes: AtomicUsize::new(0) }
    }

    fn steps_left(&self) -> u64 {
        self.limits.steps_max.saturating_sub(self.steps.load(Ordering::Relaxed))
    }

    /// A meter of its own for half of the steps that these limits have left.
    pub(super) fn with_half_of_remaining_steps(&self) -> BuildMeter {
        let steps_max = self.steps_left() / 2;
        BuildMeter::new(&BuildLimits { steps_max, ..self.limits })
    }

    /// A meter of its own for what these limits have left.
    pub(super) fn with_remaining_limits(&self) -> BuildMeter {
        let BuildLimits { memory_bytes_max, .. } = self.limits;
        BuildMeter::new(&BuildLimits {
            memory_bytes_max: memory_bytes_max.saturating_sub(self.bytes.load(Ordering::Relaxed)),
            steps_max: self.steps_left(),
        })
    }

    /// Counts the steps of another meter, as far as the limit allows.
    pub(super) fn charge_trial_steps_up_to_limit(&self, trials: &BuildMeter) {
        let steps = trials.steps.load(Ordering::Relaxed).min(self.steps_left());
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Counts steps, and refuses those beyond the limit.
    pub(super) fn take_steps(&self, steps: usize) -> Result<(), ClassifierBuildError> {
        let before = self.steps.fetch_add(steps as u64, Ordering::Relaxed);
        if before + steps as u64 <= self.limits.steps_max {
            return Ok(());
        }
        let limit_steps = self.limits.steps_max;
        Err(ClassifierBuildError::TooManySteps { engine: "dag", limit_steps })
    }

    /// Counts bytes of the structure, and refuses those beyond the limit.
    pub(super) fn take_bytes(&self, bytes: usize) -> Result<(), ClassifierBuildError> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.limits.memory_bytes_max {
            return Ok(());
        }
        let limit_bytes = self.limits.memory_bytes_max;
        Err(ClassifierBuildError::TooLarge { engine: "dag", limit_bytes })
    }
}
