//! Marks that `CONNMARK` copies between a packet and its connection.

use weir_model::Packet;
use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::target::ExtensionTarget;

/// What a `CONNMARK` target does (xt_connmark.c, `connmark_tg_shift`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnmarkOp {
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
pub fn parse_connmark_target(extension: &ExtensionTarget) -> Option<ConnmarkOp> {
    let option = |name: &str| extension.options.iter().find(|o| o.name == name);
    // The table of effects takes what is shifted for unknown.
    if option("left-shift-mark").or(option("right-shift-mark")).is_some() {
        return None;
    }
    let mask = |name: &str| match option(name).map(|o| &o.value) {
        Some(ExtensionValue::Number(n) | ExtensionValue::Hex(n) | ExtensionValue::Masked(n, _)) => {
            *n as u32
        }
        _ => u32::MAX,
    };
    let both = |o: &TypedExtensionOption| match o.value {
        ExtensionValue::Masked(v, m) => (v as u32, m as u32),
        ExtensionValue::Number(v) | ExtensionValue::Hex(v) => (v as u32, u32::MAX),
        _ => (0, 0),
    };
    if let Some(o) = option("set-xmark") {
        let (value, mask) = both(o);
        return Some(ConnmarkOp::Set { value, mask });
    }
    if let Some(o) = option("set-mark") {
        let (value, mask) = both(o);
        return Some(ConnmarkOp::Set { value, mask: value | mask });
    }
    let (nfmask, ctmask) = (mask("nfmask"), mask("ctmask"));
    if option("save-mark").is_some() {
        return Some(ConnmarkOp::Save { nfmask, ctmask });
    }
    option("restore-mark").map(|_| ConnmarkOp::Restore { nfmask, ctmask })
}

/// Does what `CONNMARK` does. Whether a mark may have changed.
pub(crate) fn apply_connmark_reporting_change(
    extension: &ExtensionTarget,
    packet: &mut Packet,
) -> bool {
    if !packet.ct.has_entry() {
        return false;
    }
    match parse_connmark_target(extension) {
        None => return false,
        Some(ConnmarkOp::Set { value, mask }) => packet.ct.mark = (packet.ct.mark & !mask) ^ value,
        Some(ConnmarkOp::Save { nfmask, ctmask }) => {
            packet.ct.mark = (packet.ct.mark & !ctmask) ^ (packet.mark & nfmask);
        }
        Some(ConnmarkOp::Restore { nfmask, ctmask }) => {
            packet.mark = (packet.mark & !nfmask) ^ (packet.ct.mark & ctmask);
        }
    }
    true
}
