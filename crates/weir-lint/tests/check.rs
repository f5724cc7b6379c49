//! What `weir check` reports, and what it does not.

use weir_lint::{
    Finding, FixOptions, LintLevel, LintLevels, LintOptions, Severity, UnfixedReason, all_lints,
    apply_fixes, count_firewall_contents, lint_firewall, lint_with_default_options,
};
use weir_model::{Family, Firewall, RuleId};
use weir_syntax::iptables::{ParserSettings, parse};

fn firewall(text: &str, sets: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("a good ruleset");
    let sets = weir_syntax::ipset::parse(sets).expect("good sets");
    Firewall { v4: Some(ruleset), v6: None, sets }
}

fn look(text: &str, sets: &str) -> Vec<Finding> {
    lint_with_default_options(&firewall(text, sets))
}

/// Findings of a filter table, as `id place`.
fn found(rules: &str) -> Vec<String> {
    let place = |f: &Finding| f.place.as_ref().map(RuleId::path_in_family).unwrap_or_default();
    let all = look(&format!("*filter\n{rules}COMMIT\n"), "");
    all.iter().map(|f| format!("{} {}", f.lint_id(), place(f))).collect()
}

#[test]
fn a_sound_ruleset_has_no_findings() {
    let rules = "\
:FORWARD DROP [0:0]
:web - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -p tcp -j web
-A FORWARD -s 192.0.2.0/24 -p udp -m udp --dport 53 -j ACCEPT
-A FORWARD -s 198.51.100.0/24 -p udp -m udp --dport 53 -j ACCEPT
-A web -p tcp -m multiport --dports 80,443 -j ACCEPT
";
    assert_eq!(found(rules), [""; 0]);
}

#[test]
fn unreachable_chains_are_found_through_other_unreachable_ones() {
    let rules = ":a - [0:0]\n:b - [0:0]\n:c - [0:0]\n\
        -A FORWARD -j c\n-A a -j b\n-A b -j DROP\n-A c -p tcp -j DROP\n";
    assert_eq!(found(rules), ["unreachable-chain filter/a/policy"]);
    let all = look(&format!("*filter\n{rules}COMMIT\n"), "");
    let also: Vec<_> = all[0].related_places.iter().map(|a| a.place.path_in_family()).collect();
    assert_eq!(also, ["filter/b/policy"]);
}

