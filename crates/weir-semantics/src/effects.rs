//! What targets do to the fields of one packet: the values of the fields that
//! [`weir_model::effect`] lists as written.

use weir_model::effect::{KnownWrite, known_write};
use weir_model::target::Effect;
use weir_model::{CtState, Field, FieldReading, Packet};
use weir_packet::ConntrackInfo;

use crate::connmark::apply_connmark_reporting_change;

/// What a target does to a packet, but for the values that are not known.
///
/// Whether a field may have changed.
pub(crate) fn apply_effect_reporting_possible_change(effect: &Effect, packet: &mut Packet) -> bool {
    if let Some(write) = known_write(effect) {
        apply_known_write(write, packet);
        return true;
    }
    match effect {
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
        _ => return false,
    }
    true
}

fn apply_known_write(write: KnownWrite, packet: &mut Packet) {
    match write {
        KnownWrite::ClearAndXor { field, clear_mask, xor_value } => {
            if let FieldReading::Value(old) = field.read(packet) {
                let new = (old & !u128::from(clear_mask)) ^ u128::from(xor_value);
                field.write_if_present(packet, new);
            }
        }
        KnownWrite::SetTtl(value) => packet.ttl = value,
        KnownWrite::AddToTtl(value) => {
            packet.ttl = (i16::from(packet.ttl) + value).clamp(0, 255) as u8;
        }
    }
}

/// Writes a field as a target whose values are unknown may. Of the class that the device gave the
/// packet no target is known that changes it.
pub(crate) fn write_field_unless_pkttype(field: Field, value: u128, packet: &mut Packet) {
    if field != Field::PktType {
        field.write_if_present(packet, value);
    }
}
