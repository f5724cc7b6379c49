//! Arguments of the commands that put rulesets in force: `plan`, `apply`, `confirm`, `rollback`,
//! `history`, `counters`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::FormArg;
use super::limits::ProofLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// Where the state is, and of which network namespace.
#[derive(Clone, Debug, Args)]
pub struct NamespaceAndStateArgs {
    /// The network namespace, as `ip netns` lists it; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// The folder that keeps the generations.
    #[arg(long, value_name = "DIR", env = "WEIR_STATE", default_value = "/var/lib/weir")]
    pub state: PathBuf,
}

/// The ruleset to apply.
#[derive(Clone, Debug, Args)]
pub struct AppliedRulesetArgs {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(
        value_name = "FILE",
        required_unless_present_any = ["live", "ip6", "ipset", "artefact"]
    )]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// The form to compile to.
    #[arg(long, value_enum, required_unless_present = "artefact")]
    pub to: Option<FormArg>,
    /// A folder that `weir compile` wrote, instead of a file.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["file", "to", "live", "ip6", "ipset", "table"]
    )]
    pub artefact: Option<PathBuf>,
    /// Rewrite the chains of these programs as well: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// Number of packets to compare.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What proofs may take.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
}

/// `weir plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What to apply.
    #[command(flatten)]
    pub ruleset: AppliedRulesetArgs,
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// What to apply.
    #[command(flatten)]
    pub ruleset: AppliedRulesetArgs,
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Roll back after this time unless `weir confirm` comes first: 60s, 5min.
    #[arg(long, value_name = "TIME", value_parser = parse_confirmation_time)]
    pub confirm: Option<Duration>,
    /// Print the plan and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Go on where others changed the ruleset: what they changed is kept as a generation.
    #[arg(id = "force", long = "force")]
    pub ignores_foreign_changes: bool,
    /// Wait so long for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u64,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// Confirm without a connection: you sit at a console.
    #[arg(long)]
    pub console: bool,
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Wait so long for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u64,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir rollback`.
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// The generation to restore; by default the one before the current one.
    pub generation: Option<u32>,
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Go on where others changed the ruleset: what they changed is kept as a generation.
    #[arg(id = "force", long = "force")]
    pub ignores_foreign_changes: bool,
    /// Wait so long for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u64,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir counters`.
#[derive(Debug, Args)]
pub struct CountersArgs {
    /// Where.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// The format.
    #[arg(long, value_enum, default_value_t = CountersFormatArg::Iptables)]
    pub format: CountersFormatArg,
}

/// How counters are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountersFormatArg {
    /// The original ruleset as `iptables-save -c` prints it.
    Iptables,
    /// JSON.
    Json,
    /// A line for each rule and policy: place, packets, bytes.
    Csv,
}

/// `weir supervise`, which `weir apply` and `weir rollback` start.
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// The folder that keeps the generations.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,
    /// The process that makes the change.
    #[arg(long)]
    pub owner_pid: u32,
    /// When it started, in clock ticks since the boot.
    #[arg(long)]
    pub owner_start_ticks: u64,
}

/// A time as a number with `s`, `min` or `h`; a number alone is seconds.
fn parse_confirmation_time(text: &str) -> Result<Duration, String> {
    const CONFIRMATION_SECONDS_MAX: u64 = 7 * 86_400;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit_seconds = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err("write a number of seconds, minutes or hours: 60s, 5min, 1h".to_owned()),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_seconds));
    match seconds {
        Some(seconds @ 1..=CONFIRMATION_SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        _ => Err("choose a time from 1 second to 7 days: 60s, 5min, 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("60s", 60), ("5min", 300), ("5m", 300), ("1h", 3600), ("9", 9)] {
            assert_eq!(parse_confirmation_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "s", "-5s", "5 s", "11000min", "5days", "99999999999999999999s"] {
            assert!(parse_confirmation_time(text).is_err(), "{text}");
        }
    }
}
