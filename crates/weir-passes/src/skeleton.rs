//! A tree of chains for programs: the same search tree, maintained element by element.
//!
//! A program that knows which chain handles which address (a customer's firewall, a customer's
//! shaper) builds a [`Skeleton`], inserts and deletes elements as customers are added and removed,
//! and commits everything in one transaction. The program gives the list of prefix lengths, which
//! determines depth and width of the tree. Leaves *jump* to the program's chains, so that a packet
//! which such a chain did not decide returns, leaves the tree and continues after it.
//!
//! ```
//! use weir_model::{Addr, Family, TableName};
//! use weir_passes::{Axis, Prefix, Skeleton};
//!
//! let host = |a: [u8; 4]| Prefix::of(Family::V4, u32::from_be_bytes(a).into(), 32);
//! let mut tree =
//!     Skeleton::new("bw", Axis::Source, Family::V4, TableName::Mangle, &[8, 16, 24]).unwrap();
//! tree.connect_to("FORWARD");
//! tree.insert_element(host([192, 0, 2, 33]), "customer1");
//! tree.insert_element(host([192, 0, 2, 66]), "customer2");
//! let ruleset = tree.commit();
//! let chains: Vec<_> = ruleset.tables[0].chains.iter().map(|c| &*c.name).collect();
//! assert!(chains.contains(&"bw_s192.0.2.0/24"));
//! ```

use std::collections::{BTreeMap, BTreeSet};

use weir_model::{Chain, Family, Hook, Name, Policy, Rule, Ruleset, Table, TableName, Target};

use crate::{Axis, ChainNames, Prefix};

/// A search tree of chains over addresses.
#[derive(Clone, Debug)]
pub struct Skeleton {
    name: String,
    axis: Axis,
    family: Family,
    table: TableName,
    levels: Vec<u32>,
    connected: BTreeSet<Name>,
    elements: BTreeMap<Prefix, Name>,
}

/// Why there is no such skeleton.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkeletonError {
    /// The levels do not rise, or one is not a prefix length of the family.
    Levels,
    /// The name is empty, or too long to leave room for the prefix in a chain's name.
    Name {
        /// The longest name that fits, in characters.
        length_max: usize,
    },
}

impl std::fmt::Display for SkeletonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SkeletonError::Levels => {
                f.write_str("levels must rise and be prefix lengths of the family")
            }
            SkeletonError::Name { length_max } => {
                write!(f, "a skeleton's name has 1 to {length_max} characters")
            }
        }
    }
}

impl std::error::Error for SkeletonError {}

impl Skeleton {
    /// Longest short name: the rest of a chain's 28 characters is for the prefix.
    pub const NAME_LENGTH_MAX: usize = 8;

    /// An empty tree over source or destination addresses, in a table.
    ///
    /// # Errors
    /// [`SkeletonError`] if the name is too long or the levels do not rise.
    pub fn new(
        name: &str,
        axis: Axis,
        family: Family,
        table: TableName,
        levels: &[u8],
    ) -> Result<Self, SkeletonError> {
        let length_max = Self::NAME_LENGTH_MAX;
        if name.is_empty() || name.len() > length_max {
            return Err(SkeletonError::Name { length_max });
        }
        let levels: Vec<u32> = levels.iter().map(|&l| l.into()).collect();
        let rise = levels.windows(2).all(|w| w[0] < w[1]);
        if !rise || levels.iter().any(|&l| l == 0 || l >= family.bits()) {
            return Err(SkeletonError::Levels);
        }
        Ok(Skeleton {
            name: name.to_owned(),
            axis,
            family,
            table,
            levels,
            connected: BTreeSet::new(),
            elements: BTreeMap::new(),
        })
    }

    /// Sends a chain's packets into the tree: the chain's rule is a jump to the root.
    pub fn connect_to(&mut self, chain: &str) {
        self.connected.insert(chain.into());
    }

    /// Sends packets of a prefix (or of one address) to a chain, and returns the chain that they
    /// went to before. Where prefixes overlap, the narrower is tried first.
    pub fn insert_element(&mut self, prefix: Prefix, chain: &str) -> Option<Name> {
        let prefix = Prefix::of(self.family, prefix.addr, prefix.len);
        self.elements.insert(prefix, chain.into())
    }

    /// Removes a prefix, with every node that is empty without it, and returns its chain.
    pub fn delete_element(&mut self, prefix: Prefix) -> Option<Name> {
        self.elements.remove(&Prefix::of(self.family, prefix.addr, prefix.len))
    }

    /// The elements with their chains, in the order of their addresses.
    pub fn elements(&self) -> impl Iterator<Item = (Prefix, &Name)> {
        self.elements.iter().map(|(p, c)| (*p, c))
    }

