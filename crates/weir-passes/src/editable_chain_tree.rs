//! A tree of chains for programs: the same search tree, maintained element by element.
//!
//! A program that knows which chain handles which address (a customer's firewall, a customer's
//! shaper) builds an [`EditableChainTree`], inserts and deletes elements as customers are added and
//! removed, and commits everything in one transaction. The program gives the list of prefix
//! lengths, which determines depth and width of the tree. Leaves *jump* to the program's chains, so
//! that a packet which such a chain did not decide returns, leaves the tree and continues after it.
//!
//! ```
//! use weir_model::{Addr, Family, TableName};
//! use weir_passes::{AddressAxis, EditableChainTree, Prefix};
//!
//! let host = |a: [u8; 4]| Prefix::containing_addr(Family::V4, u32::from_be_bytes(a).into(), 32);
//! let (axis, table) = (AddressAxis::Source, TableName::Mangle);
//! let mut tree = EditableChainTree::new("bw", axis, Family::V4, table, &[8, 16, 24]).unwrap();
//! tree.add_chain_jumping_to_root("FORWARD");
//! tree.insert_prefix(host([192, 0, 2, 33]), "customer1");
//! tree.insert_prefix(host([192, 0, 2, 66]), "customer2");
//! let ruleset = tree.build_ruleset();
//! let chains: Vec<_> = ruleset.tables[0].chains.iter().map(|c| &*c.name).collect();
//! assert!(chains.contains(&"bw_s192.0.2.0/24"));
//! ```

use std::collections::{BTreeMap, BTreeSet};

use weir_model::{
    Chain, Family, Hook, Policy, Rule, Ruleset, SharedName, Table, TableName, Target,
};

use crate::{AddressAxis, ChainNameAllocator, Prefix};

/// A search tree of chains over addresses.
#[derive(Clone, Debug)]
pub struct EditableChainTree {
    chain_name_prefix: String,
    axis: AddressAxis,
    family: Family,
    table: TableName,
    level_prefix_lengths: Vec<u32>,
    entry_chains: BTreeSet<SharedName>,
    chains_by_prefix: BTreeMap<Prefix, SharedName>,
}

/// Why there is no such tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditableChainTreeError {
    /// The levels do not rise, or one is not a prefix length of the family.
    InvalidLevels,
    /// The name is empty, or too long to leave room for the prefix in a chain's name.
    NameEmptyOrTooLong {
        /// The longest name that fits, in characters.
        length_max: usize,
    },
}

impl std::fmt::Display for EditableChainTreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EditableChainTreeError::InvalidLevels => {
                f.write_str("levels must rise and be prefix lengths of the family")
            }
            EditableChainTreeError::NameEmptyOrTooLong { length_max } => {
                write!(f, "a skeleton's name has 1 to {length_max} characters")
            }
        }
    }
}

impl std::error::Error for EditableChainTreeError {}

impl EditableChainTree {
    /// Longest short name: the rest of a chain's 28 characters is for the prefix.
    pub const CHAIN_NAME_PREFIX_LENGTH_MAX: usize = 8;

    /// An empty tree over source or destination addresses, in a table.
    ///
    /// # Errors
    /// [`EditableChainTreeError`] if the name is too long or the levels do not rise.
    pub fn new(
        chain_name_prefix: &str,
        axis: AddressAxis,
        family: Family,
        table: TableName,
        level_prefix_lengths: &[u8],
    ) -> Result<Self, EditableChainTreeError> {
        let length_max = Self::CHAIN_NAME_PREFIX_LENGTH_MAX;
        if chain_name_prefix.is_empty() || chain_name_prefix.len() > length_max {
            return Err(EditableChainTreeError::NameEmptyOrTooLong { length_max });
        }
        let level_prefix_lengths: Vec<u32> =
            level_prefix_lengths.iter().map(|&l| l.into()).collect();
        let rise = level_prefix_lengths.windows(2).all(|w| w[0] < w[1]);
        if !rise || level_prefix_lengths.iter().any(|&l| l == 0 || l >= family.addr_bits()) {
            return Err(EditableChainTreeError::InvalidLevels);
        }
        Ok(EditableChainTree {
            chain_name_prefix: chain_name_prefix.to_owned(),
            axis,
            family,
            table,
            level_prefix_lengths,
            entry_chains: BTreeSet::new(),
            chains_by_prefix: BTreeMap::new(),
        })
    }

