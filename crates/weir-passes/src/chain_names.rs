//! Names for the chains that a pass creates.

use std::collections::HashSet;

use weir_model::ruleset::CHAIN_NAME_MAX_BYTES;
use weir_model::{Family, SharedName, Table};

use crate::{AddressAxis, Prefix};

/// Hands out chain names of one table that the user's chains do not have.
///
/// A name is `w4:` or `w6:`, a running number, and for IPv4 the prefix that leads to the chain,
/// so that a listing can be read. The same table gives the same names. A name has at most 28
/// characters (`XT_EXTENSION_MAXNAMELEN` in include/uapi/linux/netfilter/x_tables.h, less its
/// zero).
#[derive(Clone, Debug)]
pub struct ChainNameAllocator {
    family: Family,
    used_names: HashSet<SharedName>,
    last_number: u32,
}

impl ChainNameAllocator {
    /// Longest name of a chain, in characters.
    pub const CHAIN_NAME_LENGTH_MAX: usize = CHAIN_NAME_MAX_BYTES;

    /// Names for a table.
    pub fn new(family: Family, table: &Table) -> Self {
        let mut taken: HashSet<SharedName> = table.chains.iter().map(|c| c.name.clone()).collect();
        let targets =
            table.chains.iter().flat_map(|c| &c.rules).filter_map(|r| r.target.jump_target());
        taken.extend(targets.cloned());
        ChainNameAllocator { family, used_names: taken, last_number: 0 }
    }

    /// A name for the node below a prefix.
    pub fn allocate_tree_node_chain_name(
        &mut self,
        axis: AddressAxis,
        prefix: Prefix,
    ) -> SharedName {
        let family = self.family;
        self.allocate_next_unused_by_number(|number| match family {
            Family::V4 => format!("w4:{number:05}:{}{}", axis.letter(), prefix.display(family)),
            Family::V6 => format!("w6:{number:05}:{}/{}", axis.letter(), prefix.len),
        })
    }

    /// A name for the rest of a chain after a run.
    pub fn allocate_after_run_chain_name(&mut self) -> SharedName {
        self.allocate_numbered_with_word("rest")
    }

    /// A name for the chain that a run is divided in.
    pub fn allocate_numbered_tree_root_name(&mut self) -> SharedName {
        self.allocate_numbered_with_word("top")
    }

    /// A name that ends in a word, of at most 19 characters.
    pub fn allocate_numbered_with_word(&mut self, word: &str) -> SharedName {
        let family = self.family;
        self.allocate_next_unused_by_number(|number| match family {
            Family::V4 => format!("w4:{number:05}:{word}"),
            Family::V6 => format!("w6:{number:05}:{word}"),
        })
    }

    fn allocate_next_unused_by_number(&mut self, name: impl Fn(u32) -> String) -> SharedName {
        loop {
            self.last_number += 1;
            let name: SharedName = name(self.last_number).into();
            assert!(name.len() <= Self::CHAIN_NAME_LENGTH_MAX, "chain name {name} is too long");
            if self.used_names.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::{Chain, TableName};

    fn table(chains: &[&str]) -> Table {
        Table {
            name: TableName::Filter,
            chains: chains.iter().map(|c| Chain::new(*c, None)).collect(),
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let mut names = ChainNameAllocator::new(Family::V4, &table(&[]));
        names.last_number = 99_998;
        let longest = names.allocate_tree_node_chain_name(
            AddressAxis::Source,
            Prefix::containing_addr(Family::V4, 0xfdfd_fdfd, 32),
        );
        assert_eq!(&*longest, "w4:99999:s253.253.253.253/32");
        assert_eq!(longest.len(), ChainNameAllocator::CHAIN_NAME_LENGTH_MAX);
    }

    #[test]
    fn existing_chain_names_are_never_allocated() {
        let free = ChainNameAllocator::new(Family::V4, &table(&[])).allocate_after_run_chain_name();
        assert_eq!(&*free, "w4:00001:rest");
        let mut names = ChainNameAllocator::new(Family::V4, &table(&["w4:00001:rest"]));
        assert_eq!(&*names.allocate_after_run_chain_name(), "w4:00002:rest");
    }
}
