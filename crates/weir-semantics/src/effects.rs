//! What targets do to the fields of one packet: the values of the fields that
//! [`weir_model::effect`] lists as written.

use weir_model::target::{Effect, TtlOperation};
use weir_model::{CtState, Field, Packet};
use weir_packet::ConntrackInfo;

use crate::connmark::apply_connmark_reporting_change;

/// What a target does to a packet, but for the values that are not known.
///
/// Whether a field may have changed.
pub(crate) fn apply_effect_reporting_change(effect: &Effect, packet: &mut Packet) -> bool {
    match effect {
        Effect::Mark { xor_value: value, clear_mask: mask } => {
            packet.mark = (packet.mark & !mask) ^ value
        }
        Effect::Tos { xor_value: value, clear_mask: mask } => {
            packet.tos = (packet.tos & !mask) ^ value
        }
        Effect::Dscp(dscp) => packet.tos = packet.tos & 3 | dscp << 2,
        Effect::Ttl { op, value } => {
            packet.ttl = match op {
                TtlOperation::Set => *value,
                TtlOperation::Inc => packet.ttl.saturating_add(*value),
                TtlOperation::Dec => packet.ttl.saturating_sub(*value),
            }
        }
        // xt_CT.c, notrack_tg and xt_ct_target: a packet that has an entry (over loopback), or the
        // template of an earlier CT, keeps it.
        Effect::Notrack | Effect::CtNotrack { .. } if !packet.ct.has_entry() => {
            packet.ct = ConntrackInfo::from_state(CtState::Untracked);
        }
        Effect::Other(e) if e.module == "CT" && !packet.ct.has_entry() => {
            // A packet that is untracked has an entry that says so.
            if packet.ct.state == CtState::Untracked {
                return false;
            }
            packet.ct = ConntrackInfo::from_state(CtState::New);
        }
        Effect::Other(e) if e.module == "CONNMARK" => {
            return apply_connmark_reporting_change(e, packet);
        }
        Effect::Notrack | Effect::CtNotrack { .. } | Effect::Classify { .. } | Effect::Other(_) => {
            return false;
        }
    }
    true
}

/// Writes a field as a target whose values are unknown may. Of the class that the device gave the
/// packet no target is known that changes it.
pub(crate) fn write_field_unless_pkttype(field: Field, value: u128, packet: &mut Packet) {
    if field != Field::PktType {
        field.write_if_present(packet, value);
    }
}
