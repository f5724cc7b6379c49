//! Targets as diagrams: most are a single terminal, some test the packet first.

use weir_model::effect::{SetWrites, UNKNOWN_TARGET};
use weir_model::matching::ct_state;
use weir_model::target::{Effect, ExtensionTarget, NatRange, NatTarget, TtlChange};
use weir_model::{Addr, CtState, Ends, Field, FieldSet, Hook, Target, effects_of};
use weir_packet::Ct;
use weir_semantics::Verdict;
use weir_semantics::connmark::{MarkMove, connmark_of};
use weir_semantics::digest::{content, dropping};

use crate::chain::Unknown;
use crate::change::{BitSource, PacketChange, TtlMap};
use crate::compose::RulesetDiagram;
use crate::layout::{Block, ct_bit};
use crate::place::TablePlace;
use crate::presence::{codes, ct_bits_of, masked};
use crate::store::{Full, Ref};
use crate::terminal::{Ask, Exit, Terminal};
use crate::variable::{Choice, FieldBit, FreeVariable, StateInput};

impl RulesetDiagram<'_> {
    /// What a target does that is neither a jump nor a plain verdict.
    pub fn target(&mut self, target: &Target, who: u64, place: TablePlace) -> Result<Ref, Unknown> {
        let effects = self.terminals.effect(place.hook(), place.table, target);
        let decided = |exit| Terminal { effects, ..Terminal::of(exit) };
        match target {
            Target::Reject(with) => {
                Ok(self.terminals.leaf(decided(Exit::Verdict(Verdict::Reject(with)))))
            }
            Target::Divert(e) => {
                let digest = content(&**e);
                let ask = everything(who, digest, place);
                let asked = self.terminals.ask(ask);
                let row = effects_of(target);
                let mut change =
                    PacketChange { unmodelled: vec![digest], ..PacketChange::default() };
                self.set_unknown(&mut change, row.unknown, by_nothing(who, digest));
                let change = self.terminals.change_number(&change);
                let back = match row.ends {
                    Ends::Always => Exit::Verdict(Verdict::Accept),
                    Ends::Never | Ends::Perhaps => Exit::Continue,
                };
                let back = Terminal { asked, change, ..decided(back) };
                let back = self.terminals.leaf(back);
                let gone = Exit::Verdict(Verdict::Divert(e.module));
                let gone = self.terminals.leaf(Terminal { asked, ..decided(gone) });
                let variable = FreeVariable::Stateful { who, content: digest, nth: 0, of: ask.of };
                let comes_back = self.space.ask_of_target(variable)?;
                Ok(self.space.store.either(comes_back, back, gone)?)
            }
            Target::Effect(effect) => match &**effect {
                Effect::Other(e) => self.extension(target, e, effects, (who, place)),
                other => self.effect(other, target, effects),
            },
            Target::Nat(nat) => Ok(self.translation(nat, effects, place)?),
            Target::Opaque(opaque) => {
                let digest = content(&**opaque);
                let asked = self.terminals.ask(everything(who, digest, place));
                let unmodelled = vec![digest];
                let mut change = PacketChange { unmodelled, ..PacketChange::default() };
                self.set_unknown(&mut change, UNKNOWN_TARGET.unknown, by_nothing(who, digest));
                let change = self.terminals.change_number(&change);
                let go_on = Terminal { asked, change, ..decided(Exit::Continue) };
                let go_on = self.terminals.leaf(go_on);
                let end = Terminal { asked, ..decided(Exit::Verdict(Verdict::Unknown)) };
                let end = self.terminals.leaf(end);
                let of = everything(who, digest, place).of;
                let variable = FreeVariable::Stateful { who, content: digest, nth: 0, of };
                let number = self.space.variables.number(variable, || None);
                Ok(self.space.store.node(self.space.layout.end + number, go_on, end)?)
            }
            Target::None
            | Target::Accept
            | Target::Drop
            | Target::Return
            | Target::Jump(_)
            | Target::Goto(_) => Ok(Ref::ZERO),
        }
    }

    fn effect(&mut self, effect: &Effect, target: &Target, effects: u32) -> Result<Ref, Unknown> {
        let only = Terminal { effects, ..Terminal::of(Exit::Continue) };
        let mut change = PacketChange::default();
        if effects_of(target).unmodelled {
            change.unmodelled.push(content(effect));
        }
        let mut untracks = false;
        match effect {
            Effect::Mark { value, mask } => {
                self.set_masked(&mut change, Field::Mark, *value, *mask);
            }
            Effect::Tos { value, mask } => {
                self.set_masked(&mut change, Field::Tos, (*value).into(), (*mask).into());
            }
            Effect::Dscp(dscp) => {
                self.set_masked(&mut change, Field::Tos, u32::from(*dscp) << 2, 0xfc);
            }
            Effect::Ttl { op, value } => {
                change.ttl = match op {
                    TtlChange::Set => TtlMap::set(*value),
                    TtlChange::Inc => TtlMap::add((*value).into()),
                    TtlChange::Dec => TtlMap::add(-i32::from(*value)),
                }
            }
            Effect::Notrack | Effect::CtNotrack => {
                self.set_untracked(&mut change);
                untracks = true;
            }
            Effect::Classify { .. } | Effect::Other(_) => {}
        }
        let changed = Terminal { change: self.terminals.change_number(&change), ..only };
        let (only, changed) = (self.terminals.leaf(only), self.terminals.leaf(changed));
        if !untracks {
            return Ok(changed);
        }
        Ok(self.space.store.either(self.space.presence.entry, only, changed)?)
    }

    /// A target of a module whose row in the table of effects says what it does.
    fn extension(
        &mut self,
        target: &Target,
        extension: &ExtensionTarget,
        effects: u32,
        (who, place): (u64, TablePlace),
    ) -> Result<Ref, Unknown> {
        let row = effects_of(target);
        let digest = content(extension);
        let mut change = PacketChange::default();
        if row.unmodelled {
            change.unmodelled.push(digest);
        }
        let mut asked = 0;
        let entry = self.space.presence.entry;
        // The packets that it changes.
        let mut where_changed = Ref::ONE;
        match row.name {
            "CONNMARK" => {
                self.connmark(&mut change, extension);
                where_changed = entry;
            }
            "CT" => {
                self.set_connection(&mut change, 1 << ct_bit::ENTRY);
                let ct = self.space.layout.field(Field::CtState);
                where_changed =
                    codes(&mut self.space.store, ct, |code| ct_bits_of(code) == ct_state::INVALID)?;
            }
            _ => {}
        }
        if row.stateful || row.sets != SetWrites::None {
            asked = self.terminals.ask(everything(who, digest, place));
        }
        if row.stateful {
            self.set_unknown(&mut change, row.unknown, everything(who, digest, place));
        } else {
            self.set_chosen(&mut change, row.unknown, digest, place);
        }
        let only = Terminal { effects, asked, ..Terminal::of(Exit::Continue) };
        let changed = Terminal { change: self.terminals.change_number(&change), ..only };
        let (only, changed) = (self.terminals.leaf(only), self.terminals.leaf(changed));
        let out = self.space.store.either(where_changed, changed, only)?;
        if !row.drops {
            return Ok(out);
        }
        let drop = Terminal { effects, ..Terminal::of(Exit::Verdict(Verdict::Drop)) };
        let drop = self.terminals.leaf(drop);
        let content = dropping(digest);
        let variable = FreeVariable::Stateless { content, hook: Some(place.hook()), change: 0 };
        let drops = self.space.ask_of_target(variable)?;
        Ok(self.space.store.either(drops, drop, out)?)
    }

    /// Fields take values of which nothing is known, not even that two packets alike get the same.
    ///
    /// Variables are numbered in the order of the levels that they replace, so that a diagram keeps
    /// its shape.
    fn set_unknown(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        Ask { who, content, of }: Ask,
    ) {
        self.set_bits(change, fields, |bit| FreeVariable::Written {
            who,
            content,
            nth: 0,
            of,
            bit,
        });
    }

    /// Fields get values that the packet determines, in a way that is not modelled.
    pub fn set_chosen(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        content: u64,
        place: TablePlace,
    ) {
        let hook = place.hook();
        self.set_bits(change, fields, |bit| {
            let bit = Choice::Field(bit);
            FreeVariable::Chosen { content, hook, change: 0, bit }
        });
    }

    fn set_bits(
        &mut self,
        change: &mut PacketChange,
        fields: FieldSet,
        variable: impl Fn(FieldBit) -> FreeVariable,
    ) {
        let mut bits: Vec<(u32, FieldBit)> = Vec::new();
        for field in fields.iter() {
            let levels = self.space.layout.field(field);
            bits.extend((0..levels.bits).map(|b| (levels.of_bit(b), FieldBit(field, b as u8))));
        }
        bits.sort_unstable_by_key(|(level, _)| *level);
        for (level, bit) in bits {
            let number = self.space.variables.number(variable(bit), || None);
            change.bits.insert(level, BitSource::bit(self.space.layout.end + number, false));
        }
        change.writes_ttl |= fields.contains(Field::Ttl);
    }

    /// `field = (field & !mask) ^ value`.
    fn set_masked(&self, change: &mut PacketChange, field: Field, value: u32, mask: u32) {
        let levels = self.space.layout.field(field);
        for bit in 0..levels.bits {
            let level = levels.of_bit(bit);
            match (mask >> bit & 1 == 1, value >> bit & 1 == 1) {
                (true, set) => drop(change.bits.insert(level, BitSource::constant(set))),
                (false, true) => drop(change.bits.insert(level, BitSource::bit(level, true))),
                (false, false) => {}
            }
        }
    }

    /// The connection of an untracked packet: nothing is known of it.
    pub fn set_untracked(&self, change: &mut PacketChange) {
        let untracked = crate::encode::ct_code(Ct::of(CtState::Untracked));
        self.set_connection(change, untracked);
    }

    /// Another code for the connection, and no mark.
    pub fn set_connection(&self, change: &mut PacketChange, code: u32) {
        let ct = self.space.layout.field(Field::CtState);
        for bit in 0..ct_bit::COUNT {
            change.bits.insert(ct.of_bit(bit), BitSource::constant(code >> bit & 1 == 1));
        }
        self.set_masked(change, Field::CtMark, 0, u32::MAX);
    }

    fn connmark(&self, change: &mut PacketChange, extension: &ExtensionTarget) {
        let (mark, ct_mark) = (Field::Mark, Field::CtMark);
        match connmark_of(extension) {
            None => {}
            Some(MarkMove::Set { value, mask }) => self.set_masked(change, ct_mark, value, mask),
            Some(MarkMove::Save { nfmask, ctmask }) => {
                self.copy_mark(change, (mark, nfmask), (ct_mark, ctmask));
            }
            Some(MarkMove::Restore { nfmask, ctmask }) => {
                self.copy_mark(change, (ct_mark, ctmask), (mark, nfmask));
            }
        }
    }

    /// `to = (to & !to_mask) ^ (from & from_mask)`.
    fn copy_mark(&self, change: &mut PacketChange, from: (Field, u32), to: (Field, u32)) {
        let (from_levels, to_levels) =
            (self.space.layout.field(from.0), self.space.layout.field(to.0));
        for bit in 0..32 {
            let level = to_levels.of_bit(bit);
            let kept = to.1 >> bit & 1 == 0;
            let mut source =
                if kept { BitSource::bit(level, false) } else { BitSource::constant(false) };
            if from.1 >> bit & 1 == 1 {
                source.xor(&BitSource::bit(from_levels.of_bit(bit), false));
            }
            if source != BitSource::bit(level, false) {
                change.bits.insert(level, source);
            }
        }
    }

    /// Address translation: `translate` of the interpreter, for all packets.
    fn translation(
        &mut self,
        nat: &NatTarget,
        effects: u32,
        place: TablePlace,
    ) -> Result<Ref, Full> {
        let accept = Terminal { effects, ..Terminal::of(Exit::Verdict(Verdict::Accept)) };
        if matches!(place.hook(), Hook::Input | Hook::Postrouting) {
            // The last table of every journey: nothing reads the packet any more.
            return Ok(self.terminals.leaf(accept));
        }
        let source = match nat {
            NatTarget::Snat(_) | NatTarget::Masquerade(_) => true,
            NatTarget::Dnat(_) | NatTarget::Redirect(_) => false,
            NatTarget::Netmap(..) => matches!(place.hook(), Hook::Input | Hook::Postrouting),
        };
        let mut new = New::of(source);
        let everything = self.space.layout.family.max();
        match nat {
            NatTarget::Netmap(Addr(to), Addr(mask)) => new.addr = Some((*to, mask | to)),
            NatTarget::Snat(r) | NatTarget::Dnat(r) if is_settled(r) => {
                new.addr = r.addrs.map(|(lo, _)| (lo.0, everything));
                new.port = r.ports.map(|(lo, _)| lo);
            }
            NatTarget::Snat(r) | NatTarget::Dnat(r) => {
                self.choose(nat, r, r.addrs, place, &mut new)?
            }
            NatTarget::Masquerade(r) | NatTarget::Redirect(r) => {
                let any = r.addrs.or(Some((Addr(0), Addr(everything))));
                self.choose(nat, r, any, place, &mut new)?;
            }
        }
        let mut change = new.open;
        let addr = self.space.layout.field(if source { Field::Saddr } else { Field::Daddr });
        if let Some((value, mask)) = new.addr {
            for bit in (0..addr.bits).filter(|b| mask >> b & 1 == 1) {
                change.bits.insert(addr.of_bit(bit), BitSource::constant(value >> bit & 1 == 1));
            }
        }
        if matches!(nat, NatTarget::Redirect(_)) {
            let redirected = self.space.layout.levels(Block::Redirected).first;
            change.bits.insert(redirected, BitSource::constant(true));
        }
        let without_port = change.clone();
        let port = self.space.layout.field(if source { Field::Sport } else { Field::Dport });
        for bit in 0..16 {
            if let Some(value) = new.port {
                let set = BitSource::constant(value >> bit & 1 == 1);
                change.bits.insert(port.of_bit(bit), set);
            } else if let Some(chosen) = new.port_bits.get(bit as usize) {
                change.bits.insert(port.of_bit(bit), chosen.clone());
            }
        }
        // Where nothing becomes another, the connection is not taken as translated.
        let store = &mut self.space.store;
        let mut same_addr = Ref::ONE;
        if let Some((value, mask)) = new.addr {
            same_addr = masked(store, addr, value, mask)?;
        }
        let mut same_port = Ref::ONE;
        if let Some(value) = new.port {
            same_port = masked(store, port, value.into(), 0xffff)?;
        }
        if let Some(changed) = new.changed {
            same_addr = store.node(changed, Ref::ONE, Ref::ZERO)?;
        }
        let same_both = store.and(same_addr, same_port)?;
        let with = self.translated(change, same_both, source, effects)?;
        if new.port.is_none() && new.port_bits.is_empty() {
            return Ok(with);
        }
        let without = self.translated(without_port, same_addr, source, effects)?;
        let there = self.space.presence.ports;
        self.space.store.either(there, with, without)
    }

    /// The terminals of a translation, `same` or not.
    fn translated(
        &mut self,
        mut change: PacketChange,
        same: Ref,
        source: bool,
        effects: u32,
    ) -> Result<Ref, Full> {
        let accept = Terminal { effects, ..Terminal::of(Exit::Verdict(Verdict::Accept)) };
        let number = self.terminals.change_number(&change);
        let kept = self.terminals.leaf(Terminal { change: number, ..accept });
        let bit = if source { ct_bit::SNAT } else { ct_bit::DNAT };
        let level = self.space.layout.field(Field::CtState).of_bit(bit);
        change.bits.insert(level, BitSource::constant(true));
        let number = self.terminals.change_number(&change);
        let changed = self.terminals.leaf(Terminal { change: number, ..accept });
        self.space.store.either(same, kept, changed)
    }

    /// Variables for what a translation leaves open, within the ranges that it names.
    fn choose(
        &mut self,
        nat: &NatTarget,
        range: &NatRange,
        addrs: Option<(Addr, Addr)>,
        place: TablePlace,
        new: &mut New,
    ) -> Result<(), Full> {
        let digest = content(nat);
        let hook = place.hook();
        let end = self.space.layout.end;
        let questions = &mut self.space.variables;
        let mut ask = |bit| {
            let variable = FreeVariable::Chosen { content: digest, hook, change: 0, bit };
            end + questions.number(variable, || None)
        };
        let bits = self.space.layout.family.bits();
        let field = if new.source { Field::Saddr } else { Field::Daddr };
        let addr = self.space.layout.field(field);
        if let Some((lo, hi)) = addrs {
            if lo == hi {
                new.addr = Some((lo.0, self.space.layout.family.max()));
            } else {
                let fixed = (lo.0 ^ hi.0).checked_ilog2().map_or(0, |top| top + 1);
                for bit in 0..bits {
                    let source = match bit < fixed {
                        true => BitSource::bit(ask(Choice::Addr(bit as u8)), false),
                        false => BitSource::constant(lo.0 >> bit & 1 == 1),
                    };
                    new.open.bits.insert(addr.of_bit(bit), source);
                }
            }
        }
        if let Some((lo, hi)) = range.ports {
            if lo == hi {
                new.port = Some(lo);
            } else {
                new.port_bits =
                    (0..16).map(|b| BitSource::bit(ask(Choice::Port(b)), false)).collect();
            }
        }
        new.changed = Some(ask(Choice::Changed));
        Ok(())
    }
}

