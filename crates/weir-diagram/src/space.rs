//! Sets of packets.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::matching::SetMatch;
use weir_model::{
    ChangingSets, ElementPart, Family, Firewall, Hook, IpSet, Match, Packet, Rule, located_tests_of,
};
use weir_semantics::digest::content;

use crate::at::At;
use crate::encode::encode;
use crate::layout::{DeviceCodes, Layout, Order};
use crate::operators::Over;
use crate::possible::possible;
use crate::presence::Presence;
use crate::store::{Full, Ref, Store};
use crate::variable::{FreeVariable, FreeVariables};

/// Which membership diagram: side, set, directions, place.
type SetKey = (usize, usize, Vec<bool>, At);

/// How a space is made.
#[derive(Clone, Copy, Debug)]
pub struct SpaceOptions {
    /// The order in which addresses and ports are tested.
    pub order: Order,
    /// Memory that the diagrams may take, in bytes.
    pub memory_bytes: usize,
}

impl Default for SpaceOptions {
    /// Destination first, 1 GiB.
    fn default() -> Self {
        SpaceOptions { order: Order::default(), memory_bytes: 1 << 30 }
    }
}

/// A set of packets, and of answers to what packets do not say. Of the [`Space`] that made it, and
/// void after [`Space::keep`] unless kept.
///
/// Two equal values are the same set. Two different ones may still hold the same packets, since
/// there are combinations of fields that no packet has: [`Space::equal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketSet(pub(crate) Ref);

impl PacketSet {
    /// No packet.
    pub const NONE: PacketSet = PacketSet(Ref::ZERO);
    /// All packets.
    pub const ALL: PacketSet = PacketSet(Ref::ONE);
}

/// Sets of packets of one family, as the rules and sets of some firewalls distinguish them.
///
/// A rule's tests become a [`PacketSet`] by [`of_rule`](Space::of_rule); sets are combined,
/// compared and counted; [`witness`](Space::witness) picks a packet and [`regions`](Space::regions)
/// describes a set in words. Tests that the packet does not determine (owner, an unknown set) are
/// variables in addition to its fields: one per content and hook. A stateful test is a variable of
/// its rule alone, so it is never treated as equal to another one.
///
/// A union of many sets is [`any_of`](Space::any_of), which is far faster than one by one.
///
/// # Errors
/// Every operation fails with [`Full`] when the memory limit is reached. The space stays usable.
#[derive(Debug)]
pub struct Space<'f> {
    pub(crate) store: Store,
    pub(crate) layout: Layout,
    pub(crate) presence: Presence,
    pub(crate) possible: Ref,
    pub(crate) variables: FreeVariables,
    /// The ipsets of each firewall, and whose are looked into.
    pub(crate) sides: Vec<&'f [IpSet]>,
    pub(crate) side: usize,
    /// The sets whose content rules of some firewall may change.
    changing: ChangingSets,
    /// All firewalls have the same sets.
    same_sets: bool,
    pub(crate) sets: HashMap<SetKey, Ref>,
}

