//! `weir calibrate`: measures the costs of the cost model on this machine, with the laboratory.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use weir_lab::StudyRunOptions;
use weir_passes::{CostModel, Slopes};
use weir_stats::series::{self, Selection};
use weir_stats::{Estimate, Quantity, Scenario, folder};

use super::Answer;
use crate::cli::Calibrate;
use crate::terminal::{self, Progress};

const STUDY: &str = include_str!("../../../../studies/calibrate/study.toml");
const SUBJECTS: &str = include_str!("../../../../studies/calibrate/subjects.toml");
/// The two sizes of each construction, as the study's axis has them.
const FEW: u64 = 16;
const MANY: u64 = 256;
/// Levels of the tree of chains between them: it doubles its leaves.
const LEVELS: f64 = 4.0;

/// Runs the study and writes the cost model.
pub fn run(args: &Calibrate) -> Result<Answer> {
    if let Some(path) = &args.output {
        ensure!(!path.exists(), "{} already exists, and is not overwritten", path.display());
    }
    let folder = CalibrationFolder::new()?;
    let record = measure(args, &folder.0)?;
    let text = file(&record, args.seed)?;
    match &args.output {
        Some(path) => {
            fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
            Ok(Answer::Yes)
        }
        None => terminal::print(&text),
    }
}

fn measure(args: &Calibrate, folder: &Path) -> Result<folder::Record> {
    let study = folder.join("calibrate");
    fs::create_dir(&study)?;
    fs::write(study.join("study.toml"), STUDY)?;
    fs::write(study.join("subjects.toml"), SUBJECTS)?;
    let options = StudyRunOptions {
        preset: args.preset.clone(),
        seed: args.seed,
        weir: std::env::current_exe().context("find this program")?,
        command: "weir calibrate".to_owned(),
        ..StudyRunOptions::default()
    };
    let bar = Progress::new();
    let record = weir_lab::run(&study, &folder.join("run"), &options, &mut |progress| {
        bar.show_left(progress.message, progress.done, progress.total, progress.left);
    })?;
    Ok(record)
}

/// The cost model as TOML, each measured slope with its interval in a comment.
fn file(record: &folder::Record, seed: u64) -> Result<String> {
    let steps = |n: u64| Scenario::default().with("steps", n);
    let (few, many) = (steps(FEW), steps(MANY));
    let mut said = String::new();
    let mut slope = |what: &str, from: (&str, &Scenario), to: (&str, &Scenario), steps: f64| {
        let select = |(subject, at)| Selection::new(Quantity::NsPerPacket, subject, at);
        let found = series::slope(select(from), select(to), steps, &record.trials, seed)
            .with_context(|| {
                format!("{what} could not be measured: weir doctor shows what is missing")
            })?;
        let Estimate { value, lo, hi, .. } = found;
        let _ = writeln!(said, "#   {what:<44} {value:7.1} [{lo:.1}, {hi:.1}]");
        Ok::<f64, anyhow::Error>(value)
    };
    let rules = (MANY - FEW) as f64;
    let mut grown = |what: &str, subject: &str, steps: f64| {
        slope(what, (subject, &few), (subject, &many), steps)
    };
    let slopes = Slopes {
        checks: grown("a rule that does not match", "checks", rules)?,
        levels: grown("a level of a tree of chains", "jumps", LEVELS)?,
        sets: grown("a rule that tests a hash:ip set", "sets", rules)?,
        nets_of_one: grown("the same, hash:net, one prefix length", "nets1", rules)?,
        nets_of_nine: grown("the same, hash:net, nine prefix lengths", "nets9", rules)?,
        maps: grown("an nft rule with a map lookup", "maps", rules)?,
        strings: grown("a rule that searches forty bytes", "strings", rules)?,
        conntrack: slope(
            "a rule that causes connection tracking",
            ("nothing", &few),
            ("conntrack", &few),
            1.0,
        )?,
    };
    let cost = toml::to_string(&CostModel::measured(&slopes))?;
    let environment = &record.run.environment;
    Ok(format!(
        "# Costs on this machine in nanoseconds, measured by weir calibrate on {}.\n\
         # {}, Linux {}; packets traverse two virtual links, all on one core.\n\
         # Slopes, medians with 95 % intervals:\n{said}\n{cost}",
        record.run.date, environment.cpu_model, environment.kernel
    ))
}

/// A folder for the records, which goes with the value.
struct CalibrationFolder(PathBuf);

impl CalibrationFolder {
    fn new() -> Result<CalibrationFolder> {
        let path = std::env::temp_dir().join(format!("weir-calibrate-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(CalibrationFolder(path))
    }
}

impl Drop for CalibrationFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
