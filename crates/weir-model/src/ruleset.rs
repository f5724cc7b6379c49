//! Tables, chains and rules.

use std::fmt;

use crate::counters::Counters;
use crate::ipset::IpSet;
use crate::original_rule_index::CreditedOriginals;
use crate::rule_match::{BaseMatch, Match};
use crate::span::Span;
use crate::target::Target;
use crate::{Family, SharedName};

/// All that is in force on one host: both families and the sets they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Firewall {
    /// `iptables-save`.
    pub v4: Option<Ruleset>,
    /// `ip6tables-save`.
    pub v6: Option<Ruleset>,
    /// `ipset save`.
    pub sets: Vec<IpSet>,
}

impl Firewall {
    /// The ruleset of one family.
    pub fn ruleset(&self, family: Family) -> Option<&Ruleset> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    /// The rulesets that are there, IPv4 first.
    pub fn rulesets(&self) -> impl Iterator<Item = &Ruleset> {
        self.v4.iter().chain(self.v6.iter())
    }

    /// The set of that name.
    pub fn find_set(&self, name: &str) -> Option<&IpSet> {
        self.sets.iter().find(|s| &*s.name == name)
    }
}

/// One family's tables, in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Which tool's text it is: `iptables` or `ip6tables`.
    pub family: Family,
    /// The tables that are there.
    pub tables: Vec<Table>,
    /// Comment lines after the last table, without line ends.
    pub trailing_comments: Vec<String>,
}

impl Ruleset {
    /// No tables.
    pub fn new(family: Family) -> Self {
        Ruleset { family, tables: Vec::new(), trailing_comments: Vec::new() }
    }

    /// The table of that name.
    pub fn table(&self, name: &TableName) -> Option<&Table> {
        self.tables.iter().find(|t| &t.name == name)
    }

    /// Every rule with its table and chain, in order.
    pub fn rules_with_table_and_chain(&self) -> impl Iterator<Item = (&Table, &Chain, &Rule)> {
        self.tables
            .iter()
            .flat_map(|t| t.chains.iter().flat_map(move |c| c.rules.iter().map(move |r| (t, c, r))))
    }
}

/// A table: chains that one hook walk may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// Chains in the order of the text; built-in chains have a [`Policy`].
    pub chains: Vec<Chain>,
    /// Comment lines before the table's first line.
    pub leading_comments: Vec<String>,
    /// Comment lines before its `COMMIT`.
    pub trailing_comments: Vec<String>,
}

impl Table {
    /// The chain of that name. Linear; walks that jump a lot index the chains first.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|c| &*c.name == name)
    }
}

/// The five tables of iptables, in the order in which a packet traverses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableName {
    /// Before conntrack.
    Raw,
    /// Alterations.
    Mangle,
    /// Address translation: sees the first packet of a connection.
    Nat,
    /// The filter.
    Filter,
    /// Mandatory access control marks.
    Security,
}

impl TableName {
    /// All five.
    pub const ALL: [TableName; 5] =
        [TableName::Raw, TableName::Mangle, TableName::Nat, TableName::Filter, TableName::Security];

