//! Commands about the text of a ruleset: `fmt`, `check`, `optimize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::{ProofLimitArgs, TimeLimitArgs};
use super::operand::SourcesBesidesFileArgs;

/// `weir fmt`.
#[derive(Debug, Args)]
pub struct FmtPrintArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset", "ipf"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// The count rules of an ipf.conf (IP Filter), printed as iptables-save text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "live", "ip6", "ipset"])]
    pub ipf: Option<PathBuf>,
    /// Print counters, as `iptables-save -c` does.
    #[arg(short, long)]
    pub counters: bool,
}

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
    #[arg(short, long)]
    pub counters: bool,
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
    #[arg(long, default_value_t = 100, value_name = "MILLIONS")]
    pub steps: u64,
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

/// `weir optimize`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["fix", "all"])))]
pub struct OptimizeArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// Fix findings with these IDs (`weir check --list` shows which can be fixed).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub fix: Vec<String>,
    /// Fix everything that weir can fix.
    #[arg(long)]
    pub all: bool,
    /// `counters`: also apply fixes that lose counters or change what they count.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Also change these chains, even if another program seems to own them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub chains: Vec<String>,
    /// What proofs may take.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
    /// Write to this file instead of standard output (a folder if there is more than one text).
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    pub output: Option<PathBuf>,
    /// Overwrite the input.
    #[arg(long)]
    pub in_place: bool,
    /// Print what would change as a unified diff, and write nothing.
    #[arg(long, conflicts_with_all = ["output", "in_place"])]
    pub dry_run: bool,
    /// Number of packets to compare, per family.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
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
