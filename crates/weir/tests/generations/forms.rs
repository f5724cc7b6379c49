//! Every form filters as its ruleset says, whatever was in force before it, and a rollback restores
//! what the tools print.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, DatagramPorts, FilteringHost, WEIR, add_rule_without_nft_form,
    rules_dropping_udp_ports,
};

const FORMS: [&str; 4] = ["linear", "tree", "ipset", "nft"];

#[test]
fn each_form_filters_like_its_ruleset_and_a_rollback_restores_the_previous_one() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("forms");
    assert!(host.is_delivered(5001), "nothing is dropped yet");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    host.tool(&["ipset", "create", "mine", "hash:ip"], "");
    host.tool(&["ipset", "add", "mine", "192.0.2.9"], "");
    host.tool(&["nft", "-f", "-"], "table inet office { chain c { counter accept; }; }");
    let before = host.saved_rulesets();
    assert!(host.is_delivered(5001) && !host.is_delivered(ALWAYS_DROPPED_PORT));
    let file = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]));
    for form in FORMS {
        let words = ["apply", &file, "--to", form, "--packets", "50"];
        host.run_weir(&words);
        assert!(!host.is_delivered(5001), "{form}");
        assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "{form}");
        assert!(host.is_delivered(5002), "{form}");
        host.run_weir(&["rollback", "0"]);
        assert_eq!(host.saved_rulesets(), before, "{form}");
        assert!(host.is_delivered(5001) && !host.is_delivered(ALWAYS_DROPPED_PORT), "{form}");
    }
}

#[test]
fn each_form_replaces_any_other_and_a_rollback_restores_it() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("pairs");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let rules = |port| rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, port]);
    let compile = |name: &str, port: u16, form: &str| host.compile(name, &rules(port), form);
    let mut folders: Vec<[String; 2]> =
        FORMS.iter().map(|form| [compile("a", 5001, form), compile("b", 5002, form)]).collect();
    // nft evaluates FORWARD, and legacy iptables INPUT.
    let partial =
        |name: &str, port| host.compile(name, &add_rule_without_nft_form(&rules(port)), "nft");
    folders.push([partial("a-partial", 5001), partial("b-partial", 5002)]);
    let plan = host.weir_json(&["plan", "--artefact", &folders[4][0], "--json"]);
    let after = &plan["tables"][0]["rules_after"];
    assert!(after["legacy"].as_u64() > Some(0) && after["nft"].as_u64() > Some(0), "{plan}");
    for [first, _] in &folders {
        for [_, second] in &folders {
            host.run_weir(&["apply", "--artefact", first]);
            let with_first = host.saved_rulesets();
            assert!(!host.is_delivered(5001) && host.is_delivered(5002), "{first}");
            host.run_weir(&["apply", "--artefact", second]);
            assert!(host.is_delivered(5001) && !host.is_delivered(5002), "{first} to {second}");
            host.run_weir(&["rollback"]);
            assert_eq!(host.saved_rulesets(), with_first, "{first} to {second} and back");
        }
    }
}

#[test]
fn during_a_change_of_form_packets_with_equal_verdicts_keep_their_verdict() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("traffic");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let compile = |name: &str, port: u16, form: &str| {
        host.compile(name, &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, port]), form)
    };
    let folders: Vec<[String; 2]> =
        FORMS.iter().map(|form| [compile("a", 5001, form), compile("b", 5002, form)]).collect();
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let ports = DatagramPorts::bind(&host, ALWAYS_DROPPED_PORT);
        let is_over = &is_over;
        let traffic = scope.spawn(move || {
            let mut rounds = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                // Fails if the datagram to the open port does not arrive.
                assert!(!ports.is_delivered(), "after {rounds} datagrams that were dropped");
                rounds += 1;
            }
            rounds
        });
        for [first, _] in &folders {
            for [_, second] in &folders {
                host.run_weir(&["apply", "--artefact", first]);
                host.run_weir(&["apply", "--artefact", second]);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        traffic.join().expect("every datagram was treated as both rulesets say")
    });
    assert!(rounds > 1000, "{rounds} datagrams");
    println!("{rounds} datagrams dropped and {rounds} delivered during 32 changes");
}

#[test]
fn a_table_absent_from_the_file_keeps_its_rules_and_sets() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("tables");
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
               :POSTROUTING ACCEPT [0:0]\n-A OUTPUT -d 192.0.2.77/32 -j DNAT --to-destination \
               127.0.0.1\nCOMMIT\n";
    let both = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]) + nat;
    let file = host.write("both.rules", &both);
    let sets = host.write("own.ipset", "create own hash:ip\nadd own 192.0.2.1\n");
    let words = ["apply", &file, "--ipset", &sets, "--to", "nft", "--packets", "50"];
    host.run_weir(&words);
    assert!(host.tool(&["ipset", "list", "-n"], "").contains("own"));
    let listing = host.nft_listing();
    assert!(listing.contains("weir_nat") && listing.contains("weir_filter"), "{listing}");
    let filter =
        host.write("filter.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]));
    host.run_weir(&["apply", &filter, "--to", "tree", "--packets", "50"]);
    let listing = host.nft_listing();
    assert!(listing.contains("weir_nat") && !listing.contains("weir_filter"), "{listing}");
    assert!(!host.is_delivered(5001));
    host.run_weir(&["rollback", "0"]);
    assert_eq!(host.nft_listing(), "");
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT), "nothing was dropped before weir");
}

