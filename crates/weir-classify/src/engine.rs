//! The engines by name.

use crate::build_limits::{BuildLimits, ClassifierBuildError};
use crate::classifier::{Classifier, UpdatableClassifier};
use crate::engines::bitvector::BitVectorClassifier;
use crate::engines::hipac::HipacClassifier;
use crate::engines::hypersplit::HyperSplitClassifier;
use crate::engines::idd::IntervalDecisionDiagramClassifier;
use crate::engines::ipset::OneWordIpsetClassifier;
use crate::engines::linear::LinearClassifier;
use crate::engines::tuple::TupleClassifier;
use crate::engines::tuplemerge::TupleMergeClassifier;
use crate::filter_set::FilterSet;
use crate::interval_dag::{IntervalDagClassifier, UpdatableIntervalDag};

/// A way to organise rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// One rule after the other, as iptables does: the reference.
    Linear,
    /// Bitmaps of passing filters per field, combined: the Lucent bit vector scheme, aggregated.
    BitVector,
    /// A hash table per combination of masks.
    Tuple,
    /// A hash table for many combinations of masks.
    TupleMerge,
    /// A tree of binary splits at the end points of rules.
    HyperSplit,
    /// Nested range trees with wildcard pointers.
    Hipac,
    /// An interval decision diagram.
    IntervalDecisionDiagram,
    /// A hash of one word, where rules test no other.
    Ipset,
    /// Interval nodes, buckets and bit vectors in one block: see [`crate::interval_dag`].
    IntervalDag,
}

impl Engine {
    /// All engines, the reference first.
    pub const ALL: [Engine; 9] = [
        Engine::Linear,
        Engine::BitVector,
        Engine::Tuple,
        Engine::TupleMerge,
        Engine::HyperSplit,
        Engine::Hipac,
        Engine::IntervalDecisionDiagram,
        Engine::Ipset,
        Engine::IntervalDag,
    ];

    /// The name, as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Linear => "linear",
            Engine::BitVector => "bitvector",
            Engine::Tuple => "tuple",
            Engine::TupleMerge => "tuplemerge",
            Engine::HyperSplit => "hypersplit",
            Engine::Hipac => "hipac",
            Engine::IntervalDecisionDiagram => "idd",
            Engine::Ipset => "ipset",
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
            Engine::BitVector => Ok(Box::new(BitVectorClassifier::new(filters, limits)?)),
            Engine::Tuple => Ok(Box::new(TupleClassifier::new(filters, limits)?)),
            Engine::TupleMerge => Ok(Box::new(TupleMergeClassifier::new(filters, limits)?)),
            Engine::HyperSplit => Ok(Box::new(HyperSplitClassifier::new(filters, limits)?)),
            Engine::Hipac => Ok(Box::new(HipacClassifier::new(filters, limits)?)),
            Engine::IntervalDecisionDiagram => {
                Ok(Box::new(IntervalDecisionDiagramClassifier::new(filters, limits)?))
            }
            Engine::Ipset => Ok(Box::new(OneWordIpsetClassifier::new(filters, limits)?)),
            Engine::IntervalDag => Ok(Box::new(IntervalDagClassifier::build(filters, limits)?)),
        }
    }

    /// Builds the structure for a filter set that will change; `None` if the engine has to be
    /// rebuilt for a change.
    pub fn build_updatable(
        self,
        filters: &FilterSet,
        limits: &BuildLimits,
    ) -> Option<Result<Box<dyn UpdatableClassifier>, ClassifierBuildError>> {
        fn boxed<T: UpdatableClassifier + 'static>(built: T) -> Box<dyn UpdatableClassifier> {
            Box::new(built)
        }
        match self {
            Engine::Tuple => Some(TupleClassifier::new(filters, limits).map(boxed)),
            Engine::TupleMerge => Some(TupleMergeClassifier::new(filters, limits).map(boxed)),
            Engine::Hipac => Some(HipacClassifier::new(filters, limits).map(boxed)),
            Engine::IntervalDag => Some(UpdatableIntervalDag::build(filters, limits).map(boxed)),
            Engine::Linear
            | Engine::BitVector
            | Engine::HyperSplit
            | Engine::IntervalDecisionDiagram
            | Engine::Ipset => None,
        }
    }
}
