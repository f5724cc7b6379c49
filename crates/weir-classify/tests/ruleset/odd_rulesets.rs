//! Rulesets that are hard to flatten.

use std::fmt::Write as _;

use weir_classify::ruleset::{FlattenLimits, LookupProgram, LookupProgramError, LookupStructures};
use weir_classify::{BuildLimits, Engine};
use weir_model::{Family, Firewall, Hook, TableName, Target};
use weir_review::lookup_walk::{LookupDifference, compare_generated_packets};
use weir_semantics::Interpreter;

use crate::ruleset_comparison::{ComparisonCounts, RulesetComparison, read_firewall};

fn filter_table(chains: &str, rules: &str) -> String {
    format!("*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n{chains}{rules}COMMIT\n")
}

fn read(text: &str, sets: &str) -> Firewall {
    read_firewall(text, None, sets).unwrap_or_else(|| panic!("a ruleset:\n{text}"))
}

fn compare(name: &str, text: &str) -> ComparisonCounts {
    compare_with_sets(name, text, "")
}

fn compare_with_sets(name: &str, text: &str, sets: &str) -> ComparisonCounts {
    let mut counts = ComparisonCounts::default();
    for seed in 0..3 {
        RulesetComparison::with_all_engines(1500, seed).compare_firewall(
            name,
            &read(text, sets),
            &mut counts,
        );
    }
    assert!(counts.packets > 100, "{name}: {counts:?}");
    counts
}

#[test]
fn return_and_goto_skip_the_same_rules_as_the_kernel() {
    compare(
        "return and goto",
        &filter_table(
            ":a -\n:b -\n:c -\n:empty -\n",
            "-A FORWARD -s 10.0.0.0/8 -j a\n\
             -A FORWARD -j empty\n\
             -A FORWARD -p tcp -m tcp --dport 80 -g b\n\
             -A FORWARD -s 192.0.2.1 -j RETURN\n\
             -A FORWARD -p udp -j ACCEPT\n\
             -A a -d 192.0.2.0/24 -j RETURN\n\
             -A a -p tcp -m tcp --dport 22 -j c\n\
             -A a -p udp -g c\n\
             -A a -j b\n\
             -A a -s 10.1.0.0/16 -j ACCEPT\n\
             -A b -p icmp -m icmp --icmp-type 8 -g c\n\
             -A b -s 10.2.0.0/16\n\
             -A b -d 198.51.100.7 -g empty\n\
             -A c -s 10.3.0.0/16 -j RETURN\n\
             -A c -d 192.0.2.128/25 -j REJECT --reject-with icmp-port-unreachable\n\
             -A c\n",
        ),
    );
}

#[test]
fn a_truncated_header_is_dropped_by_the_first_rule_that_is_not_skipped() {
    let counts = compare(
        "truncated headers",
        &filter_table(
            ":a -\n:b -\n",
            "-A FORWARD -j a\n\
             -A FORWARD -p udp -m multiport --dports 53,67:68 -j ACCEPT\n\
             -A FORWARD -p tcp -m tcp ! --dport 80 -j b\n\
             -A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN -j ACCEPT\n\
             -A a -s 10.0.0.0/8 -j RETURN\n\
             -A a -p tcp -m tcp --dport 80 -j ACCEPT\n\
             -A a -p udp -m multiport ! --ports 1:1023 -g b\n\
             -A b -f -j DROP\n\
             -A b ! -f -p tcp -m multiport --sports 1,2,3,4 -j RETURN\n\
             -A b -p tcp -m tcp --dport 80\n",
        ),
    );
    assert!(counts.accepted["hipac"] > 0);
}

#[test]
fn devices_are_told_apart_by_name_prefix_and_negation() {
    let mut rules = String::from(
        "-A FORWARD ! -i eth+ -o ppp+ -j RETURN\n-A FORWARD -i + ! -o eth1 -s 10.0.0.1\n\
         -A FORWARD ! -i eth1 -j ACCEPT\n",
    );
    compare("three devices", &filter_table("", &rules));
    for index in 0..300 {
        let _ = writeln!(rules, "-A FORWARD -i ppp{index} ! -o eth{index}.1 -j DROP");
    }
    let counts = compare("more devices than codes", &filter_table("", &rules));
    assert!(counts.evaluated_rules > 0, "devices beyond the codes are evaluated: {counts:?}");
}

