//! Arguments of `weir traffic`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::filter_hook::FilterHookArg;
use super::operand::SourcesBesidesFileArgs;

/// Which packets `weir traffic` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrafficPatternArg {
    /// On and around every boundary of every rule, and random ones.
    Boundary,
    /// Decided by the last rule that accepts or drops, or by the policy if no rule jumps: all rules
    /// before it are evaluated.
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
    /// Only packets that the ruleset accepts.
    #[arg(long)]
    pub accepted: bool,
    /// Number of packets.
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub count: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Input and output device of every packet, if the topology determines them: `eth0,eth1`.
    #[arg(long, value_name = "IN,OUT", value_parser = parse_device_pair)]
    pub devices: Option<(String, String)>,
    /// The pcap file to write; `FILE.verdicts` has one verdict per line, `FILE.facts` has facts
    /// such as the number of rules that the packets hit.
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
