//! The project's own commands, as `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

mod ci;
mod git_hooks;
mod iptables_suite;
mod module_graph;
mod repository_files;
mod rust_source;
mod tidy;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP_TEXT: &str = "\
cargo xtask COMMAND

  tidy          house rules: arrows between crates, sizes, banned calls, comments, links
  deny          licences and sources of dependencies, by cargo-deny
  ci            format, clippy, tests, doc tests, docs, deny, tidy: what `make test` runs
  corpus [DIR]  the tests over a folder of published rulesets, and over iptables' own suite
  differential [--seed S] [--pairs N]
                random rulesets and packets: interpreter, kernel and every form (root)
  faults [--seed S] [--kills N] [--pairs N] [--changes N]
                load.sh and unload.sh killed, on a full disk and against each other (root)
  bless         rewrite the golden files from what the program does now
  hooks         run tidy before each commit, ci before each push
  help          this text
";

fn main() -> ExitCode {
    match run_command() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well; an error where that could not be found out.
fn run_command() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => {
            let tree = repository_files::WorkingTreeFiles::read_nonignored_files()
                .context("read the repository")?;
            Ok(tidy::print_findings(&tidy::check_all_rules(&tree)))
        }
        ["deny"] => ci::run_cargo_deny_without_advisories(),
        ["ci"] => ci::run_ci_steps(),
        ["corpus"] | ["corpus", ""] => ci::run_suite_and_given_corpus_tests(None),
        ["corpus", folder] => ci::run_suite_and_given_corpus_tests(Some(folder)),
        ["differential", ref options @ ..] => ci::run_differential_tests(options),
        ["faults", ref options @ ..] => ci::run_load_script_fault_tests(options),
        ["bless"] => ci::bless_golden_files(),
        ["hooks"] => git_hooks::install_git_hooks(),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP_TEXT}");
            Ok(true)
        }
        _ => bail!("unknown command `{}`; cargo xtask help lists all", words.join(" ")),
    }
}
