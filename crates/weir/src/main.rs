//! The command line: parses arguments, calls the crates, prints. Logic that deserves a unit test is
//! in the crate to which it belongs.
//!
//! - `cli` is the command line as clap parses it, `command` has one file per command;
//! - `operand`, `diff_operand`, `ruleset_texts` and `live_ruleset` read what the command line
//!   names;
//! - `terminal`, `run_progress`, `source_locations`, `unified_diff`, `json_output` and
//!   `metrics_text` print, `http_server` answers requests;
//! - `atomic_file_replacement` writes files as a whole, `process_timeout` ends a command in time,
//!   `forced_stop` after Ctrl-C.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod atomic_file_replacement;
mod cli;
mod command;
mod diff_operand;
mod forced_stop;
mod http_server;
mod json_output;
mod live_ruleset;
mod metrics_text;
mod operand;
mod process_timeout;
mod ruleset_texts;
mod run_progress;
mod source_locations;
mod terminal;
mod unified_diff;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command, LabCommand, SetCommand};
use command::YesNoExitStatus;
use terminal::ColoredStreams;
use weir_apply::address_sets::element_diff::AddressListOperation;

/// Instead of the system's allocator: rulesets and diagrams are many small values, most of which
/// live until the end (decision 0092).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let colors = ColoredStreams::from_color_option(cli.color);
    match run_command(cli.command, colors) {
        Ok(YesNoExitStatus::Yes) => ExitCode::SUCCESS,
        Ok(YesNoExitStatus::No) => ExitCode::from(1),
        Err(error) if terminal::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::print_escaped_to_stderr(&format!("weir: {}\n", format_error_chain(&error)));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes. Errors whose text ends with that of their cause say it once.
fn format_error_chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run_command(command: Command, colors: ColoredStreams) -> anyhow::Result<YesNoExitStatus> {
    // Whatever comes of the command: what a killed one left in the kernel goes first.
    if matches!(
        command,
        Command::Verify(_) | Command::Lab(_) | Command::Calibrate(_) | Command::Doctor(_)
    ) {
        weir_kernel::reaper::reap_dead_sessions();
    }
    match command {
        Command::Fmt(args) => command::fmt::print_normalised_ruleset(&args, colors.stderr),
        Command::Check(args) => command::check::check_and_print_findings(&args, colors),
        Command::Optimize(args) => command::optimize::fix_findings_and_prove(&args, colors.stderr),
        Command::Explain(args) => command::explain::trace_and_print_packet(&args, colors.stderr),
        Command::Compile(args) => {
            command::compile::compile_and_write_artefact(&args, colors.stderr)
        }
        Command::Verify(args) => command::verify::compare_forms_with_kernel(&args, colors.stderr),
        Command::Diff(args) => command::diff::compare_and_print_review(&args, colors.stderr),
        Command::Test(args) => command::policy_test::check_and_print_policy(&args, colors.stderr),
        Command::Traffic(args) => {
            command::traffic::write_frames_with_verdicts(&args, colors.stderr)
        }
        Command::Lab(subcommand) => run_lab_command(subcommand),
        Command::Plan(args) => command::generations::plan_and_print(&args, colors.stderr),
        Command::Apply(args) => command::generations::apply_ruleset(&args, colors.stderr),
        Command::Confirm(args) => command::generations::confirm_generation(&args),
        Command::Rollback(args) => command::generations::roll_back_generation(&args),
        Command::Boot(args) => command::boot::restore_generation_after_boot(&args),
        Command::History(args) => command::generations::print_history(&args),
        Command::Counters(args) => command::generations::print_counters(&args),
        Command::Serve(args) => command::serve::serve_metrics_until_killed(&args),
        Command::Supervise(args) => command::generations::supervise_unconfirmed_generation(&args),
        Command::Status(args) => command::status::read_and_print_firewall_status(&args),
        Command::Set(subcommand) => run_set_command(subcommand, colors),
        Command::Tune(args) => command::paper_tunings::print_paper_tunings(&args),
        Command::Doctor(args) => command::doctor::probe_machine_and_print(&args),
        Command::Calibrate(args) => command::calibrate::calibrate_and_write_cost_model(&args),
        Command::Bench(cli::BenchCommand::Classify(args)) => {
            command::bench_classify::compare_and_measure_classifiers(&args, colors.stderr)
        }
        Command::Reap => command::doctor::reap_leftovers(),
        Command::Example(args) => command::example::generate_and_write_example(&args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut out);
            terminal::print_bytes_to_stdout(&out)
        }
        Command::Man { output: Some(folder) } => {
            let written = clap_mangen::generate_to(Cli::command(), &folder);
            written.with_context(|| format!("write pages to {}", folder.display()))?;
            Ok(YesNoExitStatus::Yes)
        }
        Command::Man { output: None } => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut out)?;
            terminal::print_bytes_to_stdout(&out)
        }
    }
}

fn run_lab_command(subcommand: LabCommand) -> anyhow::Result<YesNoExitStatus> {
    match subcommand {
        LabCommand::Run(args) => command::lab::run_study_and_write_report(&args),
        LabCommand::Selftest(args) => command::lab_selftest::run_and_print_self_test(&args),
        LabCommand::Report(args) => command::lab::write_report(&args),
        LabCommand::Index(args) => command::lab_list_and_index::write_index_and_linked_files(&args),
        LabCommand::Serve(args) => command::lab_serve::serve_pages_until_killed(&args),
        LabCommand::Compare(args) => command::lab::compare_runs_and_print(&args),
        LabCommand::Agent => command::lab::run_firewall_host_agent(),
        LabCommand::Referee(args) => command::lab_referee::print_objections(&args),
        LabCommand::List(args) => command::lab_list_and_index::print_or_write_claim_lists(&args),
    }
}

fn run_set_command(
    subcommand: SetCommand,
    colors: ColoredStreams,
) -> anyhow::Result<YesNoExitStatus> {
    match subcommand {
        SetCommand::List(args) => command::set_list::print_sets_or_elements(&args),
        SetCommand::Add(args) => {
            command::set::change_set_and_print(&args, AddressListOperation::Add, colors.stderr)
        }
        SetCommand::Del(args) => {
            command::set::change_set_and_print(&args, AddressListOperation::Delete, colors.stderr)
        }
        SetCommand::Sync(args) => {
            command::set::change_set_and_print(&args, AddressListOperation::Sync, colors.stderr)
        }
        SetCommand::Swap(args) => command::set::swap_sets(&args),
    }
}
