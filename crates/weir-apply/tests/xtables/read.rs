//! What the tools loaded, weir reads.

use weir_apply::ApplyError;
use weir_apply::xtables::{KernelTable, SetIndices, decode_table};
use weir_kernel::xtables::PacketByteCount;
use weir_model::{Counters, Family, Hook, Span, Table, TableName};

use crate::tool_tables::{ToolTables, parse_ruleset};
use crate::{filter_rules, table_rules};

#[test]
fn chains_rules_policies_and_counters_are_read_as_loaded() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("readindex");
    for (family, source) in [(Family::V4, "192.0.2.1/32"), (Family::V6, "2001:db8::1/128")] {
        let text = format!(
            "*filter\n:INPUT DROP [1:2]\n:FORWARD ACCEPT [3:4]\n:OUTPUT ACCEPT [0:0]\n\
             :zeta - [0:0]\n:alpha - [0:0]\n:empty - [0:0]\n[5:6] -A INPUT -j zeta\n\
             [0:0] -A zeta -g alpha\n[9:9] -A alpha -s {source}\n[1:1] -A alpha -j RETURN\nCOMMIT\n"
        );
        tables.load_by_tool(family, "filter", &text).unwrap_or_else(|e| panic!("{e}"));
        let table = KernelTable::read(&tables.socket(family), TableName::Filter).expect("a table");
        let chains: Vec<(&str, Option<Hook>, usize)> =
            table.chains().iter().map(|c| (table.chain_name(c), c.hook, c.rules.len())).collect();
        let expected = [
            ("INPUT", Some(Hook::Input), 1),
            ("FORWARD", Some(Hook::Forward), 0),
            ("OUTPUT", Some(Hook::Output), 0),
            ("alpha", None, 2),
            ("empty", None, 0),
            ("zeta", None, 1),
        ];
        assert_eq!(chains, expected);
        assert_eq!(table.rule_count(), 4);
        let counts: Vec<u64> = (0..4).map(|r| table.rule_counters_at_reading(r).bytes).collect();
        assert_eq!(counts, [6, 9, 1, 0]);
        let [input, forward, output] = &table.chains()[..3] else { panic!("three chains") };
        assert!(table.policy_drops(input) && !table.policy_drops(forward));
        let count = PacketByteCount { packets: 3, bytes: 4 };
        assert_eq!(table.policy_counters_at_reading(forward), count);
        assert_eq!(table.policy_counters_at_reading(output), PacketByteCount::default());
    }
}

#[test]
fn empty_tables_of_every_name_are_read() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("readempty");
    for family in [Family::V4, Family::V6] {
        for name in TableName::ALL {
            let table = KernelTable::read(&tables.socket(family), name).expect("a table");
            assert_eq!(table.chains().len(), name.hooks().len(), "{name}");
            assert_eq!(table.rule_count(), 0, "{name}");
        }
    }
}

/// The listing of the tool, as the parser reads it.
pub fn parse_saved_table(tables: &ToolTables, family: Family, table: &str) -> Table {
    let text = tables.list(family, table).saved.join("\n");
    with_counts_only(&parse_ruleset(family, &format!("*{text}\n")).tables[0])
}

/// A table without places in a text, and with counts everywhere: what the kernel knows of it.
pub fn with_counts_only(table: &Table) -> Table {
    let (mut table, zero) = (table.clone(), Counters::default());
    (table.leading_comments, table.trailing_comments) = (Vec::new(), Vec::new());
    for chain in &mut table.chains {
        (chain.span, chain.leading_comments) = (Span::NONE, Vec::new());
        chain.counters.get_or_insert(zero);
        for rule in &mut chain.rules {
            (rule.span, rule.match_and_target_spans, rule.credited_originals) =
                (Span::NONE, Vec::new(), Default::default());
            (rule.leading_comments, rule.counters) = (Vec::new(), rule.counters.or(Some(zero)));
        }
    }
    table
}

fn decode(tables: &ToolTables, family: Family, table: &str) -> Result<Table, ApplyError> {
    let name = TableName::parse(table).expect("a table");
    let socket = tables.socket(family);
    let table = KernelTable::read(&socket, name).expect("a table");
    decode_table(&table, &SetIndices::of_socket(&socket))
}

