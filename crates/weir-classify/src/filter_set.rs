//! Rules as a classifier sees them.

use crate::key::{KeySchema, KeyWordTestMethod};

/// The number that stands for no rule.
pub const NO_RULE: u32 = u32::MAX;

/// What a filter requires of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WordTest {
    /// The word is a number from `lo` to `hi`, both included.
    Within {
        /// Lowest value.
        lo: u32,
        /// Highest value, at least `lo`.
        hi: u32,
    },
    /// The bits of `mask` have the values of `value`. That a field of one-bit classes has one of
    /// some classes is tested by its complement: none of the others.
    Masked {
        /// Required values, within the mask.
        value: u32,
        /// Bits that are tested.
        mask: u32,
    },
}

impl WordTest {
    /// Every value, of either kind of word.
    pub const ANY: WordTest = WordTest::Within { lo: 0, hi: u32::MAX };

    /// One value.
    pub const fn exactly(value: u32) -> WordTest {
        WordTest::Within { lo: value, hi: value }
    }

    /// The values with the first `len` bits of a 32-bit address.
    ///
    /// # Panics
    /// If `len` is above 32.
    pub fn prefix(address: u32, len: u32) -> WordTest {
        assert!(len <= 32, "a prefix of a word has at most 32 bits");
        let host_bits = u32::MAX.checked_shr(len).unwrap_or(0);
        WordTest::Within { lo: address & !host_bits, hi: address | host_bits }
    }

    /// Whether a value passes.
    pub fn holds_for(self, word: u32) -> bool {
        match self {
            WordTest::Within { lo, hi } => lo <= word && word <= hi,
            WordTest::Masked { value, mask } => word & mask == value,
        }
    }
}

/// One conjunction of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a> {
    /// The rule that it is part of.
    pub rule: u32,
    /// A test for each word of the schema. On a word of bits it is [`WordTest::Masked`], on others
    /// [`WordTest::Within`] with `hi` at most the word's largest value.
    pub tests: &'a [WordTest],
}

impl Filter<'_> {
    /// Whether a key passes all tests.
    pub fn matches(&self, key: &[u32]) -> bool {
        self.tests.iter().zip(key).all(|(test, word)| test.holds_for(*word))
    }
}

/// Rules in order. Each has one or more filters and matches if one of them does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSet {
    schema: KeySchema,
    /// The tests of all filters, a schema's worth each.
    tests: Vec<WordTest>,
    rule_of_filter: Vec<u32>,
    /// Number of each rule, ascending, and whether it decides.
    rules: Vec<(u32, bool)>,
}

impl FilterSet {
    /// No rules over a schema.
    pub fn new(schema: KeySchema) -> FilterSet {
        FilterSet { schema, tests: vec![], rule_of_filter: vec![], rules: vec![] }
    }

    /// Adds a rule after all others, with one filter. `number`: above those of all rules before;
    /// gaps leave room for insertions. `is_deciding`: rules after it do not see what it matches.
    ///
    /// # Panics
    /// If the number does not ascend, a test does not fit its word, or there are not as many tests
    /// as words.
    pub fn push_rule(&mut self, number: u32, is_deciding: bool, tests: &[WordTest]) {
        let follows = self.rules.last().is_none_or(|&(last, _)| last < number);
        assert!(follows && number != NO_RULE, "rules are added in ascending order");
        self.rules.push((number, is_deciding));
        self.push_filter_of_last_rule(tests);
    }

    /// Adds a further filter to the last rule. Filters of a rule may overlap.
    ///
    /// # Panics
    /// If there is no rule yet, or as [`FilterSet::push_rule`].
    pub fn push_filter_of_last_rule(&mut self, tests: &[WordTest]) {
        assert_eq!(tests.len(), self.schema.word_count(), "a test for each word");
        let (rule, _) = *self.rules.last().expect("a rule to which the filter belongs");
        let words = self.schema.words().iter();
        self.tests.extend(words.zip(tests).map(|(word, test)| match (word.kind, *test) {
            (KeyWordTestMethod::Bits, WordTest::ANY) => WordTest::Masked { value: 0, mask: 0 },
            (KeyWordTestMethod::Bits, test @ WordTest::Masked { value, mask })
                if value & !mask == 0 =>
            {
                test
            }
            (KeyWordTestMethod::Interval { .. }, WordTest::Within { lo, hi })
                if lo <= hi.min(word.max_value()) =>
            {
                WordTest::Within { lo, hi: hi.min(word.max_value()) }
            }
            (_, test) => panic!("{test:?} does not fit the word {}", word.name),
        }));
        self.rule_of_filter.push(rule);
    }

    /// The words of keys.
    pub fn schema(&self) -> &KeySchema {
        &self.schema
    }

    /// How many rules there are.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// How many filters all rules have together.
    pub fn filter_count(&self) -> usize {
        self.rule_of_filter.len()
    }

    /// Numbers of the rules in ascending order, and whether each decides.
    pub fn rules(&self) -> &[(u32, bool)] {
        &self.rules
    }

    /// Whether a rule decides the packets that it matches.
    ///
    /// # Panics
    /// If there is no rule of that number.
    pub fn is_deciding(&self, rule: u32) -> bool {
        let at = self.rules.binary_search_by_key(&rule, |r| r.0).expect("a rule of that number");
        self.rules[at].1
    }

    /// One filter, by its index in the order of their rules.
    ///
    /// # Panics
    /// If there is none of that index.
    pub fn filter(&self, index: usize) -> Filter<'_> {
        let words = self.schema.word_count();
        Filter { rule: self.rule_of_filter[index], tests: &self.tests[index * words..][..words] }
    }

    /// All filters, in the order of their rules.
    pub fn filters(&self) -> impl ExactSizeIterator<Item = Filter<'_>> {
        (0..self.filter_count()).map(|index| self.filter(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyWord;

    #[test]
    fn a_prefix_is_the_interval_of_its_addresses() {
        assert_eq!(
            WordTest::prefix(0x0a01_0203, 8),
            WordTest::Within { lo: 0x0a00_0000, hi: 0x0aff_ffff }
        );
        assert_eq!(WordTest::prefix(7, 32), WordTest::exactly(7));
        assert_eq!(WordTest::prefix(7, 0), WordTest::ANY);
    }

    #[test]
    fn any_becomes_the_full_test_of_each_word_kind() {
        let words = vec![KeyWord::interval("dport", 16), KeyWord::bits("state")];
        let mut set = FilterSet::new(KeySchema::new(words));
        set.push_rule(3, true, &[WordTest::ANY, WordTest::ANY]);
        let expected =
            [WordTest::Within { lo: 0, hi: 0xffff }, WordTest::Masked { value: 0, mask: 0 }];
        assert_eq!(set.filter(0).tests, expected);
        assert!(set.filter(0).matches(&[80, 0xffff_ffff]));
    }

    #[test]
    #[should_panic(expected = "ascending order")]
    fn rules_out_of_order_are_refused() {
        let mut set = FilterSet::new(KeySchema::new(vec![KeyWord::interval("dport", 16)]));
        set.push_rule(3, true, &[WordTest::ANY]);
        set.push_rule(3, true, &[WordTest::ANY]);
    }
}
