//! What targets write and matches drop is part of the meaning: rulesets that differ in it are not
//! reported as equal. Each pair comes with a control in which nothing depends on it.

use weir_diagram::{CompareOptions, StatefulTestPairing, compare_firewalls};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};

const SETS: &str = "create s hash:ip family inet skbinfo\nadd s 10.0.0.1 skbmark 0x1\n\
                    create t hash:ip family inet\ncreate u hash:ip family inet\n\
                    create l list:set size 8\nadd l u\n";

fn firewall(text: &str) -> Firewall {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(errors) => panic!("{}", weir_syntax::render_diagnostics(&errors, "text", text, false)),
    };
    let sets = weir_syntax::ipset::parse(SETS).expect("good sets");
    Firewall { v4: Some(ruleset), sets, ..Firewall::default() }
}

fn equal(table: &str, before: &str, after: &str) -> bool {
    let chains = match table {
        "filter" => ":FORWARD ACCEPT [0:0]\n:sub - [0:0]\n",
        _ => ":PREROUTING ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:sub - [0:0]\n",
    };
    let text = |rules: &str| format!("*{table}\n{chains}{rules}COMMIT\n");
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    let (before, after) = (firewall(&text(before)), firewall(&text(after)));
    compare_firewalls(&before, &after, &options).expect("no mistake in weir").is_equal()
}

/// The rule after a target is dead to one who overlooks what the target writes.
fn rule_behind(table: &str, guard: &str, target: &str, tested: &str) -> bool {
    let rules = format!("-A FORWARD {guard} -j RETURN\n-A FORWARD {target}\n");
    let with = format!("{rules}-A FORWARD {tested} -j DROP\n");
    equal(table, &with, &rules)
}

#[test]
fn a_rule_after_a_write_to_its_tested_field_is_live() {
    let mark = "-m mark --mark 0x1";
    // The control: nothing is written, and the first rule leaves no packets for the last one.
    assert!(rule_behind("mangle", mark, "-j LOG", mark));
    assert!(!rule_behind("mangle", mark, "-j SET --map-set s src --map-mark", mark));
    assert!(rule_behind("mangle", mark, "-j SET --map-set s src --map-prio", mark));
    let length = "-m length --length 44";
    let mss = "-p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 500";
    assert!(rule_behind("mangle", length, "-j MARK --set-xmark 0x1/0x1", length));
    assert!(!rule_behind("mangle", length, mss, length));
    let flags = "-p tcp -m tcp --tcp-flags FIN FIN";
    let ecn = "-p tcp -j ECN --ecn-tcp-remove";
    assert!(rule_behind("mangle", flags, "-j LOG", flags));
    assert!(!rule_behind("mangle", flags, ecn, flags));
}

#[test]
fn a_rule_after_an_unknown_target_is_always_live() {
    for tested in [
        "-s 10.0.0.1",
        "-d 10.0.0.1",
        "-m mark --mark 0x1",
        "-m ttl --ttl-eq 5",
        "-m tos --tos 0x8/0xff",
        "-m length --length 100",
        "-p tcp -m tcp --dport 80",
        "-p icmp -m icmp --icmp-type 8",
        "-m mac --mac-source 02:00:00:00:00:01",
    ] {
        assert!(rule_behind("mangle", tested, "-j LOG", tested), "{tested}");
        assert!(!rule_behind("mangle", tested, "-j UNKNOWN --option", tested), "{tested}");
    }
}

#[test]
fn a_rule_whose_match_may_drop_differs_from_no_rule() {
    for (rule, drops) in [
        ("-p esp", false),
        ("-p esp -m esp --espspi 1", true),
        ("-p ah -m ah --ahspi 1", true),
        ("-p tcp -m tcpmss --mss 1:500", true),
        ("-m hashlimit --hashlimit-upto 1/sec --hashlimit-name h --hashlimit-mode srcport", true),
        ("-m connlimit --connlimit-above 5", true),
        ("-m unknown --option", true),
        ("-m string --string x --algo bm", false),
        ("-m addrtype --dst-type LOCAL", false),
    ] {
        assert_eq!(
            equal("filter", &format!("-A FORWARD {rule} -j RETURN\n"), ""),
            !drops,
            "{rule}"
        );
    }
    // If an earlier rule has already read the header, no truncated packet remains.
    let looked = "-A FORWARD -p tcp -m tcp --dport 1:65535\n";
    let again = format!("{looked}-A FORWARD -p tcp -m tcp --dport 80 -j RETURN\n");
    assert!(equal("filter", &again, looked));
    assert!(!equal("filter", &again, ""));
}

