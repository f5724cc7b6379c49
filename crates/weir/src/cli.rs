//! The command line, as clap reads it. Help texts teach: each command says what it does, what it
//! prints, how it ends, and shows a line to copy.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Large Linux firewall rulesets made fast, proven equal, and measured.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Begin with what is in force, read only:
  iptables-save | weir check -
  weir compile --live --to nft -o office-nft
  weir verify --live office-nft
  sudo sh office-nft/load.sh        # sh office-nft/unload.sh puts back what was there

Exit status: 0 yes, 1 no (findings, differences), 2 it could not be done."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours; NO_COLOR in the environment means never.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Where standard error is a terminal.
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
    Fmt(Fmt),
    /// Count what a ruleset holds, and say what looks wrong in it.
    #[command(after_help = "\
Each finding has an id and a page: weir check --explain shadowed-rule. A comment line before a rule,
chain or set allows what is found there, before *filter in the whole table:
  # weir: allow(shadowed-rule): the auditor wants to see it

What is said of one ID wins over what is said of all; of --deny, --warn and --allow the first named
here wins. Exit status 1 where there is a warning or an error; notes alone give 0.

Example:
  iptables-save -c | weir check -c -
  weir check office.rules --ip6 office.rules6 --deny no-final-drop --format sarif > weir.sarif")]
    Check(Check),
    /// Do what weir can do about findings, prove that nothing else changed, and print the result.
    #[command(after_help = "\
Without counters allowed, only what never counted is removed. The text is printed as iptables-save
would print it; comments of removed rules go with them. Nothing is written that is not equal.

Example:
  weir optimize office.rules --fix shadowed-rule,duplicate-rule,unreachable-chain -o office.new
  weir optimize office.rules --all --allow counters --in-place")]
    Optimize(Optimize),
    /// Show the way of one packet through the chains: what each rule tested, how many were tried.
    #[command(after_help = "\
Words of a packet, in any order:
  iif NAME  oif NAME  ip|ip6 saddr|daddr ADDR  ip ttl N  ip dscp N  tcp|udp|sctp sport|dport N
  tcp flags syn,ack  icmp type echo-request  ether saddr MAC  ct state new  mark 0x1  length N
  fragment offset N  pkttype broadcast  proto N

Example:
  weir explain office.rules --hook forward \\
      --packet 'iif eth0 ip saddr 198.51.100.7 tcp dport 22 ct state new'")]
    Explain(Explain),
    /// Compile a ruleset to a form that costs less, as a folder that works without weir.
    #[command(after_help = "\
A form is made by passes, and each pass is checked: the meaning before and after it is compared, by
proof where that ends in time, and by packets on and around every boundary of every rule. What
differs is not written, and a packet shows it. What a form cannot express is refused, by name.

Passes (the guide says more):
  remove_duplicates      rules that repeat the tests of an earlier one
  remove_shadowed        rules that no packet reaches
  cheaper_match          u32 and string as what costs less; tests that others imply
  inline_chain           a short chain with one caller in the place of the jump
  merge_adjacent         neighbouring prefixes and ports as one (--allow counters)
  reorder_by_hits        what counts more is asked earlier (iptables-save -c)
  notrack                traffic that conntrack decides nothing about is not tracked
  early_drop             what is dropped anyway is dropped in raw PREROUTING (--allow counters)
  fold_into_set          rules that differ in one address as a set
  split_by_protocol      a chain for each protocol
  chain_tree             runs of prefixes as trees of chains
  fold_into_verdict_map  runs of rules as verdict maps (nft)

Example:
  weir compile office.rules --to tree -o office-tree
  weir compile office.rules --to tree --passes remove_shadowed,chain_tree -o office-tree
  sudo sh office-tree/load.sh")]
    Compile(Compile),
    /// Compare forms with the original in the kernel, packet by packet, counter by counter.
    #[command(after_help = "\
Everything happens in network namespaces that weir makes and removes.

