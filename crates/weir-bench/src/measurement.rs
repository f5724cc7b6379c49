//! Measures subjects on one core, a turn for each in every round.
//!
//! Times are processor times of the thread, which other load on the machine disturbs less than the
//! time of day. A turn lasts until it has had its share of that time, and continues in the trace
//! where the last one of its subject ended, in batches as a packet filter receives them.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_classify::{FilterSet, KeyTable, SingleFilterRule, UpdatableClassifier, UpdateError};
use weir_random::Rng;

use crate::subject::BenchSubject;

/// Packets of one call, as `rte_acl` is called by its example programs.
const BATCH_PACKETS: usize = 256;
/// Updates between two readings of the clock.
const UPDATE_PAIRS_PER_CLOCK_READING: usize = 16;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasurementOptions {
    /// Turns of each subject and question, at least 1.
    pub round_count: usize,
    /// Least processor time of a turn.
    pub min_turn_duration: Duration,
    /// Seed of the order of updates.
    pub update_order_seed: u64,
}

/// The median of the turns of one subject, with the smallest and the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianWithRange {
    /// Smallest value.
    pub min: f64,
    /// Median; of an even number of values, the higher of the two in the middle.
    pub median: f64,
    /// Largest value.
    pub max: f64,
}

impl MedianWithRange {
    /// Of at least one value.
    ///
    /// # Panics
    /// If there is none.
    pub fn of_values(values: &[f64]) -> MedianWithRange {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        MedianWithRange { min, median: sorted[sorted.len() / 2], max }
    }
}

/// What was measured of a subject; events per second of processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubjectRates {
    /// Packets whose first deciding rule was found.
    pub first_match_pps: MedianWithRange,
    /// Packets all of whose matching rules were found and counted; `None` if the subject finds the
    /// first alone.
    pub count_all_pps: Option<MedianWithRange>,
    /// Rules removed or inserted; `None` if the subject cannot change, or has refused a change.
    pub update_rate: Option<MedianWithRange>,
}

/// Measures each subject in every round. `report_progress` receives the name of a subject and the
/// share of turns that are done, from 0 to 1.
///
/// # Panics
/// If there are no packets, or no rounds.
pub fn measure_subjects(
    subjects: &mut [Box<dyn BenchSubject>],
    filters: &FilterSet,
    keys: &KeyTable,
    options: &MeasurementOptions,
    report_progress: &mut dyn FnMut(&str, f64),
) -> Vec<SubjectRates> {
    assert!(keys.key_count() > 0 && options.round_count > 0, "packets and rounds to measure");
    let batches = split_into_batches(filters, keys);
    let counter_count = filters.rules().last().map_or(0, |rule| rule.0 as usize + 1);
    subjects.iter_mut().for_each(|subject| subject.prepare_batches(&batches));
    let mut counters = vec![0; counter_count];
    let mut first = vec![0; BATCH_PACKETS];
    let mut turns: Vec<SubjectTurnRates> =
        subjects.iter().map(|_| SubjectTurnRates::default()).collect();
    let turn_count = (options.round_count * subjects.len()) as f64;
    for round in 0..options.round_count {
        for at in 0..subjects.len() {
            // Each round begins with another subject.
            let index = (at + round) % subjects.len();
            let (subject, own) = (&subjects[index], &mut turns[index]);
            report_progress(subject.name(), (round * subjects.len() + at) as f64 / turn_count);
            own.first_match_pps.push(measure_packet_rate(
                &batches,
                &mut own.next_first_match_batch_index,
                options.min_turn_duration,
                &mut |index| {
                    let first = &mut first[..batches[index].key_count()];
                    subject.find_first_deciding_of_batch(&batches, index, first);
                },
            ));
            if let Some(classifier) = subject.all_matches_classifier() {
                own.count_all_pps.push(measure_packet_rate(
                    &batches,
                    &mut own.next_count_all_batch_index,
                    options.min_turn_duration,
                    &mut |index| {
                        let batch = &batches[index];
                        classifier.increment_counters_of_all_matching_rules(batch, &mut counters);
                    },
                ));
            }
        }
    }
    measure_update_turns(subjects, filters, options, &mut turns);
    turns.iter().map(SubjectTurnRates::to_median_rates).collect()
}

#[derive(Default)]
struct SubjectTurnRates {
    first_match_pps: Vec<f64>,
    count_all_pps: Vec<f64>,
    update_rates: Vec<f64>,
    next_first_match_batch_index: usize,
    next_count_all_batch_index: usize,
}

