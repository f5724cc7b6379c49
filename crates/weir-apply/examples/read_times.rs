//! Times of reading tables of legacy iptables out of the kernel, with the index of their rules.
//!
//! `cargo run --release -p weir-apply --example read_times -- 22827 36532`, as root. A table with
//! so many rules is loaded in a namespace and read repeatedly; each line has the median and the
//! range, in milliseconds. The first is the kernel's own share, the others are weir's.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::Instant;

use weir_apply::xtables::{KernelTable, SetIndices, decode_table, load_table};
use weir_kernel::xtables::XtablesSocket;
use weir_kernel::{Namespace, Session};
use weir_model::{Family, TableName};
use weir_syntax::iptables::{ParserSettings, parse};

const ROUNDS: usize = 21;

/// Rules in the mix of an access network, 4 in each chain.
fn generate_rules(count: usize) -> String {
    let mut out = String::from("*filter\n");
    for chain in 0..count.div_ceil(4) {
        let _ = writeln!(out, ":net_{chain:05} - [0:0]");
    }
    for rule in 0..count {
        let (a, b, c) = (rule >> 16 & 255, rule >> 8 & 255, rule & 255);
        let _ = write!(out, "-A net_{:05} -s 10.{a}.{b}.{c}/32 ", rule / 4);
        out.push_str(match rule % 4 {
            0 => "-p tcp -m tcp --dport 22 -j ACCEPT\n",
            1 => "-m mac --mac-source 02:00:5e:10:00:01 -j RETURN\n",
            2 => "-i eth0.100 -m state --state NEW -j DROP\n",
            _ => "-o eth1 -j DROP\n",
        });
    }
    out.push_str("COMMIT\n");
    out
}

fn print_times(name: &str, mut times_ms: Vec<f64>) {
    times_ms.sort_by(f64::total_cmp);
    let (median, last) = (times_ms[ROUNDS / 2], times_ms[ROUNDS - 1]);
    println!("  {name:<32} {median:8.2} ms ({:.2} to {last:.2})", times_ms[0]);
}

fn save_by_tool(namespace: &Namespace) {
    let mut command = namespace.command("iptables-legacy-save");
    let status = command.stdout(Stdio::null()).status().expect("the tool is installed");
    assert!(status.success());
}

fn main() {
    let session = Session::new().expect("root");
    let namespace = session.create_namespace("readtimes").expect("a namespace");
    let socket = XtablesSocket::open_in_namespace(&namespace, Family::V4).expect("a socket");
    for argument in std::env::args().skip(1) {
        let count: usize = argument.parse().expect("a number of rules");
        let ruleset = parse(&generate_rules(count), &ParserSettings::default()).expect("rules");
        load_table(&socket, &ruleset.tables[0]).expect("known modules");
        println!("{count} rules, {ROUNDS} rounds");
        let (mut kernel, mut index, mut model, mut tool) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let snapshot = socket.read_table("filter").expect("the table is read");
            kernel.push(start.elapsed().as_secs_f64() * 1e3);
            let start = Instant::now();
            let table = KernelTable::from_snapshot(TableName::Filter, Family::V4, snapshot);
            index.push(start.elapsed().as_secs_f64() * 1e3);
            let table = table.expect("the table is read");
            assert_eq!(table.rule_count(), count);
            let start = Instant::now();
            let decoded = decode_table(&table, &SetIndices::of_socket(&socket));
            model.push(start.elapsed().as_secs_f64() * 1e3);
            assert!(decoded.is_ok_and(|table| table.chains.len() > count / 4));
            let start = Instant::now();
            save_by_tool(&namespace);
            tool.push(start.elapsed().as_secs_f64() * 1e3);
        }
        print_times("block from the kernel", kernel);
        print_times("index of its rules and chains", index);
        print_times("model of its rules", model);
        print_times("iptables-legacy-save", tool);
    }
}