    /// The name that the tools use.
    pub const fn as_str(self) -> &'static str {
        match self {
            TableName::Raw => "raw",
            TableName::Mangle => "mangle",
            TableName::Nat => "nat",
            TableName::Filter => "filter",
            TableName::Security => "security",
        }
    }

    /// The table of that name.
    pub fn parse(s: &str) -> Option<Self> {
        TableName::ALL.into_iter().find(|t| t.as_str() == s)
    }

    /// The hooks that the table is registered at, which are its built-in chains
    /// (net/ipv4/netfilter/iptable_*.c).
    pub const fn hooks(self) -> &'static [Hook] {
        use Hook::{Forward, Input, Output, Postrouting, Prerouting};
        match self {
            TableName::Raw => &[Prerouting, Output],
            TableName::Mangle => &[Prerouting, Input, Forward, Output, Postrouting],
            TableName::Nat => &[Prerouting, Input, Output, Postrouting],
            TableName::Filter | TableName::Security => &[Input, Forward, Output],
        }
    }

    /// Its priority at a hook: lower runs first (include/uapi/linux/netfilter_ipv4.h).
    pub const fn priority(self, hook: Hook) -> i32 {
        match self {
            TableName::Raw => -300,
            TableName::Mangle => -150,
            TableName::Nat => match hook {
                Hook::Prerouting | Hook::Output | Hook::Forward => -100,
                Hook::Input | Hook::Postrouting => 100,
            },
            TableName::Filter => 0,
            TableName::Security => 50,
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The points of a packet's path that have chains, with the kernel's numbers (`NF_INET_*` of
/// include/uapi/linux/netfilter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// After reception, before routing.
    Prerouting = 0,
    /// To this host.
    Input = 1,
    /// Through this host.
    Forward = 2,
    /// From this host.
    Output = 3,
    /// Before transmission.
    Postrouting = 4,
}

impl Hook {
    /// All hooks, by number.
    pub const ALL: [Hook; 5] =
        [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];

    /// The kernel's number of the hook, 0 to 4.
    pub const fn number(self) -> usize {
        self as usize
    }

    /// The built-in chain's name.
    pub const fn chain_name(self) -> &'static str {
        match self {
            Hook::Prerouting => "PREROUTING",
            Hook::Input => "INPUT",
            Hook::Forward => "FORWARD",
            Hook::Output => "OUTPUT",
            Hook::Postrouting => "POSTROUTING",
        }
    }

    /// The hook of a built-in chain's name.
    pub fn from_chain_name(name: &str) -> Option<Self> {
        Hook::ALL.into_iter().find(|h| h.chain_name() == name)
    }
}

/// Longest name of a chain in bytes: the kernel's field has 29 with the zero byte
/// (`XT_EXTENSION_MAXNAMELEN`).
pub const CHAIN_NAME_MAX_BYTES: usize = 28;

/// A chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its name.
    pub name: SharedName,
    /// The outcome of packets that no rule decided; only built-in chains have one.
    pub policy: Option<Policy>,
    /// The policy's counters, where the text has them.
    pub counters: Option<Counters>,
    /// The rules, first tried first.
    pub rules: Vec<Rule>,
    /// The position of the chain's line.
    pub span: Span,
    /// Comment lines before the chain's line.
    pub leading_comments: Vec<String>,
}

impl Chain {
    /// An empty chain: built-in where `policy` is given.
    pub fn new(name: impl Into<SharedName>, policy: Option<Policy>) -> Self {
        Chain {
            name: name.into(),
            policy,
            counters: None,
            rules: Vec::new(),
            span: Span::NONE,
            leading_comments: Vec::new(),
        }
    }
}

/// Policy of a built-in chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Let it pass.
    Accept,
    /// Drop it.
    Drop,
}

/// A rule: if all of its matches hold, its counter counts and its target acts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The original rules whose counters this one's counter is part of. A rule as read credits
    /// itself; a jump that a pass made credits none.
    pub credited_originals: CreditedOriginals,
    /// The header tests that iptables evaluates first (`-s -d -i -o -p -f`).
    pub base: BaseMatch,
    /// The other matches, evaluated left to right.
    pub matches: Vec<Match>,
    /// What happens when all of them hold.
    pub target: Target,
    /// `-c` counters, where the text has them.
    pub counters: Option<Counters>,
    /// Where the rule is in its text.
    pub span: Span,
    /// The position of each of `matches` (same length), then of the target.
    pub match_and_target_spans: Vec<Span>,
    /// Comment lines before the rule's line.
    pub leading_comments: Vec<String>,
}

impl Rule {
    /// A rule without tests.
    pub fn unconditional(target: Target) -> Self {
        Rule {
            credited_originals: CreditedOriginals::new(),
            base: BaseMatch::default(),
            matches: Vec::new(),
            target,
            counters: None,
            span: Span::NONE,
            match_and_target_spans: Vec::new(),
            leading_comments: Vec::new(),
        }
    }
}