#[test]
fn rules_that_weir_cannot_encode_are_loaded_by_the_tool_and_the_plan_says_so() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("tool");
    let odd = "-A INPUT -p tcp -m tcp --dport 5001 -m osf --genre Linux -j DROP\n";
    let rules = rules_dropping_udp_ports(&[5002]);
    let unknown = rules.replace("COMMIT", &format!("{odd}COMMIT"));
    if host.namespace.run_command(&["iptables-legacy-restore", "-t"], unknown.as_bytes()).is_err() {
        // The kernel of this machine has no osf: another match that weir does not encode.
        return weir_testkit::skip_test("needs xt_osf");
    }
    let file = host.write("odd.rules", &unknown);
    let plan = host.weir_json(&["plan", &file, "--to", "linear", "--packets", "50", "--json"]);
    assert_eq!(plan["steps"][0]["tool"], "iptables-legacy-restore", "{plan}");
    host.run_weir(&["apply", &file, "--to", "linear", "--packets", "50"]);
    assert!(host.tool(&["iptables-legacy-save"], "").contains("osf"));
    assert!(!host.is_delivered(5002));
}

#[test]
fn a_plan_names_the_steps_in_order_and_changes_nothing() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("plan");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let before = host.saved_rulesets();
    let file = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]));
    let plan = host.weir_json(&["plan", &file, "--to", "nft", "--packets", "50", "--json"]);
    let steps: Vec<&str> = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| step["step"].as_str().expect("a word"))
        .collect();
    assert_eq!(steps, ["replace_nft_tables", "replace_legacy_table"]);
    assert_eq!(plan["both_in_force"], true);
    assert_eq!(host.saved_rulesets(), before);
    assert!(!host.path("state").exists());
    let dry = ["apply", &file, "--to", "nft", "--packets", "50", "--dry-run"];
    assert!(host.run_weir(&dry).contains("step 1      nft transaction"));
    assert_eq!(host.saved_rulesets(), before);
}

#[test]
fn netns_applies_to_the_named_namespace() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("netns");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "nft");
    let outside = |words: &[&str]| {
        let mut command = std::process::Command::new(WEIR);
        command.args(words).args(["--netns", host.namespace.name()]);
        command.env("WEIR_STATE", host.path("state")).env("XTABLES_LOCKFILE", host.path("xtables"));
        let output = command.output().expect("weir runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    outside(&["apply", "--artefact", &folder, "--confirm", "5min"]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the supervisor and the tools are inside");
    outside(&["confirm", "--console"]);
    assert!(outside(&["history"]).contains("confirmed"));
    assert_eq!(host.generation_in_force(), 1, "it is the same namespace from inside");
    outside(&["rollback"]);
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn a_set_created_by_weir_gets_the_elements_of_the_file_and_foreign_sets_are_unchanged() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("sets");
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]).replace(
        "COMMIT",
        "-A INPUT -m set --match-set own src -p udp -m udp --dport 5001 -j DROP\nCOMMIT",
    );
    let file = host.write("a.rules", &rules);
    let apply = |elements: &str| {
        let text = format!("create own hash:ip family inet\n{elements}");
        let sets = host.write("own.ipset", &text);
        let words = ["apply", &file, "--ipset", &sets, "--to", "tree", "--packets", "50"];
        host.run_weir(&words);
    };
    apply("add own 192.0.2.1\n");
    assert!(host.is_delivered(5001));
    apply("add own 192.0.2.1\nadd own 127.0.0.1\n");
    assert!(!host.is_delivered(5001), "the set has an element more");
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "own\n");
    host.run_weir(&["rollback"]);
    assert!(host.is_delivered(5001), "and has it no more");
    host.run_weir(&["rollback"]);
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "");
    // A set that somebody else created is used with the elements that it has.
    host.tool(&["ipset", "create", "own", "hash:ip"], "");
    apply("add own 127.0.0.1\n");
    assert!(host.is_delivered(5001));
    host.run_weir(&["rollback"]);
    assert_eq!(host.tool(&["ipset", "list", "-n"], ""), "own\n");
    host.tool(&["ipset", "destroy", "own"], "");
    host.tool(&["ipset", "create", "own", "hash:net"], "");
    let sets = host.write("own.ipset", "create own hash:ip family inet\n");
    let words = ["apply", &file, "--ipset", &sets, "--to", "tree", "--packets", "50"];
    let said = host.run_refused_weir(&words);
    assert!(said.contains("set own exists with type hash:net"), "{said}");
}
