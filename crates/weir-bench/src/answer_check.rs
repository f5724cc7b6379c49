//! Compares the answers of subjects, packet by packet.
//!
//! `linear` evaluates all rules and is the reference, but is too slow to evaluate a million rules
//! for every packet. So it answers a sample of the packets, spread over the trace. On the others
//! subjects are compared with each other, and where two differ, linear answers that packet. Not
//! found is an error that all subjects make alike outside of the sample.

use weir_classify::{
    BuildLimits, Classifier, ClassifierBuildError, Engine, FilterSet, KeyTable, RuleListsByKey,
};

use crate::subject::BenchSubject;

/// Tests of filters by linear for the sample: packets times filters.
pub const LINEAR_FILTER_TESTS_MAX: usize = 300_000_000;
const SAMPLE_PACKETS_MIN: usize = 500;

/// A packet to which a subject gave a wrong answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongAnswer {
    /// Index of the subject.
    pub subject_index: usize,
    /// Index of the packet in the trace.
    pub packet_index: usize,
    /// The answer that was wrong.
    pub question: &'static str,
    /// What linear found: rule numbers from 0.
    pub expected: Vec<u32>,
    /// What the subject found.
    pub found: Vec<u32>,
}

/// What was compared and found.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerCheckResult {
    /// Packets that linear answered.
    pub linear_packet_count: usize,
    /// The first wrong answer of each subject that has one.
    pub first_wrong_of_each_subject: Vec<WrongAnswer>,
    /// Hash of the first matches of all packets, equal for all subjects that are not wrong.
    pub right_subjects_first_match_hash: Option<u64>,
    /// Matching rules per packet; `None` if no right subject finds all of them.
    pub matches_per_packet: Option<f64>,
}

struct SubjectAnswers {
    first_deciding_rules: Vec<u32>,
    all_matching_rules: Option<RuleListsByKey>,
    /// Whether counting gave each rule the matches that were collected.
    counters_agree: bool,
}

/// Compares the answers of all subjects to all packets.
///
/// # Errors
/// The reference cannot be built.
pub fn find_wrong_answers(
    subjects: &[&dyn BenchSubject],
    filters: &FilterSet,
    keys: &KeyTable,
) -> Result<AnswerCheckResult, ClassifierBuildError> {
    let affordable = LINEAR_FILTER_TESTS_MAX / filters.filter_count().max(1);
    let sample_size = affordable.max(SAMPLE_PACKETS_MIN);
    find_wrong_answers_with_sample(subjects, filters, keys, sample_size)
}

/// The same, with a given size of the sample that linear answers.
///
/// # Errors
/// As [`find_wrong_answers()`].
pub fn find_wrong_answers_with_sample(
    subjects: &[&dyn BenchSubject],
    filters: &FilterSet,
    keys: &KeyTable,
    sample_size: usize,
) -> Result<AnswerCheckResult, ClassifierBuildError> {
    let linear = Engine::Linear.build(filters, &BuildLimits::default())?;
    let sample = choose_evenly_spaced_packets(keys.key_count(), sample_size);
    let sample_keys = copy_keys_of_packets(filters, keys, &sample);
    let reference = collect_classifier_answers(&*linear, &sample_keys);
    let mut wrong: Vec<Option<WrongAnswer>> = vec![None; subjects.len()];
    let mut right: Option<(usize, SubjectAnswers)> = None;
    for (index, subject) in subjects.iter().enumerate() {
        let answers = collect_subject_answers(*subject, filters, keys);
        let in_sample =
            |at: usize| (sample[at], answers.first_answer_difference(sample[at], &reference, at));
        wrong[index] = (0..sample.len())
            .map(in_sample)
            .find_map(|(packet, difference)| Some((packet, difference?)))
            .map(|(packet, difference)| difference.into_wrong_answer(index, packet));
        if wrong[index].is_none() && !answers.counters_agree {
            let question = "counters of all matching rules";
            let (expected, found) = (vec![], vec![]);
            wrong[index] = Some(WrongAnswer {
                subject_index: index,
                packet_index: 0,
                question,
                expected,
                found,
            });
        }
        if wrong[index].is_some() {
            continue;
        }
        let Some((other, other_answers)) = &right else {
            right = Some((index, answers));
            continue;
        };
        let other = *other;
        let differing = (0..keys.key_count()).find(|&packet| {
            answers.first_answer_difference(packet, other_answers, packet).is_some()
        });
        if let Some(packet) = differing {
            let key = copy_keys_of_packets(filters, keys, &[packet]);
            let judge = collect_classifier_answers(&*linear, &key);
            let other_difference = other_answers.first_answer_difference(packet, &judge, 0);
            wrong[other] = other_difference.map(|d| d.into_wrong_answer(other, packet));
            let difference = answers.first_answer_difference(packet, &judge, 0);
            wrong[index] = difference.map(|d| d.into_wrong_answer(index, packet));
            if wrong[other].is_some() {
                right = wrong[index].is_none().then_some((index, answers));
            }
        } else if other_answers.all_matching_rules.is_none() && answers.all_matching_rules.is_some()
        {
            // Later subjects are compared in all matches as well.
            right = Some((index, answers));
        }
    }
    let answers = right.as_ref().map(|(_, answers)| answers);
    let rule_count = filters.rule_count();
    Ok(AnswerCheckResult {
        linear_packet_count: sample.len(),
        first_wrong_of_each_subject: wrong.into_iter().flatten().collect(),
        right_subjects_first_match_hash: answers
            .map(|answers| hash_first_matches(&answers.first_deciding_rules, rule_count)),
        matches_per_packet: answers
            .and_then(|answers| answers.all_matching_rules.as_ref())
            .map(|lists| lists.total_length() as f64 / lists.row_count().max(1) as f64),
    })
}