/// What a target writes whatever the packet was before. Whether the packet returns is asked of
/// everything, so that values of packets that differ are never compared alone.
fn by_nothing(who: u64, content: u64) -> Ask {
    Ask { who, content, of: StateInput { hook: None, reads: FieldSet::NONE, change: 0 } }
}

/// A question of a target that may depend on every field.
fn everything(who: u64, content: u64, place: TablePlace) -> Ask {
    let of = StateInput { hook: Some(place.hook()), reads: FieldSet::ALL, change: 0 };
    Ask { who, content, of }
}

/// What a translation makes of address and port.
struct New {
    source: bool,
    /// Value and mask.
    addr: Option<(u128, u128)>,
    port: Option<u16>,
    port_bits: Vec<BitSource>,
    /// Bits of the address that are left open.
    open: PacketChange,
    /// The variable that says whether anything changed, if that is open.
    changed: Option<u32>,
}

impl New {
    fn of(source: bool) -> New {
        New {
            source,
            addr: None,
            port: None,
            port_bits: Vec::new(),
            open: PacketChange::default(),
            changed: None,
        }
    }
}

/// Whether the rule alone says the result of the packet.
fn is_settled(r: &NatRange) -> bool {
    r.addrs.is_none_or(|(lo, hi)| lo == hi) && r.ports.is_none_or(|(lo, hi)| lo == hi)
}
