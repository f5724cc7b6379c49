//! `cargo xtask ci`, `corpus` and `bless`: cargo commands in the right order and environment.
//!
//! All steps share one build profile (`test`), so that each dependency is built once for running
//! and once for checking, and not again for each tool. Warnings are denied by clippy and rustdoc
//! rather than by `RUSTFLAGS`, which would rebuild every dependency. Nothing is built
//! incrementally: that saves time only at the next change, and made the build of all tests a third
//! longer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::repository_files::{self, WorkingTreeFiles};
use crate::{iptables_suite, tidy};

/// Everything that a change must pass.
///
/// # Errors
/// If a command cannot be started.
pub fn run_ci_steps() -> Result<bool> {
    let mut steps = StepRunner::default();
    steps.run_if_installed("rustfmt", "fmt", &["fmt", "--all", "--check"])?;
    steps.run_if_installed("clippy", "clippy", &CLIPPY_ARGUMENTS)?;
    steps.run_if_installed("clippy", "clippy extra", &CLIPPY_OPT_IN_TESTS_ARGUMENTS)?;
    // Unit tests, the tests next to them, and the examples in the documentation.
    steps.run_step(
        "test",
        prepare_strict_root_test_command(&["test", "--workspace", "--no-fail-fast"]),
    )?;
    let mut docs = cargo_command(&["doc", "--workspace", "--no-deps", "--profile", "test"]);
    // A head comment may name the private modules below it: it is read in the source, too.
    docs.env("RUSTDOCFLAGS", "-Dwarnings -Arustdoc::private_intra_doc_links");
    steps.run_step("doc", docs)?;
    steps.run_step("deny", prepare_cargo_deny_command()?)?;
    let tidy_is_content =
        tidy::print_findings(&tidy::check_all_rules(&WorkingTreeFiles::read_nonignored_files()?));
    steps.steps.push(FinishedStep {
        name: "tidy",
        seconds: 0.0,
        outcome: outcome_from_success(tidy_is_content),
    });
    Ok(steps.print_summary())
}

/// Licences, sources and versions of the dependencies.
///
/// # Errors
/// If cargo-deny cannot be built or started.
pub fn run_cargo_deny_without_advisories() -> Result<bool> {
    let mut steps = StepRunner::default();
    steps.run_step("deny", prepare_cargo_deny_command()?)?;
    Ok(steps.print_summary())
}

