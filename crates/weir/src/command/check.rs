//! `weir check`: statistics of rulesets, and likely mistakes in them.

mod baseline;
mod checked_ruleset;
mod json_format;
mod sarif_format;
mod short_format;
mod text_format;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use weir_lint::{
    LintLevel, LintLevels, LintOptions, Severity, all_lints, find_lint, lint_except_known,
    lint_without_grouping,
};
use weir_passes::CostModel;

use self::baseline::Baseline;
use self::checked_ruleset::{CheckedRuleset, format_severity_counts, severity_word};
use super::YesNoExitStatus;
use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::cli::{CheckArgs, CheckFormatArg};
use crate::operand;
use crate::process_timeout::ProcessTimeout;
use crate::terminal::{self, ColoredStreams};

/// Counts and findings: with their lines, one to a line, as JSON or as SARIF.
pub fn check_and_print_findings(
    args: &CheckArgs,
    colors: ColoredStreams,
) -> Result<YesNoExitStatus> {
    if args.list {
        return terminal::print_escaped_if_terminal(&render_lint_list());
    }
    if let Some(id) = &args.explain {
        let lint =
            find_lint(id).with_context(|| format!("unknown kind of finding {id} (see --list)"))?;
        return terminal::print_escaped_if_terminal(lint.page_markdown);
    }
    let process_timeout = ProcessTimeout::arm(&args.time);
    let levels = parse_lint_levels(&args.deny, &args.warn, &args.allow)?;
    let options = LintOptions {
        counters_are_real: args.counters_are_real,
        levels,
        examined_boxes_max_per_ruleset: args.step_millions.saturating_mul(1_000_000),
    };
    let mut baseline =
        args.baseline.as_deref().map(Baseline::read_checking_lint_ids).transpose()?;
    let (mut all, mut lines) = (Vec::new(), Vec::new());
    for file in list_file_arguments_or_none(args)? {
        let loaded =
            operand::load_ruleset_operand(file, &args.sources_besides_file, colors.stderr)?;
        let mut known = 0;
        let found = lint_except_known(&loaded.firewall, &options, |f| {
            let takes =
                baseline.as_mut().is_some_and(|b| b.take_known_finding(f, &loaded.firewall));
            known += usize::from(takes);
            takes
        });
        if args.write_baseline.is_some() {
            let each = lint_without_grouping(&loaded.firewall, &options).findings;
            lines.extend(
                each.iter().map(|f| baseline::format_unnumbered_finding_line(f, &loaded.firewall)),
            );
        }
        all.push(CheckedRuleset {
            baseline_finding_count: known,
            firewall: loaded.firewall,
            sources: loaded.sources,
            findings: found.findings,
            suppressed_count: found.suppressed_count,
            unfinished_tables: found.unfinished_tables,
            cost_model: CostModel::default(),
        });
    }
    process_timeout.disarm();
    if let Some(path) = &args.write_baseline {
        replace_file_atomically_if_possible(path, baseline::render_baseline(lines).as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
        let total = format_severity_counts(all.iter().flat_map(|c| &c.findings));
        terminal::print_escaped_to_stderr(&format!("weir: wrote {}: {total}\n", path.display()));
        return Ok(YesNoExitStatus::Yes);
    }
    match (args.json, args.format) {
        (true, _) | (_, CheckFormatArg::Json) => {
            terminal::print_escaped_if_terminal(&json_format::render_json(&all)?)
        }
        (_, CheckFormatArg::Sarif) => {
            terminal::print_escaped_if_terminal(&sarif_format::render_sarif(&all)?)
        }
        (_, CheckFormatArg::Short) => {
            terminal::print_escaped_if_terminal(&short_format::render_finding_lines(&all))
        }
        (_, CheckFormatArg::Text) => terminal::print_colored_to_stdout(&text_format::render_text(
            &all,
            args.every,
            colors.stdout,
        )),
    }?;
    let clean = all.iter().flat_map(|c| &c.findings).all(|f| f.severity == Severity::Note);
    Ok(if clean { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

/// The files to check, each a ruleset of its own; none where the other options name the ruleset.
fn list_file_arguments_or_none(args: &CheckArgs) -> Result<Vec<Option<&Path>>> {
    if args.files.len() > 1 && args.sources_besides_file.ip6.is_some() {
        bail!("--ip6 applies to a single FILE: give the IPv6 text as a separate FILE");
    }
    Ok(match &args.files[..] {
        [] => vec![None],
        files => files.iter().map(|f| Some(&**f)).collect(),
    })
}

/// What the options say of each lint. The first of the three that names one wins.
pub fn parse_lint_levels(deny: &[String], warn: &[String], allow: &[String]) -> Result<LintLevels> {
    let mut levels = LintLevels::default();
    let asked = [
        (allow, LintLevel::Allow),
        (warn, LintLevel::ReportAs(Severity::Warning)),
        (deny, LintLevel::ReportAs(Severity::Error)),
    ];
    for (ids, level) in asked {
        for id in ids {
            levels.set_level_by_id_or_all_enabled(id, level)?;
        }
    }
    Ok(levels)
}

/// A line for each kind of finding.
fn render_lint_list() -> String {
    let mut out = String::new();
    for lint in all_lints() {
        let level = if lint.enabled_by_default { severity_word(lint.severity) } else { "off" };
        let fix = if lint.is_fixable { "fix" } else { "" };
        out.push_str(&format!("{level:<8} {fix:<4} {:<22} {}\n", lint.id, lint.summary_line()));
    }
    out
}