#[test]
fn a_written_field_splits_a_chain_only_if_tested_later() {
    let mangle = |rules: &str| {
        format!(
            "*mangle\n:PREROUTING ACCEPT\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n\
             :POSTROUTING ACCEPT\n:a -\n:b -\n{rules}COMMIT\n"
        )
    };
    let marks = "-A FORWARD -s 10.0.0.0/8 -j MARK --set-xmark 0x1/0xff\n\
                 -A FORWARD -s 10.1.0.0/16 -j MARK --set-xmark 0x2/0xff\n";
    let stretches = |text: &str| {
        let firewall = read(text, "");
        let chain = (TableName::Mangle, "FORWARD");
        let limits = FlattenLimits::default();
        let program = LookupProgram::compile(&firewall, Family::V4, chain, limits);
        program.expect("a chain").chains()[0].stretches.len()
    };
    let untested = mangle(&format!("{marks}-A FORWARD -p tcp -j ACCEPT\n"));
    assert_eq!(stretches(&untested), 1);
    let tested = mangle(&format!(
        "{marks}-A FORWARD -m mark --mark 0x1/0xff -j a\n\
         -A FORWARD -m mark --mark 0x3/0x5 -j b\n\
         -A FORWARD -m tos --tos 0x10/0xff -j ACCEPT\n\
         -A FORWARD -j TTL --ttl-dec 3\n\
         -A FORWARD -m ttl --ttl-lt 5 -j DROP\n\
         -A a -j TOS --set-tos 0x10/0x3f\n\
         -A a -m tos --tos 0x10/0xff -j MARK --set-xmark 0x3/0xffffffff\n\
         -A a -j b\n\
         -A b -m mark ! --mark 0x3 -j RETURN\n\
         -A b -j DSCP --set-dscp 0x04\n"
    ));
    assert!(stretches(&tested) > 2);
    compare("marks that are tested", &tested);
    compare("marks that are not tested", &untested);
    let raw = "*raw\n:PREROUTING ACCEPT\n:OUTPUT ACCEPT\n\
               -A PREROUTING -i lo -m state --state ESTABLISHED\n\
               -A PREROUTING -s 10.0.0.0/8 -j NOTRACK\n\
               -A PREROUTING -m state --state UNTRACKED -j ACCEPT\n\
               -A PREROUTING -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400\n\
               -A PREROUTING -m length --length 0:60 -j DROP\n\
               -A PREROUTING -m connmark --mark 0x1/0x5 -j DROP\nCOMMIT\n";
    compare("an untracked packet", raw);
}

#[test]
fn stateful_and_unknown_rules_are_evaluated_in_rule_order() {
    let counts = compare(
        "barriers",
        &filter_table(
            ":a -\n",
            "-A FORWARD -p tcp -m tcp --dport 22 -m limit --limit 5/min -j a\n\
             -A FORWARD -m limit --limit 5/min -p tcp -m tcp --dport 23 -j ACCEPT\n\
             -A FORWARD -m recent --name r --rcheck -g a\n\
             -A FORWARD -s 10.0.0.0/8 -m statistic --mode nth --every 3 --packet 0 -j RETURN\n\
             -A FORWARD -p esp -m esp --espspi 1:5 -j ACCEPT\n\
             -A FORWARD -d 192.0.2.1 -j HMARK --hmark-tuple src --hmark-mod 2 --hmark-rnd 1\n\
             -A FORWARD -m mark --mark 1 -j ACCEPT\n\
             -A FORWARD -p udp -j NFQUEUE --queue-num 1\n\
             -A a -m addrtype --src-type LOCAL -j DROP\n\
             -A a -m conntrack --ctstate NEW,RELATED --ctdir ORIGINAL\n\
             -A a -s 10.9.0.0/16 -j LOG\n",
        ),
    );
    assert!(counts.evaluated_rules > 20, "{counts:?}");
}

#[test]
fn set_matches_agree_with_the_interpreter() {
    let sets = "create lasting hash:net family inet\nadd lasting 10.0.0.0/8\n\
                add lasting 10.1.0.0/16 nomatch\nadd lasting 10.1.2.0/24\n\
                create ports hash:ip,port family inet\nadd ports 192.0.2.1,tcp:80\n\
                create counted hash:net family inet counters\nadd counted 10.0.0.0/9\n\
                create macs hash:mac\nadd macs 02:00:00:00:00:01\n\
                create changing hash:ip family inet\nadd changing 192.0.2.9\n";
    let counts = compare_with_sets(
        "sets",
        &filter_table(
            ":a -\n",
            "-A FORWARD -m set --match-set lasting src -m set ! --match-set lasting dst -j a\n\
             -A FORWARD -m set ! --match-set ports dst,dst -s 192.0.2.0/24 -j a\n\
             -A FORWARD -m set --match-set counted src -j ACCEPT\n\
             -A FORWARD -m set --match-set macs src -j DROP\n\
             -A FORWARD -m set --match-set changing src -j DROP\n\
             -A FORWARD -p udp -j SET --add-set changing src\n\
             -A a -m set --match-set lasting src --return-nomatch -j RETURN\n\
             -A a -m set --match-set lasting dst -j DROP\n",
        ),
        sets,
    );
    assert!(counts.evaluated_rules > 0 && counts.evaluated_rules < counts.rules, "{counts:?}");
}

