//! Counts and findings for people, with the affected lines.

use std::cmp::Reverse;

use weir_lint::{
    Finding, IncompletelySearchedTable, RelatedPlace, Severity, count_firewall_contents,
};
use weir_model::Firewall;
use weir_syntax::{Diagnostic, DiagnosticSeverity, escape_control_chars};

use super::checked_ruleset::{CheckedRuleset, format_severity_counts};
use crate::source_locations::SourceLineIndex;

/// Findings drawn of each kind; the others are counted.
const MAX_SHOWN_FINDINGS_PER_LINT: usize = 3;
/// Other places drawn of a finding; the lines of the others are named.
const MAX_SHOWN_RELATED_PLACES: usize = 3;
/// Lines that are named at most.
const MAX_LISTED_RELATED_LINES: usize = 10;
/// Rules evaluated without effect from which a finding states its cost.
const MIN_STATED_WASTED_COMPARISONS: u32 = 2;

/// Prints counts, then findings, the most severe kinds first.
pub(super) fn render_text(all: &[CheckedRuleset], every: bool, color: bool) -> String {
    let mut out = String::new();
    for checked in all {
        if let (true, Some(source)) = (all.len() > 1, checked.sources.first()) {
            out.push_str(&format!("== {}\n", escape_control_chars(&source.name)));
        }
        out.push_str(&render_ruleset_counts(&checked.firewall));
        out.push_str(&render_findings(
            checked,
            if every { usize::MAX } else { MAX_SHOWN_FINDINGS_PER_LINT },
            color,
        ));
        if all.len() > 1 {
            out.push('\n');
        }
    }
    let findings = all.iter().flat_map(|c| &c.findings);
    if all.len() > 1 {
        out.push_str(&format!(
            "{} rulesets: {}\n",
            all.len(),
            format_severity_counts(findings.clone())
        ));
    }
    if findings.count() > 0 {
        out.push_str("weir check --explain ID explains why a finding matters and what to do\n");
    }
    out
}

/// What a firewall holds.
fn render_ruleset_counts(firewall: &Firewall) -> String {
    let counts = count_firewall_contents(firewall);
    let mut out = format!("{} rules in {} chains", counts.rules, counts.chains);
    if counts.sets > 0 {
        out.push_str(&format!(", {} sets with {} elements", counts.sets, counts.elements));
    }
    out.push('\n');
    for table in &counts.tables {
        let chains = table.chains.len();
        out.push_str(&format!(
            "  {} {:<8} {:>7} rules in {chains} chains",
            table.family_v4_or_v6, table.table, table.rules
        ));
        if let Some(longest) = table.chains.first().filter(|c| c.rules > 0) {
            out.push_str(&format!(
                ", longest {} ({})",
                escape_control_chars(&longest.chain),
                longest.rules
            ));
        }
        out.push('\n');
    }
    for (title, names) in [("matches", &counts.matches), ("targets", &counts.targets)] {
        let names: Vec<String> = names
            .iter()
            .map(|n| format!("{} {}", escape_control_chars(&n.name), n.count))
            .collect();
        out.push_str(&format!("  {title}: {}\n", names.join(", ")));
    }
    out
}

/// The first findings of each kind at their places, how many more there are, and the total.
fn render_findings(checked: &CheckedRuleset, at_most: usize, color: bool) -> String {
    let mut kinds: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for f in &checked.findings {
        match kinds.iter_mut().find(|(id, _)| *id == f.lint_id()) {
            Some((_, of_kind)) => of_kind.push(f),
            None => kinds.push((f.lint_id(), vec![f])),
        }
    }
    // Stable: findings of the same severity stay in the order of the text.
    for (_, of_kind) in &mut kinds {
        of_kind.sort_by_key(|f| Reverse(f.severity));
    }
    kinds.sort_by_key(|(_, of_kind)| Reverse(of_kind[0].severity));
    let places = SourceLineIndex::new(&checked.sources);
    let mut out = String::new();
    for (id, of_kind) in &kinds {
        let count = format_severity_counts(of_kind.iter().copied());
        let fix = match of_kind.iter().filter(|f| f.fix.is_some()).count() {
            0 => String::new(),
            n if n == of_kind.len() => "; weir optimize can fix this".to_owned(),
            n => format!("; weir optimize can fix {n}"),
        };
        out.push_str(&format!("\n{id}: {count}{fix}\n"));
        for finding in of_kind.iter().take(at_most) {
            let Some(source) = places.source_of_finding(finding) else { continue };
            let lines = |of: &[RelatedPlace]| {
                of.iter()
                    .filter_map(|a| Some(places.line_column_range(source, a.span)?.line))
                    .collect()
            };
            let diagnostic =
                finding_diagnostic(finding, checked, at_most > MAX_SHOWN_FINDINGS_PER_LINT, &lines);
            out.push_str(&weir_syntax::render_diagnostics(
                &[diagnostic],
                &source.name,
                &source.text,
                color,
            ));
        }
        if of_kind.len() > at_most {
            let more = of_kind.len() - at_most;
            out.push_str(&format!("  … and {more} more (--every shows all)\n"));
        }
    }
    if !kinds.is_empty() {
        out.push('\n');
    }
    out.push_str(&format_severity_counts(checked.findings.iter()));
    for (count, why) in [
        (checked.suppressed_count, "suppressed by comments"),
        (checked.baseline_finding_count, "in the baseline"),
    ] {
        if count > 0 {
            out.push_str(&format!("; {count} {why}"));
        }
    }
    out.push('\n');
    for IncompletelySearchedTable { family_v4_or_v6: family, table } in &checked.unfinished_tables {
        out.push_str(&format!(
            "note: {family} {table} needs too many comparisons or has too many combinations of \
             fields: some shadowed, redundant or overlapping rules are not reported\n"
        ));
    }
    out
}

fn finding_diagnostic(
    f: &Finding,
    checked: &CheckedRuleset,
    every: bool,
    lines: &dyn Fn(&[RelatedPlace]) -> Vec<usize>,
) -> Diagnostic {
    let heading = match f.severity {
        Severity::Note => DiagnosticSeverity::Note,
        Severity::Warning => DiagnosticSeverity::Warning,
        Severity::Error => DiagnosticSeverity::Error,
    };
    let mut help = f.help.clone();
    if f.wasted_comparisons >= MIN_STATED_WASTED_COMPARISONS {
        let ns = checked.cost_model.full_list_scan_ns(f.wasted_comparisons as usize);
        help.push_str(&format!(
            "\ncosts up to {} comparisons per packet, about {ns:.0} ns",
            f.wasted_comparisons
        ));
    }
    let drawn = if every {
        f.related_places.len()
    } else {
        MAX_SHOWN_RELATED_PLACES.min(f.related_places.len())
    };
    let (drawn, named) = f.related_places.split_at(drawn);
    if !named.is_empty() {
        let all = lines(named);
        let first: Vec<String> =
            all.iter().take(MAX_LISTED_RELATED_LINES).map(ToString::to_string).collect();
        let more = if all.len() > MAX_LISTED_RELATED_LINES { ", …" } else { "" };
        help.push_str(&format!(
            "\nand {} more: {} {}{more} (--every shows all)",
            named.len(),
            if all.len() == 1 { "line" } else { "lines" },
            first.join(", ")
        ));
    }
    let diagnostic =
        Diagnostic::new(f.message.clone(), f.span).with_severity(heading).with_help(help);
    drawn.iter().fold(diagnostic, |d, also| d.with_related_span(also.span, also.label.clone()))
}
