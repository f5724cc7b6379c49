//! The engines of `weir-classify` as subjects.

use std::time::Instant;

use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, Engine, FilterSet, KeyTable, UpdatableClassifier,
};

use crate::subject::BenchSubject;

/// Constructions of a structure that take less than this time in all are repeated.
const REPEATED_BUILDS_TOTAL_SECONDS_MAX: f64 = 1.0;
const BUILDS_MAX: usize = 3;

/// An engine with its structure.
pub struct EngineSubject {
    name: &'static str,
    classifier: Box<dyn Classifier>,
    /// Another structure of the same rules, which receives the updates.
    updatable: Option<Box<dyn UpdatableClassifier>>,
    build_seconds: Vec<f64>,
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
        let start = Instant::now();
        let classifier = engine.build(filters, limits)?;
        build_seconds.push(start.elapsed().as_secs_f64());
        let is_slow = build_seconds.iter().sum::<f64>() > REPEATED_BUILDS_TOTAL_SECONDS_MAX;
        if is_slow || build_seconds.len() == BUILDS_MAX {
            let updatable = engine.build_updatable(filters, limits).transpose()?;
            return Ok(EngineSubject { name: engine.name(), classifier, updatable, build_seconds });
        }
    }
}

impl BenchSubject for EngineSubject {
    fn name(&self) -> &str {
        self.name
    }

    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        self.classifier.find_first_deciding(keys, first);
    }

    fn all_matches_classifier(&self) -> Option<&dyn Classifier> {
        Some(&*self.classifier)
    }

    fn updatable_classifier(&mut self) -> Option<&mut dyn UpdatableClassifier> {
        self.updatable.as_mut().map(|classifier| &mut **classifier as _)
    }

    fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes()
    }

    fn build_seconds(&self) -> &[f64] {
        &self.build_seconds
    }
}
