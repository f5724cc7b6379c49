//! Which words a key has for some rules, and how boxes and packets become tests and keys.

use std::collections::BTreeSet;

use weir_model::Field;
use weir_partition::{CodeAxis, CodeSet, HyperRect};

use super::axis_classes::AxisClasses;
use super::multi_word_numbers::{
    split_interval_into_word_tests, word_of_number, words_needed_for_max,
};
use crate::filter_set::WordTest;
use crate::key::{KeySchema, KeyWord};

/// The most tests without an axis that the rules of one layout may have.
pub(super) const AXISLESS_TESTS_MAX: usize = 256;

/// What some words of a key are.
#[derive(Clone, Debug)]
pub enum KeyPart {
    /// A number: as many words as it needs, the most significant first.
    Number {
        /// The field. A packet without a MAC address has 2^48 there; one without ports has zeros,
        /// which no rule tests for it.
        field: Field,
        /// How many words.
        words: u32,
    },
    /// The class of a code: one word.
    Classes(Box<AxisClasses>),
    /// Tests that no axis represents, a bit each, by their numbers: one word.
    AxislessTests(Vec<u32>),
}

/// The words of a key: those that some rule tests.
#[derive(Clone, Debug)]
pub struct KeyLayout {
    parts: Vec<KeyPart>,
    schema: KeySchema,
    /// What a rule without tests matches.
    all_packets: HyperRect,
}

impl KeyLayout {
    /// The words that boxes need. `all_packets` is the box without any restriction.
    ///
    /// # Panics
    /// If they need more than a key has: at most [`AXISLESS_TESTS_MAX`] tests without an axis fit.
    pub(super) fn for_boxes<'b>(
        all_packets: &HyperRect,
        boxes: impl Iterator<Item = &'b HyperRect> + Clone,
    ) -> KeyLayout {
        let mut parts = Vec::new();
        for &field in HyperRect::number_axis_fields() {
            let whole = all_packets.interval_of_field(field);
            if boxes.clone().any(|b| b.interval_of_field(field) != whole) {
                parts.push(KeyPart::Number { field, words: words_needed_for_max(whole.1) });
            }
        }
        for axis in CodeAxis::ALL {
            let whole = all_packets.codes_of_axis(axis);
            let mut sets: Vec<CodeSet> = Vec::new();
            for set in boxes.clone().map(|b| b.codes_of_axis(axis)).filter(|set| *set != whole) {
                if !sets.contains(&set) {
                    sets.push(set);
                }
            }
            if !sets.is_empty() {
                parts.push(KeyPart::Classes(Box::new(AxisClasses::of_sets(axis, &sets))));
            }
        }
        let atoms: BTreeSet<u32> = boxes.flat_map(HyperRect::axisless_tests).map(|a| a.0).collect();
        let atoms: Vec<u32> = atoms.into_iter().collect();
        parts.extend(atoms.chunks(32).map(|atoms| KeyPart::AxislessTests(atoms.to_vec())));
        if parts.is_empty() {
            parts.push(KeyPart::Number { field: Field::Proto, words: 1 });
        }
        let words = parts.iter().flat_map(|part| part.key_words(all_packets)).collect();
        KeyLayout { schema: KeySchema::new(words), parts, all_packets: all_packets.clone() }
    }

    /// The words as classifiers see them.
    pub fn schema(&self) -> &KeySchema {
        &self.schema
    }

    /// What the words are, in order.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// The conjunctions whose union is a box.
    pub(super) fn filters_of_box(&self, packets: &HyperRect) -> Vec<Vec<WordTest>> {
        let mut filters: Vec<Vec<WordTest>> = vec![Vec::new()];
        for part in &self.parts {
            let choices = self.alternative_tests_of_part(part, packets);
            let extended = |begun: &Vec<WordTest>| -> Vec<Vec<WordTest>> {
                choices.iter().map(|tests| [&begun[..], &tests[..]].concat()).collect()
            };
            filters = filters.iter().flat_map(extended).collect();
        }
        filters
    }

    fn alternative_tests_of_part(&self, part: &KeyPart, packets: &HyperRect) -> Vec<Vec<WordTest>> {
        match part {
            KeyPart::Number { field, words } => {
                let interval = packets.interval_of_field(*field);
                match interval == self.all_packets.interval_of_field(*field) {
                    true => vec![vec![WordTest::ANY; *words as usize]],
                    false => split_interval_into_word_tests(interval, *words),
                }
            }
            KeyPart::Classes(classes) => {
                let set = packets.codes_of_axis(classes.axis());
                if set == self.all_packets.codes_of_axis(classes.axis()) {
                    return vec![vec![WordTest::ANY]];
                }
                classes.tests_of_set(set).into_iter().map(|test| vec![test]).collect()
            }
            KeyPart::AxislessTests(numbers) => {
                let (mut value, mut mask) = (0, 0);
                for (number, holds) in packets.axisless_tests() {
                    if let Ok(bit) = numbers.binary_search(number) {
                        mask |= 1 << bit;
                        value |= u32::from(*holds) << bit;
                    }
                }
                vec![vec![WordTest::Masked { value, mask }]]
            }
        }
    }

    /// The key of a packet: `packet` is the smallest box with it, `atom_holds` says of a test by
    /// its number whether it holds.
    pub(super) fn key_of_packet(
        &self,
        packet: &HyperRect,
        atom_holds: &mut dyn FnMut(u32) -> bool,
    ) -> Vec<u32> {
        let mut key = Vec::with_capacity(self.schema.word_count());
        for part in &self.parts {
            match part {
                KeyPart::Number { field, words } => {
                    let (number, _) = packet.interval_of_field(*field);
                    key.extend((0..*words).map(|index| word_of_number(number, index, *words)));
                }
                KeyPart::Classes(classes) => {
                    key.push(classes.word_of_codes(packet.codes_of_axis(classes.axis())));
                }
                KeyPart::AxislessTests(numbers) => {
                    let bit = |(bit, number): (u32, &u32)| u32::from(atom_holds(*number)) << bit;
                    key.push((0..).zip(numbers).map(bit).fold(0, |word, bit| word | bit));
                }
            }
        }
        key
    }
}

impl KeyPart {
    fn key_words(&self, all_packets: &HyperRect) -> Vec<KeyWord> {
        match self {
            KeyPart::Number { field, words } => {
                let (_, max) = all_packets.interval_of_field(*field);
                let name = field.row().name;
                let word = |index| {
                    let bits = 32 - word_of_number(max, index, *words).leading_zeros();
                    match index {
                        0 => KeyWord::interval(name, bits),
                        _ => KeyWord::interval(&format!("{name}[{index}]"), 32),
                    }
                };
                (0..*words).map(word).collect()
            }
            KeyPart::Classes(classes) => vec![classes.key_word()],
            KeyPart::AxislessTests(_) => vec![KeyWord::bits("tests")],
        }
    }
}

/// How many conjunctions the numbers of a box become.
pub(super) fn count_conjunctions_for_number_fields(
    packets: &HyperRect,
    all_packets: &HyperRect,
) -> usize {
    let pieces = |field: &Field| {
        let (_, max) = all_packets.interval_of_field(*field);
        split_interval_into_word_tests(packets.interval_of_field(*field), words_needed_for_max(max))
            .len()
    };
    HyperRect::number_axis_fields().iter().map(pieces).product()
}
