//! The reference interpreter: one packet through a ruleset, as the kernel's legacy iptables does.
//!
//! [`Interpreter::new`] lowers every rule once. [`Interpreter::journey`] then evaluates packets:
//!
//! - *forward*: PREROUTING raw, mangle, nat; FORWARD mangle, filter, security; POSTROUTING mangle,
//!   nat;
//! - *input*: PREROUTING raw, mangle, nat; INPUT mangle, filter, security, nat;
//! - *output*: OUTPUT raw, mangle, nat, filter, security; POSTROUTING mangle, nat.
//!
//! At each hook, rules see what the kernel knows there: no output device before routing, none at
//! INPUT, no input device on a local packet; no conntrack entry in the raw table (which runs before
//! conntrack, unless the packet comes over `lo` and already has one); a TTL that was decremented if
//! the packet is forwarded; no IPv4 fragment at INPUT; marks, translated addresses and other
//! changes as earlier tables left them. The caller determines routing: `iif` and `oif` of the
//! packet say where it comes from and where it goes.
//!
//! A packet is the first of its connection if its state is NEW (or RELATED, but not an ICMP error):
//! then, and if conntrack is in use, it traverses the nat table, once for each of the two
//! translations. Packets of a connection that is already translated are not rewritten: the caller
//! gives them as the tables see them.

mod field_test;
mod journey;
mod lower;
mod nat;
mod observer;
mod view;
mod walk;

use std::collections::HashMap;

use weir_model::effect::needs_conntrack;
use weir_model::{ChangingSets, Family, Firewall, IpSet, Ruleset, TableName};

use self::lower::{KnownSets, TableIndex};
use crate::configured::Configured;
use crate::sets::SetIndex;

pub use self::nat::usual_choice;
pub(crate) use self::observer::{Failed, Observer};

/// A firewall, ready for packets.
#[derive(Debug)]
pub struct Interpreter<'f> {
    /// Tables by family, then by [`TableName`].
    tables: [[Option<TableIndex<'f>>; 5]; 2],
    sets: Vec<SetIndex<'f>>,
    /// Whether conntrack is in use, by family.
    conntrack: [bool; 2],
    configured: Configured,
}

impl<'f> Interpreter<'f> {
    /// Indexes chains and sets, lowers every rule once.
    ///
    /// [`Oracle`](crate::Oracle) answers for sets that rules name and the firewall does not have.
    ///
    /// # Panics
    /// If a rule jumps to a chain that its table does not have; no parser accepts such a ruleset.
    pub fn new(firewall: &'f Firewall) -> Self {
        Self::of(
            [firewall.v4.as_ref(), firewall.v6.as_ref()],
            &firewall.sets,
            &ChangingSets::of(firewall),
        )
    }

    /// The same for a firewall that is compared with another: [`Oracle`](crate::Oracle) also
    /// answers here for sets that rules of the other change.
    pub fn comparing(firewall: &'f Firewall, other: &Firewall) -> Self {
        let changing = ChangingSets::of(firewall).union(ChangingSets::of(other));
        Self::of([firewall.v4.as_ref(), firewall.v6.as_ref()], &firewall.sets, &changing)
    }

    /// The same for a firewall's parts: IPv4 and IPv6 rulesets, sets, and which of them change.
    ///
    /// # Panics
    /// As [`Interpreter::new`].
    pub fn of(
        rulesets: [Option<&'f Ruleset>; 2],
        sets: &'f [IpSet],
        changing: &ChangingSets,
    ) -> Self {
        let set_at: HashMap<&str, usize> =
            sets.iter().enumerate().map(|(i, s)| (&*s.name, i)).collect();
        let known = KnownSets { at: &set_at, changing };
        let tables = rulesets.map(|ruleset| {
            TableName::ALL.map(|name| {
                let ruleset = ruleset?;
                Some(TableIndex::new(ruleset.table(&name)?, ruleset.family, known))
            })
        });
        let sets = sets.iter().map(|s| SetIndex::new(s, &set_at)).collect();
        let conntrack = rulesets.map(|ruleset| {
            ruleset.is_some_and(|all| all.rules().any(|(_, _, r)| needs_conntrack(r)))
        });
        let configured = Configured::of(rulesets.iter().copied().flatten());
        Interpreter { tables, sets, conntrack, configured }
    }

    /// Whether conntrack is in use: some rule of the family's ruleset requires it.
    pub fn conntrack_in_use(&self, family: Family) -> bool {
        self.conntrack[family_index(family)]
    }

    /// Treats conntrack as in use in both families, whatever the rulesets require, because other
    /// programs on the host use it.
    pub fn with_conntrack(mut self) -> Self {
        self.conntrack = [true; 2];
        self
    }

    pub(crate) fn table(&self, family: Family, name: TableName) -> Option<&TableIndex<'f>> {
        self.tables[family_index(family)][name as usize].as_ref()
    }
}

fn family_index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}
