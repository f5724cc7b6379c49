//! Names that nft accepts.
//!
//! A chain's name is not quoted in nft text, so it must be an identifier, and not a keyword of this
//! or a later nft. All keywords consist of lower-case letters, digits and hyphens, so a name with a
//! capital letter or an underscore is never one. Other characters of a name are replaced, and the
//! result is made unique.

use std::collections::{HashMap, HashSet};

use weir_model::SharedName;

/// Longest name that is made; nft takes 127 bytes.
const MAX_GENERATED_NAME_BYTES: usize = 60;

/// The names in one table.
#[derive(Debug, Default)]
pub(super) struct NftChainNames {
    used_names: HashSet<String>,
    nft_name_by_chain: HashMap<SharedName, String>,
    next_suffix: HashMap<String, u32>,
}

impl NftChainNames {
    /// Reserves the names of the table's chains, in order.
    pub fn new<'a>(chains: impl Iterator<Item = &'a SharedName>) -> Self {
        let mut names = NftChainNames::default();
        let chains: Vec<_> = chains.collect();
        // A name that can stay is not lost to another that is changed into it.
        for chain in &chains {
            if is_valid_nft_name(chain) {
                names.used_names.insert(chain.to_string());
                names.nft_name_by_chain.insert((*chain).clone(), chain.to_string());
            }
        }
        for chain in &chains {
            if !is_valid_nft_name(chain) {
                let name = names.make_unique(to_nft_identifier(chain));
                names.nft_name_by_chain.insert((*chain).clone(), name);
            }
        }
        names
    }

    /// nft's name of a chain.
    ///
    /// # Panics
    /// If the chain is not one of the table's.
    pub fn nft_chain_name(&self, name: &str) -> &str {
        self.nft_name_by_chain
            .get(name)
            .unwrap_or_else(|| panic!("chain {name} is not in the table"))
    }

    /// A name for a chain made of `chain`: `FORWARD.1`.
    pub fn fresh_chain_name(&mut self, chain: &str) -> String {
        let next = self.next_suffix.entry(chain.to_string()).or_insert(0);
        loop {
            *next += 1;
            let name = format!("{chain}.{next}");
            if self.used_names.insert(name.clone()) {
                return name;
            }
        }
    }

    fn make_unique(&mut self, name: String) -> String {
        if self.used_names.insert(name.clone()) {
            return name;
        }
        self.fresh_chain_name(&name)
    }
}

/// True if nft accepts the name unchanged.
fn is_valid_nft_name(name: &str) -> bool {
    name.len() <= MAX_GENERATED_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        && name.contains(|c: char| c.is_ascii_uppercase() || c == '_')
}

fn to_nft_identifier(name: &str) -> String {
    let mut out: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert_str(0, "c_");
    }
    out.truncate(MAX_GENERATED_NAME_BYTES);
    if !is_valid_nft_name(&out) {
        out.push('_');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_invalid_names_become_unique_nft_names() {
        let chains: Vec<SharedName> =
            ["INPUT", "reject", "dynamic", "a:b", "a~b", "reject_", "9to5", "cali-fw"]
                .map(SharedName::from)
                .into();
        let names = NftChainNames::new(chains.iter());
        assert_eq!(names.nft_chain_name("INPUT"), "INPUT");
        assert_eq!(names.nft_chain_name("reject_"), "reject_", "what can stay stays");
        assert_eq!(names.nft_chain_name("reject"), "reject_.1");
        assert_eq!(names.nft_chain_name("dynamic"), "dynamic_");
        assert_eq!((names.nft_chain_name("a:b"), names.nft_chain_name("a~b")), ("a_b", "a_b.1"));
        assert_eq!(names.nft_chain_name("9to5"), "c_9to5");
        assert_eq!(names.nft_chain_name("cali-fw"), "cali-fw_");
    }
}
