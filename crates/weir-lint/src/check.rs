//! Running the lints over a firewall.

use serde::Serialize;
use weir_model::{Family, Firewall};

use crate::analyzed_firewall::{AnalyzedFirewall, AnalyzedTable};
use crate::finding::Finding;
use crate::lint::Severity;
use crate::lint_levels::LintLevel;
use crate::lint_options::LintOptions;
use crate::lints::run_follow_up_lints;
use crate::merge_findings::merge_by_root_cause;
use crate::registry::LINT_FAMILIES;
use crate::suppression_comments::apply_suppression_comments;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// In the order of the text: IPv4, IPv6, sets.
    pub findings: Vec<Finding>,
    /// How many more a comment in the text allows (`# weir: allow(ID): reason`).
    pub suppressed_count: usize,
    /// The tables that are so large that the search for shadowed, redundant and overlapping rules
    /// ended early, or took some rules for wider than they are: some findings may be missing.
    pub unfinished_tables: Vec<IncompletelySearchedTable>,
    /// Boxes and index nodes that were examined: see
    /// [`LintOptions::examined_boxes_max_per_ruleset`].
    pub examined_box_count: u64,
}

/// A table that is not searched to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncompletelySearchedTable {
    /// `v4` or `v6`.
    #[serde(rename = "family")]
    pub family_v4_or_v6: &'static str,
    /// Table.
    pub table: &'static str,
}

/// Runs the lints over a firewall.
///
/// Sets are checked only if the firewall has some.
pub fn lint_firewall(firewall: &Firewall, options: &LintOptions) -> CheckReport {
    lint_except_known(firewall, options, |_| false)
}

/// Runs the lints; known findings are omitted. The filter is applied rule by rule, before findings
/// of one cause are merged.
pub fn lint_except_known(
    firewall: &Firewall,
    options: &LintOptions,
    mut is_known: impl FnMut(&Finding) -> bool,
) -> CheckReport {
    let mut checked = lint_without_grouping(firewall, options);
    checked.findings.retain(|f| !is_known(f));
    checked.findings = merge_by_root_cause(checked.findings);
    for finding in &mut checked.findings {
        if let Some(program) = finding.program {
            let cure = "change its configuration instead";
            finding.help.push_str(&format!("; {program} manages these rules: {cure}"));
        }
    }
    sort_findings_by_position(&mut checked.findings);
    checked
}

/// Runs the lints; each finding is about one rule, chain or set.
pub fn lint_without_grouping(firewall: &Firewall, options: &LintOptions) -> CheckReport {
    let mut all = Vec::new();
    let context = AnalyzedFirewall::new(firewall, options);
    for family in LINT_FAMILIES {
        (family.run_lints)(&context, &mut all);
    }
    all.extend(run_follow_up_lints(&context, &all));
    for finding in &mut all {
        assign_severity_demoting_managed_rules(finding, options);
    }
    all.retain(|f| options.levels.effective_level(f.lint) != LintLevel::Allow);
    let (mut findings, suppressed) = apply_suppression_comments(firewall, all, &options.levels);
    sort_findings_by_position(&mut findings);
    let unfinished_tables = list_unfinished_tables(&context);
    let examined_box_count =
        context.tables.iter().map(|t| t.packet_set_flow.examined_box_count()).sum();
    CheckReport { findings, suppressed_count: suppressed, unfinished_tables, examined_box_count }
}

fn list_unfinished_tables(context: &AnalyzedFirewall<'_>) -> Vec<IncompletelySearchedTable> {
    let unfinished = context.tables.iter().filter(|t| t.packet_set_flow.is_incompletely_searched());
    let name = |t: &AnalyzedTable<'_>| IncompletelySearchedTable {
        family_v4_or_v6: if t.family() == Family::V4 { "v4" } else { "v6" },
        table: t.table.name.as_str(),
    };
    unfinished.map(name).collect()
}

/// How bad a finding is. What a program wrote is a note at most, unless the caller names the lint.
fn assign_severity_demoting_managed_rules(finding: &mut Finding, options: &LintOptions) {
    if let Some(LintLevel::ReportAs(severity)) =
        options.levels.level_overriding_default_severity(finding.lint)
    {
        finding.severity = severity;
    }
    if finding.program.is_some() && options.levels.explicit_level(finding.lint).is_none() {
        finding.severity = Severity::Note;
    }
}

fn sort_findings_by_position(findings: &mut [Finding]) {
    findings.sort_by_key(|f| (f.family.is_none(), f.family, f.span.start));
}

/// What [`lint_firewall`] finds by default.
pub fn lint_with_default_options(firewall: &Firewall) -> Vec<Finding> {
    lint_firewall(firewall, &LintOptions::default()).findings
}
