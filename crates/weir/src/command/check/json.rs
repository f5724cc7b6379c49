//! Counts and findings as one JSON object.

use anyhow::Result;
use serde::Serialize;
use weir_lint::{Counts, Finding, counts};

use super::checked::{CheckedRuleset, severity};
use super::places::Places;
use crate::json;

/// What is printed.
#[derive(Serialize)]
struct Printed<'a> {
    rulesets: Vec<PrintedRuleset<'a>>,
}

/// One ruleset.
#[derive(Serialize)]
struct PrintedRuleset<'a> {
    files: Vec<&'a str>,
    counts: Counts,
    suppressed: usize,
    in_baseline: usize,
    findings: Vec<FoundAt<'a>>,
}

/// A finding with its place in the text.
#[derive(Serialize)]
struct FoundAt<'a> {
    id: &'a str,
    severity: &'static str,
    message: &'a str,
    place: Option<String>,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    also: Vec<AlsoAt<'a>>,
    help: &'a str,
    cost: Option<FindingCost>,
    fix: Option<FixOf>,
    program: Option<&'static str>,
}

/// Another place.
#[derive(Serialize)]
struct AlsoAt<'a> {
    place: String,
    line: Option<usize>,
    label: &'a str,
}

/// What a packet pays.
#[derive(Serialize)]
struct FindingCost {
    /// Rules that it tries in vain.
    rules: u32,
    /// By the cost model.
    ns: f64,
}

/// What `weir optimize --fix` would do.
#[derive(Serialize)]
struct FixOf {
    edits: usize,
    changes_counters: bool,
}

/// Prints it.
pub(super) fn print(all: &[CheckedRuleset]) -> Result<String> {
    let printed = Printed { rulesets: all.iter().map(ruleset).collect() };
    json::object("check", &printed)
}

fn ruleset(checked: &CheckedRuleset) -> PrintedRuleset<'_> {
    let places = Places::new(&checked.sources);
    PrintedRuleset {
        files: checked.sources.iter().map(|s| &*s.name).collect(),
        counts: counts(&checked.firewall),
        suppressed: checked.suppressed,
        in_baseline: checked.known,
        findings: checked.findings.iter().map(|f| found_at(f, checked, &places)).collect(),
    }
}

fn found_at<'a>(f: &'a Finding, checked: &CheckedRuleset, places: &Places<'a>) -> FoundAt<'a> {
    let source = places.source(f);
    let region = source.and_then(|s| places.region(s, f.span));
    let also = f.also.iter().map(|a| AlsoAt {
        place: a.place.to_string(),
        line: source.and_then(|s| places.region(s, a.span)).map(|r| r.line),
        label: &a.label,
    });
    FoundAt {
        id: f.id(),
        severity: severity(f.severity),
        message: &f.message,
        place: f.place.as_ref().map(ToString::to_string),
        file: source.map(|s| &*s.name),
        line: region.map(|r| r.line),
        column: region.map(|r| r.column),
        also: also.collect(),
        help: &f.help,
        cost: (f.tried > 0)
            .then(|| FindingCost { rules: f.tried, ns: checked.cost.linear_ns(f.tried as usize) }),
        fix: f
            .fix
            .as_ref()
            .map(|x| FixOf { edits: x.edits.len(), changes_counters: x.changes_counters }),
        program: f.program.map(|p| p.as_str()),
    }
}
