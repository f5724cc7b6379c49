//! What a transaction does when something is wrong: nothing, and it says what.

use weir_apply::ApplyError;
use weir_apply::nftables::{NftTableName, encode_ruleset, load_ruleset};
use weir_kernel::nft_socket::NftCommitError;
use weir_model::Family;

use crate::tool_rulesets::{ToolRulesets, parse_nft};

fn text_of_table(rule: &str) -> String {
    format!(
        "create table ip weir_filter\ntable ip weir_filter {{\n\tchain INPUT {{\n\t\ttype filter \
         hook input priority 0; policy accept;\n\t\tcounter\n\t\t{rule}\n\t}}\n}}\n"
    )
}

fn own_table() -> NftTableName {
    NftTableName { family: Family::V4, name: "weir_filter".to_owned() }
}

#[test]
fn a_table_replaces_another_in_one_transaction() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftreplace");
    tools.load_by_tool("table inet other {\n}\n").expect("another table");
    let before = tools.list();
    let first = parse_nft(&text_of_table("ip saddr == 192.0.2.1 drop"));
    load_ruleset(&mut tools.socket, &first, &[]).expect("a new table");
    let refused = load_ruleset(&mut tools.socket, &first, &[]).expect_err("the table exists");
    assert!(refused.to_string().starts_with("load table ip weir_filter: "), "{refused}");
    let second = parse_nft(&text_of_table("ip saddr == 192.0.2.2 drop"));
    load_ruleset(&mut tools.socket, &second, &[own_table()]).expect("the table is replaced");
    let listing = tools.list();
    assert!(listing.contains("192.0.2.2") && !listing.contains("192.0.2.1"), "{listing}");
    assert!(listing.starts_with(&before), "{listing}");
}

#[test]
fn a_rule_that_the_kernel_refuses_is_named_and_nothing_changes() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftrefused");
    let kept = parse_nft(&text_of_table("ip saddr == 192.0.2.1 drop"));
    load_ruleset(&mut tools.socket, &kept, &[]).expect("a new table");
    let before = tools.list();
    // A chain that is not there.
    let wrong = parse_nft(&text_of_table("ip saddr == { 192.0.2.1, 192.0.2.3 } counter drop"));
    let mut wrong = wrong;
    wrong.tables[0].chains[0].rules[1].statements.pop();
    wrong.tables[0].chains[0].rules[1].statements.push(weir_model::nft::Statement::Verdict(
        weir_model::nft::Verdict::Jump("nowhere".into()),
    ));
    let refused = load_ruleset(&mut tools.socket, &wrong, &[own_table()]).expect_err("no chain");
    let message = refused.to_string();
    assert!(
        message.starts_with("load rule 2 of chain INPUT of table ip weir_filter: "),
        "{message}"
    );
    assert_eq!(tools.list(), before);
}

#[test]
fn what_the_encoder_does_not_know_is_named() {
    let mut ruleset = parse_nft(&text_of_table("fib saddr type { local } counter"));
    encode_ruleset(&ruleset).expect("a known test");
    let statement = &mut ruleset.tables[0].chains[0].rules[1].statements[0];
    let weir_model::nft::Statement::OpaqueTest(test) = statement else { panic!("{statement:?}") };
    test.text = "socket transparent 1".to_owned();
    let refused = encode_ruleset(&ruleset).expect_err("an unknown test");
    assert!(matches!(refused, ApplyError::UnencodableNft { .. }), "{refused:?}");
    let wanted = "encode rule 2 of chain INPUT of table ip weir_filter: the encoder does not know \
                  socket transparent 1: load it with nft -f";
    assert_eq!(refused.to_string(), wanted);
}

#[test]
fn a_transaction_that_was_prepared_before_another_change_is_refused() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let mut tools = ToolRulesets::new("nftgen");
    let ruleset = parse_nft(&text_of_table("counter drop"));
    let generation = tools.socket.read_generation().expect("nf_tables is there");
    tools.load_by_tool("table inet other {\n}\n").expect("another change");
    let requests = encode_ruleset(&ruleset).expect("known").requests;
    let refused = tools.socket.commit(requests.clone(), generation).expect_err("it is too late");
    assert!(matches!(refused, NftCommitError::GenerationChanged), "{refused:?}");
    assert!(!tools.list().contains("weir_filter"));
    let generation = tools.socket.read_generation().expect("nf_tables is there");
    tools.socket.commit(requests, generation).expect("nothing changed since");
    assert!(tools.list().contains("weir_filter"));
}
