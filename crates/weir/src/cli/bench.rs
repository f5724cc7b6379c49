//! `weir bench …`: rates of classifiers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `weir bench …`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure classifiers: look-ups and updates per second, build time, memory.
    #[command(after_help = "\
All engines answer the same packets first. An engine with a wrong answer is reported and not
measured. Rates are of one core and of processor time: medians of the rounds, with the smallest and
the largest. `first` finds the first matching rule, `all` finds and counts all matching rules.
Updates of `dag` are made in another structure than look-ups: the one that readers have copies of.
Build times are by the time of day, on all processors that the command may use. `lines/packet` are
the cache lines that a look-up of `dag` for the first match reads; other engines do not count them.

Of a ruleset of iptables, the filters of its largest look-up are measured: those of `explain
--engine`, with words for devices, states, flags and marks. Packets are generated from them.

Engines: linear, bitvector, tuple, tuplemerge, hypersplit, hipac, idd, ipset, dag; in a weir built
with the feature rte-acl also DPDK's rte_acl-scalar, rte_acl-avx2, rte_acl-avx512.

Exit status 0 all right, 1 an engine is wrong, 2 error.

Example:
  weir example classbench --shape acl --rules 10000 > acl.filters
  weir bench classify acl.filters --engine dag,tuplemerge --trace zipf")]
    Classify(BenchClassifyArgs),
}

/// `weir bench classify`.
#[derive(Debug, Args)]
pub struct BenchClassifyArgs {
    /// Filter set in the format of ClassBench, or iptables-save (ip6tables-save) text; with the
    /// extension .gz, compressed.
    #[arg(id = "rules", value_name = "RULES")]
    pub rules_file: PathBuf,
    /// Packets in the format of ClassBench; without it, they are generated.
    #[arg(value_name = "TRACE", conflicts_with_all = ["trace", "packets"])]
    pub trace_file: Option<PathBuf>,
    /// Engines to compare; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub engine: Vec<String>,
    /// Built-in chain of a ruleset of iptables; by default that with the largest look-up.
    #[arg(long, value_name = "TABLE/CHAIN")]
    pub chain: Option<String>,
    /// The sets that a ruleset of iptables matches: ipset save text.
    #[arg(long, value_name = "FILE")]
    pub ipset: Option<PathBuf>,
    /// How generated packets are distributed over the filters.
    #[arg(long, value_enum, default_value_t = TracePatternArg::Uniform)]
    pub trace: TracePatternArg,
    /// Number of generated packets, 1 to 10,000,000.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub packets: usize,
    /// Rounds, 1 to 1000; each engine is measured in each.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub rounds: usize,
    /// Least processor time of an engine's turn in a round, seconds, 0.001 to 60.
    #[arg(long, default_value_t = 0.05, value_name = "S")]
    pub turn_seconds: f64,
    /// Number of packets that linear answers as the reference; as many as 300 million tests of
    /// filters allow by default.
    #[arg(long, value_name = "N")]
    pub linear_packets: Option<usize>,
    /// Steps after which an engine refuses the rules: filters placed, nodes visited, cells written.
    #[arg(long, default_value_t = 200_000_000, value_name = "N")]
    pub build_steps: u64,
    /// Seed of packets and updates.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// How often a trace has packets of which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TracePatternArg {
    /// Every filter equally often.
    Uniform,
    /// The n-th filter of a random order in proportion to 1/n.
    Zipf,
    /// Flows that repeat.
    Local,
    /// All values of each field equally often, whatever the filters are.
    Random,
}
