//! What a construction has used of its limits.

use crate::build_limits::{BuildLimits, ClassifierBuildError};

#[derive(Clone, Debug)]
pub(super) struct BuildBudget {
    engine: &'static str,
    limits: BuildLimits,
    steps: u64,
}

/// Places in the arrays of a structure are numbers of 32 bits. A structure of this size has fewer.
const ADDRESSABLE_BYTES_MAX: usize = 8 << 30;

impl BuildBudget {
    pub(super) fn new(engine: &'static str, limits: &BuildLimits) -> BuildBudget {
        let memory_bytes_max = limits.memory_bytes_max.min(ADDRESSABLE_BYTES_MAX);
        let limits = BuildLimits { memory_bytes_max, ..*limits };
        BuildBudget { engine, limits, steps: 0 }
    }

    /// Refuses a structure of more bytes than allowed.
    #[inline]
    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), ClassifierBuildError> {
        if bytes <= self.limits.memory_bytes_max {
            return Ok(());
        }
        let limit_bytes = self.limits.memory_bytes_max;
        Err(ClassifierBuildError::TooLarge { engine: self.engine, limit_bytes })
    }

    /// Counts steps, and refuses those beyond the limit.
    #[inline]
    pub(super) fn take_steps(&mut self, steps: usize) -> Result<(), ClassifierBuildError> {
        self.steps += steps as u64;
        if self.steps <= self.limits.steps_max {
            return Ok(());
        }
        let limit_steps = self.limits.steps_max;
        Err(ClassifierBuildError::TooManySteps { engine: self.engine, limit_steps })
    }
}
