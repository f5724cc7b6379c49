//! Counts and findings as one JSON object.

use anyhow::Result;
use serde::Serialize;
use weir_lint::{
    Finding, FirewallContentCounts, IncompletelySearchedTable, count_firewall_contents,
};

use super::checked_ruleset::{CheckedRuleset, severity_word};
use crate::json_output;
use crate::source_locations::SourceLineIndex;

/// What is printed.
#[derive(Serialize)]
struct CheckJson<'a> {
    rulesets: Vec<CheckedRulesetJson<'a>>,
}

/// One ruleset.
#[derive(Serialize)]
struct CheckedRulesetJson<'a> {
    files: Vec<&'a str>,
    counts: FirewallContentCounts,
    suppressed: usize,
    in_baseline: usize,
    unfinished_tables: &'a [IncompletelySearchedTable],
    findings: Vec<FindingJson<'a>>,
}

/// A finding with its place in the text.
#[derive(Serialize)]
struct FindingJson<'a> {
    id: &'a str,
    severity: &'static str,
    message: &'a str,
    place: Option<String>,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    also: Vec<RelatedPlaceJson<'a>>,
    help: &'a str,
    cost: Option<FindingCostJson>,
    fix: Option<FixEditCountJson>,
    program: Option<&'static str>,
}

/// Another place.
#[derive(Serialize)]
struct RelatedPlaceJson<'a> {
    place: String,
    line: Option<usize>,
    label: &'a str,
}

/// What a packet pays.
#[derive(Serialize)]
struct FindingCostJson {
    /// Rules that it tries in vain.
    rules: u32,
    /// By the cost model.
    ns: f64,
}

/// What `weir optimize --fix` would do.
#[derive(Serialize)]
struct FixEditCountJson {
    edits: usize,
    changes_counters: bool,
}

/// Prints it.
pub(super) fn render_json(all: &[CheckedRuleset]) -> Result<String> {
    let printed = CheckJson { rulesets: all.iter().map(ruleset_to_json).collect() };
    json_output::render_json_object("check", &printed)
}

fn ruleset_to_json(checked: &CheckedRuleset) -> CheckedRulesetJson<'_> {
    let places = SourceLineIndex::new(&checked.sources);
    CheckedRulesetJson {
        files: checked.sources.iter().map(|s| &*s.name).collect(),
        counts: count_firewall_contents(&checked.firewall),
        suppressed: checked.suppressed_count,
        in_baseline: checked.baseline_finding_count,
        unfinished_tables: &checked.unfinished_tables,
        findings: checked.findings.iter().map(|f| finding_to_json(f, checked, &places)).collect(),
    }
}

fn finding_to_json<'a>(
    f: &'a Finding,
    checked: &CheckedRuleset,
    places: &SourceLineIndex<'a>,
) -> FindingJson<'a> {
    let source = places.source_of_finding(f);
    let region = source.and_then(|s| places.line_column_range(s, f.span));
    let also = f.related_places.iter().map(|a| RelatedPlaceJson {
        place: a.place.to_string(),
        line: source.and_then(|s| places.line_column_range(s, a.span)).map(|r| r.line),
        label: &a.label,
    });
    FindingJson {
        id: f.lint_id(),
        severity: severity_word(f.severity),
        message: &f.message,
        place: f.place.as_ref().map(ToString::to_string),
        file: source.map(|s| &*s.name),
        line: region.map(|r| r.line),
        column: region.map(|r| r.column),
        also: also.collect(),
        help: &f.help,
        cost: (f.wasted_comparisons > 0).then(|| FindingCostJson {
            rules: f.wasted_comparisons,
            ns: checked.cost_model.full_list_scan_ns(f.wasted_comparisons as usize),
        }),
        fix: f.fix.as_ref().map(|x| FixEditCountJson {
            edits: x.edits.len(),
            changes_counters: x.changes_counters,
        }),
        program: f.program.map(|p| p.as_str()),
    }
}