    /// Sends a chain's packets into the tree: the chain's rule is a jump to the root.
    pub fn add_chain_jumping_to_root(&mut self, chain: &str) {
        self.entry_chains.insert(chain.into());
    }

    /// Sends packets of a prefix (or of one address) to a chain, and returns the chain that they
    /// went to before. Where prefixes overlap, the narrower is tried first.
    pub fn insert_prefix(&mut self, prefix: Prefix, chain: &str) -> Option<SharedName> {
        let prefix = Prefix::containing_addr(self.family, prefix.addr, prefix.len);
        self.chains_by_prefix.insert(prefix, chain.into())
    }

    /// Removes a prefix, with every node that is empty without it, and returns its chain.
    pub fn remove_prefix(&mut self, prefix: Prefix) -> Option<SharedName> {
        self.chains_by_prefix.remove(&Prefix::containing_addr(self.family, prefix.addr, prefix.len))
    }

    /// The elements with their chains, in the order of their addresses.
    pub fn elements(&self) -> impl Iterator<Item = (Prefix, &SharedName)> {
        self.chains_by_prefix.iter().map(|(p, c)| (*p, c))
    }

    /// The table with the whole tree, for one `iptables-restore` transaction.
    ///
    /// The chains that elements name are declared empty; a program fills them, or loads with
    /// `--noflush` if they are in the kernel already.
    pub fn build_ruleset(&self) -> Ruleset {
        let mut chains = Vec::new();
        for name in &self.entry_chains {
            let built_in =
                Hook::from_chain_name(name).is_some_and(|h| self.table.hooks().contains(&h));
            let mut chain = Chain::new(name.clone(), built_in.then_some(Policy::Accept));
            chain.rules.push(Rule::unconditional(Target::Jump(self.node_chain_name(Prefix::ALL))));
            chains.push(chain);
        }
        let chains_by_prefix: Vec<(Prefix, &SharedName)> = self.elements().collect();
        self.push_node_chains_recursively(Prefix::ALL, 0, &chains_by_prefix, &mut chains);
        let own: BTreeSet<SharedName> = chains.iter().map(|c| c.name.clone()).collect();
        let targets: BTreeSet<&SharedName> =
            self.chains_by_prefix.values().filter(|n| !own.contains(*n)).collect();
        chains.extend(targets.into_iter().map(|n| Chain::new(n.clone(), None)));
        let mut ruleset = Ruleset::new(self.family);
        ruleset.tables.push(Table {
            name: self.table,
            chains,
            leading_comments: Vec::new(),
            trailing_comments: Vec::new(),
        });
        ruleset
    }

    /// Writes the node of a prefix and everything below it.
    fn push_node_chains_recursively(
        &self,
        at: Prefix,
        level: usize,
        elements: &[(Prefix, &SharedName)],
        chains: &mut Vec<Chain>,
    ) {
        let slot = chains.len();
        chains.push(Chain::new(self.node_chain_name(at), None));
        let mut rules = Vec::new();
        let next = self.level_prefix_lengths.get(level).copied().unwrap_or(u32::MAX);
        let (mut own, below): (Vec<_>, Vec<_>) =
            elements.iter().copied().partition(|(p, _)| p.len < next);
        for group in below
            .chunk_by(|a, b| self.truncate_prefix(a.0, next) == self.truncate_prefix(b.0, next))
        {
            let child = self.truncate_prefix(group[0].0, next);
            rules.push(self.make_jump_rule(child, self.node_chain_name(child)));
            self.push_node_chains_recursively(child, level + 1, group, chains);
        }
        own.sort_by_key(|(p, _)| std::cmp::Reverse(p.len));
        rules.extend(own.into_iter().map(|(p, chain)| self.make_jump_rule(p, chain.clone())));
        chains[slot].rules = rules;
    }

    fn truncate_prefix(&self, prefix: Prefix, len: u32) -> Prefix {
        Prefix::containing_addr(self.family, prefix.addr, len)
    }

    fn make_jump_rule(&self, prefix: Prefix, chain: SharedName) -> Rule {
        let mut rule = Rule::unconditional(Target::Jump(chain));
        self.axis.set_prefix(&mut rule, self.family, prefix);
        rule
    }

