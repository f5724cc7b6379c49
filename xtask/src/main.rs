//! The project's own commands, as `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

mod ci;
mod hooks;
mod modules;
mod source;
mod suite;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
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
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well; an error where that could not be found out.
fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => {
            let tree = tree::Tree::of_repository().context("read the repository")?;
            Ok(tidy::print(&tidy::check(&tree)))
        }
        ["deny"] => ci::dependencies(),
        ["ci"] => ci::all(),
        ["corpus"] | ["corpus", ""] => ci::corpus(None),
        ["corpus", folder] => ci::corpus(Some(folder)),
        ["differential", ref options @ ..] => ci::differential(options),
        ["faults", ref options @ ..] => ci::faults(options),
        ["bless"] => ci::bless(),
        ["hooks"] => hooks::install(),
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            Ok(true)
        }
        _ => bail!("unknown command `{}`; cargo xtask help lists all", words.join(" ")),
    }
}