#[test]
fn duplicates_are_found_whatever_their_comment() {
    let rules = "\
-A FORWARD -s 192.0.2.1/32 -p tcp -m comment --comment one -j DROP
-A FORWARD -s 192.0.2.2/32 -p tcp -j DROP
-A FORWARD -s 192.0.2.1/32 -p tcp -m comment --comment two -j DROP
-A FORWARD -s 192.0.2.2/32 -p tcp -j REJECT --reject-with icmp-port-unreachable
";
    let all = look(&format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n"), "");
    let said: Vec<_> = all.iter().map(|f| (f.lint_id(), f.severity)).collect();
    assert_eq!(said, [("duplicate-rule", Severity::Note), ("duplicate-rule", Severity::Warning)]);
}

#[test]
fn counting_and_stateful_rules_are_not_duplicates() {
    assert_eq!(found("-A FORWARD -s 192.0.2.1/32\n-A FORWARD -s 192.0.2.1/32\n"), [""; 0]);
    let limits = "-A FORWARD -m limit --limit 3/sec -j DROP\n".repeat(2);
    assert_eq!(found(&limits), [""; 0]);
}

#[test]
fn rules_separated_by_a_relevant_write_are_not_duplicates() {
    let rules = "\
-A FORWARD -m mark --mark 0x1 -j DROP
-A FORWARD -j MARK --set-xmark 0x1/0xffffffff
-A FORWARD -m mark --mark 0x1 -j DROP
";
    let text = format!("*mangle\n{rules}COMMIT\n");
    assert_eq!(look(&text, "").len(), 0);
}

#[test]
fn a_rule_under_a_wider_one_is_shadowed() {
    let wide = "-A FORWARD -s 10.0.0.0/8 -j REJECT --reject-with icmp-port-unreachable\n";
    let narrow = "-A FORWARD -s 10.1.0.0/16 -p tcp -m tcp --dport 22 -j ACCEPT\n";
    let drop = ":FORWARD DROP [0:0]\n";
    assert_eq!(found(&format!("{drop}{wide}{narrow}")), ["shadowed-rule filter/FORWARD/1"]);
    assert_eq!(found(&format!("{drop}{narrow}{wide}")), [""; 0]);
    let other = "-A FORWARD -s 11.1.0.0/16 -p tcp -m tcp --dport 22 -j ACCEPT\n";
    assert_eq!(found(&format!("{drop}{wide}{other}")), [""; 0]);
    let negated = "-A FORWARD ! -s 10.1.0.0/16 -j ACCEPT\n";
    assert_eq!(found(&format!("{drop}{wide}{negated}")), [""; 0]);
}

/// Offsets are those of the IPv4 header; a list of values or another field has no plain match.
#[test]
fn u32_tests_of_fields_with_a_plain_match_are_found() {
    let rule =
        |text: &str| format!(":FORWARD DROP [0:0]\n-A FORWARD -m u32 --u32 \"{text}\" -j ACCEPT\n");
    for text in ["0x6&0xff=0x11", "0xc=0xc0000201", "4&0x1FFF=1:0x1fff", "5&0xFF=64"] {
        assert_eq!(found(&rule(text)), ["u32-for-header filter/FORWARD/1"], "{text}");
    }
    for text in ["0x6&0xff=0x6,0x11", "0x4&0x1fff=0x2", "0x8=0x1", "0x0&0xffff=0x0:0x1e"] {
        assert_eq!(found(&rule(text)), [""; 0], "{text}");
    }
    let options = ParserSettings { family: Some(Family::V6), ..ParserSettings::default() };
    let text = format!("*filter\n{}COMMIT\n", rule("0x6&0xff=0x11"));
    let v6 = Some(parse(&text, &options).expect("a good ruleset"));
    let firewall = Firewall { v6, ..Firewall::default() };
    assert!(lint_with_default_options(&firewall).iter().all(|f| f.lint_id() != "u32-for-header"));
}

#[test]
fn rules_after_a_catch_all_are_one_finding() {
    let rules = "\
-A FORWARD -p tcp -j DROP
-A FORWARD -j ACCEPT
-A FORWARD -p udp -j DROP
-A FORWARD -p icmp -j DROP
";
    assert_eq!(found(rules), ["rule-after-catch-all filter/FORWARD/2"]);
}

#[test]
fn a_chain_that_decides_everything_is_a_catch_all() {
    let chains = ":all - [0:0]\n:end - [0:0]\n-A FORWARD -j all\n-A FORWARD -p udp -j ACCEPT\n";
    let closed = "-A all -p tcp -j ACCEPT\n-A all -j end\n-A end -j DROP\n";
    assert_eq!(found(&format!("{chains}{closed}")), ["rule-after-catch-all filter/FORWARD/1"]);
    let open = "-A all -p tcp -j RETURN\n-A all -j end\n-A end -j DROP\n";
    assert_eq!(
        found(&format!("{chains}{open}")),
        ["redundant-rule filter/FORWARD/2", "no-final-drop filter/FORWARD/policy"]
    );
}

#[test]
fn jumps_to_empty_chains_and_loops_are_found() {
    assert_eq!(
        found(":a - [0:0]\n-A FORWARD -p tcp -j a\n"),
        ["jump-to-empty-chain filter/a/policy"]
    );
    // No parser accepts a loop; a program may create one.
    let text = "*filter\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n-A FORWARD -p tcp -j a\n\
        -A a -j b\n-A b -p tcp -g c\n-A c -p tcp -j DROP\nCOMMIT\n";
    let mut looped = firewall(text, "");
    assert_eq!(lint_with_default_options(&looped).len(), 0);
    let table = &mut looped.v4.as_mut().expect("a v4 ruleset").tables[0];
    let b = table.chains.iter_mut().find(|c| &*c.name == "b").expect("b");
    b.rules[0].target = weir_model::Target::Goto("a".into());
    let ids: Vec<_> = lint_with_default_options(&looped).iter().map(|f| f.lint_id()).collect();
    assert_eq!(ids, ["unreachable-chain", "jump-loop"]);
}

#[test]
fn tests_that_exclude_each_other_are_found() {
    let found =
        |tests: &str| found(&format!(":FORWARD DROP [0:0]\n-A FORWARD -p tcp {tests} -j ACCEPT\n"));
    let never = ["never-matches filter/FORWARD/1"];
    assert_eq!(found("-m tcp --dport 22 -m multiport --dports 80,443"), never);
    assert_eq!(found("-m tcp --tcp-flags SYN ACK"), never);
    assert_eq!(found("-m tcp --tcp-flags SYN SYN -m tcp --tcp-flags ACK NONE"), [""; 0]);
}

#[test]
fn a_missing_final_drop_is_reported_only_after_accept_rules() {
    let open = ":INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n";
    assert_eq!(found(open), ["no-final-drop filter/INPUT/policy"]);
    let closed = format!("{open}-A INPUT -j REJECT --reject-with icmp-port-unreachable\n");
    assert_eq!(found(&closed), [""; 0]);
    assert_eq!(found(":INPUT ACCEPT [0:0]\n-A INPUT -s 192.0.2.1/32 -j DROP\n"), [""; 0]);
}

#[test]
fn long_address_lists_and_late_state_rules_are_found() {
    let row = |n: usize| {
        (0..n).map(|i| format!("-A FORWARD -s 192.0.2.{i}/32 -j DROP\n")).collect::<String>()
    };
    let state = "-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A FORWARD -j DROP\n";
    assert_eq!(
        found(&format!("{}{state}", row(17))),
        ["linear-addresses filter/FORWARD/1", "conntrack-not-first filter/FORWARD/18"]
    );
    assert_eq!(found(&format!("{}{state}", row(16))), [""; 0]);
}

#[test]
fn sets_are_checked_only_if_set_definitions_are_given() {
    let text = "*filter\n-A FORWARD -m set --match-set used src -j DROP\n\
        -A FORWARD -m set --match-set lost src -j DROP\n\
        -A FORWARD -m set --match-set void src -j DROP\nCOMMIT\n";
    let sets = "create used hash:ip family inet\nadd used 192.0.2.1\n\
        create spare hash:ip family inet\nadd spare 192.0.2.1\n\
        create void hash:ip family inet\n";
    let ids: Vec<_> = look(text, sets).iter().map(|f| f.lint_id()).collect();
    assert_eq!(ids, ["unknown-set", "empty-set", "unused-set"]);
    assert_eq!(look(text, "").len(), 0);
}

#[test]
fn every_finding_has_a_span_and_help() {
    let text = "*filter\n:a - [0:0]\n-A FORWARD -j a\n-A FORWARD -j DROP\n-A FORWARD -p tcp -j LOG\nCOMMIT\n";
    let all = look(text, "");
    assert_eq!(all.len(), 2);
    for f in all {
        assert!(!f.help.is_empty() && !f.message.ends_with('.'));
        let range = f.span.byte_range().expect("a place");
        let begins =
            if f.lint_id() == "rule-after-catch-all" { "-A FORWARD -j DROP" } else { ":a" };
        assert!(text[range].starts_with(begins));
    }
}

#[test]
fn ruleset_counts_list_rules_sets_matches_and_targets() {
    let text = "*filter\n:a - [0:0]\n-A FORWARD -s 192.0.2.1/32 -p tcp -m tcp --dport 1 -j a\n\
        -A a -p tcp -m tcp --dport 2\n-A a -j LOG\nCOMMIT\n";
    let counted =
        count_firewall_contents(&firewall(text, "create s hash:ip family inet\nadd s 192.0.2.1\n"));
    assert_eq!((counted.rules, counted.sets, counted.elements), (3, 1, 1));
    assert_eq!(counted.tables[0].chains[0].chain, "a");
    let names: Vec<_> = counted.matches.iter().map(|c| (c.name.as_str(), c.count)).collect();
    assert_eq!(names, [("-p", 2), ("tcp", 2), ("-s", 1)]);
    let names: Vec<_> = counted.targets.iter().map(|c| (c.name.as_str(), c.count)).collect();
    assert_eq!(names, [("LOG", 1), ("jump", 1), ("none", 1)]);
}

#[test]
fn rules_that_jointly_shadow_another_are_all_named() {
    let halves = "-A FORWARD -s 10.0.0.0/9 -p tcp -j DROP\n-A FORWARD -s 10.128.0.0/9 -j DROP\n";
    let rule = "-A FORWARD -s 10.64.0.0/10 -p tcp -m tcp --dport 22 -j ACCEPT\n";
    let whole = "-A FORWARD -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j ACCEPT\n";
    let text = |rules: String| format!("*filter\n{rules}-A FORWARD -j DROP\nCOMMIT\n");
    let all = look(&text(format!("{halves}{rule}{whole}")), "");
    let by: Vec<_> = all.iter().map(|f| (f.lint_id(), f.related_places.len())).collect();
    assert_eq!(by, [("shadowed-rule", 1), ("shadowed-rule", 2)]);
    // Without one half, a packet is left.
    let udp = halves.replace("-p tcp", "-p udp");
    let all = look(&text(format!("{udp}{whole}")), "");
    assert!(all.iter().all(|f| f.lint_id() != "shadowed-rule"), "{all:?}");
}

#[test]
fn a_called_chain_can_shadow_later_rules() {
    let chains = ":tcp_in - [0:0]\n-A FORWARD -p tcp -j tcp_in\n";
    let closed = "-A tcp_in -s 10.0.0.0/8 -j ACCEPT\n";
    let rule = "-A FORWARD -s 10.1.0.0/16 -p tcp -j DROP\n-A FORWARD -j DROP\n";
    let shadowed = ["shadowed-rule filter/FORWARD/1", "redundant-rule filter/FORWARD/2"];
    let drop = |rules: &str| found(&format!("{chains}{rules}"));
    assert_eq!(drop(&format!("{rule}{closed}")), shadowed[..1]);
    // Packets that return earlier still reach the rule.
    let open = format!("-A tcp_in -d 192.0.2.1/32 -j RETURN\n{closed}");
    assert_eq!(drop(&format!("{rule}{open}")), shadowed[1..]);
}

#[test]
fn packets_reaching_a_chain_depend_on_the_jumps_to_it() {
    let text = ":tcp_in - [0:0]\n-A FORWARD -p tcp -j tcp_in\n-A FORWARD -j DROP\n\
        -A tcp_in -p udp -j ACCEPT\n-A tcp_in -s 10.0.0.0/8 -j ACCEPT\n";
    assert_eq!(found(text), ["never-matches filter/tcp_in/1"]);
    let both = format!("{text}-A INPUT -j tcp_in\n-A INPUT -j DROP\n");
    assert_eq!(found(&both), [""; 0]);
    let devices = ":out - [0:0]\n-A OUTPUT -j out\n-A OUTPUT -p udp -j DROP\n\
        -A out -i eth0 -j DROP\n-A out ! -i eth0 -p tcp -j DROP\n";
    assert_eq!(found(devices), ["never-matches filter/out/1"]);
}

#[test]
fn a_rule_that_drops_truncated_headers_is_not_redundant() {
    let plain = "-A FORWARD -s 10.0.0.0/8 -p tcp -j ACCEPT\n-A FORWARD -p tcp -j ACCEPT\n";
    let end = "-A FORWARD -j DROP\n";
    assert_eq!(found(&format!("{plain}{end}")), ["redundant-rule filter/FORWARD/1"]);
    let ports = plain.replacen("-p tcp", "-p tcp -m tcp --dport 22", 1);
    assert_eq!(found(&format!("{ports}{end}")), [""; 0]);
    let both = plain.replace("-p tcp", "-p tcp -m tcp --dport 22");
    assert_eq!(found(&format!("{both}{end}")), ["redundant-rule filter/FORWARD/1"]);
}

#[test]
fn a_rule_before_logging_or_counting_is_not_redundant() {
    let rules = |between: &str| {
        let mut all = found(&format!(
            "-A FORWARD -s 10.0.0.0/8 -j DROP\n{between}-A FORWARD -p udp -j ACCEPT\n\
             -A FORWARD -j DROP\n"
        ));
        all.retain(|f| !f.starts_with("log-without-limit"));
        all
    };
    assert_eq!(rules(""), [""; 0]);
    let same = "-A FORWARD -s 10.0.0.0/7 -j DROP\n";
    assert_eq!(rules(same), ["redundant-rule filter/FORWARD/1"]);
    for between in ["-j LOG", "-p tcp", "-m limit --limit 5/sec -j DROP", "-m mark --mark 0x1"] {
        assert_eq!(rules(&format!("-A FORWARD {between}\n{same}")), [""; 0], "{between}");
    }
}

#[test]
fn of_two_equal_rules_only_the_second_is_reported() {
    // The first is needed once the second is gone.
    let rule = "-A FORWARD -s 10.0.0.0/8 -j DROP\n";
    assert_eq!(found(&format!("{rule}{rule}")), ["duplicate-rule filter/FORWARD/2"]);
    // Without the first, the second would accept.
    let other = rule.replace("DROP", "ACCEPT");
    assert_eq!(
        found(&format!("{rule}{other}-A FORWARD -j DROP\n")),
        ["duplicate-rule filter/FORWARD/2"]
    );
}

#[test]
fn allow_comments_suppress_findings_and_unused_ones_are_reported() {
    let rules = |comment: &str| {
        let text = format!(
            "*filter\n-A FORWARD -p tcp -j DROP\n{comment}-A FORWARD -p tcp -j DROP\nCOMMIT\n"
        );
        let checked = lint_firewall(&firewall(&text, ""), &LintOptions::default());
        let ids: Vec<_> = checked.findings.iter().map(|f| f.lint_id()).collect();
        (ids, checked.suppressed_count)
    };
    assert_eq!(rules(""), (vec!["duplicate-rule"], 0));
    assert_eq!(rules("# weir: allow(duplicate-rule): on purpose\n"), (vec![], 1));
    let other = "# weir: allow(never-matches, duplicate-rule): on purpose\n";
    assert_eq!(rules(other), (vec![], 1));
    let unused = "# weir: allow(never-matches): on purpose\n";
    assert_eq!(rules(unused), (vec!["duplicate-rule", "allows-nothing"], 0));
    for bad in ["allow(duplicate-rule)", "allow(nothing): so", "duplicate-rule is fine"] {
        let comment = format!("# weir: {bad}\n");
        assert_eq!(rules(&comment), (vec!["duplicate-rule", "bad-comment"], 0), "{bad}");
    }
}

#[test]
fn the_level_of_one_lint_overrides_that_of_all() {
    let text = "*filter\n-A FORWARD -p tcp -j DROP\n-A FORWARD -p tcp -j DROP\n\
        -A FORWARD -m mark --mark 0x2/0x1 -j DROP\nCOMMIT\n";
    let with = |asked: &[(&str, LintLevel)]| {
        let mut levels = LintLevels::default();
        asked.iter().for_each(|(id, level)| {
            levels.set_level_by_id_or_all_enabled(id, *level).expect("a lint")
        });
        let options = LintOptions { levels, ..LintOptions::default() };
        let found = lint_firewall(&firewall(text, ""), &options).findings;
        found.iter().map(|f| (f.lint_id(), f.severity)).collect::<Vec<_>>()
    };
    let (duplicate, never) = ("duplicate-rule", "never-matches");
    assert_eq!(with(&[]), [(duplicate, Severity::Note), (never, Severity::Warning)]);
    let error = LintLevel::ReportAs(Severity::Error);
    assert_eq!(with(&[("all", error)]), [(duplicate, Severity::Error), (never, Severity::Error)]);
    assert_eq!(with(&[("all", error), (never, LintLevel::Allow)]), [(duplicate, Severity::Error)]);
    assert_eq!(with(&[(never, error), ("all", LintLevel::Allow)]), [(never, Severity::Error)]);
    assert!(LintLevels::default().set_level_by_id_or_all_enabled("no-such-lint", error).is_err());
}

#[test]
fn the_last_rule_that_enables_reassembly_is_not_removed() {
    let fixed = |rules: &str| {
        let text = format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n:U - [0:0]\n\
             -A PREROUTING -p udp -m udp --dport 53 -j DROP\n-A PREROUTING -j ACCEPT\n{rules}COMMIT\n"
        );
        let ids =
            all_lints().filter(|l| l.is_fixable && l.enabled_by_default).map(|l| l.id).collect();
        let options = FixOptions {
            lint_ids_to_fix: ids,
            allow_counter_changes: true,
            ..FixOptions::default()
        };
        let fixed = apply_fixes(&firewall(&text, ""), &options);
        let rules =
            fixed.firewall.v4.as_ref().map_or(0, |r| r.rules_with_table_and_chain().count());
        (rules, fixed.unfixed_findings.iter().map(|(_, why)| *why).collect::<Vec<_>>())
    };
    // The control: a rule that does not enable reassembly.
    assert_eq!(fixed("-A PREROUTING -m mark --mark 0x1 -j ACCEPT\n"), (2, vec![]));
    assert_eq!(fixed("-A U -m mark --mark 0x1 -j ACCEPT\n"), (2, vec![]));
    for rule in [
        "-A PREROUTING -m socket -j ACCEPT\n",
        "-A PREROUTING -p tcp -j TPROXY --on-port 80\n",
        "-A U -m socket -j ACCEPT\n",
    ] {
        let (rules, left) = fixed(rule);
        assert_eq!((rules, &left[..]), (3, &[UnfixedReason::LastReassemblyUse][..]), "{rule}");
    }
    let (_, left) = fixed("-A PREROUTING -m state --state NEW -j ACCEPT\n");
    assert_eq!(left, [UnfixedReason::LastConntrackUse]);
}

