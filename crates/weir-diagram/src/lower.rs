//! A rule's tests as booleans over the variables.
//!
//! A test of a header is three-valued: it holds, it does not, or it drops the packet, since the
//! header is cut short. So it becomes two booleans, [`Lowered::holds`] and [`Lowered::drops`].
//! What the packet looks like depends on where it is asked ([`At`]): before routing it has no
//! output device, before conntrack no entry, when it is made here no MAC address.

use weir_model::matching::{SetMatch, ct_state};
use weir_model::{
    Family, Field, FieldSet, Hook, Hotdrop, Match, Predicate, Rule, Test, match_effects,
};
use weir_semantics::digest::{content, dropping};

use crate::Space;
use crate::layout::{Block, Layout, Levels, ct_bit};
use crate::store::{Full, Ref, Store};
use crate::variable::{FreeVariable, Seen};

/// Where a rule is asked: what of the packet is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The hook, where it is known: opaque tests of different hooks are different tests.
    pub hook: Option<Hook>,
    /// The input device is known; else it is the empty name.
    pub iif: bool,
    /// The output device is known; else it is the empty name.
    pub oif: bool,
    /// The packet's connection is known; else its state is INVALID.
    pub ct: bool,
    /// The packet may have a source MAC address.
    pub mac: bool,
}

impl At {
    /// Anywhere: all that a packet says is there.
    pub const ANYWHERE: At = At { hook: None, iif: true, oif: true, ct: true, mac: true };

    /// At a hook, after conntrack; at POSTROUTING of a forwarded packet.
    pub const fn hook(hook: Hook) -> At {
        let iif = !matches!(hook, Hook::Output);
        let oif = !matches!(hook, Hook::Prerouting | Hook::Input);
        At { hook: Some(hook), iif, oif, ct: true, mac: iif }
    }

    /// The same before conntrack, as the raw table is.
    pub const fn before_conntrack(self) -> At {
        At { ct: false, ..self }
    }

    /// The same for a packet that was made here.
    pub const fn local(self) -> At {
        At { iif: false, mac: false, ..self }
    }
}

/// A test as booleans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowered {
    /// It holds.
    pub holds: Ref,
    /// It drops the packet on the spot.
    pub drops: Ref,
}

impl Lowered {
    const NEVER: Lowered = Lowered { holds: Ref::ZERO, drops: Ref::ZERO };

    const fn plain(holds: Ref) -> Lowered {
        Lowered { holds, drops: Ref::ZERO }
    }
}

/// What a packet has, as booleans that tests share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    /// A whole header with ports.
    pub ports: Ref,
    /// A whole TCP header.
    pub flags: Ref,
    /// A whole ICMP header.
    pub icmp: Ref,
    /// A header that is cut, or a TCP fragment that could overwrite it.
    pub cut: Ref,
    /// The ports as multiport reads them.
    pub multiport: Ref,
    /// A header that is cut before the ports.
    pub multiport_cut: Ref,
    /// A conntrack entry.
    pub entry: Ref,
    /// A source MAC address.
    pub mac: Ref,
    /// A later fragment.
    pub later: Ref,
    /// A transport header that is cut.
    pub truncated: Ref,
}

/// Protocols whose header begins with two ports.
pub(crate) const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The family's ICMP.
pub(crate) const fn icmp_of(family: Family) -> u8 {
    match family {
        Family::V4 => 1,
        Family::V6 => 58,
    }
}

