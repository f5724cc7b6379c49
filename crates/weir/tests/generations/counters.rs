//! Counters of rules, which stay when the form changes.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, OPEN_PORT, rules_dropping_udp_ports,
};

const FORMS: [&str; 4] = ["linear", "tree", "ipset", "nft"];
/// A UDP header, an IPv4 header and one byte.
const DATAGRAM_BYTES: u64 = 29;

/// The counter of a rule of `weir counters --format csv`.
fn read_rule_counter(host: &FilteringHost, rule: &str) -> (u64, u64) {
    let csv = host.run_weir(&["counters", "--format", "csv"]);
    let prefix = format!("\"{rule}\",");
    let line = csv.lines().find_map(|line| line.strip_prefix(&prefix)).expect("the rule is listed");
    let (packets, bytes) = line.split_once(',').expect("two numbers");
    (packets.parse().expect("packets"), bytes.parse().expect("bytes"))
}

#[test]
fn a_rule_keeps_its_count_through_all_forms_and_back() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("counters");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let first = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]));
    // The same rules with one before them: their numbers differ.
    let second =
        host.write("b.rules", &rules_dropping_udp_ports(&[5002, ALWAYS_DROPPED_PORT, 5001]));
    let mut sent = 0;
    let mut send = |count: u64| {
        for _ in 0..count {
            assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
        }
        sent += count;
        sent
    };
    send(3);
    for from in FORMS {
        for to in FORMS {
            for (file, form, number) in [(&first, from, 1), (&second, to, 2)] {
                host.run_weir(&["apply", file, "--to", form, "--packets", "50"]);
                let total = send(2);
                let rule = format!("iptables/filter/INPUT/{number}");
                let expected = (total, total * DATAGRAM_BYTES);
                assert_eq!(read_rule_counter(&host, &rule), expected, "{from} to {to}: {rule}");
                let printed = host.run_weir(&["counters"]);
                let line = format!("[{}:{}] -A INPUT -p udp", expected.0, expected.1);
                assert!(printed.contains(&line), "{line} is not in {printed}");
            }
        }
    }
    host.run_weir(&["rollback"]);
    let total = send(1);
    assert_eq!(read_rule_counter(&host, "iptables/filter/INPUT/1").0, total, "after a rollback");
    host.run_weir(&["rollback", "0"]);
    let total = send(1);
    let saved = host.tool(&["iptables-legacy-save", "-c"], "");
    assert!(saved.contains(&format!("[{total}:{}] -A INPUT -p udp", total * DATAGRAM_BYTES)));
}

#[test]
fn rules_of_chains_with_unusual_names_keep_their_counts_through_all_forms() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("chain-names");
    let names = ["log", "f2b-sshd", "in.lan", "b\\c", "UPPER_CASE"];
    let ports = 5020..;
    let mut rules = rules_dropping_udp_ports(&[]);
    for (name, port) in names.iter().zip(ports.clone()) {
        let chain = format!(":{name} - [0:0]\n");
        rules =
            rules.replacen(":OUTPUT ACCEPT [0:0]\n", &format!(":OUTPUT ACCEPT [0:0]\n{chain}"), 1);
        let jump = format!(
            "-A INPUT -p udp -m udp --dport {port} -j {name}\n-A {name} -p udp -j DROP\n-A {name} \
             -p tcp -j DROP\nCOMMIT"
        );
        rules = rules.replacen("COMMIT", &jump, 1);
    }
    let file = host.write("a.rules", &rules);
    let mut sent = 0;
    for form in ["linear", "nft", "tree", "nft", "ipset", "linear"] {
        host.run_weir(&["apply", &file, "--to", form, "--packets", "50"]);
        for port in ports.clone().take(names.len()) {
            assert!(!host.is_delivered(port), "{form}: {port}");
        }
        sent += 1;
        for name in names {
            let rule =
                |number: u32| read_rule_counter(&host, &format!("iptables/filter/{name}/{number}"));
            assert_eq!((rule(1).0, rule(2).0), (sent, 0), "{form}: {name}");
        }
    }
}