/// Places of the only finding: its own, then the others with their labels.
fn places(rules: &str) -> (String, Vec<String>) {
    let mut all = look(&format!("*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n"), "");
    all.retain(|f| f.lint_id() != "linear-addresses");
    let ids: Vec<_> = all.iter().map(Finding::lint_id).collect();
    let [f] = &all[..] else { panic!("{ids:?}") };
    let place = f.place.as_ref().expect("a place").path_in_family();
    let also =
        f.related_places.iter().map(|a| format!("{}: {}", a.place.path_in_family(), a.label));
    (format!("{} {place}", f.lint_id()), also.collect())
}

#[test]
fn a_hundred_rules_under_one_are_one_finding_at_that_rule() {
    let rule = |i| format!("-A FORWARD -s 10.0.{i}.0/24 -p tcp -m tcp --dport 22 -j DROP\n");
    let rules = (0..100).map(rule).collect::<String>();
    let (finding, also) = places(&format!("-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n{rules}"));
    assert_eq!(finding, "shadowed-rule filter/FORWARD/1");
    assert_eq!(also.len(), 100);
    assert_eq!(also[99], "filter/FORWARD/101: no packet reaches this rule");
}

#[test]
fn a_catch_all_finding_lists_later_rules_and_their_chains() {
    let (finding, also) = places(
        ":web - [0:0]\n:deep - [0:0]\n-A FORWARD -p tcp -j ACCEPT\n-A FORWARD -j DROP\n\
         -A FORWARD -p udp -j web\n-A web -p udp -j deep\n-A deep -p udp -j ACCEPT\n",
    );
    assert_eq!(finding, "rule-after-catch-all filter/FORWARD/2");
    assert_eq!(
        also,
        [
            "filter/web/policy: never reached",
            "filter/deep/policy: never reached",
            "filter/FORWARD/3: never reached"
        ]
    );
}

