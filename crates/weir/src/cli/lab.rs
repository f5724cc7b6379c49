//! `weir lab …`: studies, their runs and their pages.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `weir lab …`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Run a study: make its namespaces, load its subjects, measure them, keep records.
    #[command(
        after_help = "Example:\n  weir lab run studies/kadlecsik2005-rules -o run --preset quick"
    )]
    Run(LabRun),
    /// Measure the laboratory itself: what it sends, receives and tells apart on this machine.
    #[command(after_help = "\
The status is 1 where a packet or a connection was lost.

Example:
  weir lab selftest
  weir lab selftest --json | jq '.parts[] | {name, pps}'")]
    Selftest(LabSelftest),
    /// Write the report of a run: one HTML page that opens offline.
    #[command(after_help = "\
Several runs of one study, on other machines or kernels, are drawn side by side on the page of the
first; ratios are made within each of them.

Example:
  weir lab report run
  weir lab report debian-12 debian-13 metal -o kernels.html")]
    Report(LabReport),
    /// Compare two runs of a study: status 1 where something became worse beyond the margin.
    #[command(after_help = "\
A point is worse where the whole 95 % interval of its ratio lies beyond the margin, and the
difference holds at 5 % over all points together (Holm).

Example:
  weir lab compare before after --margin 0.05")]
    Compare(LabCompare),
    /// Write a page over all studies: every claim with its outcome, and the report of each kept
    /// run.
    #[command(after_help = "Example:\n  weir lab index -o pages")]
    Index(LabIndex),
    /// Show a run, or the index of a folder of studies, in a browser on this machine.
    #[command(after_help = "\
Listens on 127.0.0.1 alone, until Ctrl-C. A page is made anew when the records have changed; that of
a run which goes on asks for itself every few seconds.

Example:
  weir lab serve run
  weir lab serve studies --port 8080")]
    Serve(LabServe),
    /// List what the papers say, with what became of it here and the command that measures it.
    #[command(after_help = "\
A status is computed from the records that are kept under STUDIES/*/runs, never typed.

Example:
  weir lab list
  weir lab list --status 'not built yet'
  weir lab list --json | jq '.studies[].items[] | {number, status}'")]
    List(LabList),
    /// The firewall's end of `weir lab run --hosts`; `ssh` starts it there.
    #[command(hide = true)]
    Agent,
}

/// `weir lab run`.
#[derive(Debug, Args)]
pub struct LabRun {
    /// A study's folder or its study.toml.
    pub study: PathBuf,
    /// Folder of the records.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// How long and how often: `quick` without it; with `--aa`, the study's preset `aa`, or else
    /// `smoke` at two points.
    #[arg(long)]
    pub preset: Option<String>,
    /// Seed of order and rulesets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Raise limits of the whole machine where the study needs it (connection tracking), and put
    /// them back at the end.
    #[arg(long)]
    pub allow_global: bool,
    /// Go on with a run that was interrupted: same study, preset and seed.
    #[arg(long)]
    pub resume: bool,
    /// Measure this subject against itself, as often as 20 runs would: how often is it called
    /// different? Status 1 where that is more than 3 times.
    #[arg(long = "aa", value_name = "SUBJECT")]
    pub against_itself: Option<String>,
    /// Write what came of `--aa` into the study's folder too, as aa.json: `weir lab list` and the
    /// index show it.
    #[arg(long, requires = "against_itself")]
    pub keep: bool,
    /// Search the highest rate of each subject with this loss, both bounds of it, rather than
    /// measure at overload; what is found is in OUTPUT/search.jsonl.
    #[arg(long, value_enum, conflicts_with_all = ["resume", "against_itself"])]
    pub search: Option<Loss>,
    /// Run over two machines: this one plays and counts, the firewall is another one that `ssh`
    /// reaches; the file names interfaces of both. Where it names kernels, the firewall is booted
    /// into each, with a run for each in OUTPUT/NAME.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}

/// The loss that a search allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loss {
    /// None, in any trial.
    Zero,
    /// Half a percent; one trial of three may be worse.
    Partial,
}

impl Loss {
    /// The goal that it stands for.
    pub fn goal(self) -> weir_stats::search::Goal {
        match self {
            Loss::Zero => weir_stats::search::Goal::ZERO_LOSS,
            Loss::Partial => weir_stats::search::Goal::PARTIAL_LOSS,
        }
    }
}

/// `weir lab compare`.
#[derive(Debug, Args)]
pub struct LabCompare {
    /// Folder of the records before.
    pub first: PathBuf,
    /// Folder of the records after.
    pub second: PathBuf,
    /// What may change before it matters: 0.05 is a twentieth.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE")]
    pub margin: f64,
    /// Compare rates as they are, rather than against the subject without rules.
    #[arg(long)]
    pub absolute: bool,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab list`.
#[derive(Debug, Args)]
pub struct LabList {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Only items with this status, e.g. `reproduced`.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// JSON on standard output.
    #[arg(long, conflicts_with = "status")]
    pub json: bool,
    /// Write the list of each study into its README, between its marks.
    #[arg(long, conflicts_with_all = ["json", "status"])]
    pub write: bool,
}

/// `weir lab index`.
#[derive(Debug, Args)]
pub struct LabIndex {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Folder to write index.html, the reports and the trials to.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `weir lab serve`.
#[derive(Debug, Args)]
pub struct LabServe {
    /// Folder of the records of a run, or of studies.
    pub folder: PathBuf,
    /// Port; 0: any that is free.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// `weir lab selftest`.
#[derive(Debug, Args)]
pub struct LabSelftest {
    /// Length of a trial; above 0.6 s without real-time priority.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.4)]
    pub trial: f64,
    /// Passes over all parts, each there and back.
    #[arg(long, default_value_t = 5)]
    pub blocks: u32,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab report`.
#[derive(Debug, Args)]
pub struct LabReport {
    /// Folder of the records.
    pub run: PathBuf,
    /// Folders of other runs of the study, drawn beside the first one.
    #[arg(value_name = "OTHER")]
    pub beside: Vec<PathBuf>,
    /// The page; RUN/report.html without it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Artefacts whose manifests the report shows.
    #[arg(long, value_name = "DIR")]
    pub artefact: Vec<PathBuf>,
    /// What `weir verify --json` printed, to be shown too.
    #[arg(long, value_name = "FILE")]
    pub verified: Vec<PathBuf>,
}
