//! Rules known by what they say: a key that stays when others come and go.
//!
//! Counters that outlive a reload, and everything else that is kept about a rule in addition to its
//! text, are kept under this key. It is a digest of family, table, chain and the rule as the tools
//! print it, and a number among equals: two equal rules of a chain differ in nothing but their
//! order.

use std::collections::HashMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::counter_credit::iptables_tool_name;
use crate::rule_id::RuleId;
use crate::ruleset::{Rule, Ruleset};

/// A rule by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleContentKey {
    /// The first half of the SHA-256 of where the rule stands and what it says.
    pub digest: u128,
    /// How many equal rules stand before it in its chain.
    pub equal_rules_before: u32,
}

impl fmt::Display for RuleContentKey {
    /// 32 hexadecimal digits, and the ordinal where there are equal rules before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.digest)?;
        match self.equal_rules_before {
            0 => Ok(()),
            n => write!(f, "+{n}"),
        }
    }
}

/// The keys of a ruleset's rules, in order. `text` prints a rule in its canonical form, without
/// counters; no two rules that differ may be printed alike.
pub fn compute_rule_content_keys(
    ruleset: &Ruleset,
    text: impl Fn(&Rule) -> String,
) -> impl Iterator<Item = (RuleContentKey, RuleId, &Rule)> {
    let mut seen: HashMap<u128, u32> = HashMap::new();
    ruleset.rules_with_ids().map(move |(id, rule)| {
        let digest = digest_rule_in_chain(&id, &text(rule));
        let count = seen.entry(digest).or_default();
        let ordinal = *count;
        *count += 1;
        (RuleContentKey { digest, equal_rules_before: ordinal }, id, rule)
    })
}

fn digest_rule_in_chain(id: &RuleId, text: &str) -> u128 {
    let mut hash = Sha256::new();
    // No part holds a zero byte, so that no two lists of parts are one text.
    for part in [iptables_tool_name(id.family), id.table.as_str(), &id.chain, text] {
        hash.update(part);
        hash.update([0]);
    }
    let hash = hash.finalize();
    hash[..16].iter().fold(0, |digest, byte| digest << 8 | u128::from(*byte))
}
