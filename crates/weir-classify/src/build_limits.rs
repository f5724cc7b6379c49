//! What building a structure may cost, and why there is none.

use thiserror::Error;

/// What building a structure may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildLimits {
    /// Bytes of the finished structure, and of what its construction holds at a time. No engine
    /// builds more than 8 GiB.
    pub memory_bytes_max: usize,
    /// Steps of the construction: filters placed, nodes visited, cells written. They
    /// bound the time before an engine refuses rules for which its structure explodes.
    pub steps_max: u64,
}

impl BuildLimits {
    /// What the second structure of a first-match engine may cost, the one for all matches.
    pub(crate) fn limits_of_all_matches_structure(&self) -> BuildLimits {
        BuildLimits { memory_bytes_max: self.memory_bytes_max / 4, steps_max: self.steps_max / 4 }
    }
}

impl Default for BuildLimits {
    fn default() -> Self {
        BuildLimits { memory_bytes_max: 4 << 30, steps_max: 200_000_000 }
    }
}

/// Why an engine has no structure for a filter set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClassifierBuildError {
    /// The engine cannot represent a test.
    #[error("{engine} cannot represent rule {rule} (counted from 0): {reason}")]
    UnsupportedRule {
        /// Name of the engine.
        engine: &'static str,
        /// The rule.
        rule: u32,
        /// What it tests.
        reason: String,
    },
    /// The structure would be larger than allowed.
    #[error("{engine} needs more than {limit_bytes} bytes for these rules")]
    TooLarge {
        /// Name of the engine.
        engine: &'static str,
        /// What was allowed.
        limit_bytes: usize,
    },
    /// The construction would take longer than allowed.
    #[error("{engine} needs more than {limit_steps} steps to build for these rules")]
    TooManySteps {
        /// Name of the engine.
        engine: &'static str,
        /// What was allowed.
        limit_steps: u64,
    },
}
