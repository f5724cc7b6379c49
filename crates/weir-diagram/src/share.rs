//! The size of a set: the fraction of all combinations of bits that it contains.

use std::collections::HashMap;

use weir_model::{Family, Field, Match};

use crate::encode::Assignment;
use crate::layout::Block;
use crate::space::{PacketSet, Space};
use crate::store::{BOTTOM, Full, Ref};
use crate::variable::FreeVariable;

/// Shares of nodes, each computed once.
pub(crate) type Shares = HashMap<Ref, f64>;

impl Space<'_> {
    /// Which part of all packets is in the set, from 0 to 1. Every bit of every field, and every
    /// answer to what packets do not say, counts as a coin; later fragments and truncated headers
    /// as one in a thousand.
    ///
    /// # Errors
    /// [`Full`].
    pub fn share(&mut self, a: PacketSet) -> Result<f64, Full> {
        let inside = self.store.and(a.0, self.possible)?;
        let mut shares = Shares::new();
        Ok(self.share_of(inside, &mut shares) / self.share_of(self.possible, &mut shares))
    }

    /// How many packets are in the set: its share of the 2^(32 + 32 + 8 + 16 + 16) headers of IPv4
    /// (128-bit addresses in IPv6) that addresses, protocol and ports allow.
    ///
    /// # Errors
    /// [`Full`].
    pub fn count(&mut self, a: PacketSet) -> Result<f64, Full> {
        Ok(self.share(a)? * headers(self.family()))
    }

    /// The share of assignments that lead to a terminal other than 0.
    pub(crate) fn share_of(&self, f: Ref, shares: &mut Shares) -> f64 {
        if f.is_leaf() {
            return if f == Ref::ZERO { 0.0 } else { 1.0 };
        }
        if let Some(share) = shares.get(&f) {
            return *share;
        }
        let (low, high) = self.store.branches(f);
        let set = self.chance(self.store.level(f));
        let share = self.share_of(low, shares) * (1.0 - set) + self.share_of(high, shares) * set;
        shares.insert(f, share);
        share
    }

    /// How often a variable is 1.
    pub(crate) fn chance(&self, level: u32) -> f64 {
        match self.layout.block_at(level) {
            Some((
                Block::Field(Field::Fragment) | Block::OffsetOne | Block::Cut | Block::CutPorts,
                _,
            )) => 1.0 / 1024.0,
            _ => 0.5,
        }
    }

    /// The terminal that an assignment leads to; questions are answered by `answer`.
    pub(crate) fn walk(
        &self,
        mut f: Ref,
        bits: &Assignment,
        answer: &mut dyn FnMut(FreeVariable, Option<&Match>) -> bool,
    ) -> Ref {
        loop {
            let level = self.store.level(f);
            if level == BOTTOM {
                return f;
            }
            let (low, high) = self.store.branches(f);
            let set = match level.checked_sub(self.layout.end) {
                None => bits.0[level as usize],
                Some(question) => {
                    let (variable, m) =
                        self.variables.get(question).expect("a level has a question");
                    answer(*variable, m.as_ref())
                }
            };
            f = if set { high } else { low };
        }
    }
}

/// Combinations of addresses, protocol and ports.
pub(crate) fn headers(family: Family) -> f64 {
    2f64.powi(2 * family.bits() as i32 + 8 + 16 + 16)
}
