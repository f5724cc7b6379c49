//! Numbers wider than a word: an interval of them as conjunctions of intervals of 32-bit words.

use weir_partition::Interval;

use crate::filter_set::WordTest;

/// How many words a number with that largest value takes.
pub(super) fn words_needed_for_max(max: u128) -> u32 {
    (128 - max.leading_zeros()).div_ceil(32).max(1)
}

/// Word `index` of a number of `words` words, the most significant first.
pub(super) fn word_of_number(number: u128, index: u32, words: u32) -> u32 {
    (number >> (32 * (words - 1 - index))) as u32
}

/// The conjunctions whose union is an interval, disjoint: one for a prefix, at most `2 * words - 1`
/// for any other.
pub(super) fn split_interval_into_word_tests((lo, hi): Interval, words: u32) -> Vec<Vec<WordTest>> {
    let lowest_bits = 32 * (words - 1);
    let ((lo_word, lo_rest), (hi_word, hi_rest)) =
        (split_off_top_word(lo, lowest_bits), split_off_top_word(hi, lowest_bits));
    let rest_max = split_off_top_word(u128::MAX, lowest_bits).1;
    let any_rest = (lo_rest, hi_rest) == (0, rest_max);
    if words == 1 || any_rest {
        return vec![tests_of_first_word_alone((lo_word, hi_word), words)];
    }
    if lo_word == hi_word {
        return prepend_first_word_test(
            lo_word,
            split_interval_into_word_tests((lo_rest, hi_rest), words - 1),
        );
    }
    let (mut from, mut to) = (lo_word, hi_word);
    let mut pieces = Vec::new();
    if lo_rest > 0 {
        pieces.extend(prepend_first_word_test(
            lo_word,
            split_interval_into_word_tests((lo_rest, rest_max), words - 1),
        ));
        from += 1;
    }
    let mut last = Vec::new();
    if hi_rest < rest_max {
        last = prepend_first_word_test(
            hi_word,
            split_interval_into_word_tests((0, hi_rest), words - 1),
        );
        to -= 1;
    }
    if from <= to {
        pieces.push(tests_of_first_word_alone((from, to), words));
    }
    pieces.append(&mut last);
    pieces
}

/// The word above some lowest bits, and the number below.
fn split_off_top_word(number: u128, lowest_bits: u32) -> (u32, u128) {
    ((number >> lowest_bits) as u32, number & ((1 << lowest_bits) - 1))
}

fn tests_of_first_word_alone((lo, hi): (u32, u32), words: u32) -> Vec<WordTest> {
    let mut tests = vec![WordTest::ANY; words as usize];
    tests[0] = WordTest::Within { lo, hi };
    tests
}

fn prepend_first_word_test(word: u32, rest: Vec<Vec<WordTest>>) -> Vec<Vec<WordTest>> {
    let prepend = |tests: Vec<WordTest>| [vec![WordTest::exactly(word)], tests].concat();
    rest.into_iter().map(prepend).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the conjunctions a number is in.
    fn count_holding(pieces: &[Vec<WordTest>], number: u128, words: u32) -> usize {
        let holds = |tests: &&Vec<WordTest>| {
            let of_word = |(index, test): (u32, &WordTest)| {
                test.holds_for(word_of_number(number, index, words))
            };
            (0..).zip(tests.iter()).all(of_word)
        };
        pieces.iter().filter(holds).count()
    }

    #[test]
    fn an_interval_is_the_disjoint_union_of_its_conjunctions() {
        let high = 0x2001_0db8_u128 << 96;
        let cases = [
            (0, u128::MAX),
            (high, high | u128::MAX >> 32),
            (high + 5, high + 5),
            (high + 5, high + (7 << 32) + 3),
            (high + (1 << 64) + 1, high + (9 << 96) - 1),
            (1, u128::MAX - 1),
            (high, high + (1 << 96) - 1 + (1 << 96)),
        ];
        for (lo, hi) in cases {
            let pieces = split_interval_into_word_tests((lo, hi), 4);
            assert!(pieces.len() <= 7, "{lo:x} {hi:x}");
            let near = [0, 1, 1 << 32, 1 << 64, 1 << 96, (1 << 64) - 1];
            let ends = near.into_iter().flat_map(|d: u128| {
                let ends = [lo.wrapping_sub(d), lo.wrapping_add(d), hi.wrapping_sub(d)];
                ends.into_iter().chain([hi.wrapping_add(d), d, u128::MAX - d])
            });
            for number in ends {
                let expected = usize::from(lo <= number && number <= hi);
                assert_eq!(count_holding(&pieces, number, 4), expected, "{lo:x} {hi:x} {number:x}");
            }
        }
    }

    #[test]
    fn a_prefix_is_one_conjunction() {
        for len in 1..=128 {
            let host = u128::MAX.checked_shr(len).unwrap_or(0);
            let net = (0x2001_0db8_u128 << 96) & !host;
            assert_eq!(split_interval_into_word_tests((net, net | host), 4).len(), 1, "/{len}");
        }
        assert_eq!(words_needed_for_max(u32::MAX.into()), 1);
        assert_eq!((words_needed_for_max(1 << 48), words_needed_for_max(u128::MAX)), (2, 4));
    }
}