#[test]
fn duplicates_of_one_rule_are_one_finding_at_the_first_duplicate() {
    let rule = "-A FORWARD -s 192.0.2.1/32 -j ACCEPT\n";
    let (finding, also) = places(&rule.repeat(3));
    assert_eq!(finding, "duplicate-rule filter/FORWARD/2");
    assert_eq!(also, ["filter/FORWARD/3: another one", "filter/FORWARD/1: the same tests"]);
}

#[test]
fn an_allow_comment_at_one_place_keeps_the_other_places() {
    let rule = "-A FORWARD -s 10.1.0.0/16 -j DROP\n";
    let other = "-A FORWARD -s 10.2.0.0/16 -j DROP\n";
    let wide = "-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n";
    let comment = "# weir: allow(shadowed-rule): the auditor wants to see this line\n";
    let (_, also) = places(&format!("{wide}{rule}{other}"));
    assert_eq!(also.len(), 2);
    let (_, also) = places(&format!("{wide}{comment}{rule}{other}"));
    assert_eq!(also, ["filter/FORWARD/3: no packet reaches this rule"]);
    let text = |rules: &str| format!("*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n");
    // Before the rule that causes the findings, the comment applies to all places.
    let all = lint_firewall(
        &firewall(&text(&format!("{comment}{wide}{rule}{other}")), ""),
        &LintOptions::default(),
    );
    assert_eq!((all.findings.len(), all.suppressed_count), (0, 2));
}

