//! The output of `weir check`, independent of the format.

use weir_lint::{Finding, IncompletelySearchedTable, Severity};
use weir_model::Firewall;
use weir_passes::CostModel;

use crate::operand::SourceText;

/// One ruleset, with what was found in it.
pub(super) struct CheckedRuleset {
    /// The ruleset.
    pub firewall: Firewall,
    /// The texts that it was read from.
    pub sources: Vec<SourceText>,
    /// What was found, in the order of the text.
    pub findings: Vec<Finding>,
    /// Findings that a comment in the text allows.
    pub suppressed_count: usize,
    /// Tables in which shadowed, redundant and overlapping rules may be missing.
    pub unfinished_tables: Vec<IncompletelySearchedTable>,
    /// Findings that the baseline lists.
    pub baseline_finding_count: usize,
    /// What rules cost.
    pub cost_model: CostModel,
}

/// A severity in words.
pub(super) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// `1 error, 3 warnings, 20 notes`, without those that there are none of; `no findings`.
pub(super) fn format_severity_counts<'f>(
    findings: impl Iterator<Item = &'f Finding> + Clone,
) -> String {
    let worst_first = [Severity::Error, Severity::Warning, Severity::Note];
    let counts: Vec<String> = worst_first
        .into_iter()
        .filter_map(|of| match findings.clone().filter(|f| f.severity == of).count() {
            0 => None,
            1 => Some(format!("1 {}", severity_word(of))),
            n => Some(format!("{n} {}s", severity_word(of))),
        })
        .collect();
    if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") }
}
