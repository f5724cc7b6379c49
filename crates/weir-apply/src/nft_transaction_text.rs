//! Texts for `nft -f` that replace, copy and remove tables of the nft form.
//!
//! # Replacing a table
//! A transaction of nf_tables switches the rules of all chains at the same instant
//! (`nf_tables_commit` in net/netfilter/nf_tables_api.c). Base chains are different: one that is
//! removed is unregistered from its hook some microseconds later, and until then its policy drops
//! packets that its rules accepted; one that is added gets its policy some microseconds later.
//! Therefore base chains are kept, and the rest of the table is replaced: rules, other chains,
//! maps. If the base chains of the two tables differ, copies of the new tables are in force while
//! the tables are recreated.
//!
//! Base chains are declared first, so that they come first in every listing, whether the table was
//! replaced or recreated.

use std::collections::HashMap;

use weir_kernel::nft_objects::NftTableSummary;
use weir_model::TableName;

use crate::kernel_ruleset::{FamilyTable, NFT_COPY_TABLE_PREFIX};

/// A table's name, without its family.
pub(crate) fn nft_table_name(table: FamilyTable) -> String {
    format!("weir_{}", table.table)
}

fn nft_copy_name(table: FamilyTable) -> String {
    format!("{NFT_COPY_TABLE_PREFIX}{}", table.table)
}

/// The transaction that puts tables in force and replaces existing ones.
pub(crate) fn render_replacement(
    present: &[NftTableSummary],
    put: &[(FamilyTable, &str)],
) -> String {
    let mut out = String::new();
    for (table, text) in put {
        let name = nft_table_name(*table);
        let is_it = |t: &&NftTableSummary| t.family == table.nft_family() && t.name == name;
        if let Some(found) = present.iter().find(is_it) {
            render_emptying_except_base_chains(found, &list_base_chains(text), &mut out);
        }
        render_base_chains_then_table(*table, &name, text, &mut out);
    }
    out
}

/// Two transactions that recreate tables and remove others, while copies of the new tables are in
/// force: first the policies of the old tables, then the tables.
pub(crate) fn render_accept_policies_then_recreation(
    present: &[NftTableSummary],
    put: &[(FamilyTable, &str)],
    removed: &[FamilyTable],
) -> [String; 2] {
    let mut old: Vec<FamilyTable> = put.iter().map(|(table, _)| *table).collect();
    old.extend(removed);
    let [policies, mut tables] = render_accept_policies_then_removal(present, &old, false);
    for (table, text) in put {
        render_base_chains_then_table(*table, &nft_table_name(*table), text, &mut tables);
    }
    [policies, tables]
}

/// Whether two texts of a table have the same base chains, at the same hooks, with the same
/// policies.
pub(crate) fn have_same_base_chains(a: &str, b: &str) -> bool {
    // A listing may print priorities as names, so these are not compared.
    let [a, b] = [a, b].map(|text| {
        let hook_and_policy = |line: &str| {
            let hook = line.split(" hook ").nth(1).and_then(|rest| rest.split(' ').next());
            let policy = line.split("policy ").nth(1);
            (hook.map(str::to_owned), policy.map(str::to_owned))
        };
        let chains = list_base_chains(text).into_iter();
        chains.map(|(name, line)| (name, hook_and_policy(line))).collect::<HashMap<_, _>>()
    });
    a == b
}

/// The transaction that adds copies of tables.
pub(crate) fn render_copies(tables: &[(FamilyTable, &str)]) -> String {
    let mut out = String::new();
    for (table, text) in tables {
        render_base_chains_then_table(*table, &nft_copy_name(*table), text, &mut out);
    }
    out
}

/// Two transactions that remove tables: first their policies, then the tables.
pub(crate) fn render_accept_policies_then_removal(
    present: &[NftTableSummary],
    tables: &[FamilyTable],
    are_copies: bool,
) -> [String; 2] {
    let mut transactions = [String::new(), String::new()];
    for table in tables {
        let name = if are_copies { nft_copy_name(*table) } else { nft_table_name(*table) };
        let is_it = |t: &&NftTableSummary| t.family == table.nft_family() && t.name == name;
        let Some(found) = present.iter().find(is_it) else { continue };
        for chain in &found.chains {
            if chain.base.as_ref().is_some_and(|base| base.drops_by_policy) {
                let (family, chain) = (found.family, &chain.name);
                transactions[0]
                    .push_str(&format!("chain {family} {name} {chain} {{ policy accept; }}\n"));
            }
        }
        render_deletion(found.family, &name, &mut transactions[1]);
    }
    transactions
}

fn render_deletion(family: &str, name: &str, out: &mut String) {
    out.push_str(&format!("delete table {family} {name}\n"));
}

