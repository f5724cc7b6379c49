//! The reference tools, and the comparison with them.

use std::fmt;
use std::io::Write as _;
use std::process::{Command, Stdio};

use weir_model::{Family, IpSet, TableName};
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParserSettings};

use crate::generate::ModuleSubject;

/// The sets that rules may name.
const SETS: &str = "create s hash:ip family inet\ncreate t hash:ip,port family inet\n\
    create s6 hash:ip family inet6\n";

/// A line with the table it belongs to.
#[derive(Clone, Debug)]
pub struct Line {
    pub table: TableName,
    pub text: String,
}

/// How many lines went which way.
#[derive(Default)]
pub struct Counts {
    pub accepted: usize,
    pub refused: usize,
    /// Of the refused ones, those that `--test` takes: the kernel refuses them.
    pub kernel: usize,
    /// Of the refused ones, those that the tool takes for something else than they say.
    pub safer: usize,
    /// Accepted ones that `iptables-save` prints so that they lose their meaning; weir prints them
    /// so that they load as they were.
    pub lossy: usize,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.kernel += other.kernel;
        self.safer += other.safer;
        self.lossy += other.lossy;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { accepted, refused, kernel, safer, lossy } = self;
        write!(f, "{accepted} accepted, {refused} refused ({kernel} by the kernel, ")?;
        write!(f, "{safer} by weir alone), {lossy} lossy")
    }
}

/// What the test cannot run without, if it is not there.
pub fn lacking() -> Option<String> {
    for (tool, args) in [
        ("iptables-legacy-restore", &["--version"][..]),
        ("ip6tables-legacy-restore", &["--version"]),
        ("ipset", &["--version"]),
        ("unshare", &["--version"]),
    ] {
        let out = Command::new(tool).args(args).stdin(Stdio::null()).output();
        match out {
            Ok(out) if out.status.success() => {
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                if tool.contains("tables") && !text.contains("1.8.9") {
                    return Some(format!("{tool} 1.8.9, not {}", text.trim()));
                }
            }
            _ => return Some(format!("the program {tool}")),
        }
    }
    let made = Command::new("unshare").args(["-n", "true"]).stderr(Stdio::null()).status();
    (!made.is_ok_and(|s| s.success())).then(|| "root, for network namespaces".to_owned())
}

/// Whether the kernel has no module of that name, which the effects of no rule depend on.
///
/// A module with a row in the table of effects is compared in any case.
pub fn lacks_kernel_module(family: Family, module: &ModuleSubject) -> bool {
    let m = &module.description;
    let rule = format!("-A INPUT {} {}", if m.is_target { "-j" } else { "-m" }, m.name);
    let text = section(TableName::Filter, &[&rule]);
    let (_, _, stderr) = run(&tool(family, "restore"), &["--test"], &text);
    !m.has_effect_row() && stderr.contains("missing kernel module")
}

/// Creates the sets in this namespace.
pub fn prepare_sets() {
    run("ipset", &["restore"], SETS);
}

fn run(tool: &str, args: &[&str], input: &str) -> (bool, String, String) {
    let child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return (false, String::new(), format!("{tool} not run")) };
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that ends at a bad line closes its end: that is its answer, not an error.
        let _ = stdin.write_all(input.as_bytes());
    }
    match child.wait_with_output() {
        Ok(out) => (
            out.status.success(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        ),
        Err(error) => (false, String::new(), error.to_string()),
    }
}

fn tool(family: Family, what: &str) -> String {
    match family {
        Family::V4 => format!("iptables-legacy-{what}"),
        Family::V6 => format!("ip6tables-legacy-{what}"),
    }
}

fn section(table: TableName, lines: &[&str]) -> String {
    let mut out = format!("*{table}\n:user - [0:0]\n");
    for l in lines {
        out.push_str(l);
        out.push('\n');
    }
    out.push_str("COMMIT\n");
    out
}

fn options(family: Family, sets: &[IpSet]) -> ParserSettings<'_> {
    ParserSettings { family: Some(family), known_sets: Some(sets), ..ParserSettings::default() }
}

