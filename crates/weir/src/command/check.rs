//! `weir check`: statistics of rulesets, and likely mistakes in them.

mod baseline;
mod checked;
mod json;
mod places;
mod sarif;
mod short;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_lint::{Level, LintLevels, LintOptions, Severity, check_but, check_each, lint, lints};
use weir_passes::CostModel;

use self::baseline::Baseline;
use self::checked::{CheckedRuleset, severity, total};
use super::Answer;
use crate::cli::{Check, Report};
use crate::operand;
use crate::terminal::{self, Colors};

/// Counts and findings: with their lines, one to a line, as JSON or as SARIF.
pub fn run(args: &Check, colors: Colors) -> Result<Answer> {
    if args.list {
        return terminal::print(&list());
    }
    if let Some(id) = &args.explain {
        let lint =
            lint(id).with_context(|| format!("unknown kind of finding {id} (see --list)"))?;
        return terminal::print(lint.page);
    }
    let levels = levels(&args.deny, &args.warn, &args.allow)?;
    let options = LintOptions { counters: args.counters, levels };
    let mut baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let (mut all, mut lines) = (Vec::new(), Vec::new());
    for file in files(args)? {
        let loaded = operand::load(file, &args.operand, colors.err)?;
        let mut known = 0;
        let found = check_but(&loaded.firewall, &options, |f| {
            let takes = baseline.as_mut().is_some_and(|b| b.takes(f, &loaded.firewall));
            known += usize::from(takes);
            takes
        });
        if args.write_baseline.is_some() {
            let each = check_each(&loaded.firewall, &options).findings;
            lines.extend(each.iter().map(|f| baseline::line(f, &loaded.firewall)));
        }
        all.push(CheckedRuleset {
            known,
            firewall: loaded.firewall,
            sources: loaded.sources,
            findings: found.findings,
            suppressed: found.suppressed,
            cost: CostModel::default(),
        });
    }
    if let Some(path) = &args.write_baseline {
        fs::write(path, baseline::text(lines))
            .with_context(|| format!("write {}", path.display()))?;
        let total = total(all.iter().flat_map(|c| &c.findings));
        eprintln!("weir: {}: {total}", path.display());
        return Ok(Answer::Yes);
    }
    terminal::print(&match (args.json, args.format) {
        (true, _) | (_, Report::Json) => json::print(&all)?,
        (_, Report::Sarif) => sarif::print(&all)?,
        (_, Report::Short) => short::print(&all),
        (_, Report::Text) => text::print(&all, args.every, colors.out),
    })?;
    let clean = all.iter().flat_map(|c| &c.findings).all(|f| f.severity == Severity::Note);
    Ok(if clean { Answer::Yes } else { Answer::No })
}

/// The files to check, each a ruleset of its own; none where the other options name the ruleset.
fn files(args: &Check) -> Result<Vec<Option<&Path>>> {
    if args.files.len() > 1 && args.operand.ip6.is_some() {
        bail!("--ip6 applies to a single FILE: give the IPv6 text as a separate FILE");
    }
    Ok(match &args.files[..] {
        [] => vec![None],
        files => files.iter().map(|f| Some(&**f)).collect(),
    })
}

/// What the options say of each lint. The first of the three that names one wins.
pub fn levels(deny: &[String], warn: &[String], allow: &[String]) -> Result<LintLevels> {
    let mut levels = LintLevels::default();
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