Example:
  weir verify office.rules office-tree office-nft --packets 100000")]
    Verify(Verify),
    /// Prove two rulesets equal, or show which packets they treat differently.
    #[command(after_help = "\
An operand is iptables-save text, nft text that weir wrote or a listing of it, a folder that weir
compile wrote, or the word --live: what is in force in this network namespace (never written).
What is compared is the whole journey of every packet, by decision diagrams: equal is proven.

Exit status 0 equal, 1 different (or counters seen to differ), 2 it could not be decided.

Example:
  weir diff old.rules new.rules
  weir diff office.rules office-nft --counters
  weir diff --live new.rules --format markdown > review.md")]
    Diff(Diff),
    /// Write frames for a ruleset with the verdict that each should meet.
    #[command(
        after_help = "Example:\n  weir traffic office.rules --pattern miss --count 4096 -o miss.pcap"
    )]
    Traffic(Traffic),
    /// Run studies and show their results.
    #[command(subcommand)]
    Lab(Lab),
    /// Print what the papers tuned, in today's terms.
    #[command(after_help = "\
Nothing is set. The output is a file for `sysctl -p`; read its comments first, for some of it
reaches the whole machine.

Example:
  weir tune
  weir tune --json | jq '.[] | select(.reach == \"gone\")'")]
    Tune(Tune),
    /// Measure what a rule, a jump, a look into a set cost on this machine; write a cost model.
    #[command(after_help = "\
Takes about a minute on one core, in network namespaces that weir makes and removes. Do it while
the machine has nothing else to do.

Example:
  weir calibrate -o here.toml
  weir explain office.rules --packet 'ip saddr 192.0.2.1' --cost --cost-model here.toml")]
    Calibrate(Calibrate),
    /// Show what this kernel and machine have and lack.
    Doctor(Doctor),
    /// Write a generated ruleset to try things on.
    #[command(subcommand)]
    Example(Example),
    /// Remove what a killed weir left behind: namespaces, links, pins, processes.
    Reap,
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
}

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
    /// Only this table.
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Look host names up; without it they are refused.
    #[arg(long)]
    pub resolve: bool,
}

/// `weir fmt`.
#[derive(Debug, Args)]
pub struct Fmt {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset", "ipf"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// The count rules of an ipf.conf (IP Filter), printed as iptables-save text.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "live", "ip6", "ipset"])]
    pub ipf: Option<PathBuf>,
    /// Print counters, as `iptables-save -c` does.
    #[arg(short, long)]
    pub counters: bool,
}

/// `weir check`.
#[derive(Debug, Args)]
pub struct Check {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(
        value_name = "FILE",
        required_unless_present_any = ["live", "ip6", "ipset", "explain", "list"]
    )]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Counters are those of real traffic: find rules that no packet matched.
    #[arg(short, long)]
    pub counters: bool,
    /// Report findings of this kind as errors (`all`: of every kind).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub deny: Vec<String>,
    /// Report them as warnings, also those that are off by default.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub warn: Vec<String>,
    /// Do not report them.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Report::Text)]
    pub format: Report,
    /// JSON on standard output: the same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Draw every finding; without it, three of each kind.
    #[arg(long)]
    pub every: bool,
    /// Print the page of a kind of finding.
    #[arg(long, value_name = "ID", exclusive = true)]
    pub explain: Option<String>,
    /// List the kinds of findings.
    #[arg(long, exclusive = true)]
    pub list: bool,
}

/// `weir optimize`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["fix", "all"])))]
pub struct Optimize {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Fix findings of these kinds (`weir check --list` says which weir can fix).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub fix: Vec<String>,
    /// Fix all that weir can fix.
    #[arg(long)]
    pub all: bool,
    /// `counters`: also what loses counters, or makes them count otherwise.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// Also change these chains, although another program seems to own them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub chains: Vec<String>,
    /// Write to this file (with more than one text: to this folder) and not to standard output.
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    pub output: Option<PathBuf>,
    /// Overwrite the input.
    #[arg(long)]
    pub in_place: bool,
    /// Packets to compare with, for each family.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed of the random ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Report {
    /// Drawn at their places, for people.
    Text,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, which code review tools read.
    Sarif,
}

