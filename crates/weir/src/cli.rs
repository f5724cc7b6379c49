//! The command line, as clap parses it. Each help text says what the command does, what it prints
//! and its exit status, and has an example to copy.

mod bench;
mod calibrate;
mod check;
mod compile;
mod diff;
mod doctor;
mod example;
mod explain;
mod filter_hook;
mod fmt;
mod generations;
mod lab;
mod limits;
mod operand;
mod optimize;
mod paper_tunings;
mod policy_test;
mod set;
mod status;
mod traffic;
mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use bench::{BenchClassifyArgs, BenchCommand, TracePatternArg};
pub use calibrate::CalibrateArgs;
pub use check::{CheckArgs, CheckFormatArg};
pub use compile::{AllowedCounterLossArg, CompileArgs, FormArg};
pub use diff::{DiffArgs, DiffFormatArg};
pub use doctor::DoctorArgs;
pub use example::{ExampleCommand, FilterSetShapeArg};
pub use explain::{AssumedMatchResultArg, ExplainArgs};
pub use fmt::FmtPrintArgs;
pub use generations::{
    AppliedRulesetArgs, ApplyArgs, BootArgs, ConfirmArgs, CountersArgs, CountersFormatArg,
    HistoryArgs, NamespaceAndStateArgs, PlanArgs, RollbackArgs, RuleLabelArg, ServeArgs,
    SuperviseArgs,
};
pub use lab::{
    LabCommand, LabCompareArgs, LabIndexArgs, LabListArgs, LabRefereeArgs, LabReportArgs,
    LabRunArgs, LabSelftestArgs, LabServeArgs, SearchLossArg,
};
pub use limits::TimeLimitArgs;
pub use operand::{IptablesVariantArg, SourcesBesidesFileArgs};
pub use optimize::OptimizeArgs;
pub use paper_tunings::TuneArgs;
pub use policy_test::{PolicyTestArgs, PolicyTestFormatArg};
pub use set::{NftTableOfSetArgs, SetChangeArgs, SetCommand, SetListArgs, SetSwapArgs};
pub use status::StatusArgs;
pub use traffic::{TrafficArgs, TrafficPatternArg};
pub use verify::VerifyArgs;

/// Make large Linux firewall rulesets fast, prove that nothing else changed, and measure both.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Start with the ruleset in force; of these commands, only load.sh changes it:
  sudo iptables-save | weir check -
  sudo weir compile --live --to nft -o office-nft
  sudo weir verify --live office-nft
  sudo sh office-nft/load.sh        # sh office-nft/unload.sh restores the previous ruleset

