//! The calls of a reload of a large provider, generated, as one transaction.
//!
//! `cargo run --release -p weir-apply --example transaction_trace`, as root. A filter table of
//! 5,789 chains and 22,827 rules is changed by the mix of calls that J. D. Brouer published in
//! 2008: 1 `set_policy`, 8,399 `append_rule`, 4,463 `insert_rule`, 4,726 `flush_entries`, 1,181
//! `list_rules`, 46,965 `is_chain`, 8,922 `delete_rule`, one `init` and one `commit`: 74,659 calls.
//! Rules are given as text and parsed within the measured time. The changes go through
//! `iptables-legacy-restore --noflush`, too, and the tool's listings are compared.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use weir_apply::iptables::Transaction;
use weir_apply::xtables::load_table;
use weir_kernel::xtables::{XtablesLock, XtablesSocket};
use weir_kernel::{Namespace, Session};
use weir_model::{Family, Policy, TableName};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_testkit::random_ruleset::TestRng;

const ROUNDS: usize = 7;
const CHAINS: usize = 5_789;
const RULES: usize = 22_827;
/// Calls by kind, in the order of [`Call`].
const CALLS: [usize; 7] = [1, 8_399, 4_463, 4_726, 1_181, 46_965, 8_922];

enum Call {
    SetPolicy,
    Append(usize, String),
    Insert(usize, usize, String),
    Flush(usize),
    List(usize),
    IsChain(String),
    Delete(usize, String),
}

fn chain_name(chain: usize) -> String {
    format!("net_{chain:05}")
}

/// A rule in the mix of an access network; its number makes it unique.
fn rule_text(number: usize) -> String {
    let (a, b, c) = (number >> 16 & 255, number >> 8 & 255, number & 255);
    let tail = match number % 4 {
        0 => "-p tcp -m tcp --dport 22 -j ACCEPT",
        1 => "-m mac --mac-source 02:00:5e:10:00:01 -j RETURN",
        2 => "-i eth0.100 -m state --state NEW -j DROP",
        _ => "-o eth1 -j DROP",
    };
    format!("-s 10.{a}.{b}.{c}/32 {tail}")
}

/// The table before, and its rules by chain.
fn generate_table() -> (String, Vec<Vec<usize>>) {
    let mut text = String::from("*filter\n");
    let mut rules = vec![Vec::new(); CHAINS];
    for chain in 0..CHAINS {
        let _ = writeln!(text, ":{} - [0:0]", chain_name(chain));
    }
    for number in 0..RULES {
        let chain = number * CHAINS / RULES;
        rules[chain].push(number);
        let _ =
            writeln!(text, "[{number}:{number}] -A {} {}", chain_name(chain), rule_text(number));
    }
    text.push_str("COMMIT\n");
    (text, rules)
}

/// Calls in random order, all of which succeed.
fn generate_calls(mut rules: Vec<Vec<usize>>) -> Vec<Call> {
    let mut random = TestRng::new(16);
    let mut left = CALLS;
    let (mut calls, mut next_rule) = (Vec::new(), RULES);
    while left.iter().any(|count| *count > 0) {
        let weighted: Vec<(usize, usize)> = left.iter().copied().zip(0..).collect();
        let (kind, chain) = (random.pick_weighted(&weighted), random.number_below(CHAINS));
        let length = rules[chain].len();
        let call = match kind {
            0 => Call::SetPolicy,
            1 => {
                next_rule += 1;
                rules[chain].push(next_rule);
                Call::Append(chain, rule_text(next_rule))
            }
            2 => {
                next_rule += 1;
                let position = random.number_below(length + 1);
                rules[chain].insert(position, next_rule);
                Call::Insert(chain, position + 1, rule_text(next_rule))
            }
            // As long as rules are to be deleted, chains are flushed that have few.
            3 if length > 1 && left[6] > 0 => continue,
            3 => {
                rules[chain].clear();
                Call::Flush(chain)
            }
            4 => Call::List(chain),
            5 => Call::IsChain(chain_name(random.number_below(2 * CHAINS))),
            _ if length == 0 => continue,
            _ => {
                let position = random.number_below(length);
                Call::Delete(chain, rule_text(rules[chain].remove(position)))
            }
        };
        left[kind] -= 1;
        calls.push(call);
    }
    calls
}

fn text_of_calls(calls: &[Call]) -> String {
    let mut text = String::from("*filter\n");
    for call in calls {
        let _ = match call {
            Call::SetPolicy => writeln!(text, ":FORWARD DROP [0:0]"),
            Call::Append(chain, rule) => writeln!(text, "-A {} {rule}", chain_name(*chain)),
            Call::Insert(chain, n, rule) => writeln!(text, "-I {} {n} {rule}", chain_name(*chain)),
            Call::Flush(chain) => writeln!(text, "-F {}", chain_name(*chain)),
            Call::Delete(chain, rule) => writeln!(text, "-D {} {rule}", chain_name(*chain)),
            Call::List(_) | Call::IsChain(_) => Ok(()),
        };
    }
    text.push_str("COMMIT\n");
    text
}

/// Times of one round.
struct RoundTimes {
    init: Duration,
    calls: Duration,
    commit: Duration,
}