struct AnswerDifference {
    question: &'static str,
    expected: Vec<u32>,
    found: Vec<u32>,
}

impl AnswerDifference {
    fn into_wrong_answer(self, subject_index: usize, packet_index: usize) -> WrongAnswer {
        let AnswerDifference { question, expected, found } = self;
        WrongAnswer { subject_index, packet_index, question, expected, found }
    }
}

impl SubjectAnswers {
    /// How the answer to a packet differs from another's to `row`.
    fn first_answer_difference(
        &self,
        packet: usize,
        expected: &SubjectAnswers,
        row: usize,
    ) -> Option<AnswerDifference> {
        let (found_first, expected_first) =
            (self.first_deciding_rules[packet], expected.first_deciding_rules[row]);
        if found_first != expected_first {
            let question = "the first deciding rule";
            let (expected, found) = (vec![expected_first], vec![found_first]);
            return Some(AnswerDifference { question, expected, found });
        }
        let (found, expected) = (
            self.all_matching_rules.as_ref()?.row(packet),
            expected.all_matching_rules.as_ref()?.row(row),
        );
        (found != expected).then(|| AnswerDifference {
            question: "all matching rules",
            expected: expected.to_vec(),
            found: found.to_vec(),
        })
    }
}

fn collect_subject_answers(
    subject: &dyn BenchSubject,
    filters: &FilterSet,
    keys: &KeyTable,
) -> SubjectAnswers {
    let mut first_deciding_rules = vec![0; keys.key_count()];
    subject.find_first_deciding(keys, &mut first_deciding_rules);
    let Some(classifier) = subject.all_matches_classifier() else {
        return SubjectAnswers {
            first_deciding_rules,
            all_matching_rules: None,
            counters_agree: true,
        };
    };
    let mut all_matching_rules = RuleListsByKey::default();
    classifier.collect_matching(keys, &mut all_matching_rules);
    let counter_count = filters.rules().last().map_or(0, |rule| rule.0 as usize + 1);
    let mut expected = vec![0_u64; counter_count];
    for rule in (0..all_matching_rules.row_count()).flat_map(|row| all_matching_rules.row(row)) {
        expected[*rule as usize] += 1;
    }
    let mut counters = vec![0; counter_count];
    classifier.increment_counters_of_all_matching_rules(keys, &mut counters);
    SubjectAnswers {
        first_deciding_rules,
        all_matching_rules: Some(all_matching_rules),
        counters_agree: counters == expected,
    }
}

fn collect_classifier_answers(classifier: &dyn Classifier, keys: &KeyTable) -> SubjectAnswers {
    let mut first_deciding_rules = vec![0; keys.key_count()];
    classifier.find_first_deciding(keys, &mut first_deciding_rules);
    let mut all_matching_rules = RuleListsByKey::default();
    classifier.collect_matching(keys, &mut all_matching_rules);
    SubjectAnswers {
        first_deciding_rules,
        all_matching_rules: Some(all_matching_rules),
        counters_agree: true,
    }
}

/// Packets at equal distances.
fn choose_evenly_spaced_packets(packet_count: usize, sample_size: usize) -> Vec<usize> {
    let count = sample_size.min(packet_count);
    (0..count).map(|at| at * packet_count / count).collect()
}

fn copy_keys_of_packets(filters: &FilterSet, keys: &KeyTable, packets: &[usize]) -> KeyTable {
    let mut copied = KeyTable::new(filters.schema());
    packets.iter().for_each(|&packet| copied.push(keys.key(packet)));
    copied
}

/// `h * 1000003 + (rule_count - 1 - rule)` over all packets, from 0, as other classifiers' test
/// programs compute it.
fn hash_first_matches(first: &[u32], rule_count: usize) -> u64 {
    first.iter().fold(0, |hash: u64, rule| {
        let reversed = (rule_count as u64).wrapping_sub(1).wrapping_sub(u64::from(*rule));
        hash.wrapping_mul(1_000_003).wrapping_add(reversed)
    })
}
