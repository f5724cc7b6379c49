//! `weir check`: what a ruleset holds and what looks wrong in it.

use anyhow::Result;
use serde::Serialize;
use weir_model::{Family, Firewall};
use weir_semantics::check::{Counts, Finding, Severity, counts, findings};
use weir_syntax::{Diagnostic, Heading};

use super::Answer;
use crate::cli::Check;
use crate::operand::{self, Kind, Source};
use crate::terminal;

/// Findings drawn of each kind; the others are counted.
const DRAWN: usize = 3;

/// What `--json` prints.
#[derive(Serialize)]
struct Checked<'a> {
    counts: Counts,
    findings: Vec<FoundAt<'a>>,
}

/// A finding with its line.
#[derive(Serialize)]
struct FoundAt<'a> {
    id: &'a str,
    severity: &'static str,
    message: &'a str,
    place: Option<String>,
    file: Option<&'a str>,
    line: Option<usize>,
    help: &'a str,
}

/// Counts and findings: drawn, or as JSON.
pub fn run(args: &Check, color: bool) -> Result<Answer> {
    let loaded = operand::load(args.file.as_deref(), &args.operand, color)?;
    let found = findings(&loaded.firewall);
    if args.json {
        let at = found.iter().map(|f| found_at(f, &loaded.sources)).collect();
        let checked = Checked { counts: counts(&loaded.firewall), findings: at };
        terminal::print(&format!("{}\n", serde_json::to_string_pretty(&checked)?))?;
    } else {
        terminal::print(&text(&loaded.firewall, &found, &loaded.sources, color))?;
    }
    let clean = found.iter().all(|f| f.severity == Severity::Note);
    Ok(if clean { Answer::Yes } else { Answer::No })
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn heading(finding: &Finding) -> Heading {
    match finding.severity {
        Severity::Note => Heading::Note,
        Severity::Warning => Heading::Warning,
        Severity::Error => Heading::Error,
    }
}

/// The text that a finding is about.
fn source<'s>(finding: &Finding, sources: &'s [Source]) -> Option<&'s Source> {
    let kind = finding.family.map_or(Kind::Sets, Kind::Rules);
    sources.iter().find(|s| s.kind == kind)
}

fn found_at<'a>(finding: &'a Finding, sources: &'a [Source]) -> FoundAt<'a> {
    let source = source(finding, sources);
    FoundAt {
        id: finding.id,
        severity: severity(finding),
        message: &finding.message,
        place: finding.place.as_ref().map(|p| place(finding.family, &p.to_string())),
        file: source.map(|s| &*s.name),
        line: source.and_then(|s| line(finding, &s.text)),
        help: &finding.help,
    }
}

/// `iptables/filter/FORWARD/3`.
fn place(family: Option<Family>, place: &str) -> String {
    match family {
        Some(Family::V6) => format!("ip6tables/{place}"),
        _ => format!("iptables/{place}"),
    }
}

fn line(finding: &Finding, text: &str) -> Option<usize> {
    let start = finding.span.range()?.start;
    Some(1 + text.as_bytes().get(..start)?.iter().filter(|b| **b == b'\n').count())
}

fn text(firewall: &Firewall, found: &[Finding], sources: &[Source], color: bool) -> String {
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
            out.push_str(&format!(", longest {} ({})", longest.chain, longest.rules));
        }
        out.push('\n');
    }
    for (title, names) in [("matches", &counts.matches), ("targets", &counts.targets)] {
        let names: Vec<String> = names.iter().map(|n| format!("{} {}", n.name, n.count)).collect();
        out.push_str(&format!("  {title}: {}\n", names.join(", ")));
    }
    out.push_str(&drawn(found, sources, color));
    out
}

/// The first findings of each kind, drawn at their places, and how many more there are.
fn drawn(found: &[Finding], sources: &[Source], color: bool) -> String {
    if found.is_empty() {
        return "nothing looks wrong\n".to_owned();
    }
    let mut out = String::new();
    let mut ids: Vec<&str> = Vec::new();
    for f in found {
        if !ids.contains(&f.id) {
            ids.push(f.id);
        }
    }
    for id in ids {
        let of_kind: Vec<&Finding> = found.iter().filter(|f| f.id == id).collect();
        out.push_str(&format!("\n{} {id}: {}\n", severity(of_kind[0]), of_kind.len()));
        for finding in of_kind.iter().take(DRAWN) {
            let Some(source) = source(finding, sources) else { continue };
            let diagnostic = Diagnostic::new(finding.message.clone(), finding.span)
                .heading(heading(finding))
                .help(finding.help.clone());
            out.push_str(&weir_syntax::render(&[diagnostic], &source.name, &source.text, color));
        }
        if of_kind.len() > DRAWN {
            out.push_str(&format!("  … and {} more (--json lists all)\n", of_kind.len() - DRAWN));
        }
    }
    out
}
