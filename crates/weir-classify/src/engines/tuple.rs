//! Tuple space search: a hash table for each combination of prefix lengths.
//!
//! The rules of a filter set have few distinct combinations of masks: source /24 and destination
//! /16 is one. Such a combination is a tuple. All filters of a tuple are in one hash table, under
//! their masked words, so one probe per tuple finds all its filters that match. Ports and protocol
//! are compared after the probe, since each of their lengths would multiply the number of probes. A
//! range of addresses that is no prefix is hashed by the smallest prefix around it, a test of bits
//! under its own mask.
//!
//! *Improvement.* Tables are probed in the order of the best rule of each. The search for the first
//! match ends at a table whose best rule comes after a match that is already found (priority
//! sorting, as in Open vSwitch). It does not help for all matches: these take a probe per tuple.
//!
//! *Cost.* Memory is linear. An update is one insertion or removal in a hash table. Time is
//! proportional to the number of tuples, which depends on how the rules are written: 20 to 300 for
//! ClassBench, but an adversary needs one rule per tuple. Filters that differ only in ranges share
//! a chain, which is searched in order.
//!
//! # Source
//! V. Srinivasan, S. Suri, G. Varghese: Packet Classification using Tuple Space Search, SIGCOMM
//! 1999. B. Pfaff et al.: The Design and Implementation of Open vSwitch, NSDI 2015 (section 3.2 and
//! priority sorting in 5.2).

use crate::engines::tuple_space::{TablePlacement, TupleSpace, TupleSpaceClassifier};
use crate::key::{KeyWord, KeyWordTestMethod};

/// A hash table per tuple of masks.
pub type TupleClassifier = TupleSpaceClassifier<TablePerTuplePlacement>;

/// Places filters of equal masks together.
#[derive(Clone, Debug)]
pub struct TablePerTuplePlacement;

impl TablePlacement for TablePerTuplePlacement {
    const ENGINE_NAME: &'static str = "tuple";

    /// Words of 32 bits and words of bits make the tuple. Smaller words, such as ports, are hashed
    /// only where a filter tests no address: each would multiply the number of tuples.
    fn choose_table(space: &mut TupleSpace, _filter: u32, mask: &[u32]) -> u32 {
        let is_small =
            |word: &KeyWord| matches!(word.kind, KeyWordTestMethod::Interval { bits: ..32 });
        let words = space.words().iter().zip(mask);
        let tests_address = words.clone().any(|(word, mask)| *mask != 0 && !is_small(word));
        let hashed_mask = |(word, mask): (&KeyWord, &u32)| match is_small(word) {
            true if tests_address || *mask != word.max_value() => 0,
            _ => *mask,
        };
        let tuple: Vec<u32> = words.map(hashed_mask).collect();
        space.find_or_add_table(&tuple)
    }
}
