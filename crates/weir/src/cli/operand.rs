//! The options of every command that reads a ruleset.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The sources of a ruleset other than FILE.
#[derive(Clone, Debug, Args)]
pub struct SourcesBesidesFileArgs {
    /// ip6tables-save text of the same ruleset.
    #[arg(long, value_name = "FILE")]
    pub ip6: Option<PathBuf>,
    /// ipset save text of the same ruleset.
    #[arg(long, value_name = "FILE")]
    pub ipset: Option<PathBuf>,
    /// Read the ruleset in force in this network namespace; change nothing.
    #[arg(long, conflicts_with_all = ["ip6", "ipset"])]
    pub live: bool,
    /// The iptables variant that --live reads; needed only if both have rules.
    #[arg(long, value_enum, requires = "live")]
    pub variant: Option<IptablesVariantArg>,
    /// Only this table.
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Resolve host names; by default they are refused.
    #[arg(long)]
    pub resolve: bool,
}

/// A variant of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IptablesVariantArg {
    /// Tables of ip_tables: iptables-legacy.
    Legacy,
    /// Tables of nf_tables: iptables-nft.
    Nft,
}
