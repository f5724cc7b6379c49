//! Arguments of `weir compile`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::ProofLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// What a ruleset is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormArg {
    /// The ruleset unchanged.
    Linear,
    /// A prefix tree of iptables chains.
    Tree,
    /// iptables with ipsets.
    Ipset,
    /// nftables with sets and verdict maps.
    Nft,
    /// Look-up blocks for programs that evaluate them themselves; no tool loads them.
    Classifier,
}

/// `weir compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// The form to compile to.
    #[arg(long, value_enum)]
    pub to: FormArg,
    /// The folder to write.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Prefix lengths of the tree's levels, e.g. 8,18,20,22,24,26,28; by default the cost model's.
    #[arg(id = "levels", long = "levels", value_delimiter = ',', value_name = "LENGTHS")]
    pub tree_prefix_lengths: Option<Vec<u8>>,
    /// Number of packets to compare before writing.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Passes to run, in this order, instead of those of the form.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub passes: Option<Vec<String>>,
    /// A pass to skip.
    #[arg(long, value_name = "NAME")]
    pub no_pass: Vec<String>,
    /// Write without comparing; the manifest records it.
    #[arg(id = "trust", long = "trust")]
    pub write_without_comparison: bool,
    /// What passes may lose: `counters` of rules that are merged or see fewer packets.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub allow: Vec<AllowedCounterLossArg>,
    /// Rewrite the chains of these programs as well: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// Built-in chains for --to classifier, as TABLE/CHAIN; by default all that have rules.
    #[arg(id = "chain", long = "chain", value_delimiter = ',', value_name = "CHAINS")]
    pub classifier_chains: Vec<String>,
    /// Refuse an nft form that leaves rules in iptables.
    #[arg(id = "strict", long = "strict")]
    pub refuse_partial_nft_form: bool,
    /// What proofs may take.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What a pass may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AllowedCounterLossArg {
    /// Counters of single rules.
    Counters,
}
