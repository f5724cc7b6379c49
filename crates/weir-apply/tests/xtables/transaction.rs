//! Transactions, compared with `iptables-legacy-restore --noflush` of the same changes.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_apply::ApplyError;
use weir_apply::iptables::{ChainDifferenceKind, ListedRule, Transaction};
use weir_kernel::xtables::{XtablesLock, XtablesSocket};
use weir_model::{Family, Policy, TableName};
use weir_syntax::iptables::print_rule;

use crate::random_changes::{RandomChanges, apply_line};
use crate::tool_tables::ToolTables;

const RULESET: &str = "*filter\n:INPUT DROP [10:20]\n:FORWARD ACCEPT [30:40]\n:alpha - [0:0]\n\
    :zeta - [0:0]\n[1:2] -A INPUT -s 192.0.2.1/32 -j zeta\n[3:4] -A INPUT -i +\n\
    [5:6] -A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n[7:8] -A zeta -g alpha\n\
    [9:10] -A alpha -m cpu --cpu 1 -j RETURN\n[11:12] -A alpha -m limit --limit 5/sec -j DROP\n\
    COMMIT\n";

impl ToolTables {
    fn lock(&self) -> XtablesLock {
        XtablesLock::acquire(&self.lock, Duration::from_secs(10)).expect("nobody holds the lock")
    }

    fn load(&self, family: Family, text: &str) {
        self.load_by_tool(family, "filter", text).unwrap_or_else(|e| panic!("{text}{e}"));
    }

    fn saved(&self, family: Family) -> Vec<String> {
        self.list(family, "filter").saved
    }
}

fn begin(socket: &XtablesSocket) -> Transaction<'_> {
    Transaction::init(socket, TableName::Filter).expect("a table")
}

fn append(table: &mut Transaction, chain: &str, words: &str) {
    let rule = table.parse_rule(words).expect("a rule");
    table.append_rule(chain, &rule).expect("a chain");
}

#[test]
fn edited_tables_equal_those_of_iptables_and_keep_counters() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txcounts");
    tables.load(Family::V4, RULESET);
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    table.create_chain("middle").expect("a new chain");
    append(&mut table, "middle", "-p udp -m udp --dport 53");
    let rule = table.parse_rule("-c 100 200 -d 192.0.2.9/32 -j middle").expect("a rule");
    table.insert_rule("INPUT", 2, &rule).expect("a place");
    let ssh = table.parse_rule("-p tcp --dport 22 -j ACCEPT").expect("a rule");
    table.delete_rule("INPUT", &ssh).expect("there is such a rule");
    table.set_policy("INPUT", Policy::Drop).expect("a built-in chain");
    table.set_policy("FORWARD", Policy::Drop).expect("a built-in chain");
    assert_eq!(table.find_policy("FORWARD").expect("a chain"), Some(Policy::Drop));
    assert_eq!(table.find_policy("OUTPUT").expect("a chain"), Some(Policy::Accept));
    assert_eq!(table.find_policy("middle").expect("a chain"), None);
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    let saved = tables.saved(Family::V4);
    let expected = "filter\n:INPUT DROP [10:20]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        :alpha - [0:0]\n:middle - [0:0]\n:zeta - [0:0]\n[1:2] -A INPUT -s 192.0.2.1/32 -j zeta\n\
        [100:200] -A INPUT -d 192.0.2.9/32 -j middle\n[3:4] -A INPUT\n\
        [9:10] -A alpha -m cpu --cpu 1 -j RETURN\n\
        [11:12] -A alpha -m limit --limit 5/sec -j DROP\n\
        [0:0] -A middle -p udp -m udp --dport 53\n[7:8] -A zeta -g alpha\nCOMMIT";
    assert_eq!(saved.join("\n"), expected);
}

