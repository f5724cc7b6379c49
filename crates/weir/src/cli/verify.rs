//! Arguments of `weir verify`.

use std::path::PathBuf;

use clap::Args;

use super::operand::SourcesBesidesFileArgs;

/// `weir verify`.
#[derive(Debug, Args)]
#[command(override_usage = "weir verify [OPTIONS] [FILE] <DIR>...")]
pub struct VerifyArgs {
    /// The ruleset's text (not with --live or --ip6 alone), then folders that `weir compile` wrote.
    #[arg(value_name = "FILE|DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// Number of packets to generate for the ruleset and compare.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the packets that differ to this pcap file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}
