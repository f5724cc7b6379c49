//! The engines of `weir-classify` as subjects.

use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, Engine, FilterSet, KeyTable, UpdatableClassifier,
};

use crate::measurement::read_thread_cpu_seconds;
use crate::subject::BenchSubject;

/// Constructions of a structure that take less than this time in all are repeated.
const REPEATED_BUILDS_TOTAL_SECONDS_MAX: f64 = 1.0;
const BUILDS_MAX: usize = 3;

/// An engine with its structure.
pub struct EngineSubject {
    name: &'static str,
    built_engine: FixedOrUpdatableClassifier,
    build_cpu_seconds: Vec<f64>,
}

enum FixedOrUpdatableClassifier {
    Fixed(Box<dyn Classifier>),
    Updatable(Box<dyn UpdatableClassifier>),
}

/// An engine's structure, or why it has none.
pub type EngineBuildResult = Result<EngineSubject, ClassifierBuildError>;

/// Builds an engine, up to three times if that is fast.
///
/// # Errors
/// The engine cannot represent a rule, or exceeds a limit.
pub fn build_engine_subject(
    engine: Engine,
    filters: &FilterSet,
    limits: &BuildLimits,
) -> EngineBuildResult {
    let mut build_seconds = Vec::new();
    loop {
        let start = read_thread_cpu_seconds();
        let built_engine = match engine.build_updatable(filters, limits) {
            Some(built_engine) => FixedOrUpdatableClassifier::Updatable(built_engine?),
            None => FixedOrUpdatableClassifier::Fixed(engine.build(filters, limits)?),
        };
        build_seconds.push(read_thread_cpu_seconds() - start);
        let is_slow = build_seconds.iter().sum::<f64>() > REPEATED_BUILDS_TOTAL_SECONDS_MAX;
        if is_slow || build_seconds.len() == BUILDS_MAX {
            return Ok(EngineSubject {
                name: engine.name(),
                built_engine,
                build_cpu_seconds: build_seconds,
            });
        }
    }
}

impl EngineSubject {
    fn classifier(&self) -> &dyn Classifier {
        match &self.built_engine {
            FixedOrUpdatableClassifier::Fixed(classifier) => &**classifier,
            FixedOrUpdatableClassifier::Updatable(classifier) => &**classifier,
        }
    }
}

impl BenchSubject for EngineSubject {
    fn name(&self) -> &str {
        self.name
    }

    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.classifier().find_first_deciding(keys, first);
    }

    fn all_matches_classifier(&self) -> Option<&dyn Classifier> {
        Some(self.classifier())
    }

    fn updatable_classifier(&mut self) -> Option<&mut dyn UpdatableClassifier> {
        match &mut self.built_engine {
            FixedOrUpdatableClassifier::Fixed(_) => None,
            FixedOrUpdatableClassifier::Updatable(classifier) => Some(&mut **classifier),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.classifier().memory_bytes()
    }

    fn build_cpu_seconds(&self) -> &[f64] {
        &self.build_cpu_seconds
    }
}
