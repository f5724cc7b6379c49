//! Times of loading tables of legacy iptables: weir and `iptables-legacy-restore`, interleaved.
//!
//! `cargo run --release -p weir-apply --example load_times -- 10000 50000 200000`, as root. Each
//! line has the median and the range of the rounds, in milliseconds. The file is read by weir in
//! the first row, as the tool does; the second row begins with the model. Afterwards the tool's
//! listings of both loads are compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use weir_apply::xtables::load_table;
use weir_kernel::xtables::XtablesSocket;
use weir_kernel::{Namespace, Session};
use weir_model::Family;
use weir_syntax::iptables::{ParserSettings, parse};

const ROUNDS: usize = 5;

/// Rules in the mix of an access network, 100 in each chain.
fn generate_rules(count: usize) -> String {
    let mut out = String::from("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n");
    for chain in 0..count.div_ceil(100) {
        let _ = writeln!(out, ":net_{chain:05} - [0:0]");
    }
    for rule in 0..count {
        let (a, b, c) = (rule >> 16 & 255, rule >> 8 & 255, rule & 255);
        let _ = write!(out, "-A net_{:05} -s 10.{a}.{b}.{c}/32 ", rule / 100);
        out.push_str(match rule % 5 {
            0 => "-p tcp -m tcp --dport 22 -j ACCEPT\n",
            1 => "-m mac --mac-source 02:00:5e:10:00:01 -j RETURN\n",
            2 => "-i eth0.100 -m state --state NEW -j DROP\n",
            3 => "-p tcp -m multiport --dports 22,80,443,8000:8100 -j ACCEPT\n",
            _ => "-o eth1 -j DROP\n",
        });
    }
    out.push_str("COMMIT\n");
    out
}

fn print_row(name: &str, mut times_ms: Vec<f64>) {
    times_ms.sort_by(f64::total_cmp);
    let (median, last) = (times_ms[ROUNDS / 2], times_ms[ROUNDS - 1]);
    println!("  {name:<28} {median:8.1} ms ({:.1} to {last:.1})", times_ms[0]);
}

/// The tools, in a namespace with a lock of its own.
struct Tools {
    namespace: Namespace,
    lock: PathBuf,
}

impl Tools {
    fn run_on_file(&self, tool: &str, file: Option<&Path>) -> Vec<u8> {
        let mut command = self.namespace.command(tool);
        command.env("XTABLES_LOCKFILE", &self.lock).stdin(Stdio::null()).args(file);
        let out = command.output().expect("the tool is installed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    fn list_without_comments(&self) -> String {
        let saved = self.run_on_file("iptables-legacy-save", None);
        let saved = String::from_utf8_lossy(&saved).into_owned();
        saved.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect()
    }
}

fn main() {
    let session = Session::new().expect("root");
    let namespace = session.create_namespace("loadtimes").expect("a namespace");
    let socket = XtablesSocket::open_in_namespace(&namespace, Family::V4).expect("a socket");
    let tools = Tools { namespace, lock: session.session_directory().join("xtables.lock") };
    let file = session.session_directory().join("rules");
    for argument in std::env::args().skip(1) {
        let count: usize = argument.parse().expect("a number of rules");
        std::fs::write(&file, generate_rules(count)).expect("a writable folder");
        let (mut tool, mut from_file, mut from_model, mut reading) =
            (vec![], vec![], vec![], vec![]);
        let mut listings = [String::new(), String::new()];
        for _ in 0..ROUNDS {
            let start = Instant::now();
            tools.run_on_file("iptables-legacy-restore", Some(&file));
            tool.push(start.elapsed().as_secs_f64() * 1e3);
            listings[0] = tools.list_without_comments();

            let start = Instant::now();
            let text = std::fs::read_to_string(&file).expect("the file is there");
            let ruleset = parse(&text, &ParserSettings::default()).expect("rules");
            load_table(&socket, &ruleset.tables[0]).expect("known modules");
            from_file.push(start.elapsed().as_secs_f64() * 1e3);

            let start = Instant::now();
            load_table(&socket, &ruleset.tables[0]).expect("known modules");
            from_model.push(start.elapsed().as_secs_f64() * 1e3);
            listings[1] = tools.list_without_comments();

            let start = Instant::now();
            let snapshot = socket.read_table("filter").expect("the table is read");
            reading.push(start.elapsed().as_secs_f64() * 1e3);
            assert!(snapshot.entry_count as usize >= count);
        }
        assert!(listings[0] == listings[1], "the tool lists both loads alike");
        println!("{count} rules, {ROUNDS} rounds");
        print_row("iptables-legacy-restore", tool);
        print_row("weir, file to kernel", from_file);
        print_row("weir, model to kernel", from_model);
        print_row("weir, entries from kernel", reading);
    }
}
