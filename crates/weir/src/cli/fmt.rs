//! Arguments of `weir fmt`.

use std::path::PathBuf;

use clap::Args;

use super::operand::SourcesBesidesFileArgs;

/// `weir fmt`.
#[derive(Debug, Args)]
pub struct FmtPrintArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset", "ipf"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// The count rules of an ipf.conf (IP Filter), printed as iptables-save text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "live", "ip6", "ipset"])]
    pub ipf: Option<PathBuf>,
    /// Print counters, as `iptables-save -c` does.
    #[arg(short, long)]
    pub counters: bool,
}
