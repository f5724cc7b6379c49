//! `weir calibrate`: measures the costs of the cost model on this machine, with the laboratory.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use weir_lab::StudyRunOptions;
use weir_passes::{CalibrationSlopes, CostModel};
use weir_stats::trial_selection::{self, TrialSelection};
use weir_stats::{Estimate, Quantity, Scenario, run_folder};

use super::YesNoExitStatus;
use crate::cli::CalibrateArgs;
use crate::terminal::{self, TerminalProgress};

const STUDY_TOML: &str = include_str!("../../../../studies/calibrate/study.toml");
const SUBJECTS_TOML: &str = include_str!("../../../../studies/calibrate/subjects.toml");
/// The two sizes of each construction, as the study's axis has them.
const SLOPE_LOW_STEP_COUNT: u64 = 16;
const SLOPE_HIGH_STEP_COUNT: u64 = 256;
/// Levels of the tree of chains between them: it doubles its leaves.
const SLOPE_TREE_LEVEL_DIFFERENCE: f64 = 4.0;

/// Runs the study and writes the cost model.
pub fn calibrate_and_write_cost_model(args: &CalibrateArgs) -> Result<YesNoExitStatus> {
    if let Some(path) = &args.output {
        ensure!(!path.exists(), "{} already exists, and is not overwritten", path.display());
    }
    let folder = TempCalibrationFolder::create_new_or_fail()?;
    let record = run_calibration_into_record(args, &folder.0)?;
    let text = render_cost_model_toml(&record)?;
    match &args.output {
        Some(path) => {
            fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
            Ok(YesNoExitStatus::Yes)
        }
        None => terminal::print_escaped_if_terminal(&text),
    }
}

fn run_calibration_into_record(
    args: &CalibrateArgs,
    folder: &Path,
) -> Result<run_folder::RunRecord> {
    let study = folder.join("calibrate");
    fs::create_dir(&study)?;
    fs::write(study.join("study.toml"), STUDY_TOML)?;
    fs::write(study.join("subjects.toml"), SUBJECTS_TOML)?;
    let options = StudyRunOptions {
        preset: args.preset.clone(),
        seed: args.seed,
        weir_program: std::env::current_exe().context("find this program")?,
        command: "weir calibrate".to_owned(),
        ..StudyRunOptions::default()
    };
    let bar = TerminalProgress::new();
    let record = weir_lab::execute_study(&study, &folder.join("run"), &options, &mut |progress| {
        bar.show_with_time_left(
            progress.message,
            progress.steps_done,
            progress.total_steps,
            progress.estimated_remaining_time,
        );
    })?;
    Ok(record)
}

/// The cost model as TOML, each measured slope with its interval in a comment.
fn render_cost_model_toml(record: &run_folder::RunRecord) -> Result<String> {
    let steps = |n: u64| Scenario::default().with_coordinate("steps", n);
    let (few, many) = (steps(SLOPE_LOW_STEP_COUNT), steps(SLOPE_HIGH_STEP_COUNT));
    let mut said = String::new();
    let mut slope = |what: &str, from: (&str, &Scenario), to: (&str, &Scenario), steps: f64| {
        let select =
            |(subject, at)| TrialSelection::of_first_copy(Quantity::NsPerPacket, subject, at);
        let found = trial_selection::estimate_difference_per_step(
            select(from),
            select(to),
            steps,
            &record.trials,
        )
        .with_context(|| {
            format!("{what} could not be measured: weir doctor shows what is missing")
        })?;
        let Estimate { value, lo, hi, .. } = found;
        let _ = writeln!(said, "#   {what:<44} {value:7.1} [{lo:.1}, {hi:.1}]");
        Ok::<f64, anyhow::Error>(value)
    };
    let rules = (SLOPE_HIGH_STEP_COUNT - SLOPE_LOW_STEP_COUNT) as f64;
    let mut grown = |what: &str, subject: &str, steps: f64| {
        slope(what, (subject, &few), (subject, &many), steps)
    };
    let slopes = CalibrationSlopes {
        per_check_ns: grown("a rule that does not match", "checks", rules)?,
        per_tree_level_ns: grown(
            "a level of a tree of chains",
            "jumps",
            SLOPE_TREE_LEVEL_DIFFERENCE,
        )?,
        per_ip_set_ns: grown("a rule that tests a hash:ip set", "sets", rules)?,
        per_net_set_1_length_ns: grown("the same, hash:net, one prefix length", "nets1", rules)?,
        per_net_set_9_lengths_ns: grown("the same, hash:net, nine prefix lengths", "nets9", rules)?,
        per_map_ns: grown("an nft rule with a map lookup", "maps", rules)?,
        per_40_byte_string_search_ns: grown("a rule that searches forty bytes", "strings", rules)?,
        conntrack_rule_ns: slope(
            "a rule that causes connection tracking",
            ("nothing", &few),
            ("conntrack", &few),
            1.0,
        )?,
    };
    let cost = toml::to_string(&CostModel::from_slopes(&slopes))?;
    let environment = &record.run.environment;
    Ok(format!(
        "# Costs on this machine in nanoseconds, measured by weir calibrate on {}.\n\
         # {}, Linux {}; packets traverse two virtual links, all on one core.\n\
         # Slopes, medians with 95 % intervals:\n{said}\n{cost}",
        record.run.date, environment.cpu_model, environment.kernel
    ))
}

/// A folder for the records, which goes with the value.
struct TempCalibrationFolder(PathBuf);

impl TempCalibrationFolder {
    fn create_new_or_fail() -> Result<TempCalibrationFolder> {
        let path = std::env::temp_dir().join(format!("weir-calibrate-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(TempCalibrationFolder(path))
    }
}

impl Drop for TempCalibrationFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
