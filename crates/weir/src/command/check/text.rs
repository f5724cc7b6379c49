//! Counts and findings for people: drawn at their places.

use weir_model::Firewall;
use weir_semantics::check::{Finding, Severity, counts};
use weir_syntax::{Diagnostic, Heading};

use super::checked::{Checked, severity};
use super::places::Places;

/// Findings drawn of each kind; the others are counted.
const DRAWN: usize = 3;
/// Rules tried in vain from which the cost is told.
const COSTLY: u32 = 2;

/// Prints counts, then findings.
pub fn print(checked: &Checked<'_>, every: bool, color: bool) -> String {
    let mut out = holds(checked.firewall);
    out.push_str(&drawn(checked, if every { usize::MAX } else { DRAWN }, color));
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
            out.push_str(&format!(", longest {} ({})", longest.chain, longest.rules));
        }
        out.push('\n');
    }
    for (title, names) in [("matches", &counts.matches), ("targets", &counts.targets)] {
        let names: Vec<String> = names.iter().map(|n| format!("{} {}", n.name, n.count)).collect();
        out.push_str(&format!("  {title}: {}\n", names.join(", ")));
    }
    out
}

/// The first findings of each kind, drawn at their places, and how many more there are.
fn drawn(checked: &Checked<'_>, at_most: usize, color: bool) -> String {
    let allowed = match checked.suppressed {
        0 => String::new(),
        1 => "1 finding is allowed by a comment\n".to_owned(),
        n => format!("{n} findings are allowed by comments\n"),
    };
    if checked.findings.is_empty() {
        return format!("{allowed}nothing looks wrong\n");
    }
    let places = Places::new(checked.sources);
    let mut out = String::new();
    let mut ids: Vec<&str> = Vec::new();
    for f in checked.findings {
        if !ids.contains(&f.id()) {
            ids.push(f.id());
        }
    }
    for id in ids {
        let of_kind: Vec<&Finding> = checked.findings.iter().filter(|f| f.id() == id).collect();
        let worst = of_kind.iter().map(|f| f.severity).max().unwrap_or(Severity::Note);
        let fix = if of_kind.iter().any(|f| f.fix.is_some()) { ", weir can fix" } else { "" };
        out.push_str(&format!("\n{} {id}: {}{fix}\n", severity(worst), of_kind.len()));
        // The worst first.
        let mut first = of_kind.clone();
        first.sort_by_key(|f| std::cmp::Reverse(f.severity));
        for finding in first.iter().take(at_most) {
            let Some(source) = places.source(finding) else { continue };
            let diagnostic = diagnostic(finding, checked);
            out.push_str(&weir_syntax::render(&[diagnostic], &source.name, &source.text, color));
        }
        if of_kind.len() > at_most {
            let more = of_kind.len() - at_most;
            out.push_str(&format!("  … and {more} more (--every draws all)\n"));
        }
    }
    out.push('\n');
    out.push_str(&allowed);
    out.push_str("weir check --explain ID says why it matters and what to do\n");
    out
}

fn diagnostic(f: &Finding, checked: &Checked<'_>) -> Diagnostic {
    let heading = match f.severity {
        Severity::Note => Heading::Note,
        Severity::Warning => Heading::Warning,
        Severity::Error => Heading::Error,
    };
    let mut help = f.help.clone();
    if f.tried >= COSTLY {
        let ns = checked.cost.linear_ns(f.tried as usize);
        help.push_str(&format!(
            "\nit costs a packet up to {} rules tried, about {ns:.0} ns",
            f.tried
        ));
    }
    let diagnostic = Diagnostic::new(f.message.clone(), f.span).heading(heading).help(help);
    f.also.iter().fold(diagnostic, |d, also| d.also(also.span, also.label.clone()))
}