/// The same random changes, by the tool and by a transaction.
fn compare_random_changes(tables: &ToolTables, family: Family, seed: u64) {
    let mut changes = RandomChanges::new(seed, family);
    let before = changes.generate_table();
    let lines: Vec<String> = (0..30).map(|step| changes.generate_line(step)).collect();
    let text = format!("*filter\n{}\nCOMMIT\n", lines.join("\n"));
    tables.load(family, &before);
    let socket = tables.socket(family);
    let mut table = begin(&socket);
    for line in &lines {
        apply_line(&mut table, line);
    }
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    let ours = tables.list(family, "filter");
    tables.load(family, &before);
    let out = tables.run_tool_with_arguments(family, "restore", &["-n"], &text);
    assert!(out.status.success(), "{before}{text}{}", String::from_utf8_lossy(&out.stderr));
    let theirs = tables.list(family, "filter");
    assert_eq!(ours.saved, theirs.saved, "seed {seed}\n{before}{text}");
    assert!(ours.entries == theirs.entries, "seed {seed}\n{before}{text}");
}

#[test]
fn random_changes_equal_those_of_iptables_restore_noflush() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txrandom");
    for seed in 0..40 {
        let family = if seed % 2 == 0 { Family::V4 } else { Family::V6 };
        compare_random_changes(&tables, family, seed);
    }
}

#[test]
fn rules_of_unknown_modules_are_listed_by_name_and_keep_their_bytes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txunknown");
    tables.load(Family::V4, RULESET);
    let before = tables.saved(Family::V4);
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    let listed = table.list_rules("alpha").expect("a chain");
    let [ListedRule::Unknown(extension), ListedRule::Known(rule)] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!((extension.name.as_str(), extension.revision), ("cpu", 0));
    assert_eq!(print_rule(rule, Family::V4), "-m limit --limit 5/sec -j DROP");
    append(&mut table, "alpha", "-j ACCEPT");
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    let mut after = tables.saved(Family::V4);
    after.retain(|line| line != "[0:0] -A alpha -j ACCEPT");
    assert_eq!(after, before);
}

#[test]
fn a_commit_to_a_concurrently_changed_table_names_changed_chains() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txchanged");
    tables.load(Family::V4, RULESET);
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    append(&mut table, "zeta", "-j ACCEPT");
    // A changed counter in chain alpha is not reported. A changed rule in INPUT is, although the
    // chain has as many rules as before.
    let changed = RULESET.replace("[11:12]", "[99:99]").replace("--dport 22", "--dport 23");
    tables.load(Family::V4, &changed.replace(":zeta", ":other - [0:0]\n:zeta"));
    let before = tables.saved(Family::V4);
    let refused = table.commit(&tables.lock()).expect_err("the table was changed");
    let message = refused.to_string();
    let ApplyError::TableChanged { differences, .. } = refused else { panic!("{message}") };
    let found: Vec<_> = differences.iter().map(|d| (d.chain.as_str(), d.kind)).collect();
    let expected =
        [("INPUT", ChainDifferenceKind::Changed), ("other", ChainDifferenceKind::Created)];
    assert_eq!(found, expected);
    assert!(message.contains("chain INPUT was changed, chain other was created"), "{message}");
    assert_eq!(tables.saved(Family::V4), before);

    // A changed counter alone is not a change of the table.
    tables.load(Family::V4, RULESET);
    let mut table = begin(&socket);
    append(&mut table, "zeta", "-j ACCEPT");
    tables.load(Family::V4, &RULESET.replace("[11:12]", "[99:99]"));
    table.commit(&tables.lock()).expect("only counts changed");
    let counted = "[99:99] -A alpha -m limit --limit 5/sec -j DROP".to_owned();
    assert!(tables.saved(Family::V4).contains(&counted));
}

#[test]
fn a_chain_loop_is_refused_and_changes_nothing() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txloop");
    tables.load(Family::V4, RULESET);
    let before = tables.list(Family::V4, "filter");
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    append(&mut table, "alpha", "-j zeta");
    let refused = table.commit(&tables.lock());
    assert!(matches!(refused, Err(ApplyError::ChainLoop { .. })), "{refused:?}");
    assert_eq!(tables.list(Family::V4, "filter"), before);
}