/// Compares weir with the tool on each line.
pub fn compare(
    family: Family,
    module: Option<&ModuleSubject>,
    lines: &[Line],
) -> (Counts, Vec<String>) {
    let keeps_spelling = module.is_some_and(|m| m.description.keeps_spelling);
    let own = module.map_or(&[][..], |m| &m.samples.weir_only_error_words);
    let is_safer = |message: &str| {
        SAFER.iter().copied().chain(own.iter().map(String::as_str)).any(|s| message.contains(s))
    };
    let sets = ipset::parse(SETS).expect("the sets of the test are well formed");
    let mut counts = Counts::default();
    let mut differences = Vec::new();
    let mut accepted: Vec<&Line> = Vec::new();
    for line in lines {
        let text = section(line.table, &[&line.text]);
        match iptables::parse(&text, &options(family, &sets)) {
            Ok(_) => accepted.push(line),
            Err(errors) => {
                counts.refused += 1;
                let (loads, _, _) = run(&tool(family, "restore"), &[], &text);
                if loads && is_safer(&errors[0].message) {
                    counts.safer += 1;
                } else if loads {
                    let why = &errors[0].message;
                    differences.push(format!("weir refuses ({why}): {}", line.text));
                } else if run(&tool(family, "restore"), &["--test"], &text).0 {
                    counts.kernel += 1;
                }
            }
        }
    }
    counts.accepted = accepted.len();
    for table in TableName::ALL {
        let own: Vec<&str> =
            accepted.iter().filter(|l| l.table == table).map(|l| l.text.as_str()).collect();
        counts.lossy += load((family, table), keeps_spelling, own, &sets, &mut differences);
    }
    (counts, differences)
}

/// Loads what weir accepts, line by line less where the tool refuses, and compares the prints.
fn load(
    (family, table): (Family, TableName),
    keeps_spelling: bool,
    mut lines: Vec<&str>,
    sets: &[IpSet],
    differences: &mut Vec<String>,
) -> usize {
    while !lines.is_empty() {
        let text = section(table, &lines);
        let (loads, _, stderr) = run(&tool(family, "restore"), &[], &text);
        if loads {
            return compare_print((family, table), keeps_spelling, &lines, sets, differences);
        }
        let bad = blamed(&stderr).filter(|n| (3..lines.len() + 3).contains(n)).map(|n| n - 3);
        let bad = bad.unwrap_or_else(|| bisect(family, table, &lines));
        let said = stderr.lines().next().unwrap_or("").to_owned();
        differences.push(format!("the tool refuses ({said}): {}", lines[bad]));
        lines.remove(bad);
    }
    0
}

/// The line that the tool names, from 1.
fn blamed(stderr: &str) -> Option<usize> {
    let after = |mark: &str| {
        let rest = &stderr[stderr.find(mark)? + mark.len()..];
        rest.split(|c: char| !c.is_ascii_digit()).find(|w| !w.is_empty())?.parse().ok()
    };
    after("at line:").or_else(|| after("line "))
}