#[test]
fn many_masks_with_holes_need_several_keys() {
    let mut rules = String::new();
    for mask in 1..=250 {
        let _ = writeln!(rules, "-A FORWARD -s 10.0.0.{mask}/255.{mask}.0.255 -j RETURN");
        let _ = writeln!(rules, "-A FORWARD ! -d 10.0.0.{mask}/255.255.{mask}.7");
    }
    let text = filter_table("", &rules);
    let firewall = read(&text, "");
    let chain = (TableName::Filter, "FORWARD");
    let program = LookupProgram::compile(&firewall, Family::V4, chain, FlattenLimits::default());
    assert!(program.expect("a chain").chains()[0].stretches.len() > 1);
    compare("masks", &text);
}

#[test]
fn a_large_chain_with_many_callers_is_called() {
    let mut rules = String::new();
    for index in 0..500 {
        let _ = writeln!(rules, "-A FORWARD -s 10.0.{}.{} -j large", index / 200, index % 200);
    }
    for index in 0..10_000 {
        let (a, b, c) = (index % 3, index / 256 % 256, index % 256);
        let target = ["RETURN", "ACCEPT", "DROP"][index % 3];
        let _ = writeln!(rules, "-A large -d 172.{}.{b}.{c} -j {target}", 16 + a);
    }
    let firewall = read(&filter_table(":large -\n", &rules), "");
    let chain = (TableName::Filter, "FORWARD");
    let program = LookupProgram::compile(&firewall, Family::V4, chain, FlattenLimits::default());
    let program = program.expect("a chain");
    let filters =
        program.chains().iter().flat_map(|c| &c.stretches).map(|s| s.filters.filter_count());
    assert_eq!((program.chains().len(), filters.sum::<usize>()), (2, 10_500));
    let mut counts = ComparisonCounts::default();
    let engines = vec![Engine::Linear, Engine::IntervalDag, Engine::TupleMerge];
    RulesetComparison { engines, ..RulesetComparison::with_all_engines(3000, 1) }.compare_firewall(
        "a large chain",
        &firewall,
        &mut counts,
    );
    assert!(counts.calls > 0 && counts.packets > 5000);
}

#[test]
fn chains_nested_a_thousand_deep_are_flattened() {
    let (mut chains, mut rules) = (String::new(), String::from("-A FORWARD -j c0\n"));
    for index in 0..1000 {
        let _ = writeln!(chains, ":c{index} -");
        let _ = writeln!(rules, "-A c{index} -s 10.0.{}.{} -j DROP", index / 250, index % 250);
        if index < 999 {
            let _ = writeln!(rules, "-A c{index} -j c{}", index + 1);
        }
    }
    let firewall = read(&filter_table(&chains, &rules), "");
    let mut counts = ComparisonCounts::default();
    for boxes_per_jump_max in [0, 64] {
        let limits = FlattenLimits { boxes_per_jump_max };
        let engines = vec![Engine::Linear, Engine::IntervalDag];
        RulesetComparison { engines, limits, ..RulesetComparison::with_all_engines(1500, 1) }
            .compare_firewall("nested chains", &firewall, &mut counts);
    }
    assert!(counts.packets > 1000);
}

#[test]
fn chains_nested_too_deeply_to_inline_are_called() {
    let nested = |depth: u32| {
        let (mut chains, mut rules) = (String::new(), String::from("-A FORWARD -j c0\n"));
        for index in 0..depth {
            let _ = writeln!(chains, ":c{index} -");
            let _ = writeln!(rules, "-A c{index} -s 10.0.{}.{} -j DROP", index / 250, index % 250);
            if index + 1 < depth {
                let _ = writeln!(rules, "-A c{index} -j c{}", index + 1);
            }
        }
        read(&filter_table(&chains, &rules), "")
    };
    let chain = (TableName::Filter, "FORWARD");
    let compiled_chains = |firewall: &Firewall| {
        let limits = FlattenLimits::default();
        let program = LookupProgram::compile(firewall, Family::V4, chain, limits).expect("a chain");
        let stretches = program.chains().iter().flat_map(|chain| &chain.stretches);
        (program.chains().len(), stretches.map(|s| s.entries.len()).sum::<usize>())
    };
    // The control: one structure holds all.
    assert_eq!(compiled_chains(&nested(300)), (1, 600));
    let firewall = nested(2500);
    let (chains, entries) = compiled_chains(&firewall);
    assert!(chains > 1 && entries < 10_000, "{chains} chains, {entries} entries");
    let mut counts = ComparisonCounts::default();
    let engines = vec![Engine::Linear];
    RulesetComparison { engines, ..RulesetComparison::with_all_engines(300, 1) }.compare_firewall(
        "deep chains",
        &firewall,
        &mut counts,
    );
    assert!(counts.packets > 100);
}