#[test]
fn a_full_hashlimit_table_may_drop_packets() {
    let log = "-A FORWARD -s 10.0.0.0/8 -j LOG\n";
    let any_order = |test: &str| {
        let count = format!("-A FORWARD {test}\n");
        equal("filter", &format!("{log}{count}"), &format!("{count}{log}"))
    };
    // The control: a budget that drops nothing, before or after what is logged.
    assert!(any_order("-m limit --limit 1/sec"));
    let hashlimit = "-m hashlimit --hashlimit-upto 1/sec --hashlimit-name h";
    for options in ["", "--hashlimit-mode srcip", "--hashlimit-mode srcport"] {
        assert!(!any_order(&format!("{hashlimit} {options}")), "{options}");
    }
    let large = "--hashlimit-mode srcip --hashlimit-htable-max 1000000";
    assert!(!any_order(&format!("{hashlimit} {large}")));
}

#[test]
fn a_set_modified_by_rules_is_unknown_at_each_match() {
    let dropping = |set: &str| format!("-A FORWARD -m set --match-set {set} src -j DROP\n");
    // The control: an empty set that no rule modifies contains nothing.
    assert!(equal("filter", &dropping("t"), ""));
    for filler in ["-j SET --add-set t src", "-j SET --del-set t src"] {
        let filler = format!("-A FORWARD {filler}\n");
        assert!(!equal("filter", &format!("{filler}{}", dropping("t")), &filler), "{filler}");
    }
    // A list changes with its members, and members with their list.
    let filler = "-A FORWARD -j SET --add-set u src\n";
    assert!(!equal("filter", &format!("{filler}{}", dropping("l")), filler));
    let filler = "-A FORWARD -j SET --add-set l src\n";
    assert!(!equal("filter", &format!("{filler}{}", dropping("u")), filler));
    let filler = "-A FORWARD -j UNKNOWN --option\n";
    assert!(!equal("filter", &format!("{filler}{}", dropping("t")), filler));
}

#[test]
fn the_order_of_set_updates_and_set_matches_is_compared() {
    let fill = "-j SET --add-set t src\n";
    let found = "-m set --match-set t src";
    let first = format!("-A FORWARD {fill}-A FORWARD {found} -g sub\n-A sub -j DROP\n");
    let last = format!("-A FORWARD {found} -g sub\n-A FORWARD {fill}-A sub {fill}-A sub -j DROP\n");
    assert!(equal("filter", &first, &first));
    assert!(!equal("filter", &first, &last));
}

#[test]
fn recent_matches_see_the_packet_as_earlier_rules_modified_it() {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        level: weir_diagram::CompareLevel::Verdict,
        ..CompareOptions::default()
    };
    let recent = "-A FORWARD -m recent --rcheck --name x --rttl -j DROP\n";
    let commutes = |target: &str| {
        let target = format!("-A FORWARD -j {target}\n");
        let mangle = |rules: [&str; 2]| {
            firewall(&format!("*mangle\n:FORWARD ACCEPT [0:0]\n{}COMMIT\n", rules.concat()))
        };
        let (before, after) = (mangle([&target, recent]), mangle([recent, &target]));
        compare_firewalls(&before, &after, &options).expect("no mistake in weir").is_equal()
    };
    // The control: recent does not read the mark.
    assert!(commutes("MARK --set-xmark 0x1/0xffffffff"));
    assert!(!commutes("TTL --ttl-set 9"));
}