/// The first line without which those before it load.
fn bisect(family: Family, table: TableName, lines: &[&str]) -> usize {
    let (mut good, mut bad) = (0, lines.len());
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        let text = section(table, &lines[..middle]);
        if run(&tool(family, "restore"), &[], &text).0 {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

fn saved(family: Family, table: TableName) -> Vec<String> {
    let (_, out, _) = run(&tool(family, "save"), &["-t", table.as_str()], "");
    out.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

/// The print must load the same; unless the spelling of the module is kept, it is also the tool's.
fn compare_print(
    (family, table): (Family, TableName),
    keeps_spelling: bool,
    lines: &[&str],
    sets: &[IpSet],
    differences: &mut Vec<String>,
) -> usize {
    let theirs = saved(family, table);
    let text = section(table, lines);
    let ruleset = match iptables::parse(&text, &options(family, sets)) {
        Ok(r) => r,
        Err(errors) => {
            differences.push(format!("refused together: {}", errors[0].message));
            return 0;
        }
    };
    let printed = iptables::print(&ruleset, false);
    let again = iptables::parse(&printed, &options(family, sets));
    if again.map(|r| iptables::print(&r, false)).as_deref() != Ok(printed.as_str()) {
        differences.push(format!("what weir prints of {table} is not read back the same"));
    }
    let ours: Vec<String> = printed.lines().map(str::to_owned).collect();
    if ours == theirs {
        return 0;
    }
    let apart: Vec<(&String, &String)> = ours.iter().zip(&theirs).filter(|(a, b)| a != b).collect();
    // The kernel must hold the same after loading what weir prints.
    let (loads, _, _) = run(&tool(family, "restore"), &[], &printed);
    let reloaded = saved(family, table);
    for (a, b) in &apart {
        if !keeps_spelling && !KNOWN_LOSSES.iter().any(|loss| loss(a, b)) {
            differences.push(format!("prints differ:\n      weir {a}\n      tool {b}"));
        }
    }
    if !loads || reloaded != theirs || ours.len() != theirs.len() {
        differences.push(format!("what weir prints of {table} does not load the same"));
    }
    if keeps_spelling { 0 } else { apart.len() }
}

/// What weir refuses although the tool does not, because the tool silently reads another thing:
/// the words of the error. Those of one module are in its file of `testdata/options`.
const SAFER: &[&str] = &[
    // 70000 is 4464, and no port is 0 (udp, dccp, conntrack, TPROXY).
    "is above 65535",
    "empty port",
    // `-i !` is a device of that name.
    "old negation",
    // `--physdev-in ""`.
    "empty device name",
    // Days 8 and nothing (time).
    "no day ",
    // Names of hosts and of networks (`default` of /etc/networks) are not looked up.
    "instead of an address",
    // 256 is 0, and 70000 is 4464 (SYNPROXY).
    "is not from 0 to 255",
    "is not from 0 to 65535",
];

/// Lines that `iptables-save` prints so that they cannot be read back as they were.
const KNOWN_LOSSES: &[fn(&str, &str) -> bool] = &[
    // A negated test of everything is omitted.
    |ours, theirs| ours.contains("! -i +") && !theirs.contains("! -i +"),
    |ours, theirs| ours.contains("! -o +") && !theirs.contains("! -o +"),
    |ours, theirs| ours.contains("port 0:65535") && !theirs.contains("port 0:65535"),
    |ours, theirs| ours.contains("spi 0:4294967295") && !theirs.contains("spi 0:"),
    // From 0 to 0 is printed as from 0 on.
    |ours, theirs| ours.replace("--connbytes 0:0", "--connbytes 0") == theirs,
    // No day at all is an empty word.
    |ours, theirs| ours.contains("! --weekdays") && theirs.contains("--weekdays  "),
    |ours, theirs| ours.contains("! --monthdays") && theirs.contains("--monthdays  "),
    // Names with blanks are not quoted.
    |ours, theirs| ours.replace('"', "") == theirs,
    // A base port that SNAT lost is printed as 0, which is refused.
    |ours, theirs| ours.contains("--to-source") && theirs.contains("-90/0"),
    // Flags that a mask of none cannot have: the rule never holds.
    |ours, theirs| ours.contains("--tcp-flags NONE ") && !theirs.contains("--tcp-flags"),
    // Zone 0 of one direction.
    |ours, theirs| ours.contains("--zone-") && !theirs.contains("--zone"),
    // The end of a range of ICMP codes is omitted.
    |ours, theirs| {
        let options = ["--icmp-type ", "--icmpv6-type "];
        ours.contains(':') && options.iter().any(|o| without(ours, o) == without(theirs, o))
    },
    // A mask above 32 is not read back, and that of a node above the sixth is one.
    |ours, theirs| ours.contains("--cluster-local-node ") && theirs.contains("-nodemask 0x"),
    // An average over more than 4294 seconds is printed as another one; weir keeps the spelling.
    |ours, theirs| {
        let is_as_saved = [".0ms --rateest-ewmalog", ".0s --rateest-ewmalog"];
        ours.contains("--rateest-ewmalog ")
            && theirs.contains(is_as_saved[0])
            && !is_as_saved.iter().any(|times| ours.contains(times))
    },
    // A rate below 16 bytes per second is printed as none.
    |ours, theirs| ours.replace(" 1b/s", " 0b/s") == theirs,
    // Rates and bursts are rounded.
    |ours, theirs| {
        ["--limit ", "--hashlimit-burst "].iter().any(|o| without(ours, o) == without(theirs, o))
    },
];

/// A line without an option and its value.
fn without(line: &str, option: &str) -> String {
    match line.split_once(option) {
        Some((before, after)) => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before}{rest}")
        }
        None => line.to_owned(),
    }
}
