//! Where rules stand: at which hook, in which table.

use weir_model::{Hook, TableName};

use crate::at::At;

/// Where rules stand.
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
