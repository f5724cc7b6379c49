//! Sets of packets.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::rule_match::SetMatch;
use weir_model::{
    ChangingSets, Family, Firewall, Hook, IpSet, Match, Packet, Rule,
    lower_to_tests_with_match_index,
};
use weir_semantics::ipset_definition_digests::IpsetDefinitionDigests;

use crate::bdd::node_store::{DiagramRef, LimitReached, NodeStore};
use crate::bdd::operators::FirstNonzeroOperator;
use crate::packet_sets::device_name_classes::DeviceNameClasses;
use crate::packet_sets::free_variable::{FreeVariable, FreeVariableTable};
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_bit_codec::encode_packet;
use crate::packet_sets::possible_packets::build_packets_possible_anywhere;
use crate::packet_sets::presence_and_field_predicates::PacketPartPresence;
use crate::packet_sets::variable_layout::{VariableLayout, VariableOrder};

/// Which membership diagram: side, set, directions, place.
type IpsetMembershipKey = (usize, usize, Vec<bool>, HookContext);

/// How a space is made.
#[derive(Clone, Copy, Debug)]
pub struct PacketSpaceOptions {
    /// The order in which addresses and ports are tested.
    pub order: VariableOrder,
    /// Memory that the diagrams may take, in bytes.
    pub memory_bytes: usize,
}

impl Default for PacketSpaceOptions {
    /// Destination first, 1 GiB.
    fn default() -> Self {
        PacketSpaceOptions { order: VariableOrder::default(), memory_bytes: 1 << 30 }
    }
}

/// A set of packets, and of answers to what packets do not say. Of the [`PacketSpace`] that made
/// it, and void after [`PacketSpace::retain_packet_sets`] unless kept.
///
/// Two equal values are the same set. Two different ones may still hold the same packets, since
/// there are combinations of fields that no packet has: [`PacketSpace::has_same_possible_packets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketSet(pub(crate) DiagramRef);

impl PacketSet {
    /// No packet.
    pub const NONE: PacketSet = PacketSet(DiagramRef::ZERO);
    /// All packets.
    pub const ALL: PacketSet = PacketSet(DiagramRef::ONE);
}

/// Sets of packets of one family, as the rules and sets of some firewalls distinguish them.
///
/// A rule's tests become a [`PacketSet`] by
/// [`packets_matching_rule`](PacketSpace::packets_matching_rule); sets are combined, compared and
/// counted; [`witness`](PacketSpace::witness) picks a packet and
/// [`largest_regions`](PacketSpace::largest_regions) describes a set in words. Tests that the
/// packet does not determine (owner, an unknown set) are variables in addition to its fields: one
/// per content and hook. A stateful test is a variable of its rule alone, so it is never treated as
/// equal to another one.
///
/// A union of many sets is [`union_all`](PacketSpace::union_all), which is far faster than one by
/// one.
///
/// # Errors
/// Every operation fails with [`LimitReached`] when the memory limit is reached. The space stays
/// usable.
#[derive(Debug)]
pub struct PacketSpace<'f> {
    pub(crate) store: NodeStore,
    pub(crate) layout: VariableLayout,
    pub(crate) presence: PacketPartPresence,
    pub(crate) possible_packets: DiagramRef,
    pub(crate) free_variables: FreeVariableTable,
    /// The ipsets of each firewall, and whose are looked into.
    pub(crate) ipsets_by_firewall: Vec<&'f [IpSet]>,
    ipset_definitions_by_firewall: Vec<IpsetDefinitionDigests<'f>>,
    pub(crate) active_firewall: usize,
    /// The sets whose content rules of some firewall may change.
    changing_ipsets: ChangingSets,
    /// All firewalls have the same sets.
    firewalls_have_same_ipsets: bool,
    pub(crate) ipset_memberships: HashMap<IpsetMembershipKey, DiagramRef>,
    /// Ipsets with more elements are replaced by a sample of this size; `None`: all elements are
    /// members.
    ipset_sample_size: Option<usize>,
}

/// What the spaces of some firewalls have in common, for several of them.
#[derive(Debug)]
pub(crate) struct PacketSpaceBasis<'f> {
    family: Family,
    device_names: DeviceNameClasses,
    ipsets_by_firewall: Vec<&'f [IpSet]>,
    ipset_definitions_by_firewall: Vec<IpsetDefinitionDigests<'f>>,
    changing_ipsets: ChangingSets,
    pub firewalls_have_same_ipsets: bool,
}

