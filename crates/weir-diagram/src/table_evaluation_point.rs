//! Positions of rules: hook and table.

use weir_model::{Hook, TableName};

use crate::evaluation_point::EvaluationPoint;

/// The position of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableEvaluationPoint {
    pub point: EvaluationPoint,
    pub table: TableName,
}

impl TableEvaluationPoint {
    /// The hook.
    pub fn hook_or_forward(self) -> Hook {
        self.point.hook.unwrap_or(Hook::Forward)
    }
}