#[test]
fn operations_on_missing_or_invalid_objects_are_refused_by_name() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txrefused");
    tables.load(Family::V4, RULESET);
    let before = tables.list(Family::V4, "filter");
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    assert!(table.is_chain("zeta") && table.is_chain("INPUT") && !table.is_chain("PREROUTING"));
    let rule = table.parse_rule("-j DROP").expect("a rule");
    let to_chain = table.parse_rule("-j zeta").expect("a rule");
    let says = |result: Result<(), ApplyError>, words: &str| {
        let message = result.expect_err(words).to_string();
        assert!(message.contains(words), "{message}");
    };
    says(table.append_rule("none", &rule), "no chain none");
    says(table.delete_rule("INPUT", &rule), "no rule -j DROP");
    says(table.insert_rule("INPUT", 5, &rule), "3 rules, and no place 5");
    says(table.insert_rule("INPUT", 0, &rule), "no place 0");
    says(table.delete_rule_of_number("INPUT", 4), "no place 4");
    says(table.set_policy("zeta", Policy::Drop), "only built-in chains");
    says(table.create_chain("zeta"), "has a chain zeta");
    says(table.create_chain("-x"), "no name of a chain");
    says(table.create_chain(&"x".repeat(29)), "no name of a chain");
    says(table.delete_chain("zeta"), "delete chain zeta");
    says(table.delete_chain("INPUT"), "delete chain INPUT");
    table.flush_entries("zeta").expect("a chain");
    says(table.delete_chain("zeta"), "rules jump to it");
    table.flush_entries("INPUT").expect("a chain");
    table.delete_chain("zeta").expect("an unused chain");
    says(table.append_rule("INPUT", &to_chain), "chain zeta");
    says(table.parse_rule("--dport 22").map(drop), "read rule");
    assert_eq!(table.list_chains(), ["INPUT", "FORWARD", "OUTPUT", "alpha"]);
    drop(table);
    assert_eq!(tables.list(Family::V4, "filter"), before, "nothing was committed");
}

#[test]
fn a_commit_without_changes_does_not_replace_the_table() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txnothing");
    let text = "*filter\n[0:0] -A INPUT -m quota --quota 1000 -j ACCEPT\nCOMMIT\n";
    tables.load(Family::V4, text);
    let socket = tables.socket(Family::V4);
    let mut table = begin(&socket);
    table.set_policy("INPUT", Policy::Accept).expect("a built-in chain");
    table.flush_entries("FORWARD").expect("a chain");
    // A change by another program does not prevent an empty commit.
    tables.load(Family::V4, "*filter\n-A INPUT -j DROP\nCOMMIT\n");
    table.commit(&tables.lock()).expect("nothing to do");
    assert!(tables.saved(Family::V4).contains(&"[0:0] -A INPUT -j DROP".to_owned()));
}

#[test]
fn packets_during_commits_are_counted_once() {
    const COMMITS_MIN: usize = 60;
    const PACKETS_MIN: u64 = 5_000;
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txpackets");
    tables.namespace.set_device_up("lo").expect("every namespace has it");
    tables.load(Family::V4, "*filter\n-A INPUT -p udp -m udp --dport 9 -j DROP\nCOMMIT\n");
    let sender = tables.namespace.call_inside(|| UdpSocket::bind("127.0.0.1:0"));
    let sender = sender.expect("the namespace").expect("a socket");
    let socket = tables.socket(Family::V4);
    let (sent, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut commits = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let result = sender.send_to(b"x", "127.0.0.1:9");
                sent.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
            }
        });
        while commits < COMMITS_MIN || sent.load(Ordering::Relaxed) < PACKETS_MIN {
            let mut table = begin(&socket);
            let words = format!("-s 192.0.2.{} -j ACCEPT", commits % 256);
            let rule = table.parse_rule(&words).expect("a rule");
            table.insert_rule("INPUT", 1, &rule).expect("a place");
            table.commit(&tables.lock()).expect("the kernel accepts the table");
            commits += 1;
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    // The last packets may still be on their way through the loopback device.
    let deadline = Instant::now() + Duration::from_secs(10);
    let counters = loop {
        let mut table = begin(&socket);
        let rules = table.list_rules("INPUT").expect("a chain");
        assert_eq!(rules.len(), commits + 1);
        let Some(ListedRule::Known(rule)) = rules.last() else { panic!("{rules:?}") };
        let counters = rule.counters.expect("a rule of the kernel has counts");
        if counters.packets >= sent || Instant::now() > deadline {
            break counters;
        }
    };
    assert_eq!((counters.packets, counters.bytes), (sent, 29 * sent));
}