/// Removes everything from a table except the base chains that are kept.
fn render_emptying_except_base_chains(
    table: &NftTableSummary,
    kept_base_chains: &HashMap<&str, &str>,
    out: &mut String,
) {
    let place = format!("{} {}", table.family, table.name);
    out.push_str(&format!("flush table {place}\n"));
    for set in &table.sets {
        // `delete set` also deletes maps, in every version of nft since 0.9.
        out.push_str(&format!("delete set {place} {set}\n"));
    }
    for chain in &table.chains {
        if chain.base.is_none() || !kept_base_chains.contains_key(&*chain.name) {
            out.push_str(&format!("delete chain {place} {}\n", chain.name));
        }
    }
}

/// The base chains, then the table as in its text.
fn render_base_chains_then_table(table: FamilyTable, name: &str, text: &str, out: &mut String) {
    let head = format!("table {} {name} {{\n", table.nft_family());
    out.push_str(&head);
    let base_chains = list_base_chains(text);
    let mut names: Vec<&&str> = base_chains.keys().collect();
    names.sort_by_key(|chain| hook_position(table.table, chain));
    for chain in names {
        out.push_str(&format!("\tchain {chain} {{\n\t\t{}\n\t}}\n", base_chains[*chain]));
    }
    out.push_str("}\n");
    for line in text.lines() {
        if line.starts_with("create table ") {
            continue;
        }
        match line.starts_with("table ") {
            true => out.push_str(&head),
            false => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
}

fn hook_position(table: TableName, chain: &str) -> usize {
    let hooks = table.hooks();
    hooks.iter().position(|hook| hook.chain_name() == chain).unwrap_or(hooks.len())
}

/// The base chains of a text, with the line that declares their hook.
fn list_base_chains(text: &str) -> HashMap<&str, &str> {
    let mut found = HashMap::new();
    let mut chain = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("chain ").and_then(|l| l.strip_suffix(" {")) {
            chain = Some(name);
        } else if line.starts_with("type ") && line.contains(" hook ") {
            found.extend(chain.take().map(|name| (name, line)));
        } else {
            chain = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use weir_kernel::nft_objects::{NftBaseChain, NftChainSummary};
    use weir_model::Family;

    use super::*;

    const TEXT: &str = "create table ip weir_filter\ntable ip weir_filter {\n\tchain FORWARD.1 {\n\
                        \t\tcounter accept\n\t}\n\tchain FORWARD {\n\t\ttype filter hook forward \
                        priority 0; policy drop;\n\t\tjump FORWARD.1\n\t}\n}\n";

    fn table_with_two_base_chains() -> NftTableSummary {
        let base = |hook_number| {
            let chain_type = "filter".to_owned();
            Some(NftBaseChain { chain_type, hook_number, priority: 0, drops_by_policy: true })
        };
        let chain =
            |name: &str, base| NftChainSummary { name: name.to_owned(), base, rule_count: 1 };
        NftTableSummary {
            family: "ip",
            name: "weir_filter".to_owned(),
            chains: vec![
                chain("FORWARD", base(2)),
                chain("INPUT", base(1)),
                chain("FORWARD.9", None),
            ],
            sets: vec!["m".to_owned()],
        }
    }

    #[test]
    fn base_chains_in_both_tables_are_kept() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        let text = render_replacement(&[table_with_two_base_chains()], &[(table, TEXT)]);
        let expected = "flush table ip weir_filter\ndelete set ip weir_filter m\n\
                        delete chain ip weir_filter INPUT\ndelete chain ip weir_filter FORWARD.9\n\
                        table ip weir_filter {\n\tchain FORWARD {\n\t\ttype filter hook forward \
                        priority 0; policy drop;\n\t}\n}\ntable ip weir_filter {\n\tchain FORWARD.1";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("create table"));
        let fresh = render_replacement(&[], &[(table, TEXT)]);
        assert!(fresh.starts_with("table ip weir_filter {\n\tchain FORWARD {"), "{fresh}");
    }

    #[test]
    fn copies_have_their_own_names_and_policies_are_removed_before_tables() {
        let table = FamilyTable { family: Family::V4, table: TableName::Filter };
        assert!(have_same_base_chains(TEXT, &TEXT.replace("priority 0", "priority filter")));
        assert!(!have_same_base_chains(TEXT, &TEXT.replace("policy drop", "policy accept")));
        let [policies, anew] = render_accept_policies_then_recreation(
            &[table_with_two_base_chains()],
            &[(table, TEXT)],
            &[],
        );
        assert_eq!(policies.lines().count(), 2, "{policies}");
        let beginning = "delete table ip weir_filter\ntable ip weir_filter {\n\tchain FORWARD {";
        assert!(anew.starts_with(beginning), "{anew}");
        let copies = render_copies(&[(table, TEXT)]);
        assert!(copies.contains("table ip weir_new_filter {") && !copies.contains("weir_filter"));
        let [first, second] =
            render_accept_policies_then_removal(&[table_with_two_base_chains()], &[table], false);
        assert_eq!(first.lines().count(), 2, "{first}");
        assert_eq!(second, "delete table ip weir_filter\n");
        assert_eq!(
            render_accept_policies_then_removal(&[table_with_two_base_chains()], &[table], true),
            ["", ""]
        );
    }
}