impl<'f> Space<'f> {
    /// A space for the rules of a firewall.
    pub fn new(family: Family, firewall: &'f Firewall) -> Space<'f> {
        Space::with(family, &[firewall], SpaceOptions::default())
            .expect("the fields of a packet take less than the usual limit")
    }

    /// A space for the rules of several firewalls. Sets are those of the first until
    /// [`look_into`](Space::look_into) says otherwise.
    ///
    /// # Errors
    /// [`Full`] if not even the fields of a packet fit into the memory that is allowed.
    pub fn with(
        family: Family,
        firewalls: &[&'f Firewall],
        options: SpaceOptions,
    ) -> Result<Space<'f>, Full> {
        let devices = DeviceCodes::new(firewalls.iter().flat_map(|f| devices_of(f, family)));
        let layout = Layout::new(family, options.order, devices);
        let mut store = Store::new(options.memory_bytes);
        let presence = Presence::new(&mut store, &layout)?;
        let possible = possible(&mut store, &layout)?;
        let changing = firewalls.iter().map(|f| ChangingSets::of(f));
        let changing = changing.fold(ChangingSets::default(), ChangingSets::union);
        Ok(Space {
            store,
            layout,
            presence,
            possible,
            variables: FreeVariables::default(),
            sides: firewalls.iter().map(|f| &f.sets[..]).collect(),
            side: 0,
            changing,
            same_sets: firewalls.windows(2).all(|w| w[0].sets == w[1].sets),
            sets: HashMap::new(),
        })
    }

    /// From now on, sets are those of the firewall of that index.
    ///
    /// # Panics
    /// Where the space was made for fewer firewalls.
    pub fn look_into(&mut self, firewall: usize) {
        assert!(firewall < self.sides.len(), "the space knows {} firewalls", self.sides.len());
        self.side = firewall;
    }

    /// The first firewall with the sets that are looked into.
    pub(crate) fn sets_of(&self) -> usize {
        if self.same_sets { 0 } else { self.side }
    }

    /// Whether rules may change the set of a match.
    pub(crate) fn changes_set(&self, m: &SetMatch) -> bool {
        self.changing.contains(&m.name)
    }

    /// The family of all packets here.
    pub fn family(&self) -> Family {
        self.layout.family
    }

    /// Packets that match all tests of a rule. The order of evaluation does not matter here: a
    /// packet that a truncated header drops is not among them.
    ///
    /// # Errors
    /// [`Full`].
    pub fn of_rule(&mut self, rule: &Rule, at: At) -> Result<PacketSet, Full> {
        let who = who(rule);
        let mut all = Ref::ONE;
        for (from, test) in located_tests_of(rule, self.layout.family).iter().rev() {
            let lowered = self.test(rule, who, *from, test, at)?;
            all = self.store.and(lowered.holds, all)?;
        }
        Ok(PacketSet(all))
    }

    /// Packets that trying the rule drops immediately: a header that a test wants is truncated, and
    /// the tests before it hold.
    ///
    /// # Errors
    /// [`Full`].
    pub fn dropped_by(&mut self, rule: &Rule, at: At) -> Result<PacketSet, Full> {
        let who = who(rule);
        let mut dropped = Ref::ZERO;
        for (from, test) in located_tests_of(rule, self.layout.family).iter().rev() {
            let lowered = self.test(rule, who, *from, test, at)?;
            let later = self.store.and(lowered.holds, dropped)?;
            dropped = self.store.over(lowered.drops, later)?;
        }
        Ok(PacketSet(dropped))
    }

    /// In both.
    ///
    /// # Errors
    /// [`Full`].
    pub fn and(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, Full> {
        self.store.and(a.0, b.0).map(PacketSet)
    }

    /// In one of the two. For many sets, [`any_of`](Space::any_of).
    ///
    /// # Errors
    /// [`Full`].
    pub fn or(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, Full> {
        self.store.over(a.0, b.0).map(PacketSet)
    }

    /// In the first and not in the second.
    ///
    /// # Errors
    /// [`Full`].
    pub fn minus(&mut self, a: PacketSet, b: PacketSet) -> Result<PacketSet, Full> {
        self.store.minus(a.0, b.0).map(PacketSet)
    }

    /// In none.
    ///
    /// # Errors
    /// [`Full`].
    pub fn not(&mut self, a: PacketSet) -> Result<PacketSet, Full> {
        self.store.minus(Ref::ONE, a.0).map(PacketSet)
    }

    /// Membership in one of many sets, merged as a balanced tree; garbage is reclaimed along the
    /// way.
    ///
    /// # Errors
    /// [`Full`].
    pub fn any_of(&mut self, sets: &[PacketSet]) -> Result<PacketSet, Full> {
        // Sets that lie beside one another share most of their nodes: merged first, they make few.
        let mut sorted = sets.to_vec();
        sorted.sort_by_cached_key(|set| self.first_packet(set.0));
        self.store.merge(Over, sorted.len(), |_, i| Ok(sorted[i].0)).map(PacketSet)
    }

    /// The lowest values of the first 128 variables that are in a set.
    fn first_packet(&self, mut f: Ref) -> u128 {
        let mut bits = 0;
        while self.store.level(f) < u128::BITS {
            let level = self.store.level(f);
            let (low, high) = self.store.branches(f);
            if low == Ref::ZERO {
                bits |= 1 << (u128::BITS - 1 - level);
            }
            f = if low == Ref::ZERO { high } else { low };
        }
        bits
    }

    /// Whether no packet is in the set, whatever is answered.
    ///
    /// # Errors
    /// [`Full`].
    pub fn is_empty(&mut self, a: PacketSet) -> Result<bool, Full> {
        Ok(self.store.and(a.0, self.possible)? == Ref::ZERO)
    }

    /// Adjacent sets share most of their nodes: merged first, they create few.
    ///
    /// # Errors
    /// [`Full`].
    pub fn implies(&mut self, a: PacketSet, b: PacketSet) -> Result<bool, Full> {
        let outside = self.minus(a, b)?;
        self.is_empty(outside)
    }

    /// Whether some packet is in both.
    ///
    /// # Errors
    /// [`Full`].
    pub fn overlap(&mut self, a: PacketSet, b: PacketSet) -> Result<bool, Full> {
        let both = self.and(a, b)?;
        Ok(!self.is_empty(both)?)
    }

    /// Whether both hold the same packets.
    ///
    /// # Errors
    /// [`Full`].
    pub fn equal(&mut self, a: PacketSet, b: PacketSet) -> Result<bool, Full> {
        let differ = self.store.differ(a.0, b.0)?;
        self.is_empty(PacketSet(differ))
    }

    /// Whether a packet is in the set; `answer` answers questions from the match and its hook.
    /// `None` for a packet that cannot exist: see [`Packet`] and its `transport`.
    pub fn holds(
        &self,
        a: PacketSet,
        packet: &Packet,
        mut answer: impl FnMut(&Match, Option<Hook>) -> bool,
    ) -> Option<bool> {
        let bits = encode(&self.layout, packet)?;
        let leaf = self.walk(a.0, &bits, &mut |variable, m| match (variable, m) {
            (FreeVariable::Stateless { hook, .. }, Some(m)) => answer(m, hook),
            (_, Some(m)) => answer(m, None),
            _ => false,
        });
        Some(leaf != Ref::ZERO)
    }

    /// Forgets all sets but those given, which it renumbers, and frees their memory. Of use where
    /// many were made in passing.
    pub fn keep(&mut self, sets: &mut [PacketSet]) {
        let mut roots: Vec<Ref> = sets.iter().map(|s| s.0).collect();
        let p = &mut self.presence;
        roots.extend([p.ports, p.flags, p.icmp, p.cut, p.multiport, p.multiport_cut]);
        roots.extend([p.entry, p.mac, p.later, p.truncated, self.possible]);
        roots.extend(self.sets.values());
        self.store.sweep(0, &mut roots);
        let mut swept = roots.into_iter();
        let mut next = || swept.next().expect("as many roots as before");
        sets.iter_mut().for_each(|s| s.0 = next());
        for part in [
            &mut p.ports,
            &mut p.flags,
            &mut p.icmp,
            &mut p.cut,
            &mut p.multiport,
            &mut p.multiport_cut,
            &mut p.entry,
            &mut p.mac,
            &mut p.later,
            &mut p.truncated,
            &mut self.possible,
        ] {
            *part = next();
        }
        self.sets.values_mut().for_each(|r| *r = next());
    }

    /// Nodes that the diagrams take now, garbage included.
    pub fn nodes(&self) -> usize {
        self.store.len()
    }

    /// Memory that the diagrams take now, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.store.bytes()
    }
}

/// Tells a rule's stateful tests from those of others: the original rule; else what it says.
pub(crate) fn who(rule: &Rule) -> u64 {
    if rule.credit.is_empty() {
        return content(&(&rule.base, &rule.matches, &rule.target));
    }
    let mut hasher = DefaultHasher::new();
    rule.credit.hash(&mut hasher);
    hasher.finish()
}

/// The meaning of a device name in the packets of a comparison: `any other device`, `ppp+`; the
/// name itself if rules test it.
pub fn device_words(firewalls: &[&Firewall], family: Family, name: &str) -> String {
    let devices = DeviceCodes::new(firewalls.iter().flat_map(|f| devices_of(f, family)));
    let class = devices.class(name);
    class.and_then(|class| devices.word(class as usize)).unwrap_or_else(|| name.to_owned())
}

/// Device names and prefixes (true) that a family's rules and the sets test.
fn devices_of(firewall: &Firewall, family: Family) -> Vec<(String, bool)> {
    let mut out = Vec::new();
    for (_, _, rule) in firewall.ruleset(family).into_iter().flat_map(|r| r.rules()) {
        for m in [&rule.base.iif, &rule.base.oif].into_iter().flatten() {
            out.push((m.name.to_string(), m.prefix));
        }
    }
    for element in firewall.sets.iter().flat_map(|s| &s.elements) {
        for part in &element.parts {
            if let ElementPart::Iface { name, .. } = part {
                let wildcard = element.rest.iter().any(|w| w == "wildcard");
                out.push((name.to_string(), wildcard));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}
