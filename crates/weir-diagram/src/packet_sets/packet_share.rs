//! The size of a set: the fraction of all combinations of bits that it contains.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use weir_model::{Family, Field, Match};

use crate::bdd::node_store::{DiagramRef, LEAF_LEVEL, LimitReached};
use crate::packet_sets::free_variable::FreeVariable;
use crate::packet_sets::packet_bit_codec::FieldBitAssignment;
use crate::packet_sets::packet_space::{PacketSet, PacketSpace};
use crate::packet_sets::variable_layout::VariableBlock;

/// Shares of nodes, each computed once.
pub(crate) type AssignmentShareCache =
    HashMap<DiagramRef, f64, BuildHasherDefault<DiagramRefHasher>>;

/// Hashes the number of a node: the keys are our own, and there are a million of them.
#[derive(Debug, Default)]
pub(crate) struct DiagramRefHasher(u64);

impl Hasher for DiagramRefHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl PacketSpace<'_> {
    /// Which part of all packets is in the set, from 0 to 1. Every bit of every field, and every
    /// answer to what packets do not say, counts as a coin; later fragments and truncated headers
    /// as one in a thousand.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn packet_share(&mut self, a: PacketSet) -> Result<f64, LimitReached> {
        let inside = self.store.and(a.0, self.possible_packets)?;
        Ok(self.share_of_possible_packets(inside))
    }

    /// The same, of a set that has possible packets only, or of all that lead to a terminal other
    /// than 0.
    pub(crate) fn share_of_possible_packets(&self, possible: DiagramRef) -> f64 {
        let mut shares = AssignmentShareCache::default();
        self.assignment_share(possible, &mut shares)
            / self.assignment_share(self.possible_packets, &mut shares)
    }

    /// How many packets are in the set: its share of the 2^(32 + 32 + 8 + 16 + 16) headers of IPv4
    /// (128-bit addresses in IPv6) that addresses, protocol and ports allow.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn packet_count(&mut self, a: PacketSet) -> Result<f64, LimitReached> {
        let share = self.packet_share(a)?;
        Ok(self.packet_count_of_share(share))
    }

    /// How many packets a share of all is.
    pub(crate) fn packet_count_of_share(&self, share: f64) -> f64 {
        share * count_possible_five_tuples(self.family())
    }

    /// The share of assignments that lead to a terminal other than 0.
    pub(crate) fn assignment_share(&self, f: DiagramRef, shares: &mut AssignmentShareCache) -> f64 {
        if f.is_leaf() {
            return if f == DiagramRef::ZERO { 0.0 } else { 1.0 };
        }
        if let Some(share) = shares.get(&f) {
            return *share;
        }
        let (low, high) = self.store.branches(f);
        let set = self.variable_probability(self.store.level(f));
        let share = self.assignment_share(low, shares) * (1.0 - set)
            + self.assignment_share(high, shares) * set;
        shares.insert(f, share);
        share
    }

    /// How often a variable is 1.
    pub(crate) fn variable_probability(&self, level: u32) -> f64 {
        match self.layout.packet_block_at_level(level) {
            Some((
                VariableBlock::Field(Field::IsLaterFragment)
                | VariableBlock::FragmentOffsetOne
                | VariableBlock::AnyHeaderTruncation
                | VariableBlock::TruncatedWithReadablePorts,
                _,
            )) => 1.0 / 1024.0,
            _ => 0.5,
        }
    }

    /// The terminal that an assignment leads to; questions are answered by `answer`.
    pub(crate) fn evaluate_diagram(
        &self,
        mut f: DiagramRef,
        bits: &FieldBitAssignment,
        answer: &mut dyn FnMut(FreeVariable, Option<&Match>) -> bool,
    ) -> DiagramRef {
        loop {
            let level = self.store.level(f);
            if level == LEAF_LEVEL {
                return f;
            }
            let (low, high) = self.store.branches(f);
            let set = match level.checked_sub(self.layout.fields_end) {
                None => bits.0[level as usize],
                Some(question) => {
                    let (variable, m) =
                        self.free_variables.get(question).expect("a level has a question");
                    answer(*variable, m.as_ref())
                }
            };
            f = if set { high } else { low };
        }
    }
}

/// Combinations of addresses, protocol and ports.
pub(crate) fn count_possible_five_tuples(family: Family) -> f64 {
    2f64.powi(2 * family.addr_bits() as i32 + 8 + 16 + 16)
}