/// Licences, sources and versions of the dependencies, by cargo-deny, which is built below the
/// target directory where it is not installed. Its database of advisories is on the network, and
/// changes without a change here: `cargo deny check advisories` is for a person to start.
fn prepare_cargo_deny_command() -> Result<Command> {
    const CARGO_DENY_VERSION_TO_INSTALL: &str = "0.20.2";
    let words = ["deny", "--workspace", "check", "bans", "licenses", "sources"];
    let is_installed = |c: &mut Command| c.output().is_ok_and(|o| o.status.success());
    if is_installed(&mut cargo_command(&["deny", "--version"])) {
        return Ok(cargo_command(&words));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let folder = repository_files::repository_root().join(target).join("tools");
    let program = folder.join("bin/cargo-deny");
    if !is_installed(Command::new(&program).arg("--version")) {
        println!(
            "\n== building cargo-deny {CARGO_DENY_VERSION_TO_INSTALL} in {}",
            folder.display()
        );
        let mut install = cargo_command(&[
            "install",
            "--locked",
            "--debug",
            "--quiet",
            "--version",
            CARGO_DENY_VERSION_TO_INSTALL,
        ]);
        install.arg("--root").arg(&folder).arg("cargo-deny");
        install.env("CARGO_TARGET_DIR", folder.join("build"));
        let status = install.status().context("start cargo install")?;
        ensure!(status.success(), "cargo-deny could not be built");
        // Most of a gigabyte that is not needed again.
        let _ = std::fs::remove_dir_all(folder.join("build"));
    }
    let mut command = Command::new(program);
    command.args(&words[1..]).current_dir(repository_files::repository_root());
    Ok(command)
}

const CLIPPY_ARGUMENTS: [&str; 8] =
    ["clippy", "--workspace", "--all-targets", "--profile", "test", "--", "-D", "warnings"];

/// The targets that `--all-targets` leaves out, because a plain `cargo test` does not run them.
const CLIPPY_OPT_IN_TESTS_ARGUMENTS: [&str; 11] = [
    "clippy",
    "--workspace",
    "--test",
    "corpus",
    "--test",
    "suite",
    "--profile",
    "test",
    "--",
    "-D",
    "warnings",
];

/// The tests that run over a folder of published rulesets (every target named `corpus`), and the
/// one that runs over iptables' own suite.
///
/// # Errors
/// If a folder that was named is not there, or cargo cannot be started.
pub fn run_suite_and_given_corpus_tests(folder: Option<&str>) -> Result<bool> {
    let mut steps = StepRunner::default();
    match folder {
        Some(folder) => {
            let folder = Path::new(folder);
            ensure!(folder.is_dir(), "no folder {}: give it as DIR=...", folder.display());
            let folder =
                folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
            let words = ["test", "--workspace", "--test", "corpus", "--", "--nocapture"];
            let mut command = prepare_strict_root_test_command(&words);
            command.env("WEIR_CORPUS", &folder);
            steps.run_step("corpus", command)?;
        }
        None => steps.record_skipped("corpus", "no folder of rulesets: give one as DIR=..."),
    }
    match iptables_suite::find_or_fetch_suite()? {
        Ok(folder) => {
            let words = ["test", "-p", "weir-syntax", "--test", "suite", "--", "--nocapture"];
            let mut command = prepare_strict_root_test_command(&words);
            command.env(iptables_suite::SUITE_PATH_VARIABLE, &folder);
            steps.run_step("suite", command)?;
        }
        Err(why) => steps.record_skipped("suite", &why),
    }
    ensure!(
        steps.steps.iter().any(|s| s.seconds > 0.0),
        "nothing to run\n{}",
        steps.format_skip_reasons()
    );
    Ok(steps.print_summary())
}

/// Random rulesets and packets through the interpreter, the kernel and every form, at length.
///
/// # Errors
/// If an option is not understood, or cargo cannot be started.
pub fn run_differential_tests(options: &[&str]) -> Result<bool> {
    let (mut seed, mut pairs) = ("1", "1000000");
    for option in options.chunks(2) {
        match option {
            ["--seed", number] => seed = number,
            ["--pairs", number] => pairs = number,
            _ => bail!("differential takes --seed S and --pairs N, not `{}`", option.join(" ")),
        }
    }
    for number in [seed, pairs] {
        ensure!(number.parse::<u64>().is_ok(), "{number} is no number");
    }
    let words = ["test", "-p", "weir-verify", "--test", "differential", "--", "--nocapture"];
    let mut command = prepare_strict_root_test_command(&words);
    command.env("WEIR_SEED", seed).env("WEIR_PAIRS", pairs);
    let mut steps = StepRunner::default();
    steps.run_step("differential", command)?;
    Ok(steps.print_summary())
}

/// The scripts of an artefact under faults, at length: kills, full disks, pairs, changes of form.
///
/// # Errors
/// If an option is not understood, or cargo cannot be started.
pub fn run_load_script_fault_tests(options: &[&str]) -> Result<bool> {
    // Every size of a disk that is too small is tried.
    let mut environment = vec![("WEIR_WRITE_STEP", "1")];
    let known = [
        ("--seed", "WEIR_SEED", "1"),
        ("--kills", "WEIR_KILLS", "1000"),
        ("--pairs", "WEIR_PAIRS", "100"),
        ("--changes", "WEIR_CHANGES", "200"),
    ];
    for option in options.chunks(2) {
        let is_known = |word: &str| known.iter().any(|(name, ..)| *name == word);
        match option {
            [name, number] if is_known(name) => {
                ensure!(number.parse::<u64>().is_ok(), "{number} is no number");
            }
            _ => bail!(
                "faults takes --seed S, --kills N, --pairs N and --changes N, not `{}`",
                option.join(" ")
            ),
        }
    }
    for (name, variable, default) in known {
        let given = options.chunks(2).filter(|o| o[0] == name).map(|o| o[1]).next_back();
        environment.push((variable, given.unwrap_or(default)));
    }
    let words = ["test", "-p", "weir-backends", "--test", "faults", "--"];
    let mut command = prepare_strict_root_test_command(&words);
    // One at a time: the flows of one test are not to wait for the scripts of another.
    command.args(["--nocapture", "--test-threads=1"]).envs(environment);
    let mut steps = StepRunner::default();
    steps.run_step("faults", command)?;
    Ok(steps.print_summary())
}

/// Runs the tests with the order to rewrite what they compare with, then shows what changed.
///
/// # Errors
/// If cargo or git cannot be started.
pub fn bless_golden_files() -> Result<bool> {
    let mut command = cargo_command(&["test", "--workspace", "--no-fail-fast"]);
    command.env("WEIR_BLESS", "1").env("UPDATE_EXPECT", "1").env("INSTA_UPDATE", "always");
    let mut steps = StepRunner::default();
    steps.run_step("bless", command)?;
    let mut changed = Command::new("git");
    changed.args(["status", "--short", "--", "testdata", "crates", "docs"]);
    changed.current_dir(repository_files::repository_root()).status().context("run git status")?;
    println!("read the differences before you commit them: golden files say what, never why");
    Ok(steps.print_summary())
}

/// Cargo in the root of the repository.
fn cargo_command(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(repository_files::repository_root());
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Cargo's tests, where a test that lacks something fails instead of standing aside, and where
/// tests of the kernel run as root if this can be had without asking.
fn prepare_strict_root_test_command(words: &[&str]) -> Command {
    let mut command = cargo_command(words);
    command.env("WEIR_REQUIRE_ALL", "1");
    if !is_root() && sudo_needs_no_password() {
        let host = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH);
        command.env(host.to_uppercase(), "sudo -n -E");
    }
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

fn sudo_needs_no_password() -> bool {
    Command::new("sudo").args(["-n", "true"]).output().is_ok_and(|o| o.status.success())
}

#[derive(Debug, PartialEq)]
enum StepOutcome {
    Passed,
    Failed,
    /// Left out, and why.
    Skipped(String),
}

fn outcome_from_success(passed: bool) -> StepOutcome {
    if passed { StepOutcome::Passed } else { StepOutcome::Failed }
}

struct FinishedStep {
    name: &'static str,
    seconds: f64,
    outcome: StepOutcome,
}

#[derive(Default)]
struct StepRunner {
    steps: Vec<FinishedStep>,
}

impl StepRunner {
    /// Runs one step to its end; a failed one does not keep the next from running, so that one
    /// run shows all that is wrong.
    fn run_step(&mut self, name: &'static str, mut command: Command) -> Result<()> {
        println!("\n== {name}");
        let start = Instant::now();
        let status = command.status().with_context(|| format!("start {command:?}"))?;
        let seconds = start.elapsed().as_secs_f64();
        self.steps.push(FinishedStep {
            name,
            seconds,
            outcome: outcome_from_success(status.success()),
        });
        Ok(())
    }

    /// Runs a step by a rustup component that a minimal toolchain lacks; then it is omitted and the
    /// summary says so.
    fn run_if_installed(
        &mut self,
        component: &'static str,
        name: &'static str,
        words: &[&str],
    ) -> Result<()> {
        let there =
            cargo_command(&[words[0], "--version"]).output().is_ok_and(|o| o.status.success());
        if there {
            return self.run_step(name, cargo_command(words));
        }
        self.record_skipped(name, &format!("not installed; rustup component add {component}"));
        Ok(())
    }

    /// Notes a step that cannot run here.
    fn record_skipped(&mut self, name: &'static str, why: &str) {
        self.steps.push(FinishedStep {
            name,
            seconds: 0.0,
            outcome: StepOutcome::Skipped(why.to_owned()),
        });
    }

    /// Why steps were omitted.
    fn format_skip_reasons(&self) -> String {
        let reason = |s: &FinishedStep| match &s.outcome {
            StepOutcome::Skipped(why) => Some(format!("{}: {why}", s.name)),
            _ => None,
        };
        self.steps.iter().filter_map(reason).collect::<Vec<_>>().join("\n")
    }

    /// Prints a line a step; whether none failed.
    fn print_summary(&self) -> bool {
        println!();
        for FinishedStep { name, seconds, outcome } in &self.steps {
            match outcome {
                StepOutcome::Passed => println!("{name:<12} passed {seconds:>7.1} s"),
                StepOutcome::Failed => println!("{name:<12} FAILED {seconds:>7.1} s"),
                StepOutcome::Skipped(why) => println!("{name:<12} LEFT OUT: {why}"),
            }
        }
        self.steps.iter().all(|s| s.outcome != StepOutcome::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(outcome: StepOutcome) -> FinishedStep {
        FinishedStep { name: "x", seconds: 1.0, outcome }
    }

    #[test]
    fn one_failed_step_fails_the_run() {
        let mut steps = StepRunner { steps: vec![step(StepOutcome::Passed)] };
        assert!(steps.print_summary());
        steps.steps.push(step(StepOutcome::Skipped("not installed".to_owned())));
        assert!(steps.print_summary());
        steps.steps.insert(0, step(StepOutcome::Failed));
        assert!(!steps.print_summary());
    }

    #[test]
    fn an_option_of_faults_that_is_not_known_is_refused() {
        for options in [&["--kill", "5"][..], &["--kills"], &["--kills", "many"]] {
            assert!(run_load_script_fault_tests(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn a_corpus_folder_that_is_not_there_is_refused() {
        let error = run_suite_and_given_corpus_tests(Some("no/such/folder")).expect_err("refused");
        assert!(error.to_string().contains("no folder no/such/folder"), "{error}");
    }
}
