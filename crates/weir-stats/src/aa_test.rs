//! One subject compared with itself: how often the statistic of the claims reports a difference
//! where there is none.

use serde::{Deserialize, Serialize};

use crate::estimate;
use crate::evidence_limits::MIN_SAMPLES;
use crate::trial::Trial;
use crate::trial_selection;

/// What a subject against itself says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AaTestResult {
    /// How points were decided.
    #[serde(default)]
    pub statistic: AaStatistic,
    /// Repetitions of the study.
    pub repetitions: usize,
    /// Those in which the interval of some point excludes 1; by Student's t, those in which some
    /// point differed at 5 % (Holm over its points).
    pub different: usize,
    /// Points of all repetitions.
    pub points: usize,
    /// Points that each differ: their interval excludes 1.
    pub points_different: usize,
}

/// How a subject was compared with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AaStatistic {
    /// Student's t of the logarithms: what versions before this field used. It is not the
    /// statistic of the claims.
    #[default]
    StudentT,
    /// The interval of the median ratio, which decides claims too.
    MedianInterval,
}

/// How often an interval of five blocks, the least that are evaluated, misses the median.
const EXPECTED_DIFFERENT_SHARE: f64 = 0.0625;
/// The method is in doubt if chance alone would give as many differences less often than this.
const MIN_CHANCE_PROBABILITY: f64 = 0.01;
/// As decided with Student's t: repetitions of twenty that may come out different.
const MAX_DIFFERENT_REPETITIONS_BY_T: usize = 3;

impl AaTestResult {
    /// Whether no more points differ than expected by chance.
    pub fn passes(&self) -> bool {
        if self.repetitions == 0 || self.points == 0 {
            return false;
        }
        match self.statistic {
            AaStatistic::StudentT => self.different <= MAX_DIFFERENT_REPETITIONS_BY_T,
            AaStatistic::MedianInterval => {
                let (differ, points) = (self.points_different, self.points);
                binomial_upper_tail(differ, points, EXPECTED_DIFFERENT_SHARE)
                    >= MIN_CHANCE_PROBABILITY
            }
        }
    }
}

/// Probability of at least `successes` in `tries` that each succeed with `probability`.
fn binomial_upper_tail(successes: usize, tries: usize, probability: f64) -> f64 {
    let mut term = (1.0 - probability).powf(tries as f64);
    let mut below = 0.0;
    for count in 0..successes {
        below += term;
        let left = tries.saturating_sub(count) as f64;
        term *= left / (count + 1) as f64 * probability / (1.0 - probability);
    }
    1.0 - below
}

/// A [`AaTestResult`] with its inputs, as stored in a study's folder: `aa.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AaTestRecord {
    /// When, RFC 3339, UTC.
    pub date: String,
    /// Of which subject.
    pub subject: String,
    /// How long and how often.
    pub preset: String,
    /// Seed of the order.
    pub seed: u64,
    /// weir's version.
    pub weir: String,
    /// The results.
    #[serde(flatten)]
    pub result: AaTestResult,
}

