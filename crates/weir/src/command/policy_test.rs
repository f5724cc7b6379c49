//! `weir test`: a ruleset against a policy.

use anyhow::{Result, bail};
use weir_model::Span;
use weir_review::policy_check::{PolicyCheckLimits, PolicyReport, check_policy};
use weir_semantics::JourneyKind;
use weir_syntax::policy::{FirewallPolicy, parse_policy};
use weir_syntax::{Diagnostic, render_diagnostics};

use super::YesNoExitStatus;
use crate::cli::{PolicyTestArgs, PolicyTestFormatArg};
use crate::process_timeout::ProcessTimeout;
use crate::ruleset_texts::read_file_or_stdin;
use crate::terminal::{self, TerminalProgress, ip_version_name};
use crate::{json_output, operand};

/// Decides every test and prints the results. No where a test fails; an error where one makes no
/// sense, or cannot be decided and none fails.
pub fn check_and_print_policy(args: &PolicyTestArgs, color: bool) -> Result<YesNoExitStatus> {
    let files = [Some(&args.policy), args.file.as_ref()];
    if files.iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("standard input can be read only once: name a file for the other");
    }
    let process_timeout = ProcessTimeout::arm(&args.limits.time);
    let (name, text) = read_file_or_stdin(&args.policy)?;
    let policy = parse_policy(&text).map_err(|errors| {
        terminal::print_colored_to_stderr(&render_diagnostics(&errors, &name, &text, color));
        let count =
            if errors.len() == 1 { "1 error".into() } else { format!("{} errors", errors.len()) };
        anyhow::anyhow!("{count} in the policy: nothing was tested")
    })?;
    let loaded =
        operand::load_ruleset_operand(args.file.as_deref(), &args.sources_besides_file, color)?;
    let limits = PolicyCheckLimits {
        memory_bytes: args.limits.memory_bytes(),
        steps_max: args.limits.step_count(),
    };
    let progress = TerminalProgress::new();
    let report = check_policy(&policy, &loaded.firewall, limits, &mut |family, journey| {
        let path = match journey {
            JourneyKind::Forward => "forward",
            JourneyKind::Input => "input",
            JourneyKind::Output => "output",
        };
        progress.show_done_fraction(&format!("deciding {} {path}", ip_version_name(family)), 0.5);
    });
    drop(progress);
    process_timeout.disarm();
    let invalid = diagnose_invalid_tests(&policy, &report);
    terminal::print_colored_to_stderr(&render_diagnostics(&invalid, &name, &text, color));
    print_report(args, &report, &name)?;
    exit_status_of_report(&report, &operand::list_missing_sets(&loaded.firewall))
}

fn print_report(args: &PolicyTestArgs, report: &PolicyReport, policy: &str) -> Result<()> {
    let format = if args.json { PolicyTestFormatArg::Json } else { args.format };
    match format {
        PolicyTestFormatArg::Text => {
            terminal::print_escaped_to_stdout(&report.render_text(policy))?
        }
        PolicyTestFormatArg::Json => {
            terminal::print_escaped_if_terminal(&json_output::render_json_object("test", report)?)?
        }
        PolicyTestFormatArg::Junit => {
            terminal::print_escaped_if_terminal(&report.render_junit(policy))?
        }
        PolicyTestFormatArg::Tap => terminal::print_escaped_to_stdout(&report.render_tap(policy))?,
    };
    Ok(())
}

/// Tests that make no sense for the ruleset, with their places in the policy.
fn diagnose_invalid_tests(policy: &FirewallPolicy, report: &PolicyReport) -> Vec<Diagnostic> {
    let both = policy.tests.iter().zip(&report.tests);
    both.filter_map(|(test, tested)| {
        let reason = tested.invalid.as_ref()?;
        // The marker is drawn in one line.
        let span = Span { end: test.span.end.max(test.span.start), ..test.span };
        Some(Diagnostic::new(&*reason.message, span).with_help(&*reason.cure))
    })
    .collect()
}

fn exit_status_of_report(report: &PolicyReport, missing_sets: &[&str]) -> Result<YesNoExitStatus> {
    if report.invalid_tests > 0 {
        bail!("{}", report.summary());
    }
    if report.failing_tests > 0 {
        return Ok(YesNoExitStatus::No);
    }
    if report.undecided_tests > 0 && !missing_sets.is_empty() {
        bail!(
            "{}; rules match sets that are not given ({}): give `ipset save` output with --ipset FILE",
            report.summary(),
            missing_sets.join(", ")
        );
    }
    if report.undecided_tests > 0 {
        bail!("{}", report.summary());
    }
    Ok(YesNoExitStatus::Yes)
}
