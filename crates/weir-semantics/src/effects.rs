//! What targets do to the fields of one packet: the values of the fields that
//! [`weir_model::effect`] lists as written.

use weir_model::target::{Effect, TtlChange};
use weir_model::{CtState, Field, Packet, Read};
use weir_packet::Ct;

use crate::connmark::connmark;

/// What a target does to a packet, but for the values that are not known.
///
/// Whether a field may have changed.
pub(crate) fn apply(effect: &Effect, packet: &mut Packet) -> bool {
    match effect {
        Effect::Mark { value, mask } => packet.mark = (packet.mark & !mask) ^ value,
        Effect::Tos { value, mask } => packet.tos = (packet.tos & !mask) ^ value,
        Effect::Dscp(dscp) => packet.tos = packet.tos & 3 | dscp << 2,
        Effect::Ttl { op, value } => {
            packet.ttl = match op {
                TtlChange::Set => *value,
                TtlChange::Inc => packet.ttl.saturating_add(*value),
                TtlChange::Dec => packet.ttl.saturating_sub(*value),
            }
        }
        // xt_CT.c, notrack_tg and xt_ct_target: a packet that has an entry (over loopback), or the
        // template of an earlier CT, keeps it.
        Effect::Notrack | Effect::CtNotrack if !packet.ct.has_entry() => {
            packet.ct = Ct::of(CtState::Untracked);
        }
        Effect::Other(e) if e.module == "CT" && !packet.ct.has_entry() => {
            // A packet that is untracked has an entry that says so.
            if packet.ct.state == CtState::Untracked {
                return false;
            }
            packet.ct = Ct::of(CtState::New);
        }
        Effect::Other(e) if e.module == "CONNMARK" => return connmark(e, packet),
        Effect::Notrack | Effect::CtNotrack | Effect::Classify { .. } | Effect::Other(_) => {
            return false;
        }
    }
    true
}

/// The value of a field; 0 where the packet has none.
pub(crate) fn value(field: Field, packet: &Packet) -> u128 {
    match field.read(packet) {
        Read::Value(value) => value,
        Read::Absent | Read::Truncated => 0,
    }
}

/// Writes a field as a target whose values are unknown may. Of the class that the device gave the
/// packet no target is known that changes it.
pub(crate) fn set(field: Field, value: u128, packet: &mut Packet) {
    if field != Field::PktType {
        field.write(packet, value);
    }
}
