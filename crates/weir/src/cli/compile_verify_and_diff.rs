//! Commands that generate and compare forms of a ruleset: `compile`, `verify`, `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::ProofLimitArgs;
use super::operand::{IptablesVariantArg, SourcesBesidesFileArgs};

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
    #[arg(long, value_delimiter = ',', value_name = "LENGTHS")]
    pub levels: Option<Vec<u8>>,
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
    #[arg(long)]
    pub trust: bool,
    /// What passes may lose: `counters` of rules that are merged or see fewer packets.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub allow: Vec<AllowedCounterLossArg>,
    /// Rewrite the chains of these programs as well: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// Built-in chains for --to classifier, as TABLE/CHAIN; by default all that have rules.
    #[arg(long, value_delimiter = ',', value_name = "CHAINS")]
    pub chain: Vec<String>,
    /// Refuse an nft form that leaves rules in iptables.
    #[arg(long)]
    pub strict: bool,
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

/// A single hook, for `weir diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffHookArg {
    /// PREROUTING.
    Prerouting,
    /// INPUT.
    Input,
    /// FORWARD.
    Forward,
    /// OUTPUT.
    Output,
    /// POSTROUTING.
    Postrouting,
}

impl DiffHookArg {
    /// The hook in the model.
    pub fn to_model_hook(self) -> weir_model::Hook {
        match self {
            DiffHookArg::Prerouting => weir_model::Hook::Prerouting,
            DiffHookArg::Input => weir_model::Hook::Input,
            DiffHookArg::Forward => weir_model::Hook::Forward,
            DiffHookArg::Output => weir_model::Hook::Output,
            DiffHookArg::Postrouting => weir_model::Hook::Postrouting,
        }
    }
}

/// How `weir diff` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormatArg {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For a change review.
    Markdown,
}

/// `weir diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Two of: a file (`-` is standard input), an artefact's folder, `--live`.
    #[arg(value_name = "OPERAND", num_args = 1..=2)]
    pub operands: Vec<String>,
    /// The ruleset in force in this network namespace, instead of an operand (read only).
    #[arg(long)]
    pub live: bool,
    /// The iptables variant that --live reads; needed only if both have rules.
    #[arg(long, value_enum, requires = "live")]
    pub variant: Option<IptablesVariantArg>,
    /// ip6tables-save text for the first operand, then for the second; a single one applies to
    /// both.
    #[arg(long, value_name = "FILE")]
    pub ip6: Vec<PathBuf>,
    /// ipset save text for the first operand, then for the second; a single one applies to both.
    #[arg(long, value_name = "FILE")]
    pub ipset: Vec<PathBuf>,
    /// Resolve host names; by default they are refused.
    #[arg(long)]
    pub resolve: bool,
    /// Compare one hook instead of the whole journey.
    #[arg(long, value_enum)]
    pub hook: Option<DiffHookArg>,
    /// Compare verdicts only, not effects (logs, marks, …).
    #[arg(long)]
    pub verdict: bool,
    /// Compare verdicts and all effects (the default).
    #[arg(long, conflicts_with = "verdict")]
    pub effects: bool,
    /// Also compare which rules count, on packets (not proven).
    #[arg(long)]
    pub counters: bool,
    /// Number of packets for the counters, and for paths that are not proven.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Assume that other programs use conntrack, even if the rulesets do not.
    #[arg(long)]
    pub conntrack: bool,
    /// What proofs may take.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
    /// Number of regions (sets of packets that are treated differently) to list per change.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub regions: usize,
    /// Output format.
    #[arg(long, value_enum, default_value_t = DiffFormatArg::Text)]
    pub format: DiffFormatArg,
    /// JSON on standard output: the same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the packets that differ to this pcap file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}
