//! What `weir check` prints, in whichever format.

use weir_model::Firewall;
use weir_passes::CostModel;
use weir_semantics::check::{Finding, Severity};

use crate::operand::Source;

/// What is printed.
pub(super) struct Checked<'a> {
    pub firewall: &'a Firewall,
    pub sources: &'a [Source],
    pub findings: &'a [Finding],
    pub suppressed: usize,
    pub cost: CostModel,
}

/// A severity in words.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}
