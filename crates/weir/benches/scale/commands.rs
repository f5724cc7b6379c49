//! The commands that are measured.

use std::path::Path;
use std::process::Command;

use crate::process_usage::{ProcessUsage, run_and_read_usage};
use crate::shapes::{ScaleRuleset, ScaleShape};

/// A command of weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleCommand {
    /// `weir check`.
    Check,
    /// `weir compile --to FORM`.
    Compile(&'static str),
    /// `weir diff` with the same ruleset without the rule in its middle.
    Diff,
}

impl ScaleCommand {
    /// All of them.
    pub const ALL: [ScaleCommand; 5] = [
        ScaleCommand::Check,
        ScaleCommand::Compile("tree"),
        ScaleCommand::Compile("ipset"),
        ScaleCommand::Compile("nft"),
        ScaleCommand::Diff,
    ];

    /// As it is printed.
    pub fn name(self) -> String {
        match self {
            ScaleCommand::Check => "check".to_owned(),
            ScaleCommand::Compile(form) => format!("compile {form}"),
            ScaleCommand::Diff => "diff".to_owned(),
        }
    }

    /// Runs `weir`, a program, on the files of a ruleset in `folder`.
    ///
    /// # Panics
    /// If the command could not do it.
    pub fn run(self, weir: &Path, folder: &Path) -> ProcessUsage {
        let mut command = Command::new(weir);
        let (rules, out) = (folder.join(RULES_FILE), folder.join("out"));
        match self {
            ScaleCommand::Check => command.arg("check"),
            ScaleCommand::Compile(form) => {
                let _ = std::fs::remove_dir_all(&out);
                // kube-proxy does not run here.
                command.args(["compile", "--programs", "kube-proxy", "--to", form, "-o"]).arg(&out)
            }
            ScaleCommand::Diff => command.arg("diff").arg(folder.join(RULES_WITHOUT_ONE_FILE)),
        };
        command.arg(&rules);
        let sets = folder.join(SETS_FILE);
        if sets.exists() {
            command.arg("--ipset").arg(&sets);
        }
        let usage = run_and_read_usage(&mut command);
        // 1: findings, or a difference. 2: a difference that is undecided within the usual steps; an
        // error in the rules would end the other commands as well.
        let is_done = match usage.exit_status {
            Some(0 | 1) => true,
            Some(2) => self == ScaleCommand::Diff,
            _ => false,
        };
        assert!(is_done, "{command:?} failed: {:?}", usage.exit_status);
        usage
    }
}

const RULES_FILE: &str = "rules";
const RULES_WITHOUT_ONE_FILE: &str = "rules-without-one";
const SETS_FILE: &str = "sets";

/// Writes the files that commands read.
///
/// # Panics
/// If a file cannot be written.
pub fn write_ruleset_files(shape: ScaleShape, size: usize, folder: &Path) {
    let ScaleRuleset { rules, sets } = shape.generate_ruleset(size);
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("the folder can be written");
    };
    let mut lines: Vec<&str> = rules.lines().collect();
    let numbers: Vec<usize> = (0..lines.len()).filter(|n| lines[*n].starts_with("-A")).collect();
    lines.remove(numbers[numbers.len() / 2]);
    write(RULES_WITHOUT_ONE_FILE, &(lines.join("\n") + "\n"));
    write(RULES_FILE, &rules);
    let _ = std::fs::remove_file(folder.join(SETS_FILE));
    if let Some(sets) = sets {
        write(SETS_FILE, &sets);
    }
}

/// The exponent of a growth: 1 is linear, 2 is quadratic.
pub fn growth_exponent(sizes: [usize; 2], costs: [f64; 2]) -> f64 {
    (costs[1] / costs[0]).ln() / (sizes[1] as f64 / sizes[0] as f64).ln()
}
