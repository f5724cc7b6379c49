//! Reading the ruleset in force in the current network namespace. Reading changes nothing: no table
//! of legacy iptables is created, and no module is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use weir_kernel::ipset_list::read_ipsets;
use weir_kernel::ipset_socket::IpsetSocket;
use weir_kernel::kernel_feature::KernelFeature;
use weir_kernel::nft_objects::read_nft_tables;
use weir_kernel::xtables::XtablesSocket;
use weir_model::{Family, Ruleset, TableName};

use super::{FamilyTable, KernelRulesetTexts, empty_table_text};
use crate::ipsets::read_sets;
use crate::tool_execution::read_tool_output;
use crate::xtables::{KernelTable, SetIndices, decode_table};
use crate::{ApplyError, ApplyOperationError};

/// Prefix of the nft tables that replace iptables tables.
const NFT_TABLE_PREFIX: &str = "weir_";
/// Prefix of their copies, which are temporarily in force in addition to them.
pub const NFT_COPY_TABLE_PREFIX: &str = "weir_new_";
/// Prefix of spare sets, which are filled and then swapped with another set.
const SPARE_SET_PREFIX: &str = "weir-spare-";

/// A ruleset in force, and leftovers of an interrupted change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesetInForce {
    /// The requested tables and sets, and all tables of the nft form.
    pub ruleset: KernelRulesetTexts,
    /// Copies of tables of the nft form left by an interrupted change, with the names of the tables
    /// themselves.
    pub nft_copies: BTreeMap<FamilyTable, String>,
    /// Names of the sets that have a spare set left by an interrupted change.
    pub spare_sets: Vec<String>,
}

/// Names of the sets to read.
#[derive(Clone, Copy, Debug)]
pub struct SetSelection<'n>(pub &'n [String]);

/// Reads tables of legacy iptables, all tables of the nft form, and sets.
///
/// # Errors
/// If weir is not root, a tool is missing or fails, or the kernel refuses.
pub fn read_ruleset_in_force(
    tables: &[FamilyTable],
    sets: SetSelection<'_>,
) -> Result<RulesetInForce, ApplyOperationError> {
    let mut found = RulesetInForce::default();
    for table in tables {
        let text = read_legacy_table_text(*table)?;
        found.ruleset.legacy_tables.insert(*table, text);
    }
    for (table, is_copy) in list_nft_form_tables()? {
        if is_copy {
            let name = format!("{NFT_COPY_TABLE_PREFIX}{}", table.table);
            let listing = read_tool_output(&["nft", "list", "table", table.nft_family(), &name])?;
            let text = listing.replacen(NFT_COPY_TABLE_PREFIX, NFT_TABLE_PREFIX, 1);
            found.nft_copies.insert(table, text);
        } else {
            found.ruleset.nft_tables.insert(table, read_nft_table_text(table)?);
        }
    }
    if sets.0.is_empty() {
        return Ok(found);
    }
    for name in list_set_names()? {
        if sets.0.contains(&name) {
            let text = read_set_text(&name)?;
            found.ruleset.sets.insert(name, text);
        } else if name.starts_with(SPARE_SET_PREFIX) {
            let of = sets.0.iter().find(|selected| spare_set_name(selected) == name);
            found.spare_sets.extend(of.cloned());
        }
    }
    Ok(found)
}

/// Reads the foreign sets that rules of legacy iptables use: sets that weir did not create, and the
/// members of lists among them.
pub(crate) fn read_foreign_sets(
    ruleset: &KernelRulesetTexts,
) -> Result<BTreeMap<String, String>, ApplyOperationError> {
    let there: BTreeSet<String> = list_set_names()?.into_iter().collect();
    if there.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut named: BTreeSet<String> = BTreeSet::new();
    for text in ruleset.legacy_tables.values().chain(ruleset.sets.values()) {
        let words = text.split_ascii_whitespace().filter(|word| there.contains(*word));
        named.extend(words.map(str::to_owned));
    }
    let mut found = BTreeMap::new();
    while let Some(set) = named.pop_first() {
        if ruleset.sets.contains_key(&set) || found.contains_key(&set) {
            continue;
        }
        let text = read_set_text(&set)?;
        if KernelRulesetTexts::is_list_of_sets(&text) {
            let members = text.lines().filter_map(|line| line.split(' ').nth(2));
            named.extend(members.filter(|name| there.contains(*name)).map(str::to_owned));
        }
        found.insert(set, text);
    }
    Ok(found)
}

/// The name of the spare set of a set.
pub(crate) fn spare_set_name(set: &str) -> String {
    // Names of sets have at most 31 bytes.
    let digest = weir_artefact::sha256_hex(set.as_bytes());
    format!("{SPARE_SET_PREFIX}{}", &digest[..16])
}

