//! Classes of the codes of an axis that some rules do not tell apart.
//!
//! A device, a connection state or a set of TCP flags is one of up to 256 codes. Rules test sets of
//! codes. Codes that are in the same of these sets are one class, of which there are few: a key has
//! the class of the packet's code. Up to 32 classes are the bits of a word, of which a packet has
//! one, so that any set of classes is one masked test. More classes are a number, and a set of them
//! is a few intervals; codes of devices are in the order of their names, so that those with a
//! common prefix are next to each other.

use weir_partition::{CodeAxis, CodeSet};

use crate::filter_set::WordTest;
use crate::key::KeyWord;

/// The codes of an axis, and the classes that rules tell apart.
#[derive(Clone, Debug)]
pub struct AxisClasses {
    axis: CodeAxis,
    class_by_code: [u8; 256],
    class_count: usize,
}

impl AxisClasses {
    /// The classes that sets of codes tell apart, in the order of their first codes.
    pub(super) fn of_sets(axis: CodeAxis, sets: &[CodeSet]) -> AxisClasses {
        let mut class_by_code = [0u8; 256];
        let mut class_count = 1;
        for set in sets {
            let mut renumbered = std::collections::HashMap::new();
            for (code, class) in class_by_code.iter_mut().enumerate() {
                let next = renumbered.len() as u8;
                *class = *renumbered.entry((*class, set.contains(code))).or_insert(next);
            }
            class_count = renumbered.len();
        }
        AxisClasses { axis, class_by_code, class_count }
    }

    /// The axis.
    pub fn axis(&self) -> CodeAxis {
        self.axis
    }

    /// The class of each code, from 0.
    pub fn class_by_code(&self) -> &[u8; 256] {
        &self.class_by_code
    }

    /// How many classes there are.
    pub fn class_count(&self) -> usize {
        self.class_count
    }

    /// Whether the word has a bit for each class, or is their number.
    pub fn has_bit_per_class(&self) -> bool {
        self.class_count <= 32
    }

    /// A word for the axis, as in the field table.
    pub fn axis_name(&self) -> &'static str {
        match self.axis {
            CodeAxis::HeaderPresence => "header",
            CodeAxis::Iif => "iif",
            CodeAxis::Oif => "oif",
            CodeAxis::CtStateAndNat => "ct state",
            CodeAxis::TcpFlagsByte => "flags",
            CodeAxis::PktType => "pkttype",
        }
    }

    pub(super) fn key_word(&self) -> KeyWord {
        match self.has_bit_per_class() {
            true => KeyWord::bits(self.axis_name()),
            false => KeyWord::interval(self.axis_name(), 8),
        }
    }

    /// The word of a packet with one of some codes of one class.
    pub(super) fn word_of_codes(&self, codes: CodeSet) -> u32 {
        let code = (0..256).find(|code| codes.contains(*code)).expect("a packet has a code");
        let class = self.class_by_code[code];
        if self.has_bit_per_class() { 1 << class } else { class.into() }
    }

    /// The tests whose union is a set of codes that does not divide a class.
    pub(super) fn tests_of_set(&self, set: CodeSet) -> Vec<WordTest> {
        let mut is_in = vec![false; self.class_count];
        for (code, class) in self.class_by_code.iter().enumerate() {
            is_in[usize::from(*class)] |= set.contains(code);
        }
        let classes: Vec<u32> = (0..).zip(&is_in).filter(|c| *c.1).map(|c| c.0).collect();
        if classes.len() == self.class_count {
            return vec![WordTest::ANY];
        }
        if !self.has_bit_per_class() {
            let same_run = |a: &u32, b: &u32| a + 1 == *b;
            let run = |run: &[u32]| WordTest::Within { lo: run[0], hi: run[run.len() - 1] };
            return classes.chunk_by(same_run).map(run).collect();
        }
        if let [class] = classes[..] {
            return vec![WordTest::Masked { value: 1 << class, mask: 1 << class }];
        }
        let others =
            (0..).zip(&is_in).filter(|c| !*c.1).fold(0, |mask, c: (u32, _)| mask | 1 << c.0);
        vec![WordTest::Masked { value: 0, mask: others }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(classes: &AxisClasses, set: CodeSet, code: usize) -> bool {
        let word = classes.word_of_codes(CodeSet::from_codes([code]));
        classes.tests_of_set(set).iter().any(|test| test.holds_for(word))
    }

    #[test]
    fn codes_are_told_apart_by_the_sets_that_rules_test() {
        let sets =
            [CodeSet::from_codes([3]), CodeSet::from_codes(3..10), CodeSet::from_codes([200])];
        let classes = AxisClasses::of_sets(CodeAxis::TcpFlagsByte, &sets);
        assert_eq!(classes.class_count(), 4);
        for set in sets.into_iter().chain([sets[0].complement(), CodeSet::ALL]) {
            for code in 0..256 {
                assert_eq!(holds(&classes, set, code), set.contains(code), "{set:?} {code}");
            }
        }
    }

    #[test]
    fn classes_beyond_the_bit_count_are_encoded_as_a_number() {
        let sets: Vec<CodeSet> = (0..100).map(|code| CodeSet::from_codes([code])).collect();
        let classes = AxisClasses::of_sets(CodeAxis::Iif, &sets);
        assert_eq!(classes.class_count(), 101);
        assert!(!classes.has_bit_per_class());
        let named = CodeSet::from_codes((10..20).chain([40]));
        assert_eq!(classes.tests_of_set(named).len(), 2);
        for set in [named, named.complement(), sets[7]] {
            for code in 0..256 {
                assert_eq!(holds(&classes, set, code), set.contains(code), "{code}");
            }
        }
    }
}
