//! Arguments of `weir optimize`.

use std::path::PathBuf;

use clap::Args;

use super::limits::ProofLimitArgs;
use super::operand::SourcesBesidesFileArgs;

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
    #[arg(id = "chains", long = "chains", value_name = "NAME", value_delimiter = ',')]
    pub changeable_foreign_chains: Vec<String>,
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