/// A hook where a packet begins its journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hook {
    /// Through the host.
    Forward,
    /// To the host.
    Input,
    /// From the host.
    Output,
}

impl Hook {
    /// The interpreter's word for it.
    pub fn entry(self) -> weir_semantics::Entry {
        match self {
            Hook::Forward => weir_semantics::Entry::Forward,
            Hook::Input => weir_semantics::Entry::Input,
            Hook::Output => weir_semantics::Entry::Output,
        }
    }
}

/// `weir explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Which way the packet goes.
    #[arg(long, value_enum, default_value_t = Hook::Forward)]
    pub hook: Hook,
    /// The packet.
    #[arg(long, value_name = "WORDS")]
    pub packet: String,
    /// What matches that the packet does not answer (limit, recent, owner, …) are taken to say.
    #[arg(long, value_enum, default_value_t = Assume::No)]
    pub assume: Assume,
    /// What the rules on the way cost, by kind of step.
    #[arg(long)]
    pub cost: bool,
    /// Prices that weir calibrate wrote; the shipped ones without it.
    #[arg(long, value_name = "FILE", requires = "cost")]
    pub cost_model: Option<PathBuf>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Answer of a match that the packet does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Assume {
    /// It matches.
    Yes,
    /// It does not match.
    No,
}

/// What a ruleset is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The ruleset as it is.
    Linear,
    /// A prefix tree of iptables chains.
    Tree,
    /// iptables with ipsets.
    Ipset,
    /// nftables with sets and verdict maps.
    Nft,
}

/// `weir compile`.
#[derive(Debug, Args)]
pub struct Compile {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// What to compile to.
    #[arg(long, value_enum)]
    pub to: Form,
    /// The folder to write.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Prefix lengths of the tree's levels, e.g. 8,18,20,22,24,26,28; the cost model's without it.
    #[arg(long, value_delimiter = ',', value_name = "LENGTHS")]
    pub levels: Option<Vec<u8>>,
    /// Packets of the check before writing.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed of its random packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Passes to run, in this order, instead of those of the form.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub passes: Option<Vec<String>>,
    /// A pass that is not to run.
    #[arg(long, value_name = "NAME")]
    pub no_pass: Vec<String>,
    /// Compare nothing before writing; the manifest says so.
    #[arg(long)]
    pub trust: bool,
    /// What a pass may lose: `counters` of rules that it merges or that come to see fewer packets.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub allow: Vec<Allow>,
    /// Rewrite the chains of these programs as well: docker, kube-proxy, firewalld, ufw.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAMS")]
    pub programs: Vec<String>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// What a pass may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Counters of single rules.
    Counters,
}

/// `weir verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The ruleset's text (not with --live or --ip6 alone), then folders that `weir compile` wrote.
    #[arg(value_name = "FILE DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Packets to compare.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub packets: usize,
    /// Seed of the random ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the packets that differ to this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A hook of its own, for `weir diff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OneHook {
    /// PREROUTING.
    Prerouting,
    /// INPUT.
    Input,
    /// FORWARD.
    Forward,
    /// OUTPUT.
    Output,
    /// POSTROUTING.
    Postrouting,
}

impl OneHook {
    /// The model's word for it.
    pub fn hook(self) -> weir_model::Hook {
        match self {
            OneHook::Prerouting => weir_model::Hook::Prerouting,
            OneHook::Input => weir_model::Hook::Input,
            OneHook::Forward => weir_model::Hook::Forward,
            OneHook::Output => weir_model::Hook::Output,
            OneHook::Postrouting => weir_model::Hook::Postrouting,
        }
    }
}

