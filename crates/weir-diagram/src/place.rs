//! Positions of rules: hook and table.

use weir_model::{Hook, TableName};

use crate::at::At;

/// The position of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TablePlace {
    pub at: At,
    pub table: TableName,
}

impl TablePlace {
    /// The hook.
    pub fn hook(self) -> Hook {
        self.at.hook.unwrap_or(Hook::Forward)
    }
}
