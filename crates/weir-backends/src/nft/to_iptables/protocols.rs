//! Sets of protocols.

use weir_model::nft::{Test, With};

/// A set of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocols([u128; 2]);

impl Protocols {
    pub const NONE: Protocols = Protocols([0; 2]);
    pub const ALL: Protocols = Protocols([u128::MAX; 2]);

    pub fn has(self, proto: u8) -> bool {
        self.0[usize::from(proto >> 7)] >> (proto & 127) & 1 == 1
    }

    pub fn within(self, known: &[u8]) -> bool {
        (0..=255).all(|p| !self.has(p) || known.contains(&p))
    }

    pub fn union(self, other: Protocols) -> Protocols {
        Protocols([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Those that pass a test of the protocol.
    pub fn tested(self, test: &Test) -> Protocols {
        let With::Spans(spans) = &test.with else { return self };
        let mut out = Protocols::NONE;
        for p in (0..=255u8).filter(|p| self.has(*p)) {
            let inside = spans.iter().any(|(lo, hi)| (*lo..=*hi).contains(&u128::from(p)));
            if inside != test.negated {
                out.0[usize::from(p >> 7)] |= 1 << (p & 127);
            }
        }
        out
    }
}