/// How `weir diff` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For a change review.
    Markdown,
}

/// `weir diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// Two of: a file (`-` is standard input), an artefact's folder, `--live`.
    #[arg(value_name = "OPERAND", num_args = 1..=2)]
    pub operands: Vec<String>,
    /// What is in force in this network namespace (never written): in the place of an operand.
    #[arg(long)]
    pub live: bool,
    /// ip6tables-save text that belongs to a file: A's, then B's; one stands for both.
    #[arg(long, value_name = "FILE")]
    pub ip6: Vec<PathBuf>,
    /// ipset save text that belongs to a file: A's, then B's; one stands for both.
    #[arg(long, value_name = "FILE")]
    pub ipset: Vec<PathBuf>,
    /// Look host names up; without it they are refused.
    #[arg(long)]
    pub resolve: bool,
    /// One hook alone instead of the whole journey.
    #[arg(long, value_enum)]
    pub hook: Option<OneHook>,
    /// Only what becomes of packets, not what is done to them on the way.
    #[arg(long)]
    pub verdict: bool,
    /// What becomes of packets and all that is done on the way (what is compared without it).
    #[arg(long, conflicts_with = "verdict")]
    pub effects: bool,
    /// Also which rules count: seen on packets, not proven.
    #[arg(long)]
    pub counters: bool,
    /// Packets for the counters.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub packets: usize,
    /// Seed of the random ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Conntrack is in use by other programs, whatever the rulesets ask for.
    #[arg(long)]
    pub conntrack: bool,
    /// Memory for the diagrams of one family and way, in MB.
    #[arg(long, default_value_t = 2048, value_name = "MB")]
    pub memory: usize,
    /// Give up after so many million steps for one family and way; the same on every machine.
    #[arg(long, default_value_t = 200, value_name = "MILLIONS")]
    pub steps: u64,
    /// How many regions of a difference are listed.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub regions: usize,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the packets that differ to this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}

/// Which packets `weir traffic` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// On and around every boundary of every rule, and random ones.
    Boundary,
    /// Decided by the last rule that accepts: every rule before it is tried.
    End,
    /// Evenly over the rules.
    Uniform,
    /// A few rules get most packets.
    Zipf,
    /// From the same /16s as the rules' addresses, but never listed.
    Near,
    /// Far from all addresses of the rules.
    Far,
}

/// `weir traffic`.
#[derive(Debug, Args)]
pub struct Traffic {
    /// iptables-save (or ip6tables-save) text; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["live", "ip6", "ipset"])]
    pub file: Option<PathBuf>,
    /// More of the ruleset.
    #[command(flatten)]
    pub operand: Operand,
    /// Which packets.
    #[arg(long, value_enum, default_value_t = Pattern::Uniform)]
    pub pattern: Pattern,
    /// Which way they go.
    #[arg(long, value_enum, default_value_t = Hook::Forward)]
    pub hook: Hook,
    /// How many.
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub count: usize,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Devices of every packet, where the topology settles them: `eth0,eth1`.
    #[arg(long, value_name = "IN,OUT", value_parser = pair)]
    pub devices: Option<(String, String)>,
    /// The pcap file to write; `FILE.verdicts` beside it holds a verdict a line.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `IN,OUT`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((iif, oif)) if !oif.contains(',') => Ok((iif.to_owned(), oif.to_owned())),
        _ => Err("two device names with a comma between them".to_owned()),
    }
}

/// `weir lab …`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Run a study: make its namespaces, load its subjects, measure them, keep records.
    #[command(
        after_help = "Example:\n  weir lab run studies/kadlecsik2005-rules -o run --preset quick"
    )]
    Run(LabRun),
    /// Measure the laboratory itself: what it sends, receives and tells apart on this machine.
    #[command(after_help = "\
The status is 1 where a packet or a connection was lost.

