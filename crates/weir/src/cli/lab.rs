//! `weir lab …`: studies, their runs and their pages.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `weir lab …`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a study: create its namespaces, load its subjects, measure them, write records.
    #[command(
        after_help = "Example:\n  weir lab run studies/kadlecsik2005-rules -o run --preset quick"
    )]
    Run(LabRunArgs),
    /// Measure the laboratory itself: its rates, losses and resolution on this machine.
    #[command(after_help = "\
Exit status 1 if a packet or a connection was lost.

Example:
  weir lab selftest
  weir lab selftest --json | jq '.parts[] | {name, pps}'")]
    Selftest(LabSelftestArgs),
    /// Write the report of a run: one HTML page that opens offline.
    #[command(after_help = "\
Several runs of one study, on other machines or kernels, are drawn side by side on the page of the
first; ratios are computed within each of them.

Example:
  weir lab report run
  weir lab report debian-12 debian-13 metal -o kernels.html")]
    Report(LabReportArgs),
    /// Compare two runs of a study: exit status 1 if a point is worse by more than --margin.
    #[command(after_help = "\
A point is worse if the whole 95 % interval of its ratio is beyond the margin, and the difference is
significant at 5 % over all points together (Holm).

Example:
  weir lab compare before after --margin 0.05")]
    Compare(LabCompareArgs),
    /// Write a page about all studies: every claim with its status, and the reports of their runs.
    #[command(after_help = "Example:\n  weir lab index -o pages")]
    Index(LabIndexArgs),
    /// Show a run, or the index of a folder of studies, in a browser on this machine.
    #[command(after_help = "\
Listens on 127.0.0.1 only, until Ctrl-C. A page is regenerated when the records have changed; the
page of a run in progress reloads itself every few seconds.

Example:
  weir lab serve run
  weir lab serve studies --port 8080")]
    Serve(LabServeArgs),
    /// List the statements of the papers and of weir, with their status and the command that
    /// measures them.
    #[command(after_help = "\
