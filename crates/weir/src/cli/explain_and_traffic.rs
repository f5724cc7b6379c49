//! Commands about single packets: `explain`, `traffic`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_classify::Engine;

use super::limits::TimeLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// A hook where a packet begins its journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilterHookArg {
    /// Through the host.
    Forward,
    /// To the host.
    Input,
    /// From the host.
    Output,
}

impl FilterHookArg {
    /// The hook in the interpreter.
    pub fn to_journey_kind(self) -> weir_semantics::JourneyKind {
        match self {
            FilterHookArg::Forward => weir_semantics::JourneyKind::Forward,
            FilterHookArg::Input => weir_semantics::JourneyKind::Input,
            FilterHookArg::Output => weir_semantics::JourneyKind::Output,
        }
    }
}

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

/// Which packets `weir traffic` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrafficPatternArg {
    /// On and around every boundary of every rule, and random ones.
    Boundary,
    /// Decided by the last rule that accepts: every rule before it is evaluated.
    End,
    /// Evenly over the rules.
    Uniform,
    /// A few rules get most packets.
    Zipf,
    /// From the same /16s as the rules' addresses, but in none of the rules.
    Near,
    /// Far from all addresses of the rules.
    Far,
}

/// `weir traffic`.
#[derive(Debug, Args)]
pub struct TrafficArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// Which packets to write.
    #[arg(long, value_enum, default_value_t = TrafficPatternArg::Uniform)]
    pub pattern: TrafficPatternArg,
    /// The hook of the filter table on the packets' path.
    #[arg(long, value_enum, default_value_t = FilterHookArg::Forward)]
    pub hook: FilterHookArg,
    /// Number of packets.
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub count: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Input and output device of every packet, if the topology determines them: `eth0,eth1`.
    #[arg(long, value_name = "IN,OUT", value_parser = parse_device_pair)]
    pub devices: Option<(String, String)>,
    /// The pcap file to write; `FILE.verdicts` has one verdict per line.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `IN,OUT`.
fn parse_device_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((iif, oif)) if !oif.contains(',') => Ok((iif.to_owned(), oif.to_owned())),
        _ => Err("expected two device names, separated by a comma".to_owned()),
    }
}
