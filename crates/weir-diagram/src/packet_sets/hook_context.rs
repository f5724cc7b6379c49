//! The point of a journey at which a rule is evaluated.

use weir_model::Hook;

/// Where a rule is evaluated: what of the packet is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookContext {
    /// The hook, where it is known: opaque tests of different hooks are different tests.
    pub hook: Option<Hook>,
    /// The input device is known; else it is the empty name.
    pub has_iif: bool,
    /// The output device is known; else it is the empty name.
    pub has_oif: bool,
    /// The packet may have a source MAC address.
    pub has_mac: bool,
    /// The packet is a local one, and may have another route than in the mangle table of OUTPUT.
    pub is_after_second_route_lookup: bool,
}

impl HookContext {
    /// Anywhere: all that a packet says is there.
    pub const EVERYTHING_KNOWN: HookContext = HookContext {
        hook: None,
        has_iif: true,
        has_oif: true,
        has_mac: true,
        is_after_second_route_lookup: false,
    };

    /// At a hook, after conntrack; at POSTROUTING of a forwarded packet.
    pub const fn at_hook(hook: Hook) -> HookContext {
        let iif = !matches!(hook, Hook::Output);
        let oif = !matches!(hook, Hook::Prerouting | Hook::Input);
        HookContext {
            hook: Some(hook),
            has_iif: iif,
            has_oif: oif,
            has_mac: iif,
            ..HookContext::EVERYTHING_KNOWN
        }
    }

    /// The same after the kernel may have looked the route of a local packet up again.
    pub const fn after_second_route_lookup(self) -> HookContext {
        HookContext { is_after_second_route_lookup: true, ..self }
    }

    /// The same for a packet that was made here.
    pub const fn for_local_packet(self) -> HookContext {
        HookContext { has_iif: false, has_mac: false, ..self }
    }
}
