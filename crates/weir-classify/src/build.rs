//! The engines by name.

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::Classifier;
use crate::engines::linear::LinearClassifier;
use crate::filter_set::FilterSet;
use crate::interval_dag::IntervalDagClassifier;

/// A way to organise rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// One rule after the other, as iptables does: the reference.
    Linear,
    /// Interval nodes, buckets and bit vectors in one block: see [`crate::interval_dag`].
    IntervalDag,
}

impl Engine {
    /// All engines, the reference first.
    pub const ALL: [Engine; 2] = [Engine::Linear, Engine::IntervalDag];

    /// The name, as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Linear => "linear",
            Engine::IntervalDag => "dag",
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
        limits: &BuildLimits,
    ) -> Result<Box<dyn Classifier>, ClassifierBuildError> {
        match self {
            Engine::Linear => Ok(Box::new(LinearClassifier::new(filters))),
            Engine::IntervalDag => Ok(Box::new(IntervalDagClassifier::build(filters, limits)?)),
        }
    }
}
