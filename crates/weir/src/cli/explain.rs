//! Arguments of `weir explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_classify::Engine;

use super::filter_hook::FilterHookArg;
use super::limits::TimeLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// `weir explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// The time that the command may take.
    #[command(flatten)]
    pub time: TimeLimitArgs,
    /// The hook of the filter table on the packet's path.
    #[arg(long, value_enum, default_value_t = FilterHookArg::Forward)]
    pub hook: FilterHookArg,
    /// The packet.
    #[arg(long, value_name = "WORDS")]
    pub packet: String,
    /// Assumed result of matches that the packet does not determine (limit, recent, owner, …).
    #[arg(long, value_enum, default_value_t = AssumedMatchResultArg::No)]
    pub assume: AssumedMatchResultArg,
    /// Show the estimated cost of the evaluated rules in ns, by kind of step (rule, jump, …).
    #[arg(long)]
    pub cost: bool,
    /// Cost model that `weir calibrate` wrote; by default the one shipped with weir.
    #[arg(long, value_name = "FILE", requires = "cost")]
    pub cost_model: Option<PathBuf>,
    /// Also find the matching rules by look-ups with this engine, and compare them with the trace:
    /// dag (weir's own), linear, bitvector, tuple, tuplemerge, hypersplit, hipac, idd, ipset.
    #[arg(long, value_name = "NAME", value_parser = parse_engine)]
    pub engine: Option<Engine>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// The engine of a name.
fn parse_engine(name: &str) -> Result<Engine, String> {
    Engine::from_name(name).ok_or_else(|| {
        let names = Engine::ALL.map(Engine::name).join(", ");
        format!("no such engine; the engines are {names}")
    })
}

/// Assumed result of a match that the packet does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AssumedMatchResultArg {
    /// It matches.
    Yes,
    /// It does not match.
    No,
}