/// What the tool loaded is read to the model of its listing.
fn assert_rules_are_decoded(role: &str, family: Family, table: &str, rules: &[&str]) {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new(role);
    for rule in rules {
        let text = format!("*{table}\n:user - [0:0]\n[7:890] {rule}\nCOMMIT\n");
        tables.load_by_tool(family, table, &text).unwrap_or_else(|e| panic!("{rule}: {e}"));
        let expected = parse_saved_table(&tables, family, table);
        let decoded = decode(&tables, family, table).unwrap_or_else(|e| panic!("{rule}: {e}"));
        assert_eq!(decoded, expected, "{rule}");
        assert!(decoded.chains.iter().any(|chain| !chain.rules.is_empty()), "{rule}");
    }
}

#[test]
fn rules_of_every_known_module_decode_to_their_parsed_listing() {
    let rules = filter_rules::FILTER_RULES;
    assert_rules_are_decoded("decode4", Family::V4, "filter", rules);
    let rules = filter_rules::RULES_WITH_UNUSED_BYTES;
    assert_rules_are_decoded("decodeunused", Family::V4, "filter", rules);
    assert_rules_are_decoded("decode6", Family::V6, "filter", filter_rules::FILTER_RULES_V6);
    let rules = table_rules::MANGLE_RULES;
    assert_rules_are_decoded("decodeany", Family::V6, "filter", &["-A INPUT -p all -j DROP"]);
    assert_rules_are_decoded("decodemangle", Family::V4, "mangle", rules);
    assert_rules_are_decoded("decoderaw", Family::V4, "raw", table_rules::RAW_RULES);
    assert_rules_are_decoded("decodenat", Family::V4, "nat", table_rules::NAT_RULES);
    assert_rules_are_decoded("decodenat6", Family::V6, "nat", table_rules::NAT_RULES_V6);
}

#[test]
fn devices_of_any_name_are_decoded() {
    let rules = ["-A INPUT -i + -j DROP", "-A INPUT -i a+ ! -s 0.0.0.0/0"];
    assert_rules_are_decoded("decodedevices", Family::V4, "filter", &rules);
    assert_rules_are_decoded("decodedevices", Family::V4, "mangle", &["-A FORWARD ! -o a+"]);
}

#[test]
fn a_negated_any_device_test_omitted_in_listings_is_decoded() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("decodenodevice");
    let text = "*filter\n[0:0] -A INPUT ! -i + -j DROP\nCOMMIT\n";
    tables.load_by_tool(Family::V4, "filter", text).expect("loads");
    let listed = parse_saved_table(&tables, Family::V4, "filter");
    assert_eq!(listed.chains[0].rules[0].base.iif, None, "the tool prints no device");
    let decoded = decode(&tables, Family::V4, "filter").expect("known modules");
    let device = decoded.chains[0].rules[0].base.iif.clone().expect("the kernel tests the device");
    assert!(device.negated && device.is_prefix && device.name.is_empty());
}

#[test]
fn an_undecodable_module_is_reported_with_its_rule_and_revision() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("decodeunknown");
    let text = "*filter\n-A INPUT -j ACCEPT\n-A INPUT -m cpu --cpu 1 -j ACCEPT\nCOMMIT\n";
    tables.load_by_tool(Family::V4, "filter", text).expect("loads");
    let refused = decode(&tables, Family::V4, "filter").expect_err("cpu is not known");
    let message = refused.to_string();
    assert!(message.contains("rule 2 of chain INPUT"), "{message}");
    assert!(message.contains("match \"cpu\" of revision 0"), "{message}");
}

#[test]
fn values_that_the_model_does_not_hold_are_refused_not_approximated() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let tables = ToolTables::new("decodevalues");
    // The model has rates of packets, not of bytes.
    let rule = "-A INPUT -m hashlimit --hashlimit-upto 512kb/s --hashlimit-name b -j ACCEPT";
    tables
        .load_by_tool(Family::V4, "filter", &format!("*filter\n{rule}\nCOMMIT\n"))
        .expect("loads");
    let message = decode(&tables, Family::V4, "filter").expect_err("a rate of bytes").to_string();
    assert!(message.contains("match \"hashlimit\" of revision 3"), "{message}");
}
