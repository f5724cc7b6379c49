//! Arguments of the commands that change the ruleset in force, or report on it: `plan`, `apply`,
//! `confirm`, `rollback`, `boot`, `history`, `counters`, `serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::FormArg;
use super::limits::ProofLimitArgs;
use super::operand::SourcesBesidesFileArgs;

/// The network namespace, and where its state is kept.
#[derive(Clone, Debug, Args)]
pub struct NamespaceAndStateArgs {
    /// Network namespace, as listed by `ip netns`; by default the current one.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Directory with the generations.
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
    /// Other files of the ruleset.
    #[command(flatten)]
    pub sources_besides_file: SourcesBesidesFileArgs,
    /// Form to compile to.
    #[arg(long, value_enum, required_unless_present = "artefact")]
    pub to: Option<FormArg>,
    /// Directory written by `weir compile`, instead of a file.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["file", "to", "live", "ip6", "ipset", "table"]
    )]
    pub artefact: Option<PathBuf>,
    /// Also rewrite the chains of these programs: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// Number of packets to compare.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed for random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Limits of proofs.
    #[command(flatten)]
    pub limits: ProofLimitArgs,
}

/// `weir plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The ruleset.
    #[command(flatten)]
    pub ruleset: AppliedRulesetArgs,
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The ruleset.
    #[command(flatten)]
    pub ruleset: AppliedRulesetArgs,
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Roll back after this time unless `weir confirm` is run before: 60s, 5min; 90 is
    /// 90 seconds.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub confirm: Option<Duration>,
    /// Print the plan and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Also enable a systemd unit that starts weir boot, which loads the ruleset at every boot.
    #[arg(long, conflicts_with_all = ["netns", "state", "dry_run"])]
    pub boot: bool,
    /// Proceed although another program changed the ruleset; the changed ruleset is saved as a
    /// generation.
    #[arg(id = "force", long = "force")]
    pub ignores_foreign_changes: bool,
    /// Wait up to this time for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir confirm`.
#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// Confirm without a TCP connection, at a console of the machine.
    #[arg(long)]
    pub console: bool,
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Wait up to this time for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir rollback`.
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// Generation to restore; by default the one before the current one.
    pub generation: Option<u32>,
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Proceed although another program changed the ruleset; the changed ruleset is saved as a
    /// generation.
    #[arg(id = "force", long = "force")]
    pub ignores_foreign_changes: bool,
    /// Wait up to this time for another command that changes the ruleset.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir boot`.
#[derive(Debug, Args)]
pub struct BootArgs {
    /// Directory with the generations.
    #[arg(long, value_name = "DIR", env = "WEIR_STATE", default_value = "/var/lib/weir")]
    pub state: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `weir counters`.
#[derive(Debug, Args)]
pub struct CountersArgs {
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CountersFormatArg::Iptables)]
    pub format: CountersFormatArg,
    /// How --format prometheus identifies a rule.
    #[arg(long, value_enum, default_value_t = RuleLabelArg::Number)]
    pub key: RuleLabelArg,
    /// Print again after this time, until Ctrl-C: 5s, 1min.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub watch: Option<Duration>,
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
    /// The text format of Prometheus, with the other metrics of `weir serve`.
    Prometheus,
}

/// What the label `rule` of a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleLabelArg {
    /// The number in the chain, as `iptables -L --line-numbers` counts.
    Number,
    /// The content key, which stays if other rules are added or removed.
    Content,
}

/// `weir serve`.
#[derive(Debug, Args)]
#[group(id = "output", required = true, multiple = true)]
pub struct ServeArgs {
    /// Answer GET /metrics on this address: 127.0.0.1:9640, `[::]:9640`.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        group = "output",
        value_parser = parse_listen_address
    )]
    pub metrics: Option<SocketAddr>,
    /// Write the metrics to this file at each --interval, for the textfile collector of node_exporter.
    #[arg(long, value_name = "FILE.prom", group = "output")]
    pub textfile: Option<PathBuf>,
    /// How often --textfile is written.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_time)]
    pub interval: Duration,
    /// How a rule is identified.
    #[arg(long, value_enum, default_value_t = RuleLabelArg::Number)]
    pub key: RuleLabelArg,
    /// Namespace and state.
    #[command(flatten)]
    pub place: NamespaceAndStateArgs,
}

/// `weir supervise`, which `weir apply` and `weir rollback` start.
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// Directory with the generations.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,
    /// Process that makes the change.
    #[arg(long)]
    pub owner_pid: u32,
    /// Its start time, in clock ticks since the boot.
    #[arg(long)]
    pub owner_start_ticks: u64,
}

/// Parses an address with a port. `localhost` is 127.0.0.1; other names are not resolved.
fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    const EXAMPLES: &str = "127.0.0.1:9640, or [::1]:9640 for IPv6";
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        let is_without_port = text == "localhost"
            || text.parse::<IpAddr>().is_ok()
            || text.starts_with('[') && text.ends_with(']');
        match is_without_port {
            true => format!("the port is missing: write it after a colon, e.g. {EXAMPLES}"),
            false => format!("expected an IP address and a port, e.g. {EXAMPLES}"),
        }
    })
}

/// Parses a time: a number with `s`, `min` or `h`; without a unit, seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    const MAX_SECONDS: u64 = 7 * 86_400;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit_seconds = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err("expected a number of seconds, minutes or hours: 60s, 5min, 1h".to_owned()),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_seconds));
    match seconds {
        Some(seconds @ 1..=MAX_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err("expected a time from 1 second to 7 days: 60s, 5min, 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_have_a_port_and_errors_an_example() {
        for (text, address) in [
            ("127.0.0.1:9640", "127.0.0.1:9640"),
            ("[::]:1", "[::]:1"),
            ("localhost:9640", "127.0.0.1:9640"),
        ] {
            assert_eq!(parse_listen_address(text).unwrap().to_string(), address, "{text}");
        }
        for text in ["localhost", "127.0.0.1", "::1", "[::1]"] {
            let error = parse_listen_address(text).unwrap_err();
            assert!(
                error.contains("port is missing") && error.contains(":9640"),
                "{text}: {error}"
            );
        }
        for text in ["", "9640", ":9640", "example.org:9640", "localhost:", "127.0.0.1:99999"] {
            let error = parse_listen_address(text).unwrap_err();
            assert!(error.contains("IP address and a port, e.g. 127"), "{text}: {error}");
        }
    }

    #[test]
    fn a_time_is_a_number_with_an_optional_unit() {
        for (text, seconds) in [("60s", 60), ("5min", 300), ("5m", 300), ("1h", 3600), ("9", 9)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "s", "-5s", "5 s", "11000min", "5days", "99999999999999999999s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