#[test]
fn findings_in_program_chains_are_notes_unless_lint_is_named() {
    let severity = |rules: &str, asked: Option<&str>| {
        let mut levels = LintLevels::default();
        if let Some(id) = asked {
            levels
                .set_level_by_id_or_all_enabled(id, LintLevel::ReportAs(Severity::Error))
                .expect("a lint");
        }
        let text = format!("*filter\n:FORWARD DROP [0:0]\n:INPUT DROP [0:0]\n{rules}COMMIT\n");
        let options = LintOptions { levels, ..LintOptions::default() };
        let found = lint_firewall(&firewall(&text, ""), &options).findings;
        found.iter().map(|f| f.severity).max()
    };
    let shadowed = |chain: &str| {
        format!(
            ":{chain} - [0:0]\n-A FORWARD -j {chain}\n-A {chain} -s 10.0.0.0/8 -j ACCEPT\n\
             -A {chain} -s 10.1.0.0/16 -j DROP\n"
        )
    };
    assert_eq!(severity(&shadowed("web"), None), Some(Severity::Warning));
    for chain in ["DOCKER-FORWARD", "LIBVIRT_FWO", "f2b-sshd", "KUBE-X", "ufw-x", "IN_x_allow"] {
        let rules = shadowed(chain);
        assert_eq!(severity(&rules, None), Some(Severity::Note), "{chain}");
        assert_eq!(severity(&rules, Some("all")), Some(Severity::Note), "{chain}");
        assert_eq!(severity(&rules, Some("shadowed-rule")), Some(Severity::Error), "{chain}");
    }
    // Rules that users write to DOCKER-USER are attributed to the user.
    assert_eq!(severity(&shadowed("DOCKER-USER"), None), Some(Severity::Warning));
    let user = ":DOCKER-USER - [0:0]\n:DOCKER-X - [0:0]\n-A FORWARD -j DOCKER-USER\n\
        -A FORWARD -j DOCKER-X\n-A DOCKER-X -p tcp -j ACCEPT\n-A DOCKER-USER -j DROP\n";
    assert_eq!(severity(user, None), Some(Severity::Warning));
    let theirs = user.replace("DOCKER-USER", "DOCKER-Y");
    assert_eq!(severity(&theirs, None), Some(Severity::Note));
}

#[test]
fn the_artefact_marker_chain_is_not_reported() {
    let ids = |chain: &str| {
        let text = format!("*filter\n:FORWARD DROP [0:0]\n:{chain} - [0:0]\nCOMMIT\n");
        look(&text, "").iter().map(Finding::lint_id).collect::<Vec<_>>()
    };
    assert_eq!(ids("weir-1a2b3c4d"), ["unreachable-chain"]);
    assert_eq!(ids("weir:1a2b3c4d"), [""; 0]);
}

#[test]
fn unreachable_linear_lists_are_not_reported() {
    let row: String =
        (1..20).map(|p| format!("-A FORWARD -p tcp -m tcp --dport {p} -j ACCEPT\n")).collect();
    let ids = |rules: &str| {
        let all = look(&format!("*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n"), "");
        all.iter().map(Finding::lint_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&row), ["linear-ports"]);
    assert_eq!(ids(&format!("-A FORWARD -j DROP\n{row}")), ["rule-after-catch-all"]);
}