    /// The table with the whole tree, for one `iptables-restore` transaction.
    ///
    /// The chains that elements name are declared empty; a program fills them, or loads with
    /// `--noflush` if they are in the kernel already.
    pub fn commit(&self) -> Ruleset {
        let mut chains = Vec::new();
        for name in &self.connected {
            let built_in = Hook::of_chain(name).is_some_and(|h| self.table.hooks().contains(&h));
            let mut chain = Chain::new(name.clone(), built_in.then_some(Policy::Accept));
            chain.rules.push(Rule::new(Target::Jump(self.chain_of(Prefix::ALL))));
            chains.push(chain);
        }
        let elements: Vec<(Prefix, &Name)> = self.elements().collect();
        self.node(Prefix::ALL, 0, &elements, &mut chains);
        let own: BTreeSet<Name> = chains.iter().map(|c| c.name.clone()).collect();
        let targets: BTreeSet<&Name> =
            self.elements.values().filter(|n| !own.contains(*n)).collect();
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
    fn node(
        &self,
        at: Prefix,
        level: usize,
        elements: &[(Prefix, &Name)],
        chains: &mut Vec<Chain>,
    ) {
        let slot = chains.len();
        chains.push(Chain::new(self.chain_of(at), None));
        let mut rules = Vec::new();
        let next = self.levels.get(level).copied().unwrap_or(u32::MAX);
        let (mut own, below): (Vec<_>, Vec<_>) =
            elements.iter().copied().partition(|(p, _)| p.len < next);
        for group in below.chunk_by(|a, b| self.head(a.0, next) == self.head(b.0, next)) {
            let child = self.head(group[0].0, next);
            rules.push(self.way(child, self.chain_of(child)));
            self.node(child, level + 1, group, chains);
        }
        own.sort_by_key(|(p, _)| std::cmp::Reverse(p.len));
        rules.extend(own.into_iter().map(|(p, chain)| self.way(p, chain.clone())));
        chains[slot].rules = rules;
    }

    fn head(&self, prefix: Prefix, len: u32) -> Prefix {
        Prefix::of(self.family, prefix.addr, len)
    }

    fn way(&self, prefix: Prefix, chain: Name) -> Rule {
        let mut rule = Rule::new(Target::Jump(chain));
        self.axis.set_prefix(&mut rule, self.family, prefix);
        rule
    }

    /// The chain of a node: the short name, `s` or `d`, and the prefix. A prefix of IPv6 is
    /// written in hexadecimal without its zeros at the end, or by a digest where it is too long.
    fn chain_of(&self, prefix: Prefix) -> Name {
        let (name, letter) = (&self.name, self.axis.letter());
        let text = match self.family {
            Family::V4 => format!("{name}_{letter}{}", prefix.display(self.family)),
            Family::V6 => {
                let digits = (prefix.len as usize).div_ceil(4);
                let hex = format!("{:032x}", prefix.addr);
                format!("{name}_{letter}{}/{}", &hex[..digits], prefix.len)
            }
        };
        if text.len() <= ChainNames::LENGTH_MAX {
            return text.into();
        }
        let mixed = (prefix.addr ^ (prefix.addr >> 64)) as u64;
        let digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        format!("{name}_{letter}{digest:010x}/{}", prefix.len).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(a: [u8; 4], len: u32) -> Prefix {
        Prefix::of(Family::V4, u32::from_be_bytes(a).into(), len)
    }

    fn skeleton() -> Skeleton {
        Skeleton::new("bw", Axis::Source, Family::V4, TableName::Mangle, &[8, 16, 24]).unwrap()
    }

    fn chains(s: &Skeleton) -> Vec<String> {
        s.commit().tables[0].chains.iter().map(|c| c.name.to_string()).collect()
    }

    #[test]
    fn deleting_the_last_element_of_a_node_removes_the_node() {
        let mut s = skeleton();
        s.connect_to("FORWARD");
        s.insert_element(prefix([192, 0, 2, 1], 32), "one");
        let before = chains(&s);
        s.insert_element(prefix([198, 51, 100, 1], 32), "two");
        assert!(chains(&s).contains(&"bw_s198.51.100.0/24".to_owned()));
        assert_eq!(s.delete_element(prefix([198, 51, 100, 1], 32)).as_deref(), Some("two"));
        assert_eq!(chains(&s), before);
        assert_eq!(s.delete_element(prefix([198, 51, 100, 1], 32)), None);
    }

    #[test]
    fn two_elements_may_jump_to_one_chain() {
        let mut s = skeleton();
        s.insert_element(prefix([192, 0, 2, 1], 32), "one");
        s.insert_element(prefix([192, 0, 2, 2], 32), "one");
        assert_eq!(chains(&s).iter().filter(|c| *c == "one").count(), 1);
        assert_eq!(chains(&s).len(), 5);
    }

    #[test]
    fn a_narrower_element_is_tried_before_a_wider_one() {
        let mut s = skeleton();
        s.insert_element(prefix([192, 0, 0, 0], 12), "wide");
        s.insert_element(prefix([192, 0, 2, 1], 32), "narrow");
        let ruleset = s.commit();
        let node = ruleset.tables[0].chain("bw_s192.0.0.0/8").unwrap();
        let targets: Vec<_> = node.rules.iter().map(|r| &**r.target.chain().unwrap()).collect();
        assert_eq!(targets, ["bw_s192.0.0.0/16", "wide"]);
    }

    #[test]
    fn levels_that_do_not_rise_and_long_names_are_refused() {
        let new = |name, levels: &[u8]| {
            Skeleton::new(name, Axis::Source, Family::V4, TableName::Filter, levels).map(|_| ())
        };
        assert_eq!(new("bw", &[8, 16]), Ok(()));
        assert_eq!(new("bw", &[16, 8]), Err(SkeletonError::Levels));
        assert_eq!(new("bw", &[8, 32]), Err(SkeletonError::Levels));
        assert_eq!(new("bandwidth", &[8]), Err(SkeletonError::Name { length_max: 8 }));
    }

    #[test]
    fn names_of_long_prefixes_fit() {
        let mut s = Skeleton::new(
            "shortname".get(..8).unwrap(),
            Axis::Destination,
            Family::V6,
            TableName::Filter,
            &[32, 48, 64, 112],
        )
        .unwrap();
        s.insert_element(Prefix::of(Family::V6, 0x2001_0db8 << 96 | 1, 128), "customer");
        let all = chains(&s);
        assert!(all.iter().all(|c| c.len() <= ChainNames::LENGTH_MAX), "{all:?}");
        assert!(all.contains(&"shortnam_d20010db8/32".to_owned()), "{all:?}");
    }
}
