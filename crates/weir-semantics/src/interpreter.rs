//! The reference interpreter: one packet through a ruleset, as the kernel's legacy iptables does.
//!
//! [`Interpreter::new`] lowers every rule once. [`Interpreter::evaluate_journey`] then evaluates
//! packets:
//!
//! - *forward*: PREROUTING raw, mangle, nat; FORWARD mangle, filter, security; POSTROUTING mangle,
//!   nat;
//! - *input*: PREROUTING raw, mangle, nat; INPUT mangle, filter, security, nat;
//! - *output*: OUTPUT raw, mangle, nat, filter, security; POSTROUTING mangle, nat.
//!
//! At each hook, rules see what the kernel knows there: no output device before routing, none at
//! INPUT, no input device on a local packet; no conntrack entry in the raw table (which runs before
//! conntrack, unless the packet comes over `lo`, or is a reply that the host sends, and already has
//! one); a TTL that was decremented if the packet is forwarded; no later IPv4 fragment at INPUT;
//! marks, translated addresses and other changes as earlier tables left them. The caller determines
//! routing: `iif` and `oif` of the packet say where it comes from and where it goes.
//!
//! A packet is the first of its connection if its state is NEW (or RELATED, but not an ICMP error):
//! then, and if conntrack is in use, it traverses the nat table, once for each of the two
//! translations. Packets of a connection that is already translated do not: their destination is
//! the oracle's ([`Oracle::existing_nat_destination`](crate::Oracle::existing_nat_destination)).

mod chain_skip_index;
mod field_test_evaluation;
mod journey;
mod nat_translation;
mod packet_view;
mod rule_lowering;
mod rule_question;
mod single_rule;
mod table_walk;
mod walk_observer;

use std::collections::HashMap;

use weir_model::effect::{can_mangle_reroute_local_packets, has_conntrack_enabling_rule};
use weir_model::{ChangingSets, Family, Firewall, IpSet, Ruleset, TableName};

use self::chain_skip_index::TableSkipIndexes;
use self::rule_lowering::{KnownIpsets, LoweredTable};
use crate::ipset_definition_digests::IpsetDefinitionDigests;
use crate::set_membership::IpsetIndex;
use crate::shared_object_config_digests::SharedObjectConfigDigests;

pub use self::nat_translation::default_nat_mapping;
pub use self::single_rule::SingleRuleOutcome;
pub(crate) use self::walk_observer::{FailedOrHotdropTest, WalkObserver};

/// A firewall, ready for packets.
#[derive(Debug)]
pub struct Interpreter<'f> {
    /// Tables by family, then by [`TableName`].
    tables: [[Option<(LoweredTable<'f>, TableSkipIndexes)>; 5]; 2],
    sets: Vec<IpsetIndex<'f>>,
    /// Whether conntrack is in use, by family.
    uses_conntrack_by_family: [bool; 2],
    shared_object_config_digests: SharedObjectConfigDigests,
    /// Whether the mangle table may change the route of local packets, by family.
    may_reroute_local_packets: [bool; 2],
}

impl<'f> Interpreter<'f> {
    /// Indexes chains and sets, lowers every rule once.
    ///
    /// [`Oracle`](crate::Oracle) answers for sets that rules name and the firewall does not have.
    ///
    /// # Panics
    /// If a rule jumps to a chain that its table does not have; no parser accepts such a ruleset.
    pub fn new(firewall: &'f Firewall) -> Self {
        Self::from_rulesets_and_sets(
            [firewall.v4.as_ref(), firewall.v6.as_ref()],
            &firewall.sets,
            &ChangingSets::from_firewall(firewall),
        )
    }

    /// The same for a firewall that is compared with another: [`Oracle`](crate::Oracle) also
    /// answers here for sets that rules of the other change, and is asked about routes as if each
    /// had the mangle table of both.
    pub fn new_for_comparison_with(firewall: &'f Firewall, other: &Firewall) -> Self {
        let changing =
            ChangingSets::from_firewall(firewall).union(ChangingSets::from_firewall(other));
        let mut interpreter = Self::from_rulesets_and_sets(
            [firewall.v4.as_ref(), firewall.v6.as_ref()],
            &firewall.sets,
            &changing,
        );
        for ruleset in other.rulesets() {
            interpreter.may_reroute_local_packets[family_index(ruleset.family)] |=
                can_mangle_reroute_local_packets(ruleset);
        }
        interpreter
    }

    /// The same for a firewall's parts: IPv4 and IPv6 rulesets, sets, and which of them change.
    ///
    /// # Panics
    /// As [`Interpreter::new`].
    pub fn from_rulesets_and_sets(
        rulesets: [Option<&'f Ruleset>; 2],
        sets: &'f [IpSet],
        changing: &ChangingSets,
    ) -> Self {
        let set_at: HashMap<&str, usize> =
            sets.iter().enumerate().map(|(i, s)| (&*s.name, i)).collect();
        let definitions = IpsetDefinitionDigests::new(sets);
        let known = KnownIpsets {
            index_by_name: &set_at,
            modified_by_rules: changing,
            definitions: &definitions,
        };
        let tables = rulesets.map(|ruleset| {
            TableName::ALL.map(|name| {
                let ruleset = ruleset?;
                let table = LoweredTable::new(ruleset.table(&name)?, ruleset.family, known);
                let skip_indexes = TableSkipIndexes::new(&table);
                Some((table, skip_indexes))
            })
        });
        let sets = sets.iter().map(|s| IpsetIndex::new(s, &set_at)).collect();
        let conntrack = rulesets.map(|ruleset| ruleset.is_some_and(has_conntrack_enabling_rule));
        let configured =
            SharedObjectConfigDigests::from_rulesets(rulesets.iter().copied().flatten());
        Interpreter {
            tables,
            sets,
            uses_conntrack_by_family: conntrack,
            shared_object_config_digests: configured,
            may_reroute_local_packets: rulesets
                .map(|ruleset| ruleset.is_some_and(can_mangle_reroute_local_packets)),
        }
    }

    /// Whether conntrack is in use: some rule of the family's ruleset requires it.
    pub fn is_conntrack_used_by_family(&self, family: Family) -> bool {
        self.uses_conntrack_by_family[family_index(family)]
    }

    /// Treats conntrack as in use in both families, whatever the rulesets require, because other
    /// programs on the host use it.
    pub fn with_conntrack_in_use(mut self) -> Self {
        self.uses_conntrack_by_family = [true; 2];
        self
    }

    pub(crate) fn lowered_table(
        &self,
        family: Family,
        name: TableName,
    ) -> Option<&LoweredTable<'f>> {
        self.table_with_skip_indexes(family, name).map(|(table, _)| table)
    }

    fn table_with_skip_indexes(
        &self,
        family: Family,
        name: TableName,
    ) -> Option<&(LoweredTable<'f>, TableSkipIndexes)> {
        self.tables[family_index(family)][name as usize].as_ref()
    }
}

fn family_index(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}