#[test]
fn a_ruleset_that_reassembles_fragments_differs_from_one_without_reassembly() {
    let same = |before: &str, after: &str| {
        let filter = |rules: &str| {
            firewall(&format!(
                "*mangle\n:PREROUTING ACCEPT [0:0]\n{rules}COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n\
                 -A FORWARD -p udp -m udp --dport 53 -j DROP\nCOMMIT\n"
            ))
        };
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        let (before, after) = (filter(before), filter(after));
        compare_firewalls(&before, &after, &options).expect("no mistake in weir")
    };
    // Each is after a rule that leaves it no packets: only its presence matters.
    let accept = "-A PREROUTING -j ACCEPT\n";
    let users = [
        "-m state --state NEW",
        "-m socket",
        "-p udp -j TPROXY --on-port 80",
        "-j CONNMARK --save-mark",
    ];
    for user in users {
        let with = format!("{accept}-A PREROUTING {user}\n");
        assert!(same(&with, &with).is_equal(), "{user}");
        let found = same(accept, &with);
        let (_, fragments) = found.reassembly_differences().next().expect(user);
        assert_eq!(
            (fragments.is_first_ruleset_reassembling, fragments.rule_position()),
            (false, "mangle PREROUTING, rule 2".into())
        );
        assert!(
            !found.is_equal()
                && same(&with, accept)
                    .reassembly_differences()
                    .all(|(_, f)| f.is_first_ruleset_reassembling)
        );
        // One of them suffices.
        let two = format!("{with}-A PREROUTING -m socket --transparent\n");
        assert!(same(&with, &two).is_equal(), "{user}");
    }
    let unrelated = format!("{accept}-A PREROUTING -m mark --mark 0x1 -j DROP\n");
    assert!(same(accept, &unrelated).is_equal());
}

#[test]
fn reassembly_is_no_difference_for_rules_that_cannot_observe_it() {
    let of = |rule: &str, family: Family| {
        let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
        let text = format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j ACCEPT\n-A FORWARD {rule}\nCOMMIT\n"
        );
        let ruleset = parse(&text, &options).expect("a good ruleset");
        match family {
            Family::V4 => Firewall { v4: Some(ruleset), ..Firewall::default() },
            Family::V6 => Firewall { v6: Some(ruleset), ..Firewall::default() },
        }
    };
    let equal = |family, rule: &str| {
        let (without, with) =
            (of(rule, family), of(&format!("{rule} -m state --state NEW"), family));
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        compare_firewalls(&without, &with, &options).expect("no mistake in weir").is_equal()
    };
    for (rule, safe) in [
        ("-i eth0 -j DROP", true),
        ("-m mark --mark 0x1 -j DROP", true),
        ("-m length --length 100", false),
        ("-j LOG", false),
        ("-m limit --limit 1/sec", false),
    ] {
        assert_eq!(equal(Family::V4, rule), safe, "{rule}");
    }
    // Only in IPv4 is the protocol of a later fragment known.
    assert!(equal(Family::V4, "-p udp") && !equal(Family::V6, "-p udp"));
}

#[test]
fn a_diverted_packet_may_return() {
    let filter = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n";
    let same = |before: &str, with: &str, without: &str| {
        let text = |rules: &str| firewall(&format!("{before}{filter}{rules}COMMIT\n"));
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        compare_firewalls(&text(with), &text(without), &options)
            .expect("no mistake in weir")
            .is_equal()
    };
    let mangle = |chain: &str, target: &str| {
        format!("*mangle\n:{chain} ACCEPT [0:0]\n-A {chain} -p tcp {target}\nCOMMIT\n")
    };
    let drop = "-A FORWARD -p tcp -j DROP\n-A INPUT -p tcp -j DROP\n";
    // The control: what is dropped does not return.
    assert!(same(&mangle("PREROUTING", "-j DROP"), drop, ""));
    assert!(!same(&mangle("PREROUTING", "-j NFQUEUE --queue-num 0"), drop, ""));
    let tproxy = "-j TPROXY --on-port 80 --tproxy-mark 0x1/0x1";
    assert!(!same(&mangle("PREROUTING", tproxy), drop, ""));
    let synproxy = "-A INPUT -p tcp -m tcp -j SYNPROXY\n";
    assert!(!same("", &format!("{synproxy}{drop}"), synproxy));
}

