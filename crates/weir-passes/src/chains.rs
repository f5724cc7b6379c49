//! Names for the chains that a pass creates.

use std::collections::HashSet;

use weir_model::{Family, Name, Table};

use crate::{Axis, Prefix};

/// Hands out chain names of one table that the user's chains do not have.
///
/// A name is `w4:` or `w6:`, a running number, and for IPv4 the prefix that leads to the chain,
/// so that a listing can be read. The same table gives the same names. A name has at most 28
/// characters (`XT_EXTENSION_MAXNAMELEN` in include/uapi/linux/netfilter/x_tables.h, less its
/// zero).
#[derive(Clone, Debug)]
pub struct ChainNames {
    family: Family,
    taken: HashSet<Name>,
    next: u32,
}

impl ChainNames {
    /// Longest name of a chain, in characters.
    pub const LENGTH_MAX: usize = 28;

    /// Names for a table.
    pub fn new(family: Family, table: &Table) -> Self {
        let mut taken: HashSet<Name> = table.chains.iter().map(|c| c.name.clone()).collect();
        let targets = table.chains.iter().flat_map(|c| &c.rules).filter_map(|r| r.target.chain());
        taken.extend(targets.cloned());
        ChainNames { family, taken, next: 0 }
    }

    /// A name for the node below a prefix.
    pub fn node(&mut self, axis: Axis, prefix: Prefix) -> Name {
        let family = self.family;
        self.free(|number| match family {
            Family::V4 => format!("w4:{number:05}:{}{}", axis.letter(), prefix.display(family)),
            Family::V6 => format!("w6:{number:05}:{}/{}", axis.letter(), prefix.len),
        })
    }

    /// A name for the rest of a chain after a run.
    pub fn rest(&mut self) -> Name {
        self.word("rest")
    }

    /// A name for the chain that a run is divided in.
    pub fn top(&mut self) -> Name {
        self.word("top")
    }

    /// A name that ends in a word, of at most 19 characters.
    pub fn word(&mut self, word: &str) -> Name {
        let family = self.family;
        self.free(|number| match family {
            Family::V4 => format!("w4:{number:05}:{word}"),
            Family::V6 => format!("w6:{number:05}:{word}"),
        })
    }

    fn free(&mut self, name: impl Fn(u32) -> String) -> Name {
        loop {
            self.next += 1;
            let name: Name = name(self.next).into();
            assert!(name.len() <= Self::LENGTH_MAX, "chain name {name} is too long");
            if self.taken.insert(name.clone()) {
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
        let mut names = ChainNames::new(Family::V4, &table(&[]));
        names.next = 99_998;
        let longest = names.node(Axis::Source, Prefix::of(Family::V4, 0xfdfd_fdfd, 32));
        assert_eq!(&*longest, "w4:99999:s253.253.253.253/32");
        assert_eq!(longest.len(), ChainNames::LENGTH_MAX);
    }

    #[test]
    fn a_name_of_the_user_is_never_given_out() {
        let free = ChainNames::new(Family::V4, &table(&[])).rest();
        assert_eq!(&*free, "w4:00001:rest");
        let mut names = ChainNames::new(Family::V4, &table(&["w4:00001:rest"]));
        assert_eq!(&*names.rest(), "w4:00002:rest");
    }
}
