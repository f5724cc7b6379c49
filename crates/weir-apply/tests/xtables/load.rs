//! What weir loads is what `iptables-legacy-restore` loads: the same bytes in the kernel, and the
//! same listing with counters.

use weir_apply::xtables;
use weir_model::Family;

use crate::tool_tables::{ToolTables, parse_ruleset};
use crate::{filter_rules, table_rules};

fn assert_rules_load_alike(role: &str, family: Family, table: &str, rules: &[&str]) {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new(role);
    for rule in rules {
        let text = format!("*{table}\n:user - [0:0]\n[7:890] {rule}\nCOMMIT\n");
        let result = tables.compare_loads(family, table, &text);
        result.unwrap_or_else(|e| panic!("{rule}: {e}"));
        let saved = tables.list(family, table).saved;
        assert!(saved.iter().any(|line| line.starts_with("[7:890] -A")), "{rule}: {saved:?}");
    }
}

#[test]
fn every_known_module_loads_identically_to_iptables_restore() {
    assert_rules_load_alike("apply4", Family::V4, "filter", filter_rules::FILTER_RULES);
}

#[test]
fn rules_with_unused_bytes_list_identically_to_iptables_restore() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("applyunused");
    for rule in filter_rules::RULES_WITH_UNUSED_BYTES {
        let text = format!("*filter\n[7:890] {rule}\nCOMMIT\n");
        let (ours, theirs) = tables.load_both(Family::V4, "filter", &text).expect("known modules");
        assert_eq!(ours.saved, theirs.saved, "{rule}");
    }
}

#[test]
fn ipv6_rules_load_identically_to_ip6tables_restore() {
    assert_rules_load_alike("apply6", Family::V6, "filter", filter_rules::FILTER_RULES_V6);
}

#[test]
fn mangle_raw_and_nat_rules_load_identically_to_iptables_restore() {
    assert_rules_load_alike("applymangle", Family::V4, "mangle", table_rules::MANGLE_RULES);
    assert_rules_load_alike("applyraw", Family::V4, "raw", table_rules::RAW_RULES);
    assert_rules_load_alike("applynat", Family::V4, "nat", table_rules::NAT_RULES);
    assert_rules_load_alike("applynat6", Family::V6, "nat", table_rules::NAT_RULES_V6);
}

#[test]
fn chains_policies_and_counters_load_identically_to_iptables_restore() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let text = "*filter\n:INPUT DROP [1:2]\n:FORWARD ACCEPT [3:4]\n:OUTPUT ACCEPT [0:0]\n\
                :zeta - [0:0]\n:alpha - [0:0]\n[5:6] -A INPUT -j zeta\n[0:0] -A zeta -g alpha\n\
                [9:9] -A alpha -s 192.0.2.1/32\n[1:1] -A alpha -j RETURN\nCOMMIT\n";
    let tables = ToolTables::new("applychains");
    tables.compare_loads(Family::V4, "filter", text).expect("known modules");
}

#[test]
fn an_unknown_module_is_refused_by_name_and_the_table_stays() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("applyunknown");
    let kept = "*filter\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n";
    let before = tables.load_by_tool(Family::V4, "filter", kept).expect("loads");
    let text = "*filter\n-A INPUT -j ACCEPT\n-A INPUT -m cpu --cpu 1\nCOMMIT\n";
    let ruleset = parse_ruleset(Family::V4, text);
    let refused = xtables::load_table(&tables.socket(Family::V4), &ruleset.tables[0]);
    let message = refused.expect_err("cpu is not known").to_string();
    assert!(message.contains("rule 2 of chain INPUT") && message.contains("-m cpu"), "{message}");
    assert_eq!(tables.list(Family::V4, "filter"), before);
}