/// Whether the kernel has a table of legacy iptables in this namespace.
///
/// # Errors
/// If weir is not root.
pub fn is_legacy_table_in_use(table: FamilyTable) -> Result<bool, ApplyOperationError> {
    let file = match table.family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match fs::read_to_string(file) {
        Ok(names) => Ok(names.lines().any(|name| name == table.table.as_str())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ApplyOperationError::file("read", file)(source)),
    }
}

/// The text of a table of legacy iptables, with counters and without comment lines; an empty table
/// if it is not in use.
///
/// # Errors
/// If weir is not root, or neither weir nor the tool can read the table.
pub fn read_legacy_table_text(table: FamilyTable) -> Result<String, ApplyOperationError> {
    if !is_legacy_table_in_use(table)? {
        return Ok(empty_table_text(table.table));
    }
    let socket = XtablesSocket::open(table.family).map_err(ApplyError::from)?;
    let kernel_table = KernelTable::read(&socket, table.table)?;
    if let Some(text) = decode_table_text(&kernel_table)? {
        return Ok(text);
    }
    let tool = match table.family {
        Family::V4 => "iptables-legacy-save",
        Family::V6 => "ip6tables-legacy-save",
    };
    let text = read_tool_output(&[tool, "-c", "-t", table.table.as_str()])?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.flat_map(|line| [line, "\n"]).collect())
}

/// The text of a table that was read, with counters; none if weir cannot decode it.
pub(crate) fn decode_table_text(
    table: &KernelTable,
) -> Result<Option<String>, ApplyOperationError> {
    let socket = XtablesSocket::open(table.family()).map_err(ApplyError::from)?;
    let decoded = decode_table(table, &SetIndices::of_socket(&socket)).ok();
    Ok(decoded.map(|decoded| {
        let mut ruleset = Ruleset::new(table.family());
        ruleset.tables.push(decoded);
        weir_syntax::iptables::print(&ruleset, true)
    }))
}

/// The tables of the nft form that are in force, and whether each is a copy.
fn list_nft_form_tables() -> Result<Vec<(FamilyTable, bool)>, ApplyOperationError> {
    if !KernelFeature::NfTables.is_loaded() {
        return Ok(Vec::new());
    }
    let tables = read_nft_tables().map_err(ApplyError::from)?;
    let find = |family: &str, name: &str| {
        let family = match family {
            "ip" => Family::V4,
            "ip6" => Family::V6,
            _ => return None,
        };
        let (name, is_copy) = match name.strip_prefix(NFT_COPY_TABLE_PREFIX) {
            Some(rest) => (rest, true),
            None => (name.strip_prefix(NFT_TABLE_PREFIX)?, false),
        };
        Some((FamilyTable { family, table: TableName::parse(name)? }, is_copy))
    };
    Ok(tables.iter().filter_map(|table| find(table.family, &table.name)).collect())
}

/// The listing of an nft table, which loads it again.
///
/// # Errors
/// If there is no such table.
pub fn read_nft_table_text(table: FamilyTable) -> Result<String, ApplyOperationError> {
    let name = format!("{NFT_TABLE_PREFIX}{}", table.table);
    read_tool_output(&["nft", "list", "table", table.nft_family(), &name])
}

/// The names of all sets of ipset; none if the kernel has no ipset loaded.
///
/// # Errors
/// If weir is not root.
pub fn list_set_names() -> Result<Vec<String>, ApplyOperationError> {
    if !KernelFeature::Ipset.is_loaded() {
        return Ok(Vec::new());
    }
    let sets = match read_ipsets() {
        Ok(sets) => sets,
        Err(error) if error.kind() == Some(std::io::ErrorKind::PermissionDenied) => {
            return Err(ApplyError::from(error).into());
        }
        // The netlink part of ipset is built into the kernel, but ipset itself is missing.
        Err(_) => Vec::new(),
    };
    Ok(sets.into_iter().map(|set| set.name).collect())
}

/// The text of a set, as `ipset save` prints it.
///
/// # Errors
/// If there is no such set, or the tool is missing where weir cannot decode the set.
pub fn read_set_text(set: &str) -> Result<String, ApplyOperationError> {
    let mut socket = IpsetSocket::open().map_err(ApplyError::from)?;
    match read_sets(&mut socket, Some(set)) {
        Ok(sets) => Ok(weir_syntax::ipset::print(&sets)),
        Err(ApplyError::UndecodableSet { .. }) => read_tool_output(&["ipset", "save", set]),
        Err(error) => Err(error.into()),
    }
}
