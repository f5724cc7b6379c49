//! A ruleset of the kernel as the texts that load it: tables of legacy iptables, tables of the nft
//! form, and the sets that weir created.
//!
//! This is the value that is applied, saved and restored. Its texts have counters; two texts that
//! differ only in counters are equal ([`remove_changing_numbers`]).

mod in_force;
mod legacy_table_text;
mod text_difference;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_model::{Family, TableName, iptables_tool_name};

pub use self::in_force::{
    NFT_COPY_TABLE_PREFIX, RulesetInForce, SetSelection, is_legacy_table_in_use, list_set_names,
    read_legacy_table_text, read_nft_table_text, read_ruleset_in_force, read_set_text,
};
pub(crate) use self::in_force::{decode_table_text, read_foreign_sets, spare_set_name};
pub use self::legacy_table_text::{
    add_artefact_mark, empty_table_text, find_artefact_mark, find_line_with_unclosed_quote,
    list_chain_names, split_tables,
};
pub use self::text_difference::{
    TextDifference, are_texts_equal_except_counters, find_text_difference, remove_changing_numbers,
};

/// An iptables table of a family, of legacy iptables or replaced by an nft table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyTable {
    /// The family.
    pub family: Family,
    /// The table.
    pub table: TableName,
}

impl FamilyTable {
    /// All ten, IPv4 first.
    pub fn all() -> impl Iterator<Item = FamilyTable> {
        [Family::V4, Family::V6].into_iter().flat_map(|family| {
            TableName::ALL.into_iter().map(move |table| FamilyTable { family, table })
        })
    }

    /// The name of its file in a generation: `iptables-filter`.
    pub fn file_name(self) -> String {
        format!("{}-{}", iptables_tool_name(self.family), self.table)
    }

    /// The table of a file.
    pub fn from_file_name(name: &str) -> Option<FamilyTable> {
        FamilyTable::all().find(|table| table.file_name() == name)
    }

    /// `ip` or `ip6`.
    pub const fn nft_family(self) -> &'static str {
        match self.family {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }
}

/// The name of its file.
impl Serialize for FamilyTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.file_name())
    }
}

impl<'de> Deserialize<'de> for FamilyTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FamilyTable, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("{name} is not a table of iptables"));
        FamilyTable::from_file_name(&name).ok_or_else(unknown)
    }
}

/// `iptables filter`.
impl fmt::Display for FamilyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", iptables_tool_name(self.family), self.table)
    }
}

/// The texts of a ruleset, for each unit that the kernel replaces as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRulesetTexts {
    /// Tables of legacy iptables, as `iptables-save -c` prints each, without comment lines.
    pub legacy_tables: BTreeMap<FamilyTable, String>,
    /// Tables of the nft form, as printed by `nft list table` or in the artefact, by the iptables
    /// table that they replace.
    pub nft_tables: BTreeMap<FamilyTable, String>,
    /// Sets, as `ipset save NAME` prints them.
    pub sets: BTreeMap<String, String>,
    /// Foreign sets that its rules use, in the same format. Missing ones are created; they are
    /// never changed or destroyed.
    pub foreign_sets: BTreeMap<String, String>,
}

impl KernelRulesetTexts {
    /// The iptables tables that it contains, in legacy iptables or nft.
    pub fn tables(&self) -> Vec<FamilyTable> {
        let mut tables: Vec<FamilyTable> =
            self.legacy_tables.keys().chain(self.nft_tables.keys()).copied().collect();
        tables.sort();
        tables.dedup();
        tables
    }

    /// Whether the text is that of a list of sets, which is created after its members and destroyed
    /// before them.
    pub fn is_list_of_sets(text: &str) -> bool {
        text.split_ascii_whitespace().nth(2) == Some("list:set")
    }

    /// Whether any table of legacy iptables has rules that name a set.
    pub fn has_rule_naming_set(&self, set: &str) -> bool {
        self.legacy_tables.keys().any(|table| self.table_has_rule_naming_set(*table, set))
    }

    /// Whether a table of legacy iptables has rules that name a set.
    pub fn table_has_rule_naming_set(&self, table: FamilyTable, set: &str) -> bool {
        let text = self.legacy_tables.get(&table).map(String::as_str).unwrap_or_default();
        text.split_ascii_whitespace().any(|word| word == set)
    }
}
