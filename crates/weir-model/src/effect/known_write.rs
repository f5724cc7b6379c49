//! The values that targets write, where they follow from the packet: the interpreter applies them
//! to one packet, diagrams to all packets.
//!
//! Targets whose effect depends on the packet's connection (`CT`, `NOTRACK`, `CONNMARK`) are not
//! here: each engine has its own representation of a connection.

use crate::field::Field;
use crate::target::{Effect, TtlOperation};

/// What a target writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownWrite {
    /// `field = (field & !clear_mask) ^ xor_value`, as in net/netfilter/xt_mark.c and xt_DSCP.c.
    ClearAndXor {
        /// The field, of at most 32 bits.
        field: Field,
        /// Bits to clear.
        clear_mask: u32,
        /// Bits to flip in after clearing.
        xor_value: u32,
    },
    /// The TTL or hop limit becomes this value (net/netfilter/xt_HL.c).
    SetTtl(u8),
    /// This is added to the TTL or hop limit, which stays within 0 and 255.
    AddToTtl(i16),
}

/// What a target writes into the packet, if its options alone determine it. A target whose
/// [row](super::TargetRow) has known values has an arm here.
///
/// ```
/// use weir_model::effect::{KnownWrite, known_write};
/// use weir_model::{Field, target::Effect};
/// // DSCP is the upper six bits of the octet.
/// let write = known_write(&Effect::Dscp(46));
/// let field = Field::Tos;
/// assert_eq!(write, Some(KnownWrite::ClearAndXor { field, clear_mask: 0xfc, xor_value: 184 }));
/// ```
pub fn known_write(effect: &Effect) -> Option<KnownWrite> {
    let clear_and_xor = |field, clear_mask: u32, xor_value: u32| {
        Some(KnownWrite::ClearAndXor { field, clear_mask, xor_value })
    };
    match effect {
        Effect::Mark { xor_value, clear_mask } => {
            clear_and_xor(Field::Mark, *clear_mask, *xor_value)
        }
        Effect::Tos { xor_value, clear_mask } => {
            clear_and_xor(Field::Tos, (*clear_mask).into(), (*xor_value).into())
        }
        Effect::Dscp(dscp) => clear_and_xor(Field::Tos, 0xfc, u32::from(*dscp) << 2),
        Effect::Ttl { op, value } => Some(match op {
            TtlOperation::Set => KnownWrite::SetTtl(*value),
            TtlOperation::Inc => KnownWrite::AddToTtl((*value).into()),
            TtlOperation::Dec => KnownWrite::AddToTtl(-i16::from(*value)),
        }),
        Effect::Notrack | Effect::CtNotrack { .. } | Effect::Classify { .. } | Effect::Other(_) => {
            None
        }
    }
}
