//! `weir check`: what a ruleset holds and what looks wrong in it.

mod checked;
mod json;
mod places;
mod sarif;
mod text;

use anyhow::{Context as _, Result};
use weir_passes::CostModel;
use weir_semantics::check::{CheckOptions, Level, Levels, Severity, check, lint, lints};

use self::checked::{Checked, severity};
use super::Answer;
use crate::cli::{Check, Report};
use crate::operand;
use crate::terminal;

/// Counts and findings: drawn, as JSON or as SARIF.
pub fn run(args: &Check, color: bool) -> Result<Answer> {
    if args.list {
        return terminal::print(&list());
    }
    if let Some(id) = &args.explain {
        let lint =
            lint(id).with_context(|| format!("no kind of finding is called {id} (--list)"))?;
        return terminal::print(lint.page);
    }
    let levels = levels(&args.deny, &args.warn, &args.allow)?;
    let loaded = operand::load(args.file.as_deref(), &args.operand, color)?;
    let found = check(&loaded.firewall, &CheckOptions { counters: args.counters, levels });
    let checked = Checked {
        firewall: &loaded.firewall,
        sources: &loaded.sources,
        findings: &found.findings,
        suppressed: found.suppressed,
        cost: CostModel::default(),
    };
    terminal::print(&match (args.json, args.format) {
        (true, _) | (_, Report::Json) => json::print(&checked)?,
        (_, Report::Sarif) => sarif::print(&checked)?,
        (_, Report::Text) => text::print(&checked, args.every, color),
    })?;
    let clean = found.findings.iter().all(|f| f.severity == Severity::Note);
    Ok(if clean { Answer::Yes } else { Answer::No })
}

/// What the options say of each lint. The first of the three that names one wins.
pub fn levels(deny: &[String], warn: &[String], allow: &[String]) -> Result<Levels> {
    let mut levels = Levels::default();
    let asked = [
        (allow, Level::Allow),
        (warn, Level::Report(Severity::Warning)),
        (deny, Level::Report(Severity::Error)),
    ];
    for (ids, level) in asked {
        for id in ids {
            levels.set(id, level)?;
        }
    }
    Ok(levels)
}

/// A line for each kind of finding.
fn list() -> String {
    let mut out = String::new();
    for lint in lints() {
        let level = if lint.on { severity(lint.severity) } else { "off" };
        let fix = if lint.fix { "fix" } else { "" };
        out.push_str(&format!("{level:<8} {fix:<4} {:<22} {}\n", lint.id, lint.title()));
    }
    out
}
