//! Arguments of `weir check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::TimeLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// `weir check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// iptables-save (or ip6tables-save) texts, each a separate ruleset; `-` is standard input.
    #[arg(
        value_name = "FILE",
        required_unless_present_any = ["live", "ip6", "ipset", "explain", "list"]
    )]
    pub files: Vec<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// Counters are from real traffic: report rules that no packet matched.
    #[arg(id = "counters", short, long = "counters")]
    pub counters_are_real: bool,
    /// Report findings with this ID as errors (`all`: every finding).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub deny: Vec<String>,
    /// Report findings with this ID as warnings, even if they are off by default.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub warn: Vec<String>,
    /// Do not report findings with this ID.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CheckFormatArg::Text)]
    pub format: CheckFormatArg,
    /// JSON on standard output: the same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Do not report the findings that this file lists.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the findings to this file instead of reporting them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "every"])]
    pub write_baseline: Option<PathBuf>,
    /// Show every finding; by default three of each kind.
    #[arg(long)]
    pub every: bool,
    /// Maximum number of packet sets to compare per ruleset, in millions. The default takes about a
    /// minute at most; tables that need more are named.
    #[arg(id = "steps", long = "steps", default_value_t = 100, value_name = "MILLIONS")]
    pub step_millions: u64,
    /// The time that the command may take.
    #[command(flatten)]
    pub time: TimeLimitArgs,
    /// Explain a kind of finding: why it matters and what to do.
    #[arg(long, value_name = "ID", exclusive = true)]
    pub explain: Option<String>,
    /// List the kinds of findings.
    #[arg(long, exclusive = true)]
    pub list: bool,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormatArg {
    /// With the affected lines, for people.
    Text,
    /// One line per finding, as compilers print them.
    Short,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, which code review tools read.
    Sarif,
}
