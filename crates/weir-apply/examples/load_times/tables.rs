//! Tables of legacy iptables: weir and `iptables-legacy-restore`.

use std::fmt::Write as _;
use std::time::Instant;

use weir_apply::xtables::load_table;
use weir_kernel::xtables::XtablesSocket;
use weir_model::Family;
use weir_syntax::iptables::{ParserSettings, parse};

use crate::rounds::{ROUNDS, Tools, print_row};

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

/// Loads a table of so many rules in each round, and prints a row for each loader.
pub fn compare_legacy_table_load_times(tools: &Tools, count: usize) {
    let socket = XtablesSocket::open_in_namespace(&tools.namespace, Family::V4).expect("a socket");
    let file = tools.folder.join("rules");
    std::fs::write(&file, generate_rules(count)).expect("a writable folder");
    let (mut tool, mut from_file, mut from_model, mut reading) = (vec![], vec![], vec![], vec![]);
    let mut listings = [String::new(), String::new()];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        tools.run_on_file(&["iptables-legacy-restore"], Some(&file));
        tool.push(start.elapsed().as_secs_f64() * 1e3);
        listings[0] = list_without_comments(tools);

        let start = Instant::now();
        let text = std::fs::read_to_string(&file).expect("the file is there");
        let ruleset = parse(&text, &ParserSettings::default()).expect("rules");
        load_table(&socket, &ruleset.tables[0]).expect("known modules");
        from_file.push(start.elapsed().as_secs_f64() * 1e3);

        let start = Instant::now();
        load_table(&socket, &ruleset.tables[0]).expect("known modules");
        from_model.push(start.elapsed().as_secs_f64() * 1e3);
        listings[1] = list_without_comments(tools);

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

fn list_without_comments(tools: &Tools) -> String {
    let saved = tools.run_on_file(&["iptables-legacy-save"], None);
    saved.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect()
}