/// Treats the blocks of an A/A run as `repetitions` of a study and decides each separately, as
/// claims are: the interval of the ratio of second copy to first, paired by block. A point with
/// fewer blocks than a claim needs is left out.
pub fn evaluate_aa_test_of_block_groups(
    trials: &[Trial],
    subject: &str,
    repetitions: usize,
) -> AaTestResult {
    let blocks = trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0) as usize;
    let length = (blocks / repetitions.max(1)).max(1);
    let mut result = AaTestResult {
        statistic: AaStatistic::MedianInterval,
        repetitions: 0,
        different: 0,
        points: 0,
        points_different: 0,
    };
    let copies = |place| trial_selection::pair_second_and_first_by_block(trials, subject, place);
    let places: Vec<_> = trial_selection::list_second_copy_quantity_scenarios(trials)
        .into_iter()
        .map(copies)
        .collect();
    for repetition in 0..repetitions {
        let own = repetition * length..(repetition + 1) * length;
        let ratios = places.iter().filter_map(|of_place| {
            let of_repetition = |(block, ..): &&(u32, f64, f64)| own.contains(&(*block as usize));
            let pairs: Vec<(f64, f64)> = of_place
                .iter()
                .filter(of_repetition)
                .map(|(_, second, first)| (*second, *first))
                .collect();
            estimate::estimate_median_of_pair_ratios(&pairs)
        });
        let differs: Vec<bool> = ratios
            .filter(|ratio| ratio.samples >= MIN_SAMPLES)
            .map(|ratio| ratio.lo > 1.0 || ratio.hi < 1.0)
            .collect();
        result.repetitions += usize::from(!differs.is_empty());
        result.different += usize::from(differs.contains(&true));
        result.points += differs.len();
        result.points_different += differs.iter().filter(|differs| **differs).count();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::trial::tests::trial;
    use weir_random::Rng;

    /// Rates of a subject and its copy: `copy` is so many times as fast, with some scatter.
    fn trials(blocks: u32, copy: f64, seed: u64) -> Vec<Trial> {
        let mut random = Rng::new(seed);
        let mut noisy = |pps: f64| pps * (1.0 + (random.below(200) as f64 - 100.0) / 1e4);
        let mut all = Vec::new();
        for block in 0..blocks {
            for (which, speed) in [(0, 1.0), (1, copy)] {
                for rules in [16_u64, 1024] {
                    all.push(Trial {
                        copy_index: which,
                        block,
                        subject: "nft".to_owned(),
                        scenario: Scenario::default().with_coordinate("rules", rules),
                        correct_verdict_pps: noisy(1e6 * speed),
                        ..trial(1, 1, &[])
                    });
                }
            }
        }
        all
    }

    #[test]
    fn identical_copies_rarely_differ_and_slower_copies_nearly_always() {
        let same = evaluate_aa_test_of_block_groups(&trials(120, 1.0, 1), "nft", 20);
        assert_eq!((same.repetitions, same.points), (20, 40));
        assert!(same.passes(), "{same:?}");
        let other = evaluate_aa_test_of_block_groups(&trials(120, 1.05, 1), "nft", 20);
        assert_eq!((other.different, other.points_different), (20, 40));
        assert!(!other.passes());
    }

    #[test]
    fn two_hundred_simulated_comparisons_err_in_at_most_7_percent() {
        let many = (0..10)
            .map(|seed| evaluate_aa_test_of_block_groups(&trials(120, 1.0, 100 + seed), "nft", 20));
        let (differ, points) =
            many.fold((0, 0), |sum, one| (sum.0 + one.points_different, sum.1 + one.points));
        assert_eq!(points, 400);
        assert!(differ <= 28, "{differ} of {points}");
        assert!(differ >= 4, "an interval that never misses is too wide: {differ}");
    }

    #[test]
    fn points_with_fewer_blocks_than_a_claim_needs_are_excluded() {
        let few = evaluate_aa_test_of_block_groups(&trials(80, 1.05, 1), "nft", 20);
        assert_eq!((few.repetitions, few.points), (0, 0));
        assert!(!few.passes(), "nothing decided is no pass");
    }

    #[test]
    fn the_binomial_tail_agrees_with_published_tables() {
        assert!((binomial_upper_tail(0, 20, 0.05) - 1.0).abs() < 1e-12);
        assert!((binomial_upper_tail(4, 20, 0.05) - 0.0159).abs() < 1e-4);
        assert!((binomial_upper_tail(2, 2, 0.5) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn results_of_earlier_versions_are_read_as_students_t() {
        let text = r#"{"repetitions": 20, "different": 4, "points": 40, "points_different": 2}"#;
        let kept: AaTestResult = serde_json::from_str(text).unwrap();
        assert_eq!(kept.statistic, AaStatistic::StudentT);
        assert!(!kept.passes());
        assert!(AaTestResult { different: 3, ..kept }.passes());
    }

    #[test]
    fn aa_tests_evaluate_loads_like_rates() {
        let load = |copy, block, seconds| Trial {
            kind: crate::trial::TrialKind::Load,
            copy_index: copy,
            block,
            seconds,
            subject: "list".to_owned(),
            ..trial(1, 1, &[])
        };
        let all = |copy: f64| -> Vec<Trial> {
            let scatter = |block: u32| 1.0 + f64::from(block % 3) / 1e3;
            (0..120)
                .flat_map(|block| [load(0, block, 1.0), load(1, block, copy * scatter(block))])
                .collect()
        };
        let other = evaluate_aa_test_of_block_groups(&all(1.5), "list", 20);
        assert_eq!((other.repetitions, other.different), (20, 20));
        assert!(!other.passes());
        assert!(
            !evaluate_aa_test_of_block_groups(&[], "list", 20).passes(),
            "nothing measured is no pass"
        );
    }
}