impl SubjectTurnRates {
    fn to_median_rates(&self) -> SubjectRates {
        let of_any =
            |values: &[f64]| (!values.is_empty()).then(|| MedianWithRange::of_values(values));
        SubjectRates {
            first_match_pps: MedianWithRange::of_values(&self.first_match_pps),
            count_all_pps: of_any(&self.count_all_pps),
            update_rate: of_any(&self.update_rates),
        }
    }
}

fn split_into_batches(filters: &FilterSet, keys: &KeyTable) -> Vec<KeyTable> {
    let mut batches = Vec::with_capacity(keys.key_count() / BATCH_PACKETS + 1);
    for (index, key) in keys.keys().enumerate() {
        if index % BATCH_PACKETS == 0 {
            batches.push(KeyTable::new(filters.schema()));
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(key);
        }
    }
    batches
}

fn measure_packet_rate(
    batches: &[KeyTable],
    next: &mut usize,
    min_turn_duration: Duration,
    look_up: &mut dyn FnMut(usize),
) -> f64 {
    // Not measured: what others left in the caches is not of this subject.
    look_up(*next % batches.len());
    let turn = MeasuredTurn::begin(min_turn_duration);
    let mut packet_count = 0;
    while packet_count == 0 || !turn.is_over() {
        let index = *next % batches.len();
        look_up(index);
        packet_count += batches[index].key_count();
        *next += 1;
    }
    packet_count as f64 / turn.processor_seconds()
}

/// A turn of at least so much processor time.
struct MeasuredTurn {
    start: Instant,
    start_processor_seconds: f64,
    min_duration: Duration,
}

impl MeasuredTurn {
    fn begin(min_duration: Duration) -> MeasuredTurn {
        MeasuredTurn {
            start: Instant::now(),
            start_processor_seconds: read_thread_cpu_seconds(),
            min_duration,
        }
    }

    /// While a thread waits for a processor, time passes in which nothing is measured.
    fn is_over(&self) -> bool {
        // Reading the processor time is a system call: only when enough time has passed at all.
        self.start.elapsed() >= self.min_duration
            && self.processor_seconds() >= self.min_duration.as_secs_f64()
    }

    fn processor_seconds(&self) -> f64 {
        read_thread_cpu_seconds() - self.start_processor_seconds
    }
}

/// After all look-ups: changes of a structure may leave it less regular than it was built.
fn measure_update_turns(
    subjects: &mut [Box<dyn BenchSubject>],
    filters: &FilterSet,
    options: &MeasurementOptions,
    turns: &mut [SubjectTurnRates],
) {
    let rules = filters_of_single_filter_rules(filters);
    if rules.is_empty() {
        return;
    }
    let mut random = Rng::for_purpose(options.update_order_seed, "updates");
    for _ in 0..options.round_count {
        for (subject, own) in subjects.iter_mut().zip(&mut *turns) {
            let Some(classifier) = subject.updatable_classifier() else { continue };
            let turn = MeasuredTurn::begin(options.min_turn_duration);
            let mut update_count = 0;
            while update_count == 0 || !turn.is_over() {
                for _ in 0..UPDATE_PAIRS_PER_CLOCK_READING {
                    let filter = *random.pick(&rules);
                    if remove_and_insert_rule(classifier, filters, filter).is_err() {
                        break;
                    }
                    update_count += 2;
                }
                if update_count == 0 {
                    break;
                }
            }
            if update_count > 0 {
                own.update_rates.push(f64::from(update_count) / turn.processor_seconds());
            }
        }
    }
}

fn filters_of_single_filter_rules(filters: &FilterSet) -> Vec<usize> {
    let rule_of = |index: usize| filters.filter(index).rule;
    let last = filters.filter_count();
    let is_single = |&index: &usize| {
        (index == 0 || rule_of(index - 1) != rule_of(index))
            && (index + 1 == last || rule_of(index + 1) != rule_of(index))
    };
    (0..last).filter(is_single).collect()
}

fn remove_and_insert_rule(
    classifier: &mut dyn UpdatableClassifier,
    filters: &FilterSet,
    filter: usize,
) -> Result<(), UpdateError> {
    let filter = filters.filter(filter);
    let is_deciding = filters.is_deciding(filter.rule);
    classifier.remove(filter.rule)?;
    classifier.insert(SingleFilterRule {
        rule: filter.rule,
        is_deciding,
        tests_by_word: filter.tests,
    })
}

/// Processor time of this thread in seconds, exact to less than a microsecond: the times in
/// `/proc/thread-self/schedstat` are those of the last timer tick, up to 4 ms ago.
pub fn read_thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
