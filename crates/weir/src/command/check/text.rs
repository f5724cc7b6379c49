//! Counts and findings for people, with the affected lines.

use std::cmp::Reverse;

use weir_lint::{Also, Finding, Severity, counts};
use weir_model::Firewall;
use weir_syntax::{Diagnostic, Heading, escaped};

use super::checked::{CheckedRuleset, severity, total};
use super::places::Places;

/// Findings drawn of each kind; the others are counted.
const DRAWN: usize = 3;
/// Other places drawn of a finding; the lines of the others are named.
const PLACES: usize = 3;
/// Lines that are named at most.
const LINES: usize = 10;
/// Rules evaluated without effect from which a finding states its cost.
const COSTLY: u32 = 2;

/// Prints counts, then findings, the most severe kinds first.
pub(super) fn print(all: &[CheckedRuleset], every: bool, color: bool) -> String {
    let mut out = String::new();
    for checked in all {
        if let (true, Some(source)) = (all.len() > 1, checked.sources.first()) {
            out.push_str(&format!("== {}\n", escaped(&source.name)));
        }
        out.push_str(&holds(&checked.firewall));
        out.push_str(&drawn(checked, if every { usize::MAX } else { DRAWN }, color));
        if all.len() > 1 {
            out.push('\n');
        }
    }
    let findings = all.iter().flat_map(|c| &c.findings);
    if all.len() > 1 {
        out.push_str(&format!("{} rulesets: {}\n", all.len(), total(findings.clone())));
    }
    if findings.count() > 0 {
        out.push_str("weir check --explain ID explains why a finding matters and what to do\n");
    }
    out
}

/// What a firewall holds.
fn holds(firewall: &Firewall) -> String {
    let counts = counts(firewall);
    let mut out = format!("{} rules in {} chains", counts.rules, counts.chains);
    if counts.sets > 0 {
        out.push_str(&format!(", {} sets with {} elements", counts.sets, counts.elements));
    }
    out.push('\n');
    for table in &counts.tables {
        let chains = table.chains.len();
        out.push_str(&format!(
            "  {} {:<8} {:>7} rules in {chains} chains",
            table.family, table.table, table.rules
        ));
        if let Some(longest) = table.chains.first().filter(|c| c.rules > 0) {
            out.push_str(&format!(", longest {} ({})", escaped(&longest.chain), longest.rules));
        }
        out.push('\n');
    }
    for (title, names) in [("matches", &counts.matches), ("targets", &counts.targets)] {
        let names: Vec<String> =
            names.iter().map(|n| format!("{} {}", escaped(&n.name), n.count)).collect();
        out.push_str(&format!("  {title}: {}\n", names.join(", ")));
    }
    out
}

/// The first findings of each kind at their places, how many more there are, and the total.
fn drawn(checked: &CheckedRuleset, at_most: usize, color: bool) -> String {
    let mut kinds: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for f in &checked.findings {
        match kinds.iter_mut().find(|(id, _)| *id == f.id()) {
            Some((_, of_kind)) => of_kind.push(f),
            None => kinds.push((f.id(), vec![f])),
        }
    }
    // Stable: findings of the same severity stay in the order of the text.
    for (_, of_kind) in &mut kinds {
        of_kind.sort_by_key(|f| Reverse(f.severity));
    }
    kinds.sort_by_key(|(_, of_kind)| Reverse(of_kind[0].severity));
    let places = Places::new(&checked.sources);
    let mut out = String::new();
    for (id, of_kind) in &kinds {
        let fix = if of_kind.iter().any(|f| f.fix.is_some()) { ", weir can fix" } else { "" };
        let worst = severity(of_kind[0].severity);
        out.push_str(&format!("\n{worst} {id}: {}{fix}\n", of_kind.len()));
        for finding in of_kind.iter().take(at_most) {
            let Some(source) = places.source(finding) else { continue };
            let lines = |of: &[Also]| {
                of.iter().filter_map(|a| Some(places.region(source, a.span)?.line)).collect()
            };
            let diagnostic = diagnostic(finding, checked, at_most > DRAWN, &lines);
            out.push_str(&weir_syntax::render(&[diagnostic], &source.name, &source.text, color));
        }
        if of_kind.len() > at_most {
            let more = of_kind.len() - at_most;
            out.push_str(&format!("  … and {more} more (--every shows all)\n"));
        }
    }
    if !kinds.is_empty() {
        out.push('\n');
    }
    out.push_str(&total(checked.findings.iter()));
    for (count, why) in
        [(checked.suppressed, "suppressed by comments"), (checked.known, "in the baseline")]
    {
        if count > 0 {
            out.push_str(&format!("; {count} {why}"));
        }
    }
    out.push('\n');
    out
}

fn diagnostic(
    f: &Finding,
    checked: &CheckedRuleset,
    every: bool,
    lines: &dyn Fn(&[Also]) -> Vec<usize>,
) -> Diagnostic {
    let heading = match f.severity {
        Severity::Note => Heading::Note,
        Severity::Warning => Heading::Warning,
        Severity::Error => Heading::Error,
    };
    let mut help = f.help.clone();
    if f.tried >= COSTLY {
        let ns = checked.cost.linear_ns(f.tried as usize);
        help.push_str(&format!(
            "\ncosts up to {} comparisons per packet, about {ns:.0} ns",
            f.tried
        ));
    }
    let drawn = if every { f.also.len() } else { PLACES.min(f.also.len()) };
    let (drawn, named) = f.also.split_at(drawn);
    if !named.is_empty() {
        let all = lines(named);
        let first: Vec<String> = all.iter().take(LINES).map(ToString::to_string).collect();
        let more = if all.len() > LINES { ", …" } else { "" };
        help.push_str(&format!(
            "\nand {} more: {} {}{more} (--every shows all)",
            named.len(),
            if all.len() == 1 { "line" } else { "lines" },
            first.join(", ")
        ));
    }
    let diagnostic = Diagnostic::new(f.message.clone(), f.span).heading(heading).help(help);
    drawn.iter().fold(diagnostic, |d, also| d.also(also.span, also.label.clone()))
}
