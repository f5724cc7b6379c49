//! What is compared and measured.

use weir_classify::{Classifier, KeyTable, UpdatableClassifier};

/// A classifier under comparison, ours or another's.
pub trait BenchSubject {
    /// The name, as in `--engine`.
    fn name(&self) -> &str;

    /// For each key, the first rule that matches and decides;
    /// [`NO_RULE`](weir_classify::NO_RULE) if there is none. `first` has a place for each key.
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]);

    /// Receives the keys that will be looked up, batch by batch, while no time is measured.
    fn prepare_batches(&mut self, _batches: &[KeyTable]) {}

    /// As [`BenchSubject::find_first_deciding`], for a batch of those that were prepared.
    fn find_first_deciding_of_batch(&self, batches: &[KeyTable], index: usize, first: &mut [u32]) {
        self.find_first_deciding(&batches[index], first);
    }

    /// The classifier that finds all matching rules; `None` if the subject finds the first alone.
    fn all_matches_classifier(&self) -> Option<&dyn Classifier>;

    /// The classifier that changes rule by rule; `None` if the subject has to be rebuilt. It may be
    /// another structure than that of look-ups.
    fn updatable_classifier(&mut self) -> Option<&mut dyn UpdatableClassifier> {
        None
    }

    /// Bytes that a look-up may read.
    fn memory_bytes(&self) -> usize;

    /// Seconds of each construction, by the time of day; at least one.
    fn build_seconds(&self) -> &[f64];
}
