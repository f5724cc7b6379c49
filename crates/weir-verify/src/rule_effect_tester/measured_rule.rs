//! A rule to be measured.

use weir_model::{Hook, TableName};

/// A rule that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleToMeasure {
    /// The module that it is about.
    pub module: &'static str,
    /// The rule as `iptables-restore` reads it, without `-A chain`; empty for none.
    pub rule: String,
    /// Its table.
    pub table: TableName,
    /// The hook whose built-in chain leads to it.
    pub hook: Hook,
}