#[test]
fn a_set_that_changes_without_rules_is_unknown() {
    let text = "create age hash:ip family inet timeout 600\nadd age 10.0.0.1 timeout 2\n\
                create mac bitmap:ip,mac range 10.0.0.0/24\nadd mac 10.0.0.1\n\
                create count hash:ip family inet counters\nadd count 10.0.0.1\n\
                create plain hash:ip family inet\nadd plain 10.0.0.1\n";
    let of = |rules: &str| {
        let sets = weir_syntax::ipset::parse(text).expect("good sets");
        let rules = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n");
        Firewall { sets, ..firewall(&rules) }
    };
    let same = |a: &str, b: &str| {
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        compare_firewalls(&of(a), &of(b), &options).expect("no mistake in weir").is_equal()
    };
    let behind = |set: &str, dirs: &str| {
        let first = format!("-A FORWARD -m set --match-set {set} {dirs} -j ACCEPT\n");
        same(&format!("{first}-A FORWARD -s 10.0.0.1 -j DROP\n"), &first)
    };
    assert!(behind("plain", "src"));
    assert!(behind("count", "src"), "no rule tests the counters");
    assert!(!behind("age", "src"));
    assert!(!behind("mac", "src,src"));
    let reads = "-A FORWARD -m set --match-set count src --packets-gt 5 -j DROP\n";
    let counts = format!("-A FORWARD -m set --match-set count src\n{reads}");
    assert!(same(reads, reads));
    assert!(!same(&counts, reads));
    assert!(!same(&format!("{reads}{reads}"), reads));
}

#[test]
fn mark_writes_by_a_match_are_tracked() {
    let mark = "-m mark --mark 0x1";
    let restore = |options: &str| {
        let rules = format!("-A PREROUTING {mark} -j ACCEPT\n-A PREROUTING -m socket {options}\n");
        let with = format!("{rules}-A PREROUTING {mark} -j DROP\n");
        equal("mangle", &with, &rules)
    };
    assert!(restore("--transparent"));
    assert!(!restore("--restore-skmark"));
}

#[test]
fn unmodelled_bytes_are_unknown_after_a_target_that_writes_them() {
    let bytes = "-m u32 --u32 0x0&0xff=0x1";
    assert!(rule_behind("mangle", bytes, "-j LOG", bytes));
    assert!(!rule_behind("mangle", bytes, "-j CHECKSUM --checksum-fill", bytes));
    let helper = "-m helper --helper ftp";
    assert!(rule_behind("mangle", helper, "-j LOG", helper));
    assert!(!rule_behind("mangle", helper, "-j UNKNOWN --option", helper));
}

#[test]
fn a_ct_template_is_an_entry_until_conntrack_replaces_it() {
    let raw = |rules: &str| {
        format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n{rules}COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n\
                 -A FORWARD -m conntrack --ctstate UNTRACKED -j DROP\nCOMMIT\n"
        )
    };
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        level: weir_diagram::CompareLevel::Verdict,
        ..CompareOptions::default()
    };
    let same = |a: &str, b: &str| {
        let (a, b) = (firewall(&raw(a)), firewall(&raw(b)));
        compare_firewalls(&a, &b, &options).expect("no mistake in weir").is_equal()
    };
    // NOTRACK after CT has no effect; before CT, it has.
    let (ct, notrack) = ("-A PREROUTING -j CT --zone 1\n", "-A PREROUTING -j NOTRACK\n");
    assert!(same(&format!("{ct}{notrack}"), ct));
    assert!(!same(&format!("{notrack}{ct}"), ct));
    // Between them a rule of the raw table sees the template as NEW, not INVALID.
    let invalid = "-A PREROUTING -m conntrack --ctstate INVALID -j DROP\n";
    assert!(same(&format!("{ct}{invalid}"), ct));
    assert!(!same(&format!("{invalid}{ct}"), ct));
}