A status is computed from the records under STUDIES/*/runs; it cannot be set by hand.

Example:
  weir lab list
  weir lab list --status 'not built yet'
  weir lab list --json | jq '.studies[].items[] | {number, status}'")]
    List(LabListArgs),
    /// List objections to the statements of studies, computed from the records. Exit status 1 if
    /// there are any.
    #[command(after_help = "\
Reports runs that are too noisy to decide, too few samples, intervals that contain a bound, runs that
contradict each other, frames without recorded facts, subjects without an observed effect, and tests
that cannot fail.

Example:
  weir lab referee studies/strongarm2016-drop
  weir lab referee --all
  weir lab referee --all --json | jq '.studies[].items[] | {number, objections}'")]
    Referee(LabRefereeArgs),
    /// The firewall's end of `weir lab run --hosts`; `ssh` starts it there.
    #[command(hide = true)]
    Agent,
}

/// `weir lab run`.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// A study's folder or its study.toml.
    pub study: PathBuf,
    /// Folder of the records.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Length and number of trials: `quick` by default; with `--aa`, the study's preset `aa`, or
    /// else `smoke` at two points.
    #[arg(long)]
    pub preset: Option<String>,
    /// Seed for the order of trials and for rulesets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Raise global limits of connection tracking if the study needs it, and restore them at the
    /// end.
    #[arg(long)]
    pub allow_global: bool,
    /// Continue an interrupted run: same study, preset and seed.
    #[arg(long)]
    pub resume: bool,
    /// Measure this subject against itself, in 20 repetitions of the study, and count in how many a
    /// difference is reported; exit status 1 if in more than 3.
    #[arg(long = "aa", value_name = "SUBJECT")]
    pub against_itself: Option<String>,
    /// Also write the result of `--aa` to the study's folder, as aa.json, which `weir lab list`
    /// and the index show.
    #[arg(id = "keep", long = "keep", requires = "against_itself")]
    pub save_aa_result_in_study: bool,
    /// Search for the highest rate of each subject with this loss, instead of measuring at
    /// overload; OUTPUT/search.jsonl.gz has the lower and upper bounds of each rate.
    #[arg(id = "search", value_name = "SEARCH", long = "search", value_enum, conflicts_with_all = ["resume", "against_itself"])]
    pub search_allowed_loss: Option<SearchLossArg>,
    /// Run over two machines: this one sends and counts, the firewall is another one, reached by
    /// `ssh`; the file names interfaces of both. If it names kernels, the firewall is booted into
    /// each, with a run for each in OUTPUT/NAME.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}

/// The loss that a search allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchLossArg {
    /// No loss in any trial.
    Zero,
    /// 0.5 % loss; one trial of three may exceed it.
    #[value(name = "partial")]
    HalfPercent,
}

impl SearchLossArg {
    /// The goal that it stands for.
    pub fn to_search_goal(self) -> weir_stats::rate_search::SearchGoal {
        match self {
            SearchLossArg::Zero => weir_stats::rate_search::SearchGoal::ZERO_LOSS,
            SearchLossArg::HalfPercent => {
                weir_stats::rate_search::SearchGoal::HALF_PERCENT_MEDIAN_LOSS
            }
        }
    }
}

/// `weir lab compare`.
#[derive(Debug, Args)]
pub struct LabCompareArgs {
    /// Folder of the records before.
    pub first: PathBuf,
    /// Folder of the records after.
    pub second: PathBuf,
    /// Relative change to be tolerated.
    #[arg(id = "margin", long = "margin", default_value_t = 0.05, value_name = "SHARE")]
    pub margin_fraction: f64,
    /// Compare absolute rates instead of rates relative to the subject without rules.
    #[arg(id = "absolute", long = "absolute")]
    pub compare_absolute_rates: bool,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab list`.
#[derive(Debug, Args)]
pub struct LabListArgs {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Only items with this status, e.g. `reproduced`.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// JSON on standard output.
    #[arg(long, conflicts_with = "status")]
    pub json: bool,
    /// Write the list of each study into its README, between the marks.
    #[arg(long, conflicts_with_all = ["json", "status"])]
    pub write: bool,
}

/// `weir lab referee`.
#[derive(Debug, Args)]
pub struct LabRefereeArgs {
    /// Folder of a study.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub study: Option<PathBuf>,
    /// All studies in the folder given by --studies.
    #[arg(long)]
    pub all: bool,
    /// Folder of the studies.
    #[arg(long, value_name = "DIR", default_value = "studies", requires = "all")]
    pub studies: PathBuf,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab index`.
#[derive(Debug, Args)]
pub struct LabIndexArgs {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Folder to write index.html, the reports and the trials to.
    #[arg(id = "output", short, long = "output", value_name = "DIR")]
    pub output_folder: PathBuf,
}

/// `weir lab serve`.
#[derive(Debug, Args)]
pub struct LabServeArgs {
    /// Folder of the records of a run, or of studies.
    pub folder: PathBuf,
    /// Port; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// `weir lab selftest`.
#[derive(Debug, Args)]
pub struct LabSelftestArgs {
    /// Length of a trial; above 0.6 s without real-time priority.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.4)]
    pub trial: f64,
    /// Number of blocks; each measures all parts in forward and reverse order.
    #[arg(id = "blocks", value_name = "BLOCKS", long = "blocks", default_value_t = 5)]
    pub forward_reverse_blocks: u32,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab report`.
#[derive(Debug, Args)]
pub struct LabReportArgs {
    /// Folder of the records.
    pub run: PathBuf,
    /// Folders of other runs of the study, drawn together with the first one.
    #[arg(value_name = "OTHER")]
    pub beside: Vec<PathBuf>,
    /// Output file; RUN/report.html by default.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Artefacts whose manifests the report shows.
    #[arg(long, value_name = "DIR")]
    pub artefact: Vec<PathBuf>,
    /// Output of `weir verify --json`, to be shown as well.
    #[arg(long, value_name = "FILE")]
    pub verified: Vec<PathBuf>,
}