impl<'f> PacketSpaceBasis<'f> {
    pub fn of_firewalls(family: Family, firewalls: &[&'f Firewall]) -> PacketSpaceBasis<'f> {
        let changing = firewalls.iter().map(|f| ChangingSets::from_firewall(f));
        PacketSpaceBasis {
            family,
            device_names: DeviceNameClasses::of_firewalls(firewalls, family),
            ipsets_by_firewall: firewalls.iter().map(|f| &f.sets[..]).collect(),
            ipset_definitions_by_firewall: firewalls
                .iter()
                .map(|f| IpsetDefinitionDigests::new(&f.sets))
                .collect(),
            changing_ipsets: changing.fold(ChangingSets::default(), ChangingSets::union),
            firewalls_have_same_ipsets: firewalls.windows(2).all(|w| w[0].sets == w[1].sets),
        }
    }

    /// The same, where devices of these names, and prefixes (true), are distinguished in addition.
    pub fn of_firewalls_and_devices(
        family: Family,
        firewalls: &[&'f Firewall],
        devices: &[(String, bool)],
    ) -> PacketSpaceBasis<'f> {
        let device_names = DeviceNameClasses::of_firewalls_and_names(firewalls, family, devices);
        PacketSpaceBasis { device_names, ..PacketSpaceBasis::of_firewalls(family, firewalls) }
    }

    /// The classes of devices that rules distinguish.
    pub fn device_names(&self) -> &DeviceNameClasses {
        &self.device_names
    }

    /// The sets of each firewall.
    pub fn ipsets_by_firewall(&self) -> &[&'f [IpSet]] {
        &self.ipsets_by_firewall
    }

    /// The sets that rules of some firewall may change.
    pub fn changing_ipsets(&self) -> &ChangingSets {
        &self.changing_ipsets
    }

    pub fn make_space(&self, options: PacketSpaceOptions) -> Result<PacketSpace<'f>, LimitReached> {
        let layout = VariableLayout::new(self.family, options.order, self.device_names.clone());
        let mut store = NodeStore::new(options.memory_bytes);
        let presence = PacketPartPresence::new(&mut store, &layout)?;
        let possible = build_packets_possible_anywhere(&mut store, &layout)?;
        Ok(PacketSpace {
            store,
            layout,
            presence,
            possible_packets: possible,
            free_variables: FreeVariableTable::default(),
            ipsets_by_firewall: self.ipsets_by_firewall.clone(),
            ipset_definitions_by_firewall: self.ipset_definitions_by_firewall.clone(),
            active_firewall: 0,
            changing_ipsets: self.changing_ipsets.clone(),
            firewalls_have_same_ipsets: self.firewalls_have_same_ipsets,
            ipset_memberships: HashMap::new(),
            ipset_sample_size: None,
        })
    }
}

impl<'f> PacketSpace<'f> {
    /// The space where ipsets with more than so many elements have only a sample of them. Its sets
    /// of packets are guesses: good to pick packets that an interpreter then checks.
    pub(crate) fn with_sampled_ipsets(self, sample_size: usize) -> PacketSpace<'f> {
        PacketSpace { ipset_sample_size: Some(sample_size), ..self }
    }

    /// What the members of ipsets are sampled to, if they are.
    pub(crate) fn ipset_sample_size(&self) -> Option<usize> {
        self.ipset_sample_size
    }