fn run_calls(socket: &XtablesSocket, calls: &[Call], names: &[String], lock: &Path) -> RoundTimes {
    let start = Instant::now();
    let mut table = Transaction::init(socket, TableName::Filter).expect("a table");
    let init = start.elapsed();
    let start = Instant::now();
    for call in calls {
        match call {
            Call::SetPolicy => table.set_policy("FORWARD", Policy::Drop).expect("a policy"),
            Call::Append(chain, rule) => {
                let rule = table.parse_rule(rule).expect("a rule");
                table.append_rule(&names[*chain], &rule).expect("a chain");
            }
            Call::Insert(chain, number, rule) => {
                let rule = table.parse_rule(rule).expect("a rule");
                table.insert_rule(&names[*chain], *number, &rule).expect("a place");
            }
            Call::Flush(chain) => table.flush_entries(&names[*chain]).expect("a chain"),
            Call::List(chain) => {
                black_box(table.list_rules(&names[*chain]).expect("a chain"));
            }
            Call::IsChain(name) => {
                black_box(table.is_chain(name));
            }
            Call::Delete(chain, rule) => {
                let rule = table.parse_rule(rule).expect("a rule");
                table.delete_rule(&names[*chain], &rule).expect("a rule of the chain");
            }
        }
    }
    let calls = start.elapsed();
    let start = Instant::now();
    let lock = XtablesLock::acquire(lock, Duration::from_secs(10)).expect("a free lock");
    table.commit(&lock).expect("the kernel accepts the table");
    RoundTimes { init, calls, commit: start.elapsed() }
}

fn print_row(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let last = times[times.len() - 1];
    println!(
        "  {name:<38} {:8.2} ms ({:.2} to {:.2})",
        ms(times[times.len() / 2]),
        ms(times[0]),
        ms(last)
    );
}

/// The tools, in a namespace with a lock of its own.
struct Tools {
    namespace: Namespace,
    lock: PathBuf,
}

impl Tools {
    fn run(&self, tool: &str, arguments: &[&str], file: Option<&Path>) -> Vec<u8> {
        let mut command = self.namespace.command(tool);
        command.env("XTABLES_LOCKFILE", &self.lock).stdin(Stdio::null());
        let out = command.args(arguments).args(file).output().expect("the tool is installed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    fn list_without_comments(&self) -> String {
        let saved = self.run("iptables-legacy-save", &["-c"], None);
        let saved = String::from_utf8_lossy(&saved).into_owned();
        saved.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect()
    }
}

/// Look-ups and listings of a table with that many chains.
fn print_look_up_and_list_times(socket: &XtablesSocket, chains: usize) {
    let mut text = String::from("*filter\n");
    for chain in 0..chains {
        let _ = writeln!(text, ":{} - [0:0]", chain_name(chain));
    }
    text.push_str("COMMIT\n");
    let ruleset = parse(&text, &ParserSettings::default()).expect("chains");
    load_table(socket, &ruleset.tables[0]).expect("chains");
    let mut random = TestRng::new(1);
    let wanted: Vec<String> =
        (0..46_965).map(|_| chain_name(random.number_below(2 * chains))).collect();
    let (mut look_ups, mut listings, mut rules, mut init) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut table = Transaction::init(socket, TableName::Filter).expect("a table");
        init.push(start.elapsed());
        let start = Instant::now();
        let found = wanted.iter().filter(|name| table.is_chain(name)).count();
        look_ups.push(start.elapsed());
        assert!(found > 0);
        let start = Instant::now();
        let names: Vec<String> = table.list_chains().into_iter().map(str::to_owned).collect();
        listings.push(start.elapsed());
        assert_eq!(names.len(), chains + 3);
        let start = Instant::now();
        for name in &names {
            black_box(table.list_rules(name).expect("a chain"));
        }
        rules.push(start.elapsed());
    }
    look_ups.sort_unstable();
    let each = look_ups[ROUNDS / 2].as_secs_f64() * 1e6 / wanted.len() as f64;
    println!("{chains} chains: is_chain {each:.3} µs on average of {} calls", wanted.len());
    print_row("init", init);
    print_row("list of all chains", listings);
    print_row("list of all chains with their rules", rules);
}

fn main() {
    let session = Session::new().expect("root");
    let namespace = session.create_namespace("trace").expect("a namespace");
    let socket = XtablesSocket::open_in_namespace(&namespace, Family::V4).expect("a socket");
    let tools = Tools { namespace, lock: session.session_directory().join("xtables.lock") };
    let (before, rules) = generate_table();
    let (before_file, changes_file) =
        (session.session_directory().join("before"), session.session_directory().join("changes"));
    let calls = generate_calls(rules);
    std::fs::write(&before_file, before).expect("a writable folder");
    std::fs::write(&changes_file, text_of_calls(&calls)).expect("a writable folder");
    let names: Vec<String> = (0..CHAINS).map(chain_name).collect();
    let (mut init, mut work, mut commit, mut all, mut tool) =
        (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        tools.run("iptables-legacy-restore", &["-c"], Some(&before_file));
        let times = run_calls(&socket, &calls, &names, &tools.lock);
        all.push(times.init + times.calls + times.commit);
        init.push(times.init);
        work.push(times.calls);
        commit.push(times.commit);
        let ours = tools.list_without_comments();
        tools.run("iptables-legacy-restore", &["-c"], Some(&before_file));
        let start = Instant::now();
        tools.run("iptables-legacy-restore", &["-n"], Some(&changes_file));
        tool.push(start.elapsed());
        assert!(ours == tools.list_without_comments(), "the tool lists both results alike");
    }
    println!("{} calls on {CHAINS} chains and {RULES} rules, {ROUNDS} rounds", calls.len() + 2);
    print_row("init", init);
    print_row("calls", work);
    print_row("commit", commit);
    print_row("end to end", all);
    print_row("iptables-legacy-restore --noflush", tool);
    for chains in [CHAINS, 50_000] {
        print_look_up_and_list_times(&socket, chains);
    }
}