Example:
  weir lab selftest
  weir lab selftest --json | jq '.parts[] | {name, pps}'")]
    Selftest(LabSelftest),
    /// Write the report of a run: one HTML page that opens offline.
    Report(LabReport),
    /// Compare two runs of a study: status 1 where something became worse beyond the margin.
    #[command(after_help = "\
A point is worse where the whole 95 % interval of its ratio lies beyond the margin, and the
difference holds at 5 % over all points together (Holm).

Example:
  weir lab compare before after --margin 0.05")]
    Compare(LabCompare),
    /// Write a page over all studies: every claim with its outcome, and the report of each kept run.
    #[command(after_help = "Example:\n  weir lab index -o pages")]
    Index(LabIndex),
    /// Show a run, or the index of a folder of studies, in a browser on this machine.
    #[command(after_help = "\
Listens on 127.0.0.1 alone, until Ctrl-C. A page is made anew when the records have changed; that of
a run which goes on asks for itself every few seconds.

Example:
  weir lab serve run
  weir lab serve studies --port 8080")]
    Serve(LabServe),
    /// List what the papers say, with what became of it here and the command that measures it.
    #[command(after_help = "\
A status is computed from the records that are kept under STUDIES/*/runs, never typed.

Example:
  weir lab list
  weir lab list --status 'not built yet'
  weir lab list --json | jq '.[].items[] | {number, status}'")]
    List(LabList),
    /// The firewall's end of `weir lab run --hosts`; `ssh` starts it there.
    #[command(hide = true)]
    Agent,
}

/// `weir lab run`.
#[derive(Debug, Args)]
pub struct LabRun {
    /// A study's folder or its study.toml.
    pub study: PathBuf,
    /// Folder of the records.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// How long and how often: `quick` without it; with `--aa`, the study's preset `aa`, or else
    /// `smoke` at two points.
    #[arg(long)]
    pub preset: Option<String>,
    /// Seed of order and rulesets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Raise limits of the whole machine where the study needs it (connection tracking), and put
    /// them back at the end.
    #[arg(long)]
    pub allow_global: bool,
    /// Go on with a run that was interrupted: same study, preset and seed.
    #[arg(long)]
    pub resume: bool,
    /// Measure this subject against itself, as often as 20 runs would: how often is it called
    /// different? Status 1 where that is more than 3 times.
    #[arg(long = "aa", value_name = "SUBJECT")]
    pub against_itself: Option<String>,
    /// Write what came of `--aa` into the study's folder too, as aa.json: `weir lab list` and the
    /// index show it.
    #[arg(long, requires = "against_itself")]
    pub keep: bool,
    /// Search the highest rate of each subject with this loss, both bounds of it, rather than
    /// measure at overload; what is found is in OUTPUT/search.jsonl.
    #[arg(long, value_enum, conflicts_with_all = ["resume", "against_itself"])]
    pub search: Option<Loss>,
    /// Run over two machines: this one plays and counts, the firewall is another one that `ssh`
    /// reaches; the file names interfaces of both.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}

/// The loss that a search allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loss {
    /// None, in any trial.
    Zero,
    /// Half a percent; one trial of three may be worse.
    Partial,
}

impl Loss {
    /// The goal that it stands for.
    pub fn goal(self) -> weir_stats::search::Goal {
        match self {
            Loss::Zero => weir_stats::search::Goal::ZERO_LOSS,
            Loss::Partial => weir_stats::search::Goal::PARTIAL_LOSS,
        }
    }
}

/// `weir lab compare`.
#[derive(Debug, Args)]
pub struct LabCompare {
    /// Folder of the records before.
    pub first: PathBuf,
    /// Folder of the records after.
    pub second: PathBuf,
    /// What may change before it matters: 0.05 is a twentieth.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE")]
    pub margin: f64,
    /// Compare rates as they are, rather than against the subject without rules.
    #[arg(long)]
    pub absolute: bool,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab list`.
#[derive(Debug, Args)]
pub struct LabList {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Only items with this status, e.g. `reproduced`.
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// JSON on standard output.
    #[arg(long, conflicts_with = "status")]
    pub json: bool,
    /// Write the list of each study into its README, between its marks.
    #[arg(long, conflicts_with_all = ["json", "status"])]
    pub write: bool,
}

/// `weir lab index`.
#[derive(Debug, Args)]
pub struct LabIndex {
    /// Folder of the studies.
    #[arg(default_value = "studies")]
    pub studies: PathBuf,
    /// Folder to write index.html, the reports and the trials to.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `weir lab serve`.
#[derive(Debug, Args)]
pub struct LabServe {
    /// Folder of the records of a run, or of studies.
    pub folder: PathBuf,
    /// Port; 0: any that is free.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// `weir lab selftest`.
#[derive(Debug, Args)]
pub struct LabSelftest {
    /// Length of a trial; above 0.6 s without real-time priority.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.4)]
    pub trial: f64,
    /// Passes over all parts, each there and back.
    #[arg(long, default_value_t = 5)]
    pub blocks: u32,
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir lab report`.
#[derive(Debug, Args)]
pub struct LabReport {
    /// Folder of the records.
    pub run: PathBuf,
    /// The page; RUN/report.html without it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Artefacts whose manifests the report shows.
    #[arg(long, value_name = "DIR")]
    pub artefact: Vec<PathBuf>,
    /// What `weir verify --json` printed, to be shown too.
    #[arg(long, value_name = "FILE")]
    pub verified: Vec<PathBuf>,
}

/// `weir tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// File to write, as TOML; standard output without it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How long and how often: smoke or quick.
    #[arg(long, default_value = "quick")]
    pub preset: String,
    /// Seed of order and packets.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `weir doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// `weir example …`.
#[derive(Debug, Subcommand)]
pub enum Example {
    /// An access network: 2,105 customers, 36,532 filter rules in 9,827 chains, and an IPv6 twin.
    Isp {
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Size against the whole, above 0 and at most 1.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Folder to write isp.rules, isp.rules6 and isp.ipset to; without it, the IPv4 text is
        /// printed.
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// UDP or TCP frames of several flows, all with the same verdict.
    Frames {
        /// How many flows: sources beside each other, from 10.9.0.1 on.
        #[arg(long, default_value_t = 1)]
        flows: u32,
        /// The first source.
        #[arg(long, default_value = "10.9.0.1")]
        from: std::net::Ipv4Addr,
        /// Where they go.
        #[arg(long, default_value = "203.0.113.9")]
        to: std::net::Ipv4Addr,
        /// TCP rather than UDP, to this port.
        #[arg(long)]
        tcp: bool,
        /// Port of the destination.
        #[arg(long, default_value_t = 53)]
        port: u16,
        /// What the packets carry.
        #[arg(long, default_value = "")]
        payload: String,
        /// The verdict that all of them meet.
        #[arg(long, value_parser = ["accept", "drop"], default_value = "accept")]
        verdict: String,
        /// The pcap file to write; `FILE.verdicts` beside it holds a verdict a line.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// The rules of a node of Kubernetes, as kube-proxy writes them.
    Services {
        /// How many services, 1 to 20,000; each has about eight rules.
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The firewall of a university: departments with the services that they have opened.
    University {
        /// How many, 1 to 200; each has about 25 rules.
        #[arg(long, default_value_t = 100)]
        departments: usize,
        /// Seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Without rules of state, and with NOTRACK before all others.
        #[arg(long)]
        untracked: bool,
    },
    /// COUNT rules that do not match before the one that accepts.
    Rules {
        /// How many.
        #[arg(long, default_value_t = 1024)]
        count: usize,
        /// Seed of the addresses.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// As nftables text written by hand: one rule a line, no sets.
        #[arg(long)]
        nft: bool,
    },
}