    /// The chain of a node: the short name, `s` or `d`, and the prefix. A prefix of IPv6 is
    /// written in hexadecimal without its zeros at the end, or by a digest where it is too long.
    fn node_chain_name(&self, prefix: Prefix) -> SharedName {
        let (chain_name_prefix, letter) = (&self.chain_name_prefix, self.axis.letter());
        let text = match self.family {
            Family::V4 => format!("{chain_name_prefix}_{letter}{}", prefix.display(self.family)),
            Family::V6 => {
                let digits = (prefix.len as usize).div_ceil(4);
                let hex = format!("{:032x}", prefix.addr);
                format!("{chain_name_prefix}_{letter}{}/{}", &hex[..digits], prefix.len)
            }
        };
        if text.len() <= ChainNameAllocator::CHAIN_NAME_LENGTH_MAX {
            return text.into();
        }
        let mixed = (prefix.addr ^ (prefix.addr >> 64)) as u64;
        let digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        format!("{chain_name_prefix}_{letter}{digest:010x}/{}", prefix.len).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(a: [u8; 4], len: u32) -> Prefix {
        Prefix::containing_addr(Family::V4, u32::from_be_bytes(a).into(), len)
    }

    fn tree() -> EditableChainTree {
        let (axis, table) = (AddressAxis::Source, TableName::Mangle);
        EditableChainTree::new("bw", axis, Family::V4, table, &[8, 16, 24]).unwrap()
    }

    fn chains(s: &EditableChainTree) -> Vec<String> {
        s.build_ruleset().tables[0].chains.iter().map(|c| c.name.to_string()).collect()
    }

    #[test]
    fn deleting_the_last_element_of_a_node_removes_the_node() {
        let mut s = tree();
        s.add_chain_jumping_to_root("FORWARD");
        s.insert_prefix(prefix([192, 0, 2, 1], 32), "one");
        let before = chains(&s);
        s.insert_prefix(prefix([198, 51, 100, 1], 32), "two");
        assert!(chains(&s).contains(&"bw_s198.51.100.0/24".to_owned()));
        assert_eq!(s.remove_prefix(prefix([198, 51, 100, 1], 32)).as_deref(), Some("two"));
        assert_eq!(chains(&s), before);
        assert_eq!(s.remove_prefix(prefix([198, 51, 100, 1], 32)), None);
    }

    #[test]
    fn two_elements_may_jump_to_one_chain() {
        let mut s = tree();
        s.insert_prefix(prefix([192, 0, 2, 1], 32), "one");
        s.insert_prefix(prefix([192, 0, 2, 2], 32), "one");
        assert_eq!(chains(&s).iter().filter(|c| *c == "one").count(), 1);
        assert_eq!(chains(&s).len(), 5);
    }

    #[test]
    fn a_narrower_element_is_tried_before_a_wider_one() {
        let mut s = tree();
        s.insert_prefix(prefix([192, 0, 0, 0], 12), "wide");
        s.insert_prefix(prefix([192, 0, 2, 1], 32), "narrow");
        let ruleset = s.build_ruleset();
        let node = ruleset.tables[0].chain("bw_s192.0.0.0/8").unwrap();
        let targets: Vec<_> =
            node.rules.iter().map(|r| &**r.target.jump_target().unwrap()).collect();
        assert_eq!(targets, ["bw_s192.0.0.0/16", "wide"]);
    }

    #[test]
    fn nonincreasing_levels_and_long_names_are_refused() {
        let new = |name, levels: &[u8]| {
            EditableChainTree::new(name, AddressAxis::Source, Family::V4, TableName::Filter, levels)
                .map(|_| ())
        };
        assert_eq!(new("bw", &[8, 16]), Ok(()));
        assert_eq!(new("bw", &[16, 8]), Err(EditableChainTreeError::InvalidLevels));
        assert_eq!(new("bw", &[8, 32]), Err(EditableChainTreeError::InvalidLevels));
        assert_eq!(
            new("bandwidth", &[8]),
            Err(EditableChainTreeError::NameEmptyOrTooLong { length_max: 8 })
        );
    }

    #[test]
    fn chain_names_of_long_prefixes_fit() {
        let mut s = EditableChainTree::new(
            "shortname".get(..8).unwrap(),
            AddressAxis::Destination,
            Family::V6,
            TableName::Filter,
            &[32, 48, 64, 112],
        )
        .unwrap();
        s.insert_prefix(
            Prefix::containing_addr(Family::V6, 0x2001_0db8 << 96 | 1, 128),
            "customer",
        );
        let all = chains(&s);
        assert!(
            all.iter().all(|c| c.len() <= ChainNameAllocator::CHAIN_NAME_LENGTH_MAX),
            "{all:?}"
        );
        assert!(all.contains(&"shortnam_d20010db8/32".to_owned()), "{all:?}");
    }
}
