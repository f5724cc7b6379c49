//! Which way a packet goes, and which tables it meets there.

use weir_model::{Hook, TableName};

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Through the host.
    Forward,
    /// To the host.
    Input,
    /// From the host.
    Output,
}

impl Entry {
    /// All three.
    pub const ALL: [Entry; 3] = [Entry::Forward, Entry::Input, Entry::Output];

    /// The hooks on the way, in order.
    pub const fn hooks(self) -> &'static [Hook] {
        match self {
            Entry::Forward => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
            Entry::Input => &[Hook::Prerouting, Hook::Input],
            Entry::Output => &[Hook::Output, Hook::Postrouting],
        }
    }
}

/// The tables at a hook, in the order of their priorities.
pub const fn tables_at(hook: Hook) -> &'static [TableName] {
    use TableName::{Filter, Mangle, Nat, Raw, Security};
    match hook {
        Hook::Prerouting => &[Raw, Mangle, Nat],
        Hook::Input => &[Mangle, Filter, Security, Nat],
        Hook::Forward => &[Mangle, Filter, Security],
        Hook::Output => &[Raw, Mangle, Nat, Filter, Security],
        Hook::Postrouting => &[Mangle, Nat],
    }
}
