//! The point of a journey at which a rule is evaluated.

use weir_model::Hook;

/// Where a rule is evaluated: what of the packet is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The hook, where it is known: opaque tests of different hooks are different tests.
    pub hook: Option<Hook>,
    /// The input device is known; else it is the empty name.
    pub iif: bool,
    /// The output device is known; else it is the empty name.
    pub oif: bool,
    /// The packet's connection is known; else its state is INVALID.
    pub ct: bool,
    /// The packet may have a source MAC address.
    pub mac: bool,
}

impl At {
    /// Anywhere: all that a packet says is there.
    pub const ANYWHERE: At = At { hook: None, iif: true, oif: true, ct: true, mac: true };

    /// At a hook, after conntrack; at POSTROUTING of a forwarded packet.
    pub const fn hook(hook: Hook) -> At {
        let iif = !matches!(hook, Hook::Output);
        let oif = !matches!(hook, Hook::Prerouting | Hook::Input);
        At { hook: Some(hook), iif, oif, ct: true, mac: iif }
    }

    /// The same before conntrack, as the raw table is.
    pub const fn before_conntrack(self) -> At {
        At { ct: false, ..self }
    }

    /// The same for a packet that was made here.
    pub const fn local(self) -> At {
        At { iif: false, mac: false, ..self }
    }
}
