//! `weir tune`: the papers' tunings in today's terms.

use anyhow::Result;
use serde::Serialize;
use weir_lab::paper_tunings::{ALL_PAPERS_TUNINGS, ModernizedPaperTuning, TuningScope};

use super::YesNoExitStatus;
use crate::cli::TuneArgs;
use crate::{json_output, terminal};

#[derive(Serialize)]
struct ModernizedTuningWithCurrentValue {
    #[serde(flatten)]
    modernized_tuning: ModernizedPaperTuning,
    now: Option<String>,
}

/// Prints every tuning with its value now; sets nothing.
pub fn print_paper_tunings(args: &TuneArgs) -> Result<YesNoExitStatus> {
    let rows: Vec<ModernizedTuningWithCurrentValue> = ALL_PAPERS_TUNINGS
        .iter()
        .map(|tuning| ModernizedTuningWithCurrentValue {
            modernized_tuning: *tuning,
            now: tuning.read_current_sysctl_value(),
        })
        .collect();
    if args.json {
        return terminal::print_escaped_if_terminal(&json_output::render_single_member_json(
            "tune", "tunings", &rows,
        )?);
    }
    let mut text = String::new();
    let mut paper = "";
    for row in &rows {
        if row.modernized_tuning.paper != paper {
            paper = row.modernized_tuning.paper;
            text += &format!("# {paper}\n");
        }
        text += &render_tuning_as_sysctl_line(row);
    }
    terminal::print_escaped_if_terminal(&text)
}

/// A line that `sysctl -p` takes, where there is one to set; all else is a comment.
fn render_tuning_as_sysctl_line(row: &ModernizedTuningWithCurrentValue) -> String {
    let ModernizedTuningWithCurrentValue { modernized_tuning: tuning, now } = row;
    let reach = match tuning.reach {
        TuningScope::Namespace => "",
        TuningScope::Machine => " (whole machine)",
        TuningScope::Gone => " (no longer exists)",
    };
    let now = now.as_ref().map_or(String::new(), |now| format!("; {} is {now} now", tuning.sysctl));
    let what = format!("# {}{reach}: {}{now}\n", tuning.then, tuning.why);
    if tuning.value.is_empty() {
        return what;
    }
    format!("{what}{} = {}\n", tuning.sysctl, tuning.value)
}
