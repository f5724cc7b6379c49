//! Each statement, map and chain alone: loaded by weir to the listing, and to the bytes, of nft -f.

use std::fmt::Write as _;

use crate::statements::{MAPS_V4, MAPS_V6, NAT_RULES_V4, NAT_RULES_V6, RULES_V4, RULES_V6};
use crate::tool_rulesets::{ToolRulesets, parse_nft};

/// A table with a chain of these rules, and one that they can jump to.
fn rules_text(family: &str, rules: &[&str]) -> String {
    let mut text = format!("create table {family} weir_mangle\ntable {family} weir_mangle {{\n");
    text.push_str("\tchain other {\n\t}\n\tchain INPUT {\n");
    text.push_str("\t\ttype filter hook input priority -150; policy accept;\n");
    for rule in rules {
        let _ = writeln!(text, "\t\t{rule}");
    }
    text.push_str("\t}\n}\n");
    text
}

#[test]
fn rules_of_every_statement_are_listed_as_after_nft_f_and_have_its_bytes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftrules");
    for (family, rules) in [("ip", RULES_V4), ("ip6", RULES_V6)] {
        let is_unreadable =
            |rule: &&&str| weir_syntax::nft::parse(&rules_text(family, &[rule])).is_err();
        let unreadable: Vec<&&str> = rules.iter().filter(is_unreadable).collect();
        assert!(unreadable.is_empty(), "weir does not write {unreadable:#?}");
        for rule in rules {
            let ruleset = parse_nft(&rules_text(family, &[rule]));
            tools.assert_same_listing_and_bytes(rule, &ruleset);
        }
        let (ours, _) = tools.load_both(&parse_nft(&rules_text(family, rules)));
        assert_eq!(ours.objects.rule_count(), rules.len());
    }
}

#[test]
fn translations_are_listed_as_after_nft_f_and_have_its_bytes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftnat");
    for (family, [pre, post]) in [("ip", NAT_RULES_V4), ("ip6", NAT_RULES_V6)] {
        let hooks = [("prerouting", -100, pre), ("postrouting", 100, post)];
        for (hook, priority, rules) in hooks {
            for rule in rules {
                let text = format!(
                    "create table {family} weir_nat\ntable {family} weir_nat {{\n\tchain C {{\n\t\t\
                     type nat hook {hook} priority {priority}; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
                );
                tools.assert_same_listing_and_bytes(rule, &parse_nft(&text));
            }
        }
    }
}

#[test]
fn maps_of_every_kind_are_listed_as_after_nft_f_and_have_its_bytes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftmaps");
    for (family, maps) in [("ip", MAPS_V4), ("ip6", MAPS_V6)] {
        for (map, key) in maps {
            let text = format!(
                "create table {family} weir_filter\ntable {family} weir_filter {{\n\tmap m {{\n{map}\n\
                 \t}}\n\tchain other {{\n\t}}\n\tchain FORWARD {{\n\t\ttype filter hook forward \
                 priority 0; policy drop;\n\t\t{key} vmap @m\n\t}}\n}}\n"
            );
            tools.assert_same_listing_and_bytes(map, &parse_nft(&text));
        }
    }
}

#[test]
fn chains_comments_and_several_tables_are_listed_as_after_nft_f() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let text = "create table ip weir_filter\ntable ip weir_filter {\n\tchain a-long_name {\n\
                \t\tcomment \"a long name\"\n\t\tcounter return\n\t}\n\tchain INPUT {\n\
                \t\ttype filter hook input priority 0; policy drop;\n\t\tcounter jump a-long_name\n\
                \t}\n}\ncreate table ip weir_raw\ntable ip weir_raw {\n\tchain PREROUTING {\n\
                \t\ttype filter hook prerouting priority -300; policy accept;\n\t\tcounter notrack\n\
                \t\tip saddr == { 192.0.2.1, 192.0.2.3 } counter drop\n\t}\n}\n\
                create table ip6 weir_filter\ntable ip6 weir_filter {\n\tchain OUTPUT {\n\
                \t\ttype filter hook output priority 0; policy accept;\n\
                \t\tip6 saddr == { 2001:db8::1, 2001:db8::3 } counter drop\n\t}\n}\n";
    ToolRulesets::new("nftchains")
        .assert_same_listing_and_bytes("several tables", &parse_nft(text));
}

#[test]
fn many_elements_arrive_in_several_messages() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut text = String::from("create table ip weir_filter\ntable ip weir_filter {\n\tmap m {\n");
    text.push_str(
        "\t\ttype ipv4_addr : verdict\n\t\tflags interval\n\t\tcounter\n\t\telements = {\n",
    );
    let elements: Vec<String> =
        (0..20_000u32).map(|i| format!("10.{}.{}.0/25 : drop", i >> 8, i & 255)).collect();
    text.push_str(&elements.join(",\n"));
    text.push_str(
        "\n\t\t}\n\t}\n\tchain FORWARD {\n\t\ttype filter hook forward priority 0; \
                   policy accept;\n\t\tip saddr vmap @m\n\t}\n}\n",
    );
    ToolRulesets::new("nftmany").assert_same_listing_and_bytes("20000 elements", &parse_nft(&text));
}
