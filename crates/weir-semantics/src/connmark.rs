//! Marks that `CONNMARK` copies between a packet and its connection.

use weir_model::Packet;
use weir_model::matching::{OptionValue, Value};
use weir_model::target::ExtensionTarget;

/// What a `CONNMARK` target does (xt_connmark.c, `connmark_tg_shift`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkMove {
    /// `ctmark = (ctmark & !mask) ^ value`.
    Set {
        /// Bits to flip in.
        value: u32,
        /// Bits to clear.
        mask: u32,
    },
    /// `ctmark = (ctmark & !ctmask) ^ (mark & nfmask)`.
    Save {
        /// Bits of the packet's mark.
        nfmask: u32,
        /// Bits of the connection's.
        ctmask: u32,
    },
    /// `mark = (mark & !nfmask) ^ (ctmark & ctmask)`.
    Restore {
        /// Bits of the packet's mark.
        nfmask: u32,
        /// Bits of the connection's.
        ctmask: u32,
    },
}

/// Reads the options of a `CONNMARK` target; `None` if it moves nothing.
pub fn connmark_of(extension: &ExtensionTarget) -> Option<MarkMove> {
    let option = |name: &str| extension.options.iter().find(|o| o.name == name);
    // The table of effects takes what is shifted for unknown.
    if option("left-shift-mark").or(option("right-shift-mark")).is_some() {
        return None;
    }
    let mask = |name: &str| match option(name).map(|o| &o.value) {
        Some(Value::Number(n) | Value::Hex(n) | Value::Masked(n, _)) => *n as u32,
        _ => u32::MAX,
    };
    let both = |o: &OptionValue| match o.value {
        Value::Masked(v, m) => (v as u32, m as u32),
        Value::Number(v) | Value::Hex(v) => (v as u32, u32::MAX),
        _ => (0, 0),
    };
    if let Some(o) = option("set-xmark") {
        let (value, mask) = both(o);
        return Some(MarkMove::Set { value, mask });
    }
    if let Some(o) = option("set-mark") {
        let (value, mask) = both(o);
        return Some(MarkMove::Set { value, mask: value | mask });
    }
    let (nfmask, ctmask) = (mask("nfmask"), mask("ctmask"));
    if option("save-mark").is_some() {
        return Some(MarkMove::Save { nfmask, ctmask });
    }
    option("restore-mark").map(|_| MarkMove::Restore { nfmask, ctmask })
}

/// Does what `CONNMARK` does. Whether a mark may have changed.
pub(crate) fn connmark(extension: &ExtensionTarget, packet: &mut Packet) -> bool {
    if !packet.ct.has_entry() {
        return false;
    }
    match connmark_of(extension) {
        None => return false,
        Some(MarkMove::Set { value, mask }) => packet.ct.mark = (packet.ct.mark & !mask) ^ value,
        Some(MarkMove::Save { nfmask, ctmask }) => {
            packet.ct.mark = (packet.ct.mark & !ctmask) ^ (packet.mark & nfmask);
        }
        Some(MarkMove::Restore { nfmask, ctmask }) => {
            packet.mark = (packet.mark & !nfmask) ^ (packet.ct.mark & ctmask);
        }
    }
    true
}
