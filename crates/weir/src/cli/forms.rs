//! Commands that make a form of a ruleset and compare it: `compile`, `verify`, `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Operand, Variant};

/// What a ruleset is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The ruleset as it is.
    Linear,
    /// A prefix tree of iptables chains.
    Tree,
    /// iptables with ipsets.
    Ipset,
    /// nftables with sets and verdict maps.
    Nft,
}

/// `weir compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// What to compile to.
    #[arg(long, value_enum)]
    pub to: Form,
    /// The folder to write.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Prefix lengths of the tree's levels, e.g. 8,18,20,22,24,26,28; the cost model's without it.
    #[arg(long, value_delimiter = ',', value_name = "LENGTHS")]
    pub levels: Option<Vec<u8>>,
    /// Packets of the check before writing.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed of its random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Passes to run, in this order, instead of those of the form.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub passes: Option<Vec<String>>,
    /// A pass that is not to run.
    #[arg(long, value_name = "NAME")]
    pub no_pass: Vec<String>,
    /// Compare nothing before writing; the manifest says so.
    #[arg(long)]
    pub trust: bool,
    /// What a pass may lose: `counters` of rules that it merges or that come to see fewer packets.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub allow: Vec<Allow>,
    /// Rewrite the chains of these programs as well: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// Refuse an nft form that leaves rules in iptables: all rules are in nft, or nothing is
    /// written. Other forms are iptables as a whole.
    #[arg(long)]
    pub strict: bool,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What a pass may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Counters of single rules.
    Counters,
}

/// `weir verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The ruleset's text (not with --live or --ip6 alone), then folders that `weir compile` wrote.
    #[arg(value_name = "FILE DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Packets to compare.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub packets: usize,
    /// Seed of the random ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the packets that differ to this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A hook of its own, for `weir diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OneHook {
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

impl OneHook {
    /// The model's word for it.
    pub fn hook(self) -> weir_model::Hook {
        match self {
            OneHook::Prerouting => weir_model::Hook::Prerouting,
            OneHook::Input => weir_model::Hook::Input,
            OneHook::Forward => weir_model::Hook::Forward,
            OneHook::Output => weir_model::Hook::Output,
            OneHook::Postrouting => weir_model::Hook::Postrouting,
        }
    }
}

/// How `weir diff` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For a change review.
    Markdown,
}

/// `weir diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// Two of: a file (`-` is standard input), an artefact's folder, `--live`.
    #[arg(value_name = "OPERAND", num_args = 1..=2)]
    pub operands: Vec<String>,
    /// What is in force in this network namespace (never written): in the place of an operand.
    #[arg(long)]
    pub live: bool,
    /// The variant of iptables to read by --live; needed only where both hold rules.
    #[arg(long, value_enum, requires = "live")]
    pub variant: Option<Variant>,
    /// ip6tables-save text that belongs to a file: A's, then B's; one stands for both.
    #[arg(long, value_name = "FILE")]
    pub ip6: Vec<PathBuf>,
    /// ipset save text that belongs to a file: A's, then B's; one stands for both.
    #[arg(long, value_name = "FILE")]
    pub ipset: Vec<PathBuf>,
    /// Look host names up; without it they are refused.
    #[arg(long)]
    pub resolve: bool,
    /// One hook alone instead of the whole journey.
    #[arg(long, value_enum)]
    pub hook: Option<OneHook>,
    /// Only what becomes of packets, not what is done to them on the way.
    #[arg(long)]
    pub verdict: bool,
    /// What becomes of packets and all that is done on the way (what is compared without it).
    #[arg(long, conflicts_with = "verdict")]
    pub effects: bool,
    /// Also which rules count: seen on packets, not proven.
    #[arg(long)]
    pub counters: bool,
    /// Packets for the counters.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed of the random ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Conntrack is in use by other programs, whatever the rulesets ask for.
    #[arg(long)]
    pub conntrack: bool,
    /// Memory for the diagrams of one family and way, in MB.
    #[arg(long, default_value_t = 2048, value_name = "MB")]
    pub memory: usize,
    /// Give up after so many million steps for one family and way; the same on every machine.
    #[arg(long, default_value_t = 200, value_name = "MILLIONS")]
    pub steps: u64,
    /// How many regions of a difference are listed.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub regions: usize,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the packets that differ to this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}
