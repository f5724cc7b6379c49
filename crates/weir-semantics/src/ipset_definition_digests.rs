//! Digests of ipset definitions: what a set is and what it holds.
//!
//! Whether a packet is in a set that changes while packets pass is a question to the oracle, and so
//! is membership that the packet does not determine. The answer depends on the set that the host
//! starts with: two rulesets ask the same question only if they define the set in the same way.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use weir_model::ipset::SetOption;
use weir_model::rule_match::SetMatch;
use weir_model::{
    Element, ElementPart, IpSet, Match, Rule, effect::list_target_sets_with_write_flags,
};

use crate::question_digest::digest_debug_text;

/// The digests of the sets of a firewall, each computed when it is first needed.
///
/// Part of a definition are type, family, options, default timeout, and the elements with their
/// timeouts, counters and skbinfo values; of a list also the definitions of its members. Not part
/// of it are comments, the order of elements (except in a list), and options that only size or seed
/// the hash table.
#[derive(Clone, Debug)]
pub struct IpsetDefinitionDigests<'f> {
    sets: &'f [IpSet],
    digests: Vec<OnceLock<u64>>,
}

impl<'f> IpsetDefinitionDigests<'f> {
    /// Of the sets of a firewall.
    pub fn new(sets: &'f [IpSet]) -> IpsetDefinitionDigests<'f> {
        IpsetDefinitionDigests { sets, digests: sets.iter().map(|_| OnceLock::new()).collect() }
    }

    /// The digest of a set's definition; `None` if the firewall does not define it.
    pub fn digest_by_name(&self, name: &str) -> Option<u64> {
        let index = self.sets.iter().position(|s| &*s.name == name)?;
        Some(*self.digests[index].get_or_init(|| self.compute_definition_digest(index, true)))
    }

    /// The digest of the question whether a packet is in the set of a match. With `negated`, a
    /// match and its negation are different questions; without, they are one.
    pub fn digest_membership_question(&self, m: &SetMatch, negated: bool) -> u64 {
        let m = Match::Set(SetMatch { negated, ..m.clone() });
        let Match::Set(set) = &m else { unreachable!("built above") };
        match self.digest_by_name(&set.name) {
            None => digest_debug_text(&m),
            Some(definition) => digest_debug_text(&(&m, definition)),
        }
    }

    /// The digest of the definitions of the sets that the target of a rule names; 0 if it names
    /// none that the firewall defines.
    pub fn digest_target_sets(&self, rule: &Rule) -> u64 {
        let named = list_target_sets_with_write_flags(&rule.target);
        let defined: Vec<u64> =
            named.iter().filter_map(|(name, _)| self.digest_by_name(name)).collect();
        if defined.is_empty() { 0 } else { digest_debug_text(&defined) }
    }

    /// `with_members`: a list is hashed with the definitions of its members, which are no lists.
    fn compute_definition_digest(&self, index: usize, with_members: bool) -> u64 {
        let set = &self.sets[index];
        let mut hasher = new_deterministic_hasher();
        (&set.kind, set.family).hash(&mut hasher);
        let mut options: Vec<String> =
            set.options.iter().filter(|o| affects_behaviour(o)).map(|o| format!("{o:?}")).collect();
        options.sort();
        options.hash(&mut hasher);
        set.elements.len().hash(&mut hasher);
        // The same in every order, because sets have none.
        let mut sum: u64 = 0;
        for element in set.elements.iter() {
            let digest = digest_element(element);
            sum = sum.wrapping_add(digest);
            for part in &element.parts {
                let ElementPart::MemberSet(name) = part else { continue };
                digest.hash(&mut hasher);
                let member = self.sets.iter().position(|s| s.name == *name);
                if let (Some(member), true) = (member, with_members) {
                    self.compute_definition_digest(member, false).hash(&mut hasher);
                }
            }
        }
        sum.hash(&mut hasher);
        hasher.finish()
    }
}

/// Options that neither size nor seed the hash table, and keep no comments.
fn affects_behaviour(option: &SetOption) -> bool {
    !matches!(
        option,
        SetOption::HashSize(_)
            | SetOption::BucketSize(_)
            | SetOption::InitVal(_)
            | SetOption::Comment
    )
}

fn digest_element(element: &Element) -> u64 {
    let Element {
        parts,
        nomatch,
        timeout,
        counters,
        other_words,
        comment: _,
        span: _,
        credited_originals: _,
    } = element;
    let mut hasher = new_deterministic_hasher();
    (parts, nomatch, timeout, counters, other_words).hash(&mut hasher);
    hasher.finish()
}

/// The same in every process.
fn new_deterministic_hasher() -> DefaultHasher {
    BuildHasherDefault::<DefaultHasher>::default().build_hasher()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(options: Vec<SetOption>, elements: &[(u128, Option<u32>)]) -> IpSet {
        use weir_model::ipset::{SetDataType, SetKind, SetStorage};
        let element = |(addr, timeout): &(u128, Option<u32>)| Element {
            parts: vec![ElementPart::AddrOrPrefix { addr: weir_model::Addr(*addr), len: 32 }],
            nomatch: false,
            timeout: *timeout,
            counters: None,
            comment: None,
            other_words: Vec::new(),
            span: weir_model::Span::NONE,
            credited_originals: Default::default(),
        };
        IpSet {
            name: "s".into(),
            kind: SetKind { storage: SetStorage::Hash, data_types: vec![SetDataType::Ip] },
            family: Some(weir_model::Family::V4),
            options,
            elements: std::sync::Arc::new(elements.iter().map(element).collect()),
            span: weir_model::Span::NONE,
            leading_comments: Vec::new(),
        }
    }

    fn digest(options: Vec<SetOption>, elements: &[(u128, Option<u32>)]) -> u64 {
        let sets = [set(options, elements)];
        IpsetDefinitionDigests::new(&sets).digest_by_name("s").expect("the set is defined")
    }

    #[test]
    fn element_order_and_hash_size_do_not_change_the_digest() {
        let one = digest(vec![SetOption::HashSize(1024)], &[(1, None), (2, None)]);
        assert_eq!(one, digest(vec![SetOption::InitVal(7)], &[(2, None), (1, None)]));
        assert_ne!(one, digest(vec![], &[(2, None), (3, None)]));
    }

    #[test]
    fn timeouts_of_set_and_elements_change_the_digest() {
        let timeout = |seconds| vec![SetOption::DefaultElementTimeout(seconds)];
        let one = digest(timeout(600), &[(1, Some(5))]);
        assert_eq!(one, digest(timeout(600), &[(1, Some(5))]));
        assert_ne!(one, digest(timeout(601), &[(1, Some(5))]));
        assert_ne!(one, digest(timeout(600), &[(1, Some(6))]));
        assert_ne!(one, digest(vec![], &[(1, Some(5))]));
    }
}
