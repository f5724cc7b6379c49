//! Arguments of `weir diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::ProofLimitArgs;
use super::operand::IptablesVariantArg;

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
    #[arg(id = "packets", long = "packets", default_value_t = 20_000, value_name = "N")]
    pub counter_and_unproven_path_packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Assume that other programs use conntrack, even if the rulesets do not.
    #[arg(id = "conntrack", long = "conntrack")]
    pub conntrack_in_use: bool,
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
