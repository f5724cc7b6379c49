//! The ruleset that an artefact puts in force: its tables and sets.
//!
//! An artefact covers the tables that it has in legacy iptables or nft. A table that nft replaces
//! is emptied in legacy iptables; tables that the artefact does not cover are left unchanged. An
//! existing set that no generation of weir created is used unchanged.

use std::collections::BTreeMap;

use weir_artefact::Artefact;
use weir_model::{Family, TableName};

use crate::kernel_ruleset::{
    FamilyTable, KernelRulesetTexts, add_artefact_mark, empty_table_text, split_tables,
};
use crate::state_store::split_sets;

/// The tables that an artefact covers.
pub fn list_artefact_tables(artefact: &Artefact) -> Vec<FamilyTable> {
    let footprint = artefact.footprint();
    let mut tables: Vec<FamilyTable> = [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| {
            let tables = footprint.replaced_tables(family).iter();
            tables.map(move |table| FamilyTable { family, table: *table })
        })
        .chain(
            footprint.nft_tables.iter().map(|t| FamilyTable { family: t.family, table: t.table }),
        )
        .collect();
    tables.sort();
    tables.dedup();
    tables
}

/// The ruleset to put in force: the tables and sets of the artefact, and those of `present` that it
/// does not cover. `foreign_sets` exist and were not created by weir.
pub fn merge_artefact_into_ruleset(
    artefact: &Artefact,
    present: &KernelRulesetTexts,
    foreign_sets: &[String],
    is_in_use: impl Fn(FamilyTable) -> bool,
) -> KernelRulesetTexts {
    let covered = list_artefact_tables(artefact);
    let is_kept = |table: &FamilyTable| !covered.contains(table);
    let mut wanted = present.clone();
    wanted.legacy_tables.retain(|table, _| is_kept(table));
    wanted.nft_tables.retain(|table, _| is_kept(table));
    wanted.sets = BTreeMap::new();
    for (set, text) in &present.sets {
        if wanted.has_rule_naming_set(set) {
            wanted.sets.insert(set.clone(), text.clone());
        }
    }
    let id = &artefact.manifest.id;
    let contents = &artefact.contents;
    let mut legacy: BTreeMap<FamilyTable, String> = BTreeMap::new();
    for (family, text) in [(Family::V4, &contents.v4), (Family::V6, &contents.v6)] {
        legacy.extend(split_tables(text.as_deref().unwrap_or_default(), family));
    }
    for table in covered {
        let text = match legacy.remove(&table) {
            Some(text) => add_artefact_mark(&text, id),
            // A table that is not in use has no rules and is left so.
            None if !is_in_use(table) => empty_table_text(table.table),
            None => add_artefact_mark(&empty_table_text(table.table), id),
        };
        wanted.legacy_tables.insert(table, text);
    }
    wanted.nft_tables.extend(split_nft_tables(contents.nft.as_deref().unwrap_or_default()));
    if let Some(sets) = &contents.sets {
        let mut all = split_sets(&sets.user);
        all.extend(split_sets(&sets.generated));
        all.retain(|name, _| !foreign_sets.contains(name));
        wanted.sets.extend(all);
    }
    wanted
}

/// Splits an nft text into its tables.
fn split_nft_tables(text: &str) -> BTreeMap<FamilyTable, String> {
    let mut tables: BTreeMap<FamilyTable, String> = BTreeMap::new();
    let mut open: Option<FamilyTable> = None;
    for line in text.lines() {
        let head = line.strip_prefix("create ").unwrap_or(line);
        if let Some(table) = parse_nft_table_head(head) {
            open = Some(table);
        }
        let Some(table) = open else { continue };
        let lines = tables.entry(table).or_default();
        lines.push_str(line);
        lines.push('\n');
    }
    tables
}

/// `table ip weir_filter`, with or without a brace.
fn parse_nft_table_head(line: &str) -> Option<FamilyTable> {
    let (family, name) = line.strip_prefix("table ")?.split_once(' ')?;
    let family = match family {
        "ip" => Family::V4,
        "ip6" => Family::V6,
        _ => return None,
    };
    let name = name.strip_suffix(" {").unwrap_or(name).strip_prefix("weir_")?;
    Some(FamilyTable { family, table: TableName::parse(name)? })
}

#[cfg(test)]
mod tests {
    use weir_artefact::{ArtefactRulesetTexts, IpsetTexts, Manifest};

    use super::*;

    const NFT: &str = "create table ip weir_filter\ntable ip weir_filter {\n\tchain a {\n\t}\n}\n\
                       create table ip6 weir_nat\ntable ip6 weir_nat {\n}\n";

    fn artefact() -> Artefact {
        let sets = IpsetTexts {
            user: "create mine hash:ip\nadd mine 192.0.2.1\n".to_owned(),
            generated: "create w4-x hash:ip\n".to_owned(),
            names: "mine\nw4-x\n".to_owned(),
        };
        let contents = ArtefactRulesetTexts {
            nft: Some(NFT.to_owned()),
            v4: Some("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n".to_owned()),
            v6: None,
            sets: Some(sets),
        };
        let manifest = Manifest { id: "0a1b2c3d".to_owned(), ..Manifest::default() };
        Artefact { contents, manifest }
    }

    #[test]
    fn a_legacy_table_replaced_by_nft_is_emptied_only_if_in_use() {
        let filter = FamilyTable { family: Family::V4, table: TableName::Filter };
        let nat6 = FamilyTable { family: Family::V6, table: TableName::Nat };
        let raw = FamilyTable { family: Family::V4, table: TableName::Raw };
        let mut present = KernelRulesetTexts::default();
        present
            .legacy_tables
            .insert(raw, "*raw\n-A OUTPUT -m set --match-set kept src\n".to_owned());
        for set in ["kept", "unnamed"] {
            present.sets.insert(set.to_owned(), format!("create {set} hash:ip\n"));
        }
        let wanted = merge_artefact_into_ruleset(&artefact(), &present, &[], |table| {
            table.family == Family::V4
        });
        assert_eq!(wanted.legacy_tables[&raw], present.legacy_tables[&raw]);
        assert!(wanted.legacy_tables[&filter].contains(":weir:0a1b2c3d "));
        assert!(!wanted.legacy_tables[&nat6].contains("weir"), "it is not created");
        let names: Vec<String> = wanted.nft_tables.keys().map(FamilyTable::to_string).collect();
        assert_eq!(names, ["iptables filter", "ip6tables nat"]);
        assert!(wanted.nft_tables.values().all(|text| text.ends_with("}\n")));
        let sets: Vec<&String> = wanted.sets.keys().collect();
        assert_eq!(sets, ["kept", "mine", "w4-x"]);
    }

    #[test]
    fn a_set_not_created_by_weir_is_not_created_again() {
        let foreign = ["mine".to_owned()];
        let none = KernelRulesetTexts::default();
        let wanted = merge_artefact_into_ruleset(&artefact(), &none, &foreign, |_| true);
        assert_eq!(wanted.sets.keys().collect::<Vec<_>>(), ["w4-x"]);
    }
}
