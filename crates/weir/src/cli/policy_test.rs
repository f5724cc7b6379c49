//! `test`: a ruleset against a policy.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::limits::ProofLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// How `weir test` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyTestFormatArg {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// JUnit XML, for CI servers.
    Junit,
    /// Test Anything Protocol.
    Tap,
}

/// `weir test`.
#[derive(Debug, Args)]
pub struct PolicyTestArgs {
    /// The policy: packets and regions, each with the verdict that it must have; `-` is standard
    /// input.
    #[arg(value_name = "POLICY")]
    pub policy: PathBuf,
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// What the diagrams may take.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
    /// How to print.
    #[arg(long, value_enum, default_value_t = PolicyTestFormatArg::Text)]
    pub format: PolicyTestFormatArg,
    /// JSON on standard output: the same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}
