//! Where the chains of a table begin and end.

/// Where a table's hooks begin and end in its entries (struct ipt_getinfo).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XtablesHooks {
    /// Bits of the hooks that the table has, PREROUTING is bit 0.
    pub valid_hooks: u32,
    /// Offset of the first entry of each hook.
    pub hook_entries: [u32; 5],
    /// Offset of the policy of each hook.
    pub underflows: [u32; 5],
}
