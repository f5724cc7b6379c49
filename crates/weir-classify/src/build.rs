//! The engines by name, and what building one may cost.

use thiserror::Error;

use crate::classifier::Classifier;
use crate::engines::linear::LinearClassifier;
use crate::filter_set::FilterSet;

/// A way to organise rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// One rule after the other, as iptables does: the reference.
    Linear,
}

/// What building a structure may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildLimits {
    /// Bytes of the finished structure.
    pub memory_bytes_max: usize,
}

impl Default for BuildLimits {
    fn default() -> Self {
        BuildLimits { memory_bytes_max: 4 << 30 }
    }
}

/// Why an engine has no structure for a filter set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClassifierBuildError {
    /// The engine cannot represent a test.
    #[error("{engine} cannot represent rule {rule}: {reason}")]
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
}

impl Engine {
    /// All engines, the reference first.
    pub const ALL: [Engine; 1] = [Engine::Linear];

    /// The name, as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Linear => "linear",
        }
    }

    /// The engine of a name.
    ///
    /// ```
    /// use weir_classify::Engine;
    /// assert_eq!(Engine::from_name("linear"), Some(Engine::Linear));
    /// assert_eq!(Engine::from_name("magic"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Builds the structure for a filter set.
    ///
    /// # Errors
    /// The engine cannot represent a rule, or exceeds a limit.
    pub fn build(
        self,
        filters: &FilterSet,
        _limits: &BuildLimits,
    ) -> Result<Box<dyn Classifier>, ClassifierBuildError> {
        match self {
            Engine::Linear => Ok(Box::new(LinearClassifier::new(filters))),
        }
    }
}
