//! The first rule of a chain that takes all packets of a box, remembered for each box.
//!
//! Which rule that is depends on the box alone, and rules with lists of ports have few different
//! boxes: those of a port are the same in every rule that names it. It is searched once for all of
//! them. If no rule is found, a later rule with the same box continues where the search ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use weir_partition::{HyperRect, RulePacketBoxes};

/// What is known of the boxes of a chain, by their digests.
#[derive(Default)]
pub(super) struct FirstCoveringRules {
    known: HashMap<u64, KnownBox>,
}

/// A box of a rule, and how far the rules were searched.
struct KnownBox {
    rule: usize,
    /// Its number among the boxes of the rule.
    box_number: usize,
    /// All rules before this one were searched.
    searched_before: usize,
    covering_rule: Option<usize>,
}

impl FirstCoveringRules {
    /// The first rule before `at` that `search` finds in a range of rules for a box; `Err` if it
    /// gave up. The box is one of the rule `at`, with this number, if it is to be remembered.
    pub fn find_or_search(
        &mut self,
        boxes_of_rules: &[RulePacketBoxes],
        (cell, at, box_number): (&HyperRect, usize, Option<usize>),
        search: impl FnOnce(Range<usize>) -> Result<Option<usize>, SearchAbandoned>,
    ) -> Result<Option<usize>, SearchAbandoned> {
        let digest = digest_box(cell);
        match self.known.entry(digest) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let mut boxes = list_boxes_of_rule(&boxes_of_rules[known.rule]);
                if boxes.nth(known.box_number) != Some(cell) {
                    return search(0..at);
                }
                if known.covering_rule.is_none() && known.searched_before < at {
                    known.covering_rule = search(known.searched_before..at)?;
                    known.searched_before = at;
                }
                Ok(known.covering_rule.filter(|rule| *rule < at))
            }
            Entry::Vacant(vacant) => {
                let covering_rule = search(0..at)?;
                if let Some(box_number) = box_number {
                    vacant.insert(KnownBox {
                        rule: at,
                        box_number,
                        searched_before: at,
                        covering_rule,
                    });
                }
                Ok(covering_rule)
            }
        }
    }
}

/// The work limit was reached before the search ended.
pub(super) struct SearchAbandoned;

/// The boxes of a rule that an earlier rule may take packets from, in the order of their numbers.
pub(super) fn list_boxes_of_rule(boxes: &RulePacketBoxes) -> impl Iterator<Item = &HyperRect> {
    let hot = boxes.hotdrop_boxes_with_exactness.iter().map(|(cell, _)| cell);
    boxes.matched_boxes.iter().chain(hot).chain(&boxes.stateful_boxes)
}

fn digest_box(cell: &HyperRect) -> u64 {
    let mut hasher = BoxHasher::default();
    cell.hash(&mut hasher);
    hasher.finish()
}

/// Multiplies and rotates words: boxes have hundreds of bytes, and equal digests cost one search.
#[derive(Default)]
struct BoxHasher(u64);

impl Hasher for BoxHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
