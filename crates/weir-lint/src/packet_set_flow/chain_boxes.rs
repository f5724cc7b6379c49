//! The boxes of the rules of a chain, each distinct one once.
//!
//! A box has hundreds of bytes, and rules with lists of ports have few distinct ones: those of a
//! port are the same in every rule that names it. So a rule has numbers of boxes. What depends on
//! the box alone, such as the first rule that covers it, is known by its number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use weir_partition::{BOXES_PER_RULE_MAX, HyperRect, RulePacketBoxes};

/// With more distinct boxes, rules that need more than one are approximated by one: 200,000 rules
/// with a host and `--ports` of 15 ports have 6 million, which take 4 GB.
const DISTINCT_BOXES_BEFORE_APPROXIMATION: usize = 1 << 19;

/// The number of a distinct box of a chain.
pub(super) type BoxNumber = u32;

/// What the rules of a chain do to sets of packets.
#[derive(Default)]
pub(super) struct ChainBoxes {
    distinct_boxes: Vec<HyperRect>,
    /// Those of all rules, one rule after another.
    box_numbers: Vec<BoxNumber>,
    rules: Vec<RuleBoxCounts>,
    /// Rules are approximated because there are too many distinct boxes.
    has_approximated_rules: bool,
}

/// Where the numbers of a rule's boxes are: first those that it matches, then those that it drops
/// by hotdrop, the exact ones first, then those for which it evaluates a stateful match.
struct RuleBoxCounts {
    start: usize,
    matched: usize,
    exact_hotdrop: usize,
    hotdrop: usize,
    stateful: usize,
    is_exact: bool,
    is_approximated: bool,
}

impl ChainBoxes {
    /// `lower` gets a rule and the number of boxes that may describe it.
    pub fn of_rules<R>(
        rules: impl Iterator<Item = R>,
        lower: impl FnMut(R, usize) -> RulePacketBoxes,
    ) -> ChainBoxes {
        ChainBoxes::with_approximation_after(rules, lower, DISTINCT_BOXES_BEFORE_APPROXIMATION)
    }

    fn with_approximation_after<R>(
        rules: impl Iterator<Item = R>,
        mut lower: impl FnMut(R, usize) -> RulePacketBoxes,
        distinct_boxes_before: usize,
    ) -> ChainBoxes {
        let mut chain = ChainBoxes::default();
        let mut numbers_by_digest = HashMap::new();
        for rule in rules {
            let is_full = chain.distinct_boxes.len() >= distinct_boxes_before;
            let rule = lower(rule, if is_full { 1 } else { BOXES_PER_RULE_MAX });
            chain.has_approximated_rules |= is_full && rule.is_approximated;
            let hotdrop = rule.hotdrop_boxes_with_exactness;
            // A rule that is inexact once remains so.
            debug_assert!(hotdrop.is_sorted_by_key(|(_, exact)| !exact));
            chain.rules.push(RuleBoxCounts {
                start: chain.box_numbers.len(),
                matched: rule.matched_boxes.len(),
                exact_hotdrop: hotdrop.iter().filter(|(_, exact)| *exact).count(),
                hotdrop: hotdrop.len(),
                stateful: rule.stateful_boxes.len(),
                is_exact: rule.is_exact,
                is_approximated: rule.is_approximated,
            });
            let hotdrop = hotdrop.into_iter().map(|(cell, _)| cell);
            for cell in rule.matched_boxes.into_iter().chain(hotdrop).chain(rule.stateful_boxes) {
                let number = chain.number_box(cell, &mut numbers_by_digest);
                chain.box_numbers.push(number);
            }
        }
        chain
    }

    /// Boxes with equal digests that differ cost an entry each time.
    fn number_box(
        &mut self,
        cell: HyperRect,
        numbers_by_digest: &mut HashMap<u64, BoxNumber>,
    ) -> BoxNumber {
        let next = BoxNumber::try_from(self.distinct_boxes.len()).expect("fewer than 2^32 boxes");
        match numbers_by_digest.entry(digest_box(&cell)) {
            Entry::Occupied(known) if self.distinct_boxes[*known.get() as usize] == cell => {
                return *known.get();
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(vacant) => {
                vacant.insert(next);
            }
        }
        self.distinct_boxes.push(cell);
        next
    }

    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Whether rules are approximated because there are too many distinct boxes.
    pub fn has_approximated_rules(&self) -> bool {
        self.has_approximated_rules
    }

    pub fn boxes_of_rule(&self, rule: usize) -> RuleBoxes<'_> {
        RuleBoxes { chain: self, counts: &self.rules[rule] }
    }