impl Presence {
    pub fn new(store: &mut Store, layout: &Layout) -> Result<Presence, Full> {
        let bit =
            |store: &mut Store, block| store.node(layout.levels(block).first, Ref::ZERO, Ref::ONE);
        let later = bit(store, Block::Field(Field::Fragment))?;
        let offset_one = bit(store, Block::OffsetOne)?;
        let truncated = bit(store, Block::Cut)?;
        let cut_ports = bit(store, Block::CutPorts)?;
        let mac = bit(store, Block::HasMac)?;
        let ct = layout.field(Field::CtState);
        let entry = store.node(ct.of_bit(ct_bit::ENTRY), Ref::ZERO, Ref::ONE)?;
        let protocols = layout.field(Field::Proto);
        let first = store.minus(Ref::ONE, later)?;
        let whole = store.minus(first, truncated)?;
        let of = |store: &mut Store, numbers: &[u8]| {
            let spans: Vec<_> = numbers.iter().map(|n| (u128::from(*n), u128::from(*n))).collect();
            let proto = spans_in(store, protocols, &spans)?;
            store.and(whole, proto)
        };
        let ports = of(store, &WITH_PORTS)?;
        let flags = of(store, &[6])?;
        let icmp = of(store, &[icmp_of(layout.family)])?;
        let cut = store.and(first, truncated)?;
        let multiport_cut = store.minus(cut, cut_ports)?;
        let some_ports = store.and(cut, cut_ports)?;
        let multiport = store.over(ports, some_ports)?;
        // ip6_tables.c counts offsets in bytes: xt_tcpudp.c never sees a 1 there.
        let cut = match layout.family {
            Family::V6 => cut,
            Family::V4 => {
                let tcp = spans_in(store, protocols, &[(6, 6)])?;
                let one = store.and(later, offset_one)?;
                let overwrites = store.and(one, tcp)?;
                store.over(cut, overwrites)?
            }
        };
        Ok(Presence {
            ports,
            flags,
            icmp,
            cut,
            multiport,
            multiport_cut,
            entry,
            mac,
            later,
            truncated,
        })
    }

    /// Where a field is there, and where asking for it drops the packet.
    fn of(&self, field: Field, multiport: bool) -> (Ref, Ref) {
        match field {
            Field::Sport | Field::Dport if multiport => (self.multiport, self.multiport_cut),
            Field::Sport | Field::Dport => (self.ports, self.cut),
            Field::TcpFlags => (self.flags, self.cut),
            Field::Icmp => (self.icmp, self.cut),
            Field::SourceMac => (self.mac, Ref::ZERO),
            Field::CtMark => (self.entry, Ref::ZERO),
            _ => (Ref::ONE, Ref::ZERO),
        }
    }
}

/// Values of a block under a mask.
pub(crate) fn masked(
    store: &mut Store,
    levels: Levels,
    value: u128,
    mask: u128,
) -> Result<Ref, Full> {
    if value & !mask != 0 {
        return Ok(Ref::ZERO);
    }
    let mut out = Ref::ONE;
    for bit in 0..levels.bits {
        if mask >> bit & 1 == 1 {
            let level = levels.of_bit(bit);
            out = match value >> bit & 1 {
                1 => store.node(level, Ref::ZERO, out)?,
                _ => store.node(level, out, Ref::ZERO)?,
            };
        }
    }
    Ok(out)
}

/// Values of a block in one of the spans, in any order. Spans written backwards hold nothing.
pub(crate) fn spans_in(
    store: &mut Store,
    levels: Levels,
    spans: &[(u128, u128)],
) -> Result<Ref, Full> {
    let mut sorted: Vec<_> = spans.iter().copied().filter(|(lo, hi)| lo <= hi).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
    for (lo, hi) in sorted {
        match joined.last_mut() {
            Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
            _ => joined.push((lo, hi)),
        }
    }
    span_tree(store, levels, levels.bits, 0, &joined)
}

/// Of the values that begin with `base` and differ in the lowest `bits`, those in the spans.
fn span_tree(
    store: &mut Store,
    levels: Levels,
    bits: u32,
    base: u128,
    spans: &[(u128, u128)],
) -> Result<Ref, Full> {
    let end = base | low_bits(bits);
    let first = spans.partition_point(|s| s.1 < base);
    let spans = &spans[first..];
    let spans = &spans[..spans.partition_point(|s| s.0 <= end)];
    match spans {
        [] => Ok(Ref::ZERO),
        [(lo, hi)] if *lo <= base && end <= *hi => Ok(Ref::ONE),
        _ => {
            let bit = bits - 1;
            let low = span_tree(store, levels, bit, base, spans)?;
            let high = span_tree(store, levels, bit, base | 1 << bit, spans)?;
            store.node(levels.of_bit(bit), low, high)
        }
    }
}

