//! The footprint of a form: what loading it replaces, and with which programs.
//!
//! It is derived from the lines that begin a table, so that an artefact read from its folder has
//! the same footprint as the one that was compiled.

use std::fmt;

use weir_model::{Family, TableName};

use crate::tool_input_texts::ArtefactRulesetTexts;

/// The nft table that replaces an iptables table has its name with this prefix.
pub const NFT_TABLE_PREFIX: &str = "weir_";

/// Which parts of the kernel's state a form replaces when it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadFootprint {
    /// iptables tables that the IPv4 rules replace.
    pub v4: Vec<TableName>,
    /// ip6tables tables that the IPv6 rules replace.
    pub v6: Vec<TableName>,
    /// Sets are created or used.
    pub uses_sets: bool,
    /// nft tables that are made.
    pub nft_tables: Vec<NftTableReplacingIptables>,
}

/// An nft table that replaces (a part of) an iptables table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NftTableReplacingIptables {
    /// Its family: `ip` or `ip6`.
    pub family: Family,
    /// The iptables table.
    pub table: TableName,
}

/// The family and the name, with a colon between them: `ip:` and the name of the table.
impl fmt::Display for NftTableReplacingIptables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{NFT_TABLE_PREFIX}{}", nft_family_name(self.family), self.table)
    }
}

/// `ip` or `ip6`.
const fn nft_family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

impl NftTableReplacingIptables {
    /// The table that a line of an nft file creates.
    fn parse_create_line(line: &str) -> Option<NftTableReplacingIptables> {
        let (family, name) = line.strip_prefix("create table ")?.split_once(' ')?;
        let of_word = |f: &Family| nft_family_name(*f) == family;
        Some(NftTableReplacingIptables {
            family: [Family::V4, Family::V6].into_iter().find(of_word)?,
            table: TableName::parse(name.strip_prefix(NFT_TABLE_PREFIX)?)?,
        })
    }
}

/// A part of the kernel that contains rules or sets, with the programs that save and load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelRulesetStore {
    /// Legacy tables of a family.
    LegacyTables(Family),
    /// Sets.
    Ipset,
    /// nftables.
    Nft,
}

impl KernelRulesetStore {
    /// The programs that save and load it.
    pub const fn save_and_load_tools(self) -> &'static [&'static str] {
        match self {
            KernelRulesetStore::LegacyTables(Family::V4) => {
                &["iptables-legacy-restore", "iptables-legacy-save"]
            }
            KernelRulesetStore::LegacyTables(Family::V6) => {
                &["ip6tables-legacy-restore", "ip6tables-legacy-save"]
            }
            KernelRulesetStore::Ipset => &["ipset"],
            KernelRulesetStore::Nft => &["nft"],
        }
    }
}

impl LoadFootprint {
    /// The footprint of a form that consists of these texts.
    pub fn from_texts(contents: &ArtefactRulesetTexts) -> LoadFootprint {
        let tables = |text: &Option<String>| {
            let lines = text.as_deref().unwrap_or_default().lines();
            lines.filter_map(|line| TableName::parse(line.strip_prefix('*')?)).collect()
        };
        let nft = contents.nft.as_deref().unwrap_or_default().lines();
        LoadFootprint {
            v4: tables(&contents.v4),
            v6: tables(&contents.v6),
            uses_sets: contents.sets.is_some(),
            nft_tables: nft.filter_map(NftTableReplacingIptables::parse_create_line).collect(),
        }
    }

    /// The iptables tables of a family that the form replaces.
    pub fn replaced_tables(&self, family: Family) -> &[TableName] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The iptables tables of a family that nft replaces completely: emptied if the kernel has them
    /// at all.
    pub fn tables_wholly_moved_to_nft(&self, family: Family) -> Vec<TableName> {
        let kept = self.replaced_tables(family);
        let moved = self.nft_tables.iter().filter(|t| t.family == family).map(|t| t.table);
        moved.filter(|table| !kept.contains(table)).collect()
    }

    /// What is needed to load the form.
    pub fn kernel_ruleset_stores(&self) -> Vec<KernelRulesetStore> {
        let legacy = [Family::V4, Family::V6].into_iter().filter(|family| {
            !self.replaced_tables(*family).is_empty()
                || !self.tables_wholly_moved_to_nft(*family).is_empty()
        });
        let sets = self.uses_sets.then_some(KernelRulesetStore::Ipset);
        let nft = (!self.nft_tables.is_empty()).then_some(KernelRulesetStore::Nft);
        legacy.map(KernelRulesetStore::LegacyTables).chain(sets).chain(nft).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_nft_alone_is_emptied_and_one_in_both_is_replaced() {
        let contents = ArtefactRulesetTexts {
            nft: Some(
                "create table ip weir_nat\ntable ip weir_nat {\n}\ncreate table ip weir_filter\n\
                 create table ip other\n\tcreate table ip6 weir_raw\n"
                    .to_owned(),
            ),
            v4: Some("# *raw\n*filter\n-A INPUT -m comment --comment *mangle\nCOMMIT\n".to_owned()),
            ..ArtefactRulesetTexts::default()
        };
        let footprint = LoadFootprint::from_texts(&contents);
        assert_eq!(footprint.v4, [TableName::Filter]);
        assert_eq!(footprint.tables_wholly_moved_to_nft(Family::V4), [TableName::Nat]);
        let names: Vec<String> =
            footprint.nft_tables.iter().map(NftTableReplacingIptables::to_string).collect();
        assert_eq!(names, ["ip:weir_nat", "ip:weir_filter"]);
        assert_eq!(
            footprint.kernel_ruleset_stores(),
            [KernelRulesetStore::LegacyTables(Family::V4), KernelRulesetStore::Nft]
        );
    }

    #[test]
    fn a_form_without_rules_uses_no_kernel_ruleset_store() {
        let contents =
            ArtefactRulesetTexts { v6: Some(String::new()), ..ArtefactRulesetTexts::default() };
        assert_eq!(LoadFootprint::from_texts(&contents).kernel_ruleset_stores(), []);
    }
}
