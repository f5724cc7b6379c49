//! The paths of a packet through the host, and the tables on each.

use weir_model::{Hook, TableName};

/// The path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JourneyKind {
    /// Through the host.
    Forward,
    /// To the host.
    Input,
    /// From the host.
    Output,
}

impl JourneyKind {
    /// All three.
    pub const ALL: [JourneyKind; 3] =
        [JourneyKind::Forward, JourneyKind::Input, JourneyKind::Output];

    /// The hooks of the path, in order.
    pub const fn hooks(self) -> &'static [Hook] {
        match self {
            JourneyKind::Forward => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
            JourneyKind::Input => &[Hook::Prerouting, Hook::Input],
            JourneyKind::Output => &[Hook::Output, Hook::Postrouting],
        }
    }
}

/// The tables at a hook, in the order of their priorities.
pub const fn tables_at_hook(hook: Hook) -> &'static [TableName] {
    use TableName::{Filter, Mangle, Nat, Raw, Security};
    match hook {
        Hook::Prerouting => &[Raw, Mangle, Nat],
        Hook::Input => &[Mangle, Filter, Security, Nat],
        Hook::Forward => &[Mangle, Filter, Security],
        Hook::Output => &[Raw, Mangle, Nat, Filter, Security],
        Hook::Postrouting => &[Mangle, Nat],
    }
}