    /// A space for the rules of a firewall.
    pub fn new(family: Family, firewall: &'f Firewall) -> PacketSpace<'f> {
        PacketSpace::for_firewalls(family, &[firewall], PacketSpaceOptions::default())
            .expect("the fields of a packet take less than the usual limit")
    }

    /// A space for the rules of several firewalls. Sets are those of the first until
    /// [`select_ipsets_of_firewall`](PacketSpace::select_ipsets_of_firewall) says otherwise.
    ///
    /// # Errors
    /// [`LimitReached`] if not even the fields of a packet fit into the memory that is allowed.
    pub fn for_firewalls(
        family: Family,
        firewalls: &[&'f Firewall],
        options: PacketSpaceOptions,
    ) -> Result<PacketSpace<'f>, LimitReached> {
        PacketSpaceBasis::of_firewalls(family, firewalls).make_space(options)
    }

    /// From now on, sets are those of the firewall of that index.
    ///
    /// # Panics
    /// Where the space was made for fewer firewalls.
    pub fn select_ipsets_of_firewall(&mut self, firewall: usize) {
        assert!(
            firewall < self.ipsets_by_firewall.len(),
            "the space knows {} firewalls",
            self.ipsets_by_firewall.len()
        );
        self.active_firewall = firewall;
    }

    /// Whether all firewalls have the same sets.
    pub(crate) fn firewalls_have_same_ipsets(&self) -> bool {
        self.firewalls_have_same_ipsets
    }

    /// The first firewall with the sets that are looked into.
    pub(crate) fn representative_firewall_for_ipsets(&self) -> usize {
        if self.firewalls_have_same_ipsets { 0 } else { self.active_firewall }
    }

    /// Whether rules may change the set of a match.
    pub(crate) fn can_ipset_change(&self, m: &SetMatch) -> bool {
        self.changing_ipsets.contains(&m.name)
    }

    /// The digest of the question whether a packet is in the set of a match, for the firewall whose
    /// sets are looked into: the same for another firewall only if it defines the set alike.
    pub(crate) fn digest_membership_question(&self, m: &SetMatch, negated: bool) -> u64 {
        self.ipset_definitions_by_firewall[self.active_firewall]
            .digest_membership_question(m, negated)
    }

    /// Which of two rulesets defines the set of a question in this way; nothing if both do.
    pub(crate) fn name_ruleset_of_set_question(&self, m: &SetMatch, digest: u64) -> &'static str {
        let [first, second] = &self.ipset_definitions_by_firewall[..] else { return "" };
        let asks = |definitions: &IpsetDefinitionDigests<'_>| {
            [false, true]
                .iter()
                .any(|not| definitions.digest_membership_question(m, *not) == digest)
        };
        match (asks(first), asks(second)) {
            (true, false) => " (the set of the first ruleset)",
            (false, true) => " (the set of the second ruleset)",
            _ => "",
        }
    }

    /// The family of all packets here.
    pub fn family(&self) -> Family {
        self.layout.family
    }

    /// Packets that match all tests of a rule. The order of evaluation does not matter here: a
    /// packet that a truncated header drops is not among them.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn packets_matching_rule(
        &mut self,
        rule: &Rule,
        at: HookContext,
    ) -> Result<PacketSet, LimitReached> {
        let state_id = compute_state_id_from_original_rule(rule);
        let mut all = DiagramRef::ONE;
        for (from, test) in lower_to_tests_with_match_index(rule, self.layout.family).iter().rev() {
            let lowered = self.lower_test(rule, state_id, *from, test, at)?;
            all = self.store.and(lowered.matching_packets, all)?;
        }
        Ok(PacketSet(all))
    }

    /// Packets that trying the rule drops immediately: a header that a test wants is truncated, and
    /// the tests before it hold.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn packets_dropped_as_truncated(
        &mut self,
        rule: &Rule,
        at: HookContext,
    ) -> Result<PacketSet, LimitReached> {
        let state_id = compute_state_id_from_original_rule(rule);
        let mut dropped = DiagramRef::ZERO;
        for (from, test) in lower_to_tests_with_match_index(rule, self.layout.family).iter().rev() {
            let lowered = self.lower_test(rule, state_id, *from, test, at)?;
            let later = self.store.and(lowered.matching_packets, dropped)?;
            dropped = self.store.first_nonzero(lowered.dropped_packets, later)?;
        }
        Ok(PacketSet(dropped))
    }

    /// In both.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn and(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, LimitReached> {
        self.store.and(a.0, b.0).map(PacketSet)
    }

    /// In one of the two. For many sets, [`union_all`](PacketSpace::union_all).
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn or(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, LimitReached> {
        self.store.first_nonzero(a.0, b.0).map(PacketSet)
    }

    /// In the first and not in the second.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn minus(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, LimitReached> {
        self.store.minus(a.0, b.0).map(PacketSet)
    }

    /// In none.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn not(&mut self, a: PacketSet) -> Result<PacketSet, LimitReached> {
        self.store.minus(DiagramRef::ONE, a.0).map(PacketSet)
    }

    /// Membership in one of many sets, merged as a balanced tree; garbage is reclaimed along the
    /// way.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn union_all(&mut self, sets: &[PacketSet]) -> Result<PacketSet, LimitReached> {
        // Sets that are neighbours share most of their nodes: merged first, they make few.
        let mut sorted = sets.to_vec();
        sorted.sort_by_cached_key(|set| self.lowest_values_of_first_128_bits(set.0));
        self.store
            .build_and_merge_diagrams(FirstNonzeroOperator, sorted.len(), |_, i| Ok(sorted[i].0))
            .map(PacketSet)
    }

    /// The lowest values of the first 128 variables that are in a set.
    fn lowest_values_of_first_128_bits(&self, mut f: DiagramRef) -> u128 {
        let mut bits = 0;
        while self.store.level(f) < u128::BITS {
            let level = self.store.level(f);
            let (low, high) = self.store.branches(f);
            if low == DiagramRef::ZERO {
                bits |= 1 << (u128::BITS - 1 - level);
            }
            f = if low == DiagramRef::ZERO { high } else { low };
        }
        bits
    }

    /// Whether no packet is in the set, whatever is answered.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn is_empty_set(&mut self, a: PacketSet) -> Result<bool, LimitReached> {
        Ok(self.store.and(a.0, self.possible_packets)? == DiagramRef::ZERO)
    }

    /// Adjacent sets share most of their nodes: merged first, they create few.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn is_subset(&mut self, a: PacketSet, b: PacketSet) -> Result<bool, LimitReached> {
        let outside = self.minus(a, b)?;
        self.is_empty_set(outside)
    }

    /// Whether some packet is in both.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn has_common_packet(&mut self, a: PacketSet, b: PacketSet) -> Result<bool, LimitReached> {
        let both = self.and(a, b)?;
        Ok(!self.is_empty_set(both)?)
    }

    /// Whether both hold the same packets.
    ///
    /// # Errors
    /// [`LimitReached`].
    pub fn has_same_possible_packets(
        &mut self,
        a: PacketSet,
        b: PacketSet,
    ) -> Result<bool, LimitReached> {
        let differ = self.store.disagreement(a.0, b.0)?;
        self.is_empty_set(PacketSet(differ))
    }

    /// Whether a packet is in the set; `answer` answers questions from the match and its hook.
    /// `None` for a packet that cannot exist: see [`Packet`] and its `transport`.
    pub fn contains_packet(
        &self,
        a: PacketSet,
        packet: &Packet,
        mut answer: impl FnMut(&Match, Option<Hook>) -> bool,
    ) -> Option<bool> {
        let bits = encode_packet(&self.layout, packet)?;
        let leaf = self.evaluate_diagram(a.0, &bits, &mut |variable, m| match (variable, m) {
            (FreeVariable::StatelessTest { hook, .. }, Some(m)) => answer(m, hook),
            (_, Some(m)) => answer(m, None),
            _ => false,
        });
        Some(leaf != DiagramRef::ZERO)
    }

    /// Forgets all sets but those given, which it renumbers, and frees their memory. Of use where
    /// many were made in passing.
    pub fn retain_packet_sets(&mut self, sets: &mut [PacketSet]) {
        let mut roots: Vec<DiagramRef> = sets.iter().map(|s| s.0).collect();
        let p = &mut self.presence;
        roots.extend([
            p.complete_header_with_ports,
            p.complete_tcp_header,
            p.icmp,
            p.unreadable_header,
            p.multiport_ports,
            p.multiport_truncated,
        ]);
        roots.extend([
            p.ct_entry,
            p.source_mac,
            p.later_fragment,
            p.truncated_header,
            self.possible_packets,
        ]);
        roots.extend(self.ipset_memberships.values());
        self.store.sweep_young_nodes(0, &mut roots);
        let mut swept = roots.into_iter();
        let mut next = || swept.next().expect("as many roots as before");
        sets.iter_mut().for_each(|s| s.0 = next());
        for part in [
            &mut p.complete_header_with_ports,
            &mut p.complete_tcp_header,
            &mut p.icmp,
            &mut p.unreadable_header,
            &mut p.multiport_ports,
            &mut p.multiport_truncated,
            &mut p.ct_entry,
            &mut p.source_mac,
            &mut p.later_fragment,
            &mut p.truncated_header,
            &mut self.possible_packets,
        ] {
            *part = next();
        }
        self.ipset_memberships.values_mut().for_each(|r| *r = next());
    }

    /// Nodes that the diagrams take now, garbage included.
    pub fn node_count(&self) -> usize {
        self.store.node_count()
    }

    /// Memory that the diagrams take now, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.store.memory_bytes()
    }
}

/// Tells a rule's stateful tests from those of others: the original rule; else what it says.
pub(crate) fn compute_state_id_from_original_rule(rule: &Rule) -> u64 {
    let mut hasher = DefaultHasher::new();
    match rule.credited_originals.is_empty() {
        true => (&rule.base, &rule.matches, &rule.target).hash(&mut hasher),
        false => rule.credited_originals.hash(&mut hasher),
    }
    hasher.finish()
}
