//! Positions of rules: hook and table.

use weir_model::{Hook, TableName};

use crate::packet_sets::hook_context::HookContext;

/// The position of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableHookContext {
    pub point: HookContext,
    pub table: TableName,
}

impl TableHookContext {
    /// The hook.
    pub fn hook_or_forward(self) -> Hook {
        self.point.hook.unwrap_or(Hook::Forward)
    }
}
