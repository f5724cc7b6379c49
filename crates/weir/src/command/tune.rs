//! `weir tune`: the papers' tunings in today's terms.

use anyhow::Result;
use serde::Serialize;
use weir_lab::tune::{TUNINGS, Tuning, TuningScope};

use super::Answer;
use crate::cli::Tune;
use crate::{json, terminal};

#[derive(Serialize)]
struct TuneRow {
    #[serde(flatten)]
    tuning: Tuning,
    now: Option<String>,
}

/// Prints every tuning with its value now; sets nothing.
pub fn run(args: &Tune) -> Result<Answer> {
    let rows: Vec<TuneRow> =
        TUNINGS.iter().map(|tuning| TuneRow { tuning: *tuning, now: tuning.now() }).collect();
    if args.json {
        return terminal::print(&json::member("tune", "tunings", &rows)?);
    }
    let mut text = String::new();
    let mut paper = "";
    for row in &rows {
        if row.tuning.paper != paper {
            paper = row.tuning.paper;
            text += &format!("# {paper}\n");
        }
        text += &lines(row);
    }
    terminal::print(&text)
}

/// A line that `sysctl -p` takes, where there is one to set; all else is a comment.
fn lines(row: &TuneRow) -> String {
    let TuneRow { tuning, now } = row;
    let reach = match tuning.reach {
        TuningScope::Namespace => "",
        TuningScope::Machine => " (whole machine)",
        TuningScope::Gone => " (gone)",
    };
    let now = now.as_ref().map_or(String::new(), |now| format!("; now {now}"));
    let what = format!("# {}{reach}: {}{now}\n", tuning.then, tuning.why);
    if tuning.value.is_empty() {
        return what;
    }
    format!("{what}{} = {}\n", tuning.sysctl, tuning.value)
}