#[test]
fn set_names_in_rules_are_resolved_again_at_commit() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txsets");
    let create = "create blocked hash:ip family inet\ncreate other hash:net family inet\n";
    tables.restore_sets(create);
    let socket = tables.socket(Family::V4);
    let words = "-m set ! --match-set blocked src -j SET --add-set other dst --exist";
    let mut table = begin(&socket);
    append(&mut table, "INPUT", words);
    let missing = table.parse_rule("-m set --match-set none src").expect("a rule");
    let refused = table.append_rule("INPUT", &missing).expect_err("there is no such set");
    assert!(refused.to_string().contains("there is no set none"), "{refused}");
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    assert!(tables.saved(Family::V4).contains(&format!("[0:0] -A INPUT {words}")));
    let mut table = begin(&socket);
    let listed = table.list_rules("INPUT").expect("a chain");
    let ListedRule::Known(rule) = &listed[0] else { panic!("{listed:?}") };
    assert_eq!(print_rule(rule, Family::V4), words);

    // Recreate the sets in the other order: their indexes are swapped.
    table.flush_entries("INPUT").expect("a chain");
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    let mut table = begin(&socket);
    append(&mut table, "INPUT", words);
    let create = "create other hash:net family inet\ncreate blocked hash:ip family inet\n";
    tables.restore_sets(create);
    let refused = table.commit(&tables.lock()).expect_err("the numbers are those of others");
    assert!(matches!(refused, ApplyError::SetDestroyedOrRecreated { .. }), "{refused}");
    assert!(!tables.saved(Family::V4).iter().any(|line| line.contains("-A INPUT")));
}

#[test]
fn ipv6_rules_refer_to_sets_by_name() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txsets6");
    tables.restore_sets("create spare hash:ip\ncreate six hash:net family inet6\n");
    let socket = tables.socket(Family::V6);
    let mut table = begin(&socket);
    let words = "-m set --match-set six dst -j DROP";
    append(&mut table, "INPUT", words);
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    assert!(tables.saved(Family::V6).contains(&format!("[0:0] -A INPUT {words}")));
    let listed = begin(&socket).list_rules("INPUT").expect("a chain");
    let [ListedRule::Known(rule)] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(print_rule(rule, Family::V6), words);
}

/// Packets of a rule of the OUTPUT chain, by its number from 1.
fn count_of_output_rule(socket: &XtablesSocket, number: usize) -> u64 {
    let rules = begin(socket).list_rules("OUTPUT").expect("a chain");
    let ListedRule::Known(rule) = &rules[number - 1] else { panic!("{rules:?}") };
    rule.counters.expect("a rule of the kernel has counts").packets
}

#[test]
fn a_commit_preserves_recent_lists_and_resets_quotas() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("txstate");
    tables.namespace.set_device_up("lo").expect("every namespace has it");
    tables.load(
        Family::V4,
        "*filter\n-A OUTPUT -p udp -m udp --dport 9 -m recent --set --name kept --rdest\n\
         -A OUTPUT -p udp -m udp --dport 9 -m quota --quota 60\nCOMMIT\n",
    );
    let sender = tables.namespace.call_inside(|| UdpSocket::bind("127.0.0.1:0"));
    let sender = sender.expect("the namespace").expect("a socket");
    let send_three = || {
        for _ in 0..3 {
            // The port is closed: the error of an earlier packet may be reported here.
            let _ = sender.send_to(b"x", "127.0.0.1:9");
        }
    };
    let list = || {
        let list = tables.namespace.command("cat").arg("/proc/net/xt_recent/kept").output();
        String::from_utf8_lossy(&list.expect("the tool is installed").stdout).into_owned()
    };
    let socket = tables.socket(Family::V4);
    send_three();
    send_three();
    let (remembered, within_quota) = (list(), count_of_output_rule(&socket, 2));
    assert!(remembered.contains("src=127.0.0.1"), "{remembered}");
    assert_eq!(within_quota, 2, "two packets of 29 bytes");
    let mut table = begin(&socket);
    append(&mut table, "OUTPUT", "-p tcp");
    table.commit(&tables.lock()).expect("the kernel accepts the table");
    assert_eq!(list(), remembered);
    send_three();
    assert_eq!(count_of_output_rule(&socket, 2), 2 + 2, "the quota began anew");
}
