//! Sets of protocols.

use weir_model::nft::{Comparand, Test};

/// A set of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProtocolSet([u128; 2]);

impl ProtocolSet {
    pub const NONE: ProtocolSet = ProtocolSet([0; 2]);
    pub const ALL: ProtocolSet = ProtocolSet([u128::MAX; 2]);

    pub fn contains(self, proto: u8) -> bool {
        self.0[usize::from(proto >> 7)] >> (proto & 127) & 1 == 1
    }

    pub fn is_subset_of(self, known: &[u8]) -> bool {
        (0..=255).all(|p| !self.contains(p) || known.contains(&p))
    }

    pub fn union(self, other: ProtocolSet) -> ProtocolSet {
        ProtocolSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Those that pass a test of the protocol.
    pub fn filter_by_test(self, test: &Test) -> ProtocolSet {
        let Comparand::InSpans(spans) = &test.comparand else { return self };
        let mut out = ProtocolSet::NONE;
        for p in (0..=255u8).filter(|p| self.contains(*p)) {
            let inside = spans.iter().any(|(lo, hi)| (*lo..=*hi).contains(&u128::from(p)));
            if inside != test.negated {
                out.0[usize::from(p >> 7)] |= 1 << (p & 127);
            }
        }
        out
    }
}