#[test]
fn matches_on_a_conntrack_entry_may_change_after_conntrack() {
    let same = |user: &str, matched: &str| {
        let drop = |chains: &str| format!("{chains}-A PREROUTING {matched} -j DROP\nCOMMIT\n");
        let raw = drop("*raw\n:PREROUTING ACCEPT [0:0]\n");
        let filter = format!("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD {user}\nCOMMIT\n");
        let mangle = drop("*mangle\n:PREROUTING ACCEPT [0:0]\n");
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        let (one, both) = (firewall(&format!("{raw}{filter}")), format!("{raw}{filter}{mangle}"));
        compare_firewalls(&one, &firewall(&both), &options).expect("no mistake in weir").is_equal()
    };
    let (tracked, untracked) = ("-m state --state NEW", "-j LOG");
    // The control: a match that does not depend on the entry.
    assert!(same(tracked, "-m addrtype --dst-type LOCAL"));
    assert!(!same(tracked, "-m helper --helper tftp"));
    assert!(!same(tracked, "-m socket"));
    // Without conntrack there is no entry after the raw table either.
    assert!(same(untracked, "-m socket"));
}

#[test]
fn ip_options_allow_truncated_headers_in_longer_packets() {
    let longest = |tests: &str, proto: &str, length: &str| {
        let rule = format!("-A FORWARD -p {proto} -m length --length {length} {tests} -j RETURN\n");
        let filter =
            |rules: &str| firewall(&format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n"));
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByRuleText,
            ..CompareOptions::default()
        };
        let found =
            compare_firewalls(&filter(&rule), &filter(""), &options).expect("no mistake in weir");
        found.differences().next().map(|(_, d)| d.witness.packet.clone())
    };
    // Bytes that the match reads of the header.
    for (proto, tests, header) in [
        ("udp", "-m udp --dport 53", 8),
        ("icmp", "-m icmp --icmp-type 8", 8),
        ("sctp", "-m sctp --dport 53", 12),
        ("dccp", "-m dccp --dport 53", 12),
        ("esp", "-m esp --espspi 1", 8),
        ("ah", "-m ah --ahspi 1", 12),
        ("udp", "-m multiport --dports 53", 4),
    ] {
        let most = 60 + header - 1;
        for length in [20 + header, 40, most] {
            let packet = longest(tests, proto, &format!("{length}:100")).expect(tests);
            assert!(packet.ip_options_len > 0 && packet.len() >= length, "{tests}: {packet:?}");
            assert_eq!(packet.to_bytes()[0], 0x45 + packet.ip_options_len / 4);
            let words = weir_syntax::packet::print_packet(&packet);
            let read = weir_syntax::packet::parse_packet(&words).expect("words");
            assert_eq!(
                (read.len(), read.ip_options_len),
                (packet.len(), packet.ip_options_len),
                "{words}"
            );
        }
        assert!(longest(tests, proto, &format!("{}:100", most + 1)).is_none(), "{tests}");
    }
}

#[test]
fn set_value_lookups_see_the_packet_as_earlier_rules_modified_it() {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        level: weir_diagram::CompareLevel::Verdict,
        ..CompareOptions::default()
    };
    let same_behind = |target: &str| {
        let rules = "-A FORWARD -j SET --map-set s src --map-mark\n\
                     -A FORWARD -m mark --mark 0x1 -j DROP\n";
        let text = |first: &str| format!("*mangle\n:FORWARD ACCEPT [0:0]\n{first}{rules}COMMIT\n");
        let (before, after) = (firewall(&text("")), firewall(&text(target)));
        compare_firewalls(&before, &after, &options).expect("no mistake in weir").is_equal()
    };
    assert!(same_behind("-A FORWARD -j LOG\n"));
    // If the set has no such element, the mark is unchanged.
    assert!(!same_behind("-A FORWARD -j MARK --set-xmark 0x1/0xffffffff\n"));
}

#[test]
fn a_test_that_sees_a_restored_mark_differs_only_for_marked_connections() {
    let restore = "-A PREROUTING -p tcp -j CONNMARK --restore-mark\n";
    let unknown = "-A PREROUTING -m unknown --option -j CONNMARK --restore-mark\n";
    let [first, last] = [format!("{restore}{unknown}"), format!("{unknown}{restore}")];
    assert!(equal("mangle", &first, &first));
    assert!(!equal("mangle", &first, &last));
    assert!(!equal("mangle", &last, &first));
}