#[test]
fn ipv6_addresses_are_four_words() {
    let text = "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n:a -\n\
                -A FORWARD -s 2001:db8::/32 ! -d 2001:db8:1:2::/64 -j a\n\
                -A FORWARD -m iprange --src-range 2001:db8::5-2001:db8:0:7::3 -j ACCEPT\n\
                -A FORWARD -m iprange ! --dst-range 2001:db8::5-2001:db9::3 -j a\n\
                -A FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT\n\
                -A FORWARD -p tcp -m tcp --sport 1024:65535 -m hl --hl-gt 3 -j ACCEPT\n\
                -A a ! -s 2001:db8::1 -p udp -m udp --dport 53 -j RETURN\n\
                -A a -m mac --mac-source 02:00:00:00:00:01 -j DROP\n\
                -A a -m pkttype --pkt-type multicast -j DROP\nCOMMIT\n";
    let firewall = read_firewall(text, Some(Family::V6), "").expect("a ruleset");
    let mut counts = ComparisonCounts::default();
    RulesetComparison::with_all_engines(3000, 1).compare_firewall("IPv6", &firewall, &mut counts);
    assert!(counts.packets > 1000 && counts.evaluated_rules == 0, "{counts:?}");
}

#[test]
fn loops_and_missing_chains_are_refused_by_name() {
    let mut looped =
        read(&filter_table(":a -\n", "-A FORWARD -j a\n-A a -s 10.0.0.1 -j RETURN\n"), "");
    let chains = &mut looped.v4.as_mut().expect("a ruleset").tables[0].chains;
    let chain = chains.iter_mut().find(|c| &*c.name == "a").expect("a chain");
    chain.rules[0].target = Target::Jump("a".into());
    let compile = |firewall: &Firewall, chain: &str| {
        let chain = (TableName::Filter, chain);
        let made = LookupProgram::compile(firewall, Family::V4, chain, FlattenLimits::default());
        made.map(|_| ()).expect_err("refused").to_string()
    };
    assert_eq!(
        compile(&looped, "FORWARD"),
        "compile filter/a to look-ups: the chain leads back to itself"
    );
    let missing = compile(&looped, "absent");
    assert_eq!(missing, "compile filter/absent to look-ups: there is no such chain");
    let table = TableName::Filter;
    let error = LookupProgramError::JumpLoop { table, chain: "a".to_owned() };
    assert!(error.to_string().contains("filter/a"));
}

#[test]
fn a_rule_that_differs_is_found() {
    let rules = "-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j ACCEPT\n\
                 -A FORWARD -d 192.0.2.0/24\n-A FORWARD -p udp -j ACCEPT\n";
    let firewall = read(&filter_table("", rules), "");
    let chain = (TableName::Filter, "FORWARD");
    let program = LookupProgram::compile(&firewall, Family::V4, chain, FlattenLimits::default());
    let program = program.expect("a chain");
    let structures =
        LookupStructures::build(&program, Engine::IntervalDag, &BuildLimits::default())
            .expect("a structure");
    let find = |rules: &str| {
        let firewall = read(&filter_table("", rules), "");
        let interpreter = Interpreter::new(&firewall);
        let judges = (&interpreter, &firewall);
        let (count, differing) =
            compare_generated_packets(&program, &structures, judges, Hook::Forward, (1, 2000));
        assert!(count > 100);
        differing.map(|(_, differing)| differing.difference)
    };
    assert_eq!(find(rules), None);
    let other_verdict = rules.replace("-p udp -j ACCEPT", "-p udp -j DROP");
    assert_eq!(find(&other_verdict), Some(LookupDifference::Verdict));
    let other_count = rules.replace("192.0.2.0/24", "192.0.2.0/25");
    assert_eq!(find(&other_count), Some(LookupDifference::CreditedRules));
    let reset = rules.replace("--dport 80 -j ACCEPT", "--dport 80 -j REJECT");
    assert!(find(&reset).is_some());
}