Exit status: 0 success, 1 findings or differences, 2 error."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours; NO_COLOR in the environment means never.
    #[arg(long, global = true, value_enum, default_value_t = ColorOption::Auto)]
    pub color: ColorOption,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorOption {
    /// If the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// weir's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a ruleset back, normalised as the kernel would.
    #[command(after_help = "Example:\n  weir fmt office.rules\n  ipset save | weir fmt --ipset -")]
    Fmt(FmtPrintArgs),
    /// Summarise a ruleset and report likely mistakes in it.
    #[command(after_help = "\
Each finding has an id and a page: weir check --explain shadowed-rule. A comment line before a rule,
chain or set suppresses findings there; before *filter, in the whole table:
  # weir: allow(shadowed-rule): the auditor wants to see it

A specific ID overrides `all`. If an ID is given to several of these options, --deny wins over
--warn, and --warn over --allow. Exit status 1 if there is a warning or an error; notes alone
give 0.

A baseline lists findings that are known, so that only new ones are reported and fail a build.

Example:
  iptables-save -c | weir check -c -
  weir check --format short hosts/*.rules
  weir check office.rules --write-baseline office.known
  weir check office.rules --baseline office.known
  weir check office.rules --ip6 office.rules6 --deny no-final-drop --format sarif > weir.sarif")]
    Check(CheckArgs),
    /// Apply the fixes of findings, prove that nothing else changed, and print the result.
    #[command(after_help = "\
Without --allow counters, only rules that can never count a packet are removed. The text is printed
as iptables-save would print it, without the comments of removed rules. A result that is not equal
to the input is not written.

Example:
  weir optimize office.rules --fix shadowed-rule,duplicate-rule,unreachable-chain -o office.new
  weir optimize office.rules --all --allow counters --in-place")]
    Optimize(OptimizeArgs),
    /// Trace one packet through the chains: what each rule tested, how many were evaluated.
    #[command(after_help = "\
Words of a packet, in any order:
  iif NAME  oif NAME  ip|ip6 saddr|daddr ADDR  ip ttl N  ip dscp N  tcp|udp|sctp sport|dport N
  tcp flags syn,ack  icmp type echo-request  ether saddr MAC  ct state new  mark 0x1  length N
  fragment offset N  pkttype broadcast  proto N

An address, device, protocol, port or ICMP type that a rule tests must be given. Other fields have
the values of a plain packet (ct state new, TTL 64, TCP SYN, mark 0); those that a rule tested are
listed below the journey.

--engine also finds the matching rules of each table by look-ups in a classifier, and ends with an
error if they differ from the trace.

Example:
  weir explain office.rules --hook forward \\
      --packet 'iif eth0 oif eth1 ip saddr 198.51.100.7 ip daddr 192.0.2.1 tcp dport 22'")]
    Explain(ExplainArgs),
    /// Compile a ruleset to a faster form: a folder with scripts that work without weir.
    #[command(after_help = "\
Passes generate a form, and each pass is checked: the rulesets before and after it are compared, by
proof within a budget, and by packets on and around every boundary of every rule. If they differ,
nothing is written, and weir prints a packet that shows it. If a form cannot express a rule, weir
names the rule and writes nothing. Extensions that weir does not know are kept unchanged.

--to classifier writes look-up blocks for programs that evaluate them themselves: no tool loads
them, and no pass runs. Rules that a look-up alone cannot decide (limit, LOG, MARK, …) are refused;
--chain selects chains without such rules.

Passes (details are in the guide):
  remove_duplicates      rules that repeat the tests of an earlier one
  remove_shadowed        rules that no packet reaches
  cheaper_match          replace u32 and string by cheaper matches; drop implied tests
  inline_chain           a short chain with one caller replaces the jump
  merge_adjacent         join neighbouring prefixes and ports (--allow counters)
  reorder_by_hits        move frequently hit rules up (iptables-save -c)
  notrack                do not track traffic whose verdict never depends on conntrack
  early_drop             drop in raw PREROUTING what is dropped anyway (--allow counters)
  fold_into_set          rules that differ in one address become a set
  split_by_protocol      a chain per protocol
  chain_tree             consecutive rules that test prefixes become trees of chains
  fold_into_verdict_map  consecutive rules become verdict maps (nft)

Example:
  weir compile office.rules --to tree -o office-tree
  weir compile office.rules --to tree --passes remove_shadowed,chain_tree -o office-tree
  weir compile office.rules --to classifier --chain filter/FORWARD -o office-blocks
  sudo sh office-tree/load.sh")]
    Compile(CompileArgs),
    /// Compare forms with the original in the kernel, packet by packet, counter by counter.
    #[command(after_help = "\
Everything happens in network namespaces that weir creates and removes.

Example:
  weir verify office.rules office-tree office-nft --packets 100000")]
    Verify(VerifyArgs),
    /// Prove two rulesets equal, or show which packets they treat differently.
    #[command(after_help = "\
An operand is iptables-save text, nft text that weir wrote, the output of nft list ruleset for it, a
folder that weir compile wrote, or --live: the ruleset in force in this network namespace (weir only
reads it).
The whole journey of every packet is compared, by decision diagrams: equal means proven.

Exit status 0 equal, 1 different (or counters seen to differ), 2 undecided or error.

Example:
  weir diff old.rules new.rules
  weir diff office.rules office-nft --counters
  weir diff --live new.rules --format markdown > review.md")]
    Diff(DiffArgs),
    /// Test a ruleset against a policy: packets and regions with the verdicts that they must have.
    #[command(after_help = "\
A policy has one test per line; an indented line continues the one above, # begins a comment:
  \"web is open\" accept all iif wan0 oif dmz0 ip daddr 192.168.20.5 tcp dport { 80, 443 }
  drop packet iif wan0 ip saddr 198.51.100.7 ip daddr 203.0.113.20 tcp dport 22

`packet` is followed by one packet in the words of explain --packet, `all` by a region: fields with
values, prefixes, ranges, lists { A, B } or != VALUE. A region holds only if all its packets have the
verdict, on every path that its devices allow (`via forward` selects one): decision diagrams decide.
Verdicts: accept, drop, reject, reject with TYPE, deny (drop or reject), handed-over. `if limit
matches` at the end assumes the result of matches that packets do not determine.

Exit status 0 all tests hold, 1 some fail, 2 undecided, no packet in a region, or error.

Example:
  weir test office.policy office.rules --ip6 office.rules6
  weir test office.policy --live --format junit > weir.xml")]
    Test(PolicyTestArgs),
    /// Write frames for a ruleset, each with its expected verdict.
    #[command(
        after_help = "Example:\n  weir traffic office.rules --pattern far --count 4096 -o far.pcap"
    )]
    Traffic(TrafficArgs),
    /// Show the steps of an apply, what they change, and what prevents it.
    #[command(after_help = "\
The ruleset is compiled and checked as by weir compile. Nothing is changed or written. Steps
are listed in the order of their execution.

Exit status 0 it can be applied, 1 conflicts, 2 error.

Example:
  sudo weir plan office.rules --to nft
  sudo weir plan office.rules --to tree --json | jq '.steps[].description'")]
    Plan(PlanArgs),
    /// Put a ruleset in force as a new generation: all or nothing, and reversible.
    #[command(after_help = "\
The ruleset is compiled and checked as by weir compile. The ruleset in force is then replaced
in steps, ordered so that every packet traverses the old ruleset, the new one or both. If a step
fails, or weir is killed, the old ruleset is restored. The ruleset that was in force before the first
apply is saved as a generation that weir rollback can restore.

With --confirm, the old ruleset is restored after that time unless weir confirm is run over a TCP
connection opened after the change. The timer does not depend on weir or its terminal.

An apply is refused if other programs changed the ruleset of the last generation, if rules of
iptables-nft would be evaluated as well, and if chains of other programs would be lost.

Example:
  sudo weir apply office.rules --to nft --confirm 60s
  sudo weir apply office.rules --ip6 office.rules6 --to ipset
  sudo weir apply --artefact office-nft --netns customer7")]
    Apply(ApplyArgs),
    /// Confirm the generation in force, so that it is not rolled back.
    #[command(after_help = "\
Run it in a new session, which shows that you can still log in: a parent process of the command must
have a TCP connection from another host that was accepted after the ruleset was in force. At a
console, use --console.

Example:
  sudo weir confirm
  sudo weir confirm --console")]
    Confirm(ConfirmArgs),
    /// Restore an earlier generation; rules keep their counters.
    #[command(after_help = "\
Without a number, the generation before the current one is restored.

Example:
  sudo weir rollback
  sudo weir rollback 0")]
    Rollback(RollbackArgs),
    /// After a boot, put the generation in force again that was in force before it.
    #[command(after_help = "\
The systemd unit weir.service starts it before the network is configured; weir apply --boot enables
the unit. The generation is applied as a new one: what weir apply refuses is refused. A generation
that waited for its confirmation when the machine went down is not restored, but the one before it.
If a generation is in force since the boot, nothing is changed.

Example:
  sudo weir boot
  sudo systemctl enable weir")]
    Boot(BootArgs),
    /// List generations with their time, form, files and outcome.
    #[command(
        after_help = "Example:\n  sudo weir history\n  sudo weir history --json | jq '.in_force'"
    )]
    History(HistoryArgs),
    /// Print the original ruleset with the counters of the form in force.
    #[command(after_help = "\
The counters of the form are summed for each rule of the files that were applied. Rules that are also
in the next generation keep their counters.

Example:
  sudo weir counters
  sudo weir counters --format csv > counters.csv
  sudo weir counters --watch 5s")]
    Counters(CountersArgs),
    /// Export counters and other metrics to Prometheus.
    #[command(after_help = "\
Metrics: packets and bytes of the rules and policies of the files that were applied, whatever their
form; the generation in force and how long its apply took; elements of ipsets; entries of the
connection tracking table. weir_counters_readable is 0, and there are no rule counters, if nothing
was applied, the ruleset is being changed, or another program changed it.

Anybody who can connect to the address can read the metrics: 127.0.0.1 is this host alone.

Example:
  sudo weir serve --metrics 127.0.0.1:9640
  sudo weir serve --textfile /var/lib/prometheus/node-exporter/weir.prom --key content")]
    Serve(ServeArgs),
    /// Recover interrupted changes; roll back unconfirmed generations.
    #[command(hide = true)]
    Supervise(SuperviseArgs),
    /// Run studies and show their results.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Show which firewalls run here, whose they are, and in which order packets traverse them.
    #[command(after_help = "\
Tables of legacy iptables, of iptables-nft and of nftables, ipsets, XDP programs, tc filters, BPF
programs at netfilter hooks. Looking changes nothing: no module is loaded and no table created. What
cannot be read, for example without root, is listed as not seen.

Exit status 0 if everything was seen, 1 if something was not.

Example:
  sudo weir status
  sudo weir status --netns customer7 --json | jq '.firewalls_by_family'")]
    Status(StatusArgs),
    /// List sets of ipset and nftables, and update sets of addresses from lists.
    #[command(subcommand)]
    Set(SetCommand),
    /// Print the kernel settings that the studied papers tuned, as today's sysctls.
    #[command(after_help = "\
Nothing is set. The output is a file for `sysctl -p`; read its comments first, because some of the
settings are global.

Example:
  weir tune
  weir tune --json | jq '.tunings[] | select(.reach == \"gone\")'")]
    Tune(TuneArgs),
    /// Measure what a rule, a jump and a set lookup cost on this machine; write a cost model.
    #[command(after_help = "\
Takes about a minute on one core, in network namespaces that weir creates and removes. Run it while
the machine is idle.

Example:
  weir calibrate -o here.toml
  weir explain office.rules --cost --cost-model here.toml \\
      --packet 'iif lan0 oif wan0 ip saddr 192.0.2.1 ip daddr 198.51.100.7 tcp dport 443'")]
    Calibrate(CalibrateArgs),
    /// Measure classifiers.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what this kernel and machine support and what is missing.
    Doctor(DoctorArgs),
    /// Write a generated ruleset, filter set or frames for experiments.
    #[command(subcommand)]
    Example(ExampleCommand),
    /// Remove leftovers of runs that were killed: namespaces, links, pins, processes.
    Reap,
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man {
        /// Write a page for every command to this folder instead: weir.1, weir-apply.1, …
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The commands in a help text, split into words, without pipes and redirections.
    fn examples(help: &str) -> Vec<Vec<String>> {
        let joined = help.replace("\\\n", " ");
        let lines = joined.lines().flat_map(|line| line.split('|'));
        let shown = lines.map(|line| line.trim().trim_start_matches("sudo "));
        let shown = shown.filter(|line| line.starts_with("weir "));
        shown.map(|line| words(line.split(" > ").next().expect("a part"))).collect()
    }

    /// Words as a shell would split them; single quotes are the only ones.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (i, part) in line.split('\'').enumerate() {
            match i % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    fn all(command: &clap::Command, found: &mut Vec<Vec<String>>) {
        for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten()
        {
            found.extend(examples(&help.to_string()));
        }
        command.get_subcommands().for_each(|c| all(c, found));
    }

    #[test]
    fn every_command_shown_by_help_is_accepted() {
        let mut shown = Vec::new();
        all(&Cli::command(), &mut shown);
        assert!(shown.len() > 20, "{shown:?}");
        for words in shown {
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{words:?}: {error}");
            }
        }
        let wrong = Cli::try_parse_from(words("weir traffic office.rules --pattern miss -o x"));
        assert!(wrong.is_err(), "an unknown value is an error");
    }
}
