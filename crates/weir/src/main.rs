//! The command line: parses arguments, calls the crates, prints. Logic that deserves a unit test is
//! in the crate to which it belongs.

#![forbid(unsafe_code)]

mod cli;
mod command;
mod in_force;
mod json;
mod live;
mod operand;
mod side;
mod terminal;
mod texts;
mod unified;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command};
use command::Answer;
use terminal::Colors;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let colors = Colors::of(cli.color);
    match run(cli.command, colors) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if terminal::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {}", weir_syntax::escaped(&causes(&error)));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes. Errors whose text ends with that of their cause say it once.
fn causes(error: &anyhow::Error) -> String {
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

fn run(command: Command, colors: Colors) -> anyhow::Result<Answer> {
    // Whatever comes of the command: what a killed one left in the kernel goes first.
    if matches!(
        command,
        Command::Verify(_) | Command::Lab(_) | Command::Calibrate(_) | Command::Doctor(_)
    ) {
        weir_kernel::reaper::reap();
    }
    match command {
        Command::Fmt(args) => command::fmt::run(&args, colors.err),
        Command::Check(args) => command::check::run(&args, colors),
        Command::Optimize(args) => command::optimize::run(&args, colors.err),
        Command::Explain(args) => command::explain::run(&args, colors.err),
        Command::Compile(args) => command::compile::run(&args, colors.err),
        Command::Verify(args) => command::verify::run(&args, colors.err),
        Command::Diff(args) => command::diff::run(&args, colors.err),
        Command::Traffic(args) => command::traffic::run(&args, colors.err),
        Command::Lab(cli::Lab::Run(args)) => command::lab::run(&args),
        Command::Lab(cli::Lab::Selftest(args)) => command::selftest::run(&args),
        Command::Lab(cli::Lab::Report(args)) => command::lab::report(&args),
        Command::Lab(cli::Lab::Index(args)) => command::lab_list::index(&args),
        Command::Lab(cli::Lab::Serve(args)) => command::serve::run(&args),
        Command::Lab(cli::Lab::Compare(args)) => command::lab::compare(&args),
        Command::Lab(cli::Lab::Agent) => command::lab::agent(),
        Command::Lab(cli::Lab::List(args)) => command::lab_list::run(&args),
        Command::Tune(args) => command::tune::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Calibrate(args) => command::calibrate::run(&args),
        Command::Reap => command::doctor::reap(),
        Command::Example(args) => command::example::run(&args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut out);
            terminal::print_bytes(&out)
        }
        Command::Man => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut out)?;
            terminal::print_bytes(&out)
        }
    }
}