#[test]
fn packets_during_the_replacement_of_legacy_tables_are_counted_once() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("flood");
    let rule = format!("-A INPUT -p udp -m udp --dport {OPEN_PORT} -j ACCEPT\n-A INPUT -s 10.1.1");
    let rules = rules_dropping_udp_ports(&[]).replacen("-A INPUT -s 10.1.1", &rule, 1);
    let file = host.write("a.rules", &rules);
    host.run_weir(&["apply", &file, "--to", "linear", "--packets", "50"]);
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = host.namespace.call_inside(bind).expect("the namespace is entered");
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Nobody listens: the error of one datagram is reported by the next call.
                sent += u64::from(sender.send_to(b"x", ("127.0.0.1", OPEN_PORT)).is_ok());
            }
            sent
        });
        for form in ["tree", "linear", "tree", "linear", "tree", "linear"] {
            host.run_weir(&["apply", &file, "--to", form, "--packets", "50"]);
        }
        is_over.store(true, Ordering::Relaxed);
        flood.join().expect("it ends")
    });
    assert!(sent > 1000, "{sent} datagrams");
    assert_eq!(read_rule_counter(&host, "iptables/filter/INPUT/1"), (sent, sent * DATAGRAM_BYTES));
}

#[test]
fn a_foreign_rule_does_not_shift_counters_to_other_rules() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("shifted");
    let file = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001, 5002]));
    host.run_weir(&["apply", &file, "--to", "linear", "--packets", "50"]);
    for _ in 0..3 {
        assert!(!host.is_delivered(5001));
    }
    assert_eq!(read_rule_counter(&host, "iptables/filter/INPUT/2").0, 3);
    let rule = "iptables-legacy -I INPUT 1 -p udp --dport 5003 -j DROP";
    host.tool(&rule.split(' ').collect::<Vec<_>>(), "");
    let said = host.run_refused_weir(&["counters"]);
    assert!(said.contains("table iptables filter was changed by another program"), "{said}");
    // The command itself has no such option.
    assert!(said.contains("apply that with weir apply --force"), "{said}");
    assert!(said.contains("undo the change") && !said.contains("use --force"), "{said}");
    host.run_weir(&["apply", &file, "--to", "nft", "--packets", "50", "--force"]);
    let count =
        |number: u32| read_rule_counter(&host, &format!("iptables/filter/INPUT/{number}")).0;
    assert_eq!([1, 2, 3].map(count), [0, 3, 0]);
    host.run_weir(&["rollback"]);
    let saved = host.tool(&["iptables-legacy-save", "-c"], "");
    let counted: Vec<&str> = saved.lines().filter(|line| line.starts_with("[3:")).collect();
    assert!(matches!(counted[..], [line] if line.contains("--dport 5001")), "{saved}");
}

#[test]
fn tables_that_are_not_applied_are_not_listed_with_counters_of_zero() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("one-table");
    let mangle =
        "*mangle\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p udp -j MARK --set-xmark 0x1\nCOMMIT\n";
    let text = mangle.to_owned() + &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]);
    host.load_legacy(&text);
    let file = host.write("a.rules", &text);
    for form in FORMS {
        host.run_weir(&["apply", &file, "--to", form, "--table", "filter", "--packets", "50"]);
        assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
        let printed = host.run_weir(&["counters"]);
        assert!(printed.contains("*filter"), "{form}: {printed}");
        assert!(!printed.contains("*mangle"), "{form}: {printed}");
        // The rule counts the datagram, and the kernel lists it.
        let saved = host.tool(&["iptables-legacy-save", "-c", "-t", "mangle"], "");
        assert!(saved.contains("-j MARK") && !saved.contains("[0:0] -A"), "{form}: {saved}");
    }
    let said = host.weir_json(&["apply", &file, "--to", "tree", "--table", "filter", "--json"]);
    assert_eq!(said["dropped_counter_rules"], 0, "{said}");
}
