//! The options of every command that reads a ruleset.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where a ruleset comes from, beside its FILE.
#[derive(Clone, Debug, Args)]
pub struct Operand {
    /// ip6tables-save text that belongs to it.
    #[arg(long, value_name = "FILE")]
    pub ip6: Option<PathBuf>,
    /// ipset save text that belongs to it.
    #[arg(long, value_name = "FILE")]
    pub ipset: Option<PathBuf>,
    /// Read what is in force in this network namespace (never writes).
    #[arg(long, conflicts_with_all = ["ip6", "ipset"])]
    pub live: bool,
    /// The variant of iptables to read by --live; needed only where both hold rules.
    #[arg(long, value_enum, requires = "live")]
    pub variant: Option<VariantArg>,
    /// Only this table.
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Look host names up; without it they are refused.
    #[arg(long)]
    pub resolve: bool,
}

/// A variant of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VariantArg {
    /// Tables of ip_tables: iptables-legacy.
    Legacy,
    /// Tables of nf_tables: iptables-nft.
    Nft,
}