    pub fn rules_from(&self, first: usize) -> impl Iterator<Item = RuleBoxes<'_>> + Clone {
        self.rules[first..].iter().map(|counts| RuleBoxes { chain: self, counts })
    }

    pub fn distinct_boxes(&self) -> &[HyperRect] {
        &self.distinct_boxes
    }

    pub fn distinct_box(&self, number: BoxNumber) -> &HyperRect {
        &self.distinct_boxes[number as usize]
    }
}

/// What a rule does to sets of packets.
#[derive(Clone, Copy)]
pub(crate) struct RuleBoxes<'a> {
    chain: &'a ChainBoxes,
    counts: &'a RuleBoxCounts,
}

impl<'a> RuleBoxes<'a> {
    /// Whether its matched boxes are exactly the packets that it matches.
    pub fn is_exact(self) -> bool {
        self.counts.is_exact
    }

    /// Whether its boxes hold packets that it does not match because exact ones would be too many.
    pub fn is_approximated(self) -> bool {
        self.counts.is_approximated
    }

    /// The packets that it matches, and maybe more.
    pub fn boxes_maybe_matched(self) -> impl ExactSizeIterator<Item = &'a HyperRect> + Clone {
        self.cells(0, self.counts.matched)
    }

    /// The packets that it drops by hotdrop, and maybe more.
    pub fn boxes_maybe_dropped(self) -> impl ExactSizeIterator<Item = &'a HyperRect> + Clone {
        self.cells(self.counts.matched, self.counts.hotdrop)
    }

    /// Boxes of which it drops all packets by hotdrop; they are the first of `boxes_maybe_dropped`.
    pub fn exact_hotdrop(self) -> impl ExactSizeIterator<Item = &'a HyperRect> + Clone {
        self.cells(self.counts.matched, self.counts.exact_hotdrop)
    }

    /// The packets for which it evaluates a stateful or counting match.
    pub fn stateful(self) -> impl ExactSizeIterator<Item = &'a HyperRect> + Clone {
        self.cells(self.counts.matched + self.counts.hotdrop, self.counts.stateful)
    }

    /// The numbers of all its boxes: those from which an earlier rule may take packets.
    pub fn numbers(self) -> &'a [BoxNumber] {
        let RuleBoxCounts { start, matched, hotdrop, stateful, .. } = *self.counts;
        &self.chain.box_numbers[start..][..matched + hotdrop + stateful]
    }

    /// The numbers of `boxes_maybe_dropped`.
    pub fn hotdrop_numbers(self) -> &'a [BoxNumber] {
        &self.numbers()[self.counts.matched..][..self.counts.hotdrop]
    }

    fn cells(
        self,
        skipped: usize,
        count: usize,
    ) -> impl ExactSizeIterator<Item = &'a HyperRect> + Clone {
        self.numbers()[skipped..][..count].iter().map(|number| self.chain.distinct_box(*number))
    }
}

fn digest_box(cell: &HyperRect) -> u64 {
    let mut hasher = BoxHasher::default();
    cell.hash(&mut hasher);
    hasher.finish()
}

/// Multiplies and rotates words: boxes have hundreds of bytes, and equal digests cost little.
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

#[cfg(test)]
mod tests {
    use weir_model::{Family, Field};

    use super::*;

    #[test]
    fn rules_after_the_limit_of_distinct_boxes_are_approximated() {
        // Rule n has the hosts 2n and 2n + 1, or more.
        let lower = |rule: u128, boxes_max: usize| {
            let all = HyperRect::all_packets(Family::V4);
            let host = |host| all.restrict_to_interval(Field::Saddr, (host, host)).expect("a host");
            RulePacketBoxes {
                matched_boxes: match boxes_max {
                    1 => vec![all],
                    _ => vec![host(2 * rule), host(2 * rule + 1)],
                },
                is_exact: boxes_max > 1,
                is_approximated: boxes_max == 1,
                ..RulePacketBoxes::default()
            }
        };
        for (distinct_boxes_before, exact) in [(6, 3), (5, 3), (4, 2), (1, 1)] {
            let chain = ChainBoxes::with_approximation_after(0..3, lower, distinct_boxes_before);
            let is_exact: Vec<bool> = (0..3).map(|r| chain.boxes_of_rule(r).is_exact()).collect();
            assert_eq!(is_exact, [0 < exact, 1 < exact, 2 < exact], "{distinct_boxes_before}");
            assert_eq!(chain.has_approximated_rules(), exact < 3, "{distinct_boxes_before}");
        }
    }
}
