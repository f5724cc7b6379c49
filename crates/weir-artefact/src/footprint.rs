//! The footprint of a form: what loading it replaces, and with which programs.
//!
//! It is derived from the lines that begin a table, so that an artefact read from its folder has
//! the same footprint as the one that was compiled.

use std::fmt;

use weir_model::{Family, TableName};

use crate::contents::Contents;

/// The nft table that replaces an iptables table has its name with this prefix.
pub const NFT_PREFIX: &str = "weir_";

/// Which parts of the kernel's state a form replaces when it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// iptables tables that the IPv4 rules replace.
    pub v4: Vec<TableName>,
    /// ip6tables tables that the IPv6 rules replace.
    pub v6: Vec<TableName>,
    /// Sets are created or used.
    pub sets: bool,
    /// nft tables that are made.
    pub nft: Vec<NftTable>,
}

/// An nft table that replaces (a part of) an iptables table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NftTable {
    /// Its family: `ip` or `ip6`.
    pub family: Family,
    /// The iptables table.
    pub table: TableName,
}

/// `ip:weir_filter`.
impl fmt::Display for NftTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{NFT_PREFIX}{}", nft_family(self.family), self.table)
    }
}

/// `ip` or `ip6`.
const fn nft_family(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

impl NftTable {
    /// The table that a line of an nft file creates.
    fn created_by(line: &str) -> Option<NftTable> {
        let (family, name) = line.strip_prefix("create table ")?.split_once(' ')?;
        let of_word = |f: &Family| nft_family(*f) == family;
        Some(NftTable {
            family: [Family::V4, Family::V6].into_iter().find(of_word)?,
            table: TableName::parse(name.strip_prefix(NFT_PREFIX)?)?,
        })
    }
}

/// A part of the kernel that contains rules or sets, with the programs that save and load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loader {
    /// Legacy tables of a family.
    Legacy(Family),
    /// Sets.
    Ipset,
    /// nftables.
    Nft,
}

impl Loader {
    /// The programs that save and load it.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Loader::Legacy(Family::V4) => &["iptables-legacy-restore", "iptables-legacy-save"],
            Loader::Legacy(Family::V6) => &["ip6tables-legacy-restore", "ip6tables-legacy-save"],
            Loader::Ipset => &["ipset"],
            Loader::Nft => &["nft"],
        }
    }
}

impl Footprint {
    /// The footprint of a form that consists of these texts.
    pub fn of(contents: &Contents) -> Footprint {
        let tables = |text: &Option<String>| {
            let lines = text.as_deref().unwrap_or_default().lines();
            lines.filter_map(|line| TableName::parse(line.strip_prefix('*')?)).collect()
        };
        let nft = contents.nft.as_deref().unwrap_or_default().lines();
        Footprint {
            v4: tables(&contents.v4),
            v6: tables(&contents.v6),
            sets: contents.sets.is_some(),
            nft: nft.filter_map(NftTable::created_by).collect(),
        }
    }

    /// The iptables tables of a family that the form replaces.
    pub fn tables(&self, family: Family) -> &[TableName] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The iptables tables of a family that nft replaces completely: emptied if the kernel has them
    /// at all.
    pub fn emptied(&self, family: Family) -> Vec<TableName> {
        let kept = self.tables(family);
        let moved = self.nft.iter().filter(|t| t.family == family).map(|t| t.table);
        moved.filter(|table| !kept.contains(table)).collect()
    }

    /// What is needed to load the form.
    pub fn loaders(&self) -> Vec<Loader> {
        let legacy = [Family::V4, Family::V6]
            .into_iter()
            .filter(|family| !self.tables(*family).is_empty() || !self.emptied(*family).is_empty());
        let sets = self.sets.then_some(Loader::Ipset);
        let nft = (!self.nft.is_empty()).then_some(Loader::Nft);
        legacy.map(Loader::Legacy).chain(sets).chain(nft).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_nft_alone_is_emptied_and_one_in_both_is_replaced() {
        let contents = Contents {
            nft: Some(
                "create table ip weir_nat\ntable ip weir_nat {\n}\ncreate table ip weir_filter\n\
                 create table ip other\n\tcreate table ip6 weir_raw\n"
                    .to_owned(),
            ),
            v4: Some("# *raw\n*filter\n-A INPUT -m comment --comment *mangle\nCOMMIT\n".to_owned()),
            ..Contents::default()
        };
        let footprint = Footprint::of(&contents);
        assert_eq!(footprint.v4, [TableName::Filter]);
        assert_eq!(footprint.emptied(Family::V4), [TableName::Nat]);
        let names: Vec<String> = footprint.nft.iter().map(NftTable::to_string).collect();
        assert_eq!(names, ["ip:weir_nat", "ip:weir_filter"]);
        assert_eq!(footprint.loaders(), [Loader::Legacy(Family::V4), Loader::Nft]);
    }

    #[test]
    fn a_form_without_rules_needs_nothing() {
        let contents = Contents { v6: Some(String::new()), ..Contents::default() };
        assert_eq!(Footprint::of(&contents).loaders(), []);
    }
}
