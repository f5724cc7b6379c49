//! Which counters of a form add up to which original rule.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_packet::Family;

/// The program whose rules are those of a family: `iptables` or `ip6tables`. Counters and places
/// of rules begin with it.
pub const fn iptables_tool_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// For each original rule or policy the counters whose sum is its own counter. Keys are places with
/// the tool: `iptables/filter/FORWARD/3`, `ip6tables/filter/FORWARD/policy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CountersByOriginalRule(pub BTreeMap<String, Vec<CounterLocation>>);

/// A counter that some tool can read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum CounterLocation {
    /// A rule of `iptables-save -c` (or `ip6tables-save -c`).
    Rule {
        /// `iptables` or `ip6tables`.
        tool: String,
        /// Table.
        table: String,
        /// Chain.
        chain: String,
        /// Number from 1.
        number: u32,
    },
    /// A policy of `iptables-save -c`.
    Policy {
        /// `iptables` or `ip6tables`.
        tool: String,
        /// Table.
        table: String,
        /// Chain.
        chain: String,
    },
    /// An element of `ipset save`.
    Element {
        /// Set.
        set: String,
        /// The element as `ipset save` prints it.
        element: String,
    },
    /// The `counter` statement of a rule of `nft list ruleset`.
    NftRule {
        /// `ip` or `ip6`.
        family: String,
        /// Table.
        table: String,
        /// Chain.
        chain: String,
        /// Position in the chain, from 1.
        number: u32,
    },
    /// The `counter` of an element of an nft set or map.
    NftElement {
        /// `ip` or `ip6`.
        family: String,
        /// Table.
        table: String,
        /// Set or map.
        set: String,
        /// The key as `nft list ruleset` prints it.
        element: String,
    },
}
