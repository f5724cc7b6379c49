//! Names that nft accepts.
//!
//! A chain's name is not quoted in nft text, so it must be an identifier, and not a keyword of this
//! or a later nft. All keywords consist of lower-case letters, digits and hyphens, so a name with a
//! capital letter or an underscore is never one. Other characters of a name are replaced, and the
//! result is made unique.

use std::collections::{HashMap, HashSet};

use weir_model::Name;

/// Longest name that is made; nft takes 127 bytes.
const NAME_MAX: usize = 60;

/// The names in one table.
#[derive(Debug, Default)]
pub(super) struct NftNames {
    taken: HashSet<String>,
    of: HashMap<Name, String>,
    next: HashMap<String, u32>,
}

impl NftNames {
    /// Reserves the names of the table's chains, in order.
    pub fn new<'a>(chains: impl Iterator<Item = &'a Name>) -> Self {
        let mut names = NftNames::default();
        let chains: Vec<_> = chains.collect();
        // A name that can stay is not lost to another that is changed into it.
        for chain in &chains {
            if is_plain(chain) {
                names.taken.insert(chain.to_string());
                names.of.insert((*chain).clone(), chain.to_string());
            }
        }
        for chain in &chains {
            if !is_plain(chain) {
                let name = names.unique(identifier(chain));
                names.of.insert((*chain).clone(), name);
            }
        }
        names
    }

    /// nft's name of a chain.
    ///
    /// # Panics
    /// If the chain is not one of the table's.
    pub fn chain(&self, name: &str) -> &str {
        self.of.get(name).unwrap_or_else(|| panic!("chain {name} is not in the table"))
    }

    /// A name for a chain made of `chain`: `FORWARD.1`.
    pub fn fresh(&mut self, chain: &str) -> String {
        let next = self.next.entry(chain.to_string()).or_insert(0);
        loop {
            *next += 1;
            let name = format!("{chain}.{next}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn unique(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        self.fresh(&name)
    }
}

/// True if nft accepts the name unchanged.
fn is_plain(name: &str) -> bool {
    name.len() <= NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        && name.contains(|c: char| c.is_ascii_uppercase() || c == '_')
}

fn identifier(name: &str) -> String {
    let mut out: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert_str(0, "c_");
    }
    out.truncate(NAME_MAX);
    if !is_plain(&out) {
        out.push('_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_strange_names_are_changed_and_kept_apart() {
        let chains: Vec<Name> =
            ["INPUT", "reject", "dynamic", "a:b", "a~b", "reject_", "9to5", "cali-fw"]
                .map(Name::from)
                .into();
        let names = NftNames::new(chains.iter());
        assert_eq!(names.chain("INPUT"), "INPUT");
        assert_eq!(names.chain("reject_"), "reject_", "what can stay stays");
        assert_eq!(names.chain("reject"), "reject_.1");
        assert_eq!(names.chain("dynamic"), "dynamic_");
        assert_eq!((names.chain("a:b"), names.chain("a~b")), ("a_b", "a_b.1"));
        assert_eq!(names.chain("9to5"), "c_9to5");
        assert_eq!(names.chain("cali-fw"), "cali-fw_");
    }
}