fn low_bits(bits: u32) -> u128 {
    if bits == 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// The codes of a small block for which `holds` says yes.
pub(crate) fn codes(
    store: &mut Store,
    levels: Levels,
    holds: impl Fn(u32) -> bool,
) -> Result<Ref, Full> {
    let spans: Vec<_> =
        (0..1u32 << levels.bits).filter(|c| holds(*c)).map(|c| (c.into(), c.into())).collect();
    spans_in(store, levels, &spans)
}

/// What conntrack tests see of a code of its block: bits of [`ct_state`].
pub(crate) fn ct_bits_of(code: u32) -> u16 {
    let has = |bit: u32| code >> bit & 1 == 1;
    if !has(ct_bit::ENTRY) {
        return if has(ct_bit::STATE_HIGH) { ct_state::UNTRACKED } else { ct_state::INVALID };
    }
    let state = match (has(ct_bit::STATE_HIGH), has(ct_bit::STATE_LOW)) {
        (false, false) => ct_state::NEW,
        (false, true) => ct_state::RELATED,
        (true, _) => ct_state::ESTABLISHED,
    };
    let snat = if has(ct_bit::SNAT) { ct_state::SNAT } else { 0 };
    let dnat = if has(ct_bit::DNAT) { ct_state::DNAT } else { 0 };
    state | snat | dnat
}

/// Device names for which `holds` says yes. Codes that are left over mean the last name.
pub(crate) fn devices(
    store: &mut Store,
    layout: &Layout,
    field: Field,
    holds: impl Fn(&str) -> bool,
) -> Result<Ref, Full> {
    let names = layout.devices.names();
    let last = names.len() - 1;
    let all_from = |c: usize| (c as u128, if c == last { u128::MAX } else { c as u128 });
    let spans: Vec<_> = (0..=last).filter(|c| holds(&names[*c])).map(all_from).collect();
    spans_in(store, layout.field(field), &spans)
}

impl Space<'_> {
    /// A test of a rule, as [`located_tests_of`](weir_model::located_tests_of) gives it.
    /// `who` tells the rule's stateful tests from those of others.
    pub(crate) fn test(
        &mut self,
        rule: &Rule,
        who: u64,
        from: Option<usize>,
        test: &Test,
        at: At,
    ) -> Result<Lowered, Full> {
        match test {
            Test::Field { field, predicate, negated } => {
                let multiport =
                    from.is_some_and(|i| matches!(rule.matches[i], Match::Multiport { .. }));
                self.field_test(*field, predicate, *negated, multiport, at)
            }
            Test::EitherPort { spans, negated } => {
                let sport = spans_in(&mut self.store, self.layout.field(Field::Sport), spans)?;
                let dport = spans_in(&mut self.store, self.layout.field(Field::Dport), spans)?;
                let either = self.store.over(sport, dport)?;
                let there = self.presence.multiport;
                let holds = self.where_there(there, either, *negated)?;
                Ok(Lowered { holds, drops: self.presence.multiport_cut })
            }
            Test::Set { index } => {
                let m = &rule.matches[*index];
                let Match::Set(set) = m else { return Ok(Lowered::NEVER) };
                if self.changes_set(set) {
                    let of = Seen { hook: at.hook, reads: FieldSet::ALL, change: 0 };
                    let variable = FreeVariable::Stateful { who, content: content(m), nth: 0, of };
                    return self.ask(variable, || m.clone()).map(Lowered::plain);
                }
                Ok(Lowered::plain(self.set_test(set, at)?))
            }
            Test::Opaque { index, stateful, hotdrop } => {
                let m = &rule.matches[*index];
                let reads = match_effects(m, self.layout.family).reads;
                let of = Seen { hook: at.hook, reads, change: 0 };
                let variable = |content| match stateful {
                    true => FreeVariable::Stateful { who, content, nth: 0, of },
                    false => FreeVariable::Stateless { content, hook: at.hook, change: 0 },
                };
                let digest = content(m);
                let asked = self.ask(variable(digest), || m.clone())?;
                let holds = match m {
                    Match::Conntrack(c) => self.conntrack_test(c, asked, at)?,
                    _ => asked,
                };
                match hotdrop {
                    Hotdrop::Never => Ok(Lowered::plain(holds)),
                    Hotdrop::CutHeader => {
                        let first = self.store.minus(Ref::ONE, self.presence.later)?;
                        let drops = self.store.and(first, self.presence.truncated)?;
                        let holds = self.store.and(first, holds)?;
                        Ok(Lowered { holds: self.store.minus(holds, drops)?, drops })
                    }
                    Hotdrop::Perhaps | Hotdrop::WithMatch => {
                        let drops = self.ask_of_target(variable(dropping(digest)))?;
                        Ok(Lowered { holds, drops })
                    }
                }
            }
            Test::Never => Ok(Lowered::NEVER),
        }
    }

    /// `there` and what is tested, or `there` and its opposite.
    fn where_there(&mut self, there: Ref, tested: Ref, negated: bool) -> Result<Ref, Full> {
        match negated {
            true => self.store.minus(there, tested),
            false => self.store.and(there, tested),
        }
    }

    fn field_test(
        &mut self,
        field: Field,
        predicate: &Predicate,
        negated: bool,
        multiport: bool,
        at: At,
    ) -> Result<Lowered, Full> {
        if matches!(field, Field::Iif | Field::Oif) {
            let seen = if field == Field::Iif { at.iif } else { at.oif };
            let holds = |name: &str| predicate.holds_device(name) != negated;
            return self.device_test(field, seen, holds).map(Lowered::plain);
        }
        if field == Field::CtState {
            let holds = |bits: u16| predicate.holds(bits.into()) != negated;
            return self.state_test(at, holds).map(Lowered::plain);
        }
        if field == Field::SourceMac && !at.mac || field == Field::CtMark && !at.ct {
            return Ok(Lowered::NEVER);
        }
        let levels = self.layout.field(field);
        let tested = match predicate {
            Predicate::Present => Ref::ONE,
            Predicate::In(spans) if field == Field::PktType => {
                // Two bits hold three values: the fourth is taken as the third.
                let inside = |v: u32| spans.iter().any(|s| s.0 <= v.into() && u128::from(v) <= s.1);
                codes(&mut self.store, levels, |c| inside(c.min(2)))?
            }
            Predicate::In(spans) => spans_in(&mut self.store, levels, spans)?,
            Predicate::Masked { value, mask } => {
                masked(&mut self.store, levels, *value, mask & field.max(self.layout.family))?
            }
            Predicate::AnyBit(mask) => {
                let none = masked(&mut self.store, levels, 0, *mask)?;
                self.store.minus(Ref::ONE, none)?
            }
            Predicate::Device { .. } => Ref::ZERO,
        };
        let (there, drops) = self.presence.of(field, multiport);
        let holds = self.where_there(there, tested, negated)?;
        Ok(Lowered { holds, drops })
    }

    /// Device names for which `holds` says yes; without a device, the empty name.
    pub(crate) fn device_test(
        &mut self,
        field: Field,
        seen: bool,
        holds: impl Fn(&str) -> bool,
    ) -> Result<Ref, Full> {
        if !seen {
            return Ok(if holds("") { Ref::ONE } else { Ref::ZERO });
        }
        devices(&mut self.store, &self.layout, field, holds)
    }

    /// Conntrack states for which `holds` says yes.
    fn state_test(&mut self, at: At, holds: impl Fn(u16) -> bool) -> Result<Ref, Full> {
        if !at.ct {
            return Ok(if holds(ct_state::INVALID) { Ref::ONE } else { Ref::ZERO });
        }
        let levels = self.layout.field(Field::CtState);
        codes(&mut self.store, levels, |c| holds(ct_bits_of(c)))
    }

    /// conntrack_mt in xt_conntrack.c: without an entry only the state is looked at.
    fn conntrack_test(
        &mut self,
        c: &weir_model::matching::Conntrack,
        asked: Ref,
        at: At,
    ) -> Result<Ref, Full> {
        let state = match &c.state {
            Some(s) => self.state_test(at, |bits| (bits & s.value != 0) != s.negated)?,
            None => Ref::ONE,
        };
        let entry = if at.ct { self.presence.entry } else { Ref::ZERO };
        let with = self.store.and(entry, asked)?;
        let with = self.store.and(state, with)?;
        if c.state.is_none() {
            return Ok(with);
        }
        let without = self.store.minus(state, entry)?;
        self.store.over(with, without)
    }

    /// The variable of what the packet does not say.
    pub(crate) fn ask(
        &mut self,
        variable: FreeVariable,
        what: impl FnOnce() -> Match,
    ) -> Result<Ref, Full> {
        let number = self.variables.number(variable, || Some(what()));
        self.store.node(self.layout.end + number, Ref::ZERO, Ref::ONE)
    }

    /// The variable of what a target, or a match besides its answer, may do.
    pub(crate) fn ask_of_target(&mut self, variable: FreeVariable) -> Result<Ref, Full> {
        let number = self.variables.number(variable, || None);
        self.store.node(self.layout.end + number, Ref::ZERO, Ref::ONE)
    }

    /// A `-m set` test.
    fn set_test(&mut self, m: &SetMatch, at: At) -> Result<Ref, Full> {
        let inside = self.set_members(m, at)?;
        match m.negated {
            true => self.store.minus(Ref::ONE, inside),
            false => Ok(inside),
        }
    }
}
