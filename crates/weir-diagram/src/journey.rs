//! Hooks and journeys as diagrams: the counterpart of the interpreter's `Journey`.

use std::collections::HashMap;

use weir_model::effect::{Conntrack, match_effects, needs_conntrack};
use weir_model::target::NatTarget;
use weir_model::{Family, Field, Firewall, Hook, Ruleset, TableName, Target};
use weir_semantics::Fact;
use weir_semantics::Verdict;
use weir_semantics::digest::translating;
use weir_semantics::{Entry, tables_at};

use crate::at::At;
use crate::chain::Unknown;
use crate::change::{BitSource, PacketChange, TtlMap};
use crate::comparison::{CompareLevel, ComparedPath};
use crate::compose::RulesetDiagram;
use crate::layout::{Block, ct_bit};
use crate::library::Library;
use crate::place::TablePlace;
use crate::presence::{codes, masked, spans_in};
use crate::space::Space;
use crate::stateful_identity::StatefulIdentity;
use crate::store::{Full, Ref};
use crate::terminal::{Exit, Terminal};
use crate::variable::{Choice, FreeVariable};

/// One of the firewalls that are compared.
#[derive(Debug)]
pub(crate) struct ComparedSide<'f> {
    ruleset: Option<&'f Ruleset>,
    who: StatefulIdentity,
    /// Conntrack is in use: nat is consulted.
    conntrack: bool,
    /// Which of the space's firewalls it is.
    number: usize,
}

impl<'f> ComparedSide<'f> {
    pub fn new(
        firewall: &'f Firewall,
        family: Family,
        number: usize,
        who: StatefulIdentity,
        conntrack: bool,
    ) -> Self {
        let ruleset = firewall.ruleset(family);
        let uses = || ruleset.is_some_and(|r| r.rules().any(|(_, _, r)| needs_conntrack(r)));
        ComparedSide { ruleset, who, conntrack: conntrack || uses(), number }
    }

    /// Whether some rule sends packets to this host.
    fn redirects(&self) -> bool {
        let is_redirect = |t: &Target| match t {
            Target::Nat(nat) => matches!(**nat, NatTarget::Redirect(_)),
            _ => false,
        };
        self.ruleset.is_some_and(|r| r.rules().any(|(_, _, rule)| is_redirect(&rule.target)))
    }
}

/// A table at a hook: a part of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub hook: Hook,
    pub table: TableName,
}

/// The tables of a journey, in order. A forwarded packet may also reach INPUT: by REDIRECT.
pub(crate) fn pieces(way: ComparedPath, sides: &[ComparedSide<'_>]) -> Vec<(Piece, At)> {
    let redirects = sides.iter().any(ComparedSide::redirects);
    let hooks: &[Hook] = match way {
        ComparedPath::Hook(Hook::Prerouting) => &[Hook::Prerouting],
        ComparedPath::Hook(Hook::Input) | ComparedPath::Assembled => &[Hook::Input],
        ComparedPath::Hook(Hook::Forward) => &[Hook::Forward],
        ComparedPath::Hook(Hook::Output) => &[Hook::Output],
        ComparedPath::Hook(Hook::Postrouting) => &[Hook::Postrouting],
        ComparedPath::Entry(Entry::Forward) if redirects => {
            &[Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Postrouting]
        }
        ComparedPath::Entry(entry) => entry.hooks(),
    };
    let tables = |hook: &Hook| {
        let at = match way {
            ComparedPath::Entry(Entry::Output) => At::hook(*hook).local(),
            _ => At::hook(*hook),
        };
        let hook = *hook;
        tables_at(hook).iter().map(move |table| (Piece { hook, table: *table }, at))
    };
    hooks.iter().flat_map(tables).collect()
}

impl<'f> RulesetDiagram<'f> {
    /// The diagram of a piece. `keep`: diagrams in use that are younger than `from`.
    pub fn piece(
        &mut self,
        side: &ComparedSide<'f>,
        piece: (Piece, At),
        keep: &mut [Ref],
        from: usize,
    ) -> Result<Ref, Unknown> {
        match self.try_piece(side, piece, keep, from) {
            // What was made for other pieces can be made again.
            Err(Unknown::Full(Full::Memory)) if !self.chains_made.is_empty() => {
                self.chains_made = Library::default();
                self.sweep_now(keep, from);
                self.try_piece(side, piece, keep, from)
            }
            other => other,
        }
    }

    fn try_piece(
        &mut self,
        side: &ComparedSide<'f>,
        (piece, at): (Piece, At),
        keep: &mut [Ref],
        from: usize,
    ) -> Result<Ref, Unknown> {
        self.space.side = side.number;
        let Some(table) = side.ruleset.and_then(|r| r.table(&piece.table)) else {
            return Ok(Ref::ZERO);
        };
        if piece.table == TableName::Nat && !side.conntrack {
            return Ok(Ref::ZERO);
        }
        let made =
            self.table(table, &side.who, TablePlace { at, table: piece.table }, keep, from)?;
        Ok(match piece.table {
            TableName::Raw => {
                let made = self.before_conntrack(made, piece.hook, side.conntrack)?;
                self.without_templates(made)?
            }
            TableName::Nat => {
                let consulted = self.consults_nat(piece.hook)?;
                let made = self.space.store.and(consulted, made)?;
                self.translated_again(made, consulted, piece.hook)?
            }
            _ => made,
        })
    }

    /// The way that some pieces make up: their diagrams are the last of `keep`, which is emptied
    /// of them.
    pub fn way(
        &mut self,
        way: ComparedPath,
        pieces: &[(Piece, At)],
        keep: &mut Vec<Ref>,
        from: usize,
    ) -> Result<Ref, Unknown> {
        // From the end to the beginning. What waits is on `keep`: pieces, the way so far, and
        // behind them what follows routing.
        let forward = way == ComparedPath::Entry(Entry::Forward);
        let mut out = Ref::ZERO;
        let mut through = None;
        for (i, (piece, _)) in pieces.iter().enumerate().rev() {
            let next_hook = pieces.get(i + 1).map(|(p, _)| p.hook);
            if forward && next_hook.is_some_and(|n| n != piece.hook) {
                match piece.hook {
                    Hook::Input => {
                        let hop = self.hop()?;
                        through = Some(self.then(hop, out)?);
                        out = Ref::ZERO;
                    }
                    Hook::Prerouting => {
                        out = match through.take() {
                            None => {
                                let hop = self.hop()?;
                                self.then(hop, out)?
                            }
                            Some(through) => self.routed(out, through)?,
                        };
                    }
                    Hook::Forward | Hook::Output | Hook::Postrouting => {}
                }
            }
            let this = keep.pop().unwrap_or(Ref::ZERO);
            out = self.then(this, out)?;
            let is_first = i == 0 || pieces[i - 1].0.hook != piece.hook;
            if is_first && piece.hook == Hook::Input {
                out = self.whole(out)?;
            }
            keep.push(out);
            keep.extend(through);
            self.sweep_all(keep, from);
            if through.is_some() {
                through = keep.pop();
            }
            out = keep.pop().unwrap_or(out);
        }
        Ok(out)
    }

    /// INPUT for what was redirected, FORWARD for the rest.
    fn routed(&mut self, input: Ref, through: Ref) -> Result<Ref, Full> {
        let redirected = self.space.layout.levels(Block::Redirected).first;
        let store = &mut self.space.store;
        let redirected = store.node(redirected, Ref::ZERO, Ref::ONE)?;
        store.either(redirected, input, through)
    }

    /// Reclaims all that is younger than `from` and neither kept, of a set nor of a chain, where it
    /// pays.
    pub fn sweep_all(&mut self, keep: &mut [Ref], from: usize) {
        if self.space.store.wants_sweep() {
            self.sweep_now(keep, from);
        }
    }

    fn sweep_now(&mut self, keep: &mut [Ref], from: usize) {
        let RulesetDiagram { space, chains_made, .. } = self;
        let mut roots = keep.to_vec();
        roots.extend(space.sets.values());
        roots.extend(chains_made.roots());
        space.store.sweep(from, &mut roots);
        let mut swept = roots.into_iter();
        let mut next = |r: &mut Ref| *r = swept.next().unwrap_or(Ref::ZERO);
        keep.iter_mut().for_each(&mut next);
        space.sets.values_mut().for_each(&mut next);
        chains_made.renumber(next);
    }

    /// What continues in the end was accepted. Fields are not distinguished any more: the effects
    /// include everything.
    pub fn finished(&mut self, f: Ref, level: CompareLevel) -> Result<Ref, Unknown> {
        let redirected = self.space.layout.levels(Block::Redirected).first;
        let places = [(redirected, BitSource::constant(false))].into();
        let f = self.with_places(f, &places, TtlMap::SAME)?;
        let RulesetDiagram { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        Ok(space.store.map(code, f, &mut |leaf| {
            let terminal = terminals.get(leaf);
            let exit = match terminal.exit {
                Exit::Continue => Exit::Verdict(Verdict::Accept),
                other => other,
            };
            terminals.leaf(match level {
                CompareLevel::Effects => Terminal { exit, change: 0, ..terminal },
                CompareLevel::Verdict => Terminal::of(exit),
            })
        })?)
    }

    /// The diagram without its effects: of a piece that both sides share, before any that they do
    /// not.
    pub fn without_effects(&mut self, f: Ref) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let code = space.store.fresh_code();
        space.store.map(code, f, &mut |leaf| {
            let terminal = terminals.get(leaf);
            terminals.leaf(Terminal { effects: 0, ..terminal })
        })
    }

    /// The diagram where `within` holds; elsewhere both sides are the same.
    pub fn only_within(&mut self, f: Ref, within: Ref) -> Result<Ref, Full> {
        let same = self.terminals.exit(Exit::Same);
        let outside = self.space.store.minus(same, within)?;
        let inside = self.space.store.and(within, f)?;
        self.space.store.over(inside, outside)
    }

    /// ip_forward and ip6_forward take one off before the FORWARD hook.
    fn hop(&mut self) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        let change = PacketChange { ttl: TtlMap::add(-1), ..PacketChange::default() };
        let change = terminals.change_number(&change);
        let lives = terminals.leaf(Terminal { change, ..Terminal::of(Exit::Continue) });
        let expires = terminals.exit(Exit::Verdict(Verdict::Expired));
        let over = spans_in(&mut space.store, space.layout.field(Field::Ttl), &[(0, 1)])?;
        space.store.either(over, expires, lives)
    }

    /// ip_local_deliver reassembles IPv4 datagrams before the INPUT hook: no fragment gets there.
    fn whole(&mut self, input: Ref) -> Result<Ref, Full> {
        let RulesetDiagram { space, terminals, .. } = self;
        if space.layout.family == Family::V6 {
            return Ok(input);
        }
        let waits = terminals.exit(Exit::Verdict(Verdict::Waits));
        space.store.either(space.presence.later, waits, input)
    }

    /// The raw table runs before conntrack: there is no entry yet, except over `lo`, where the
    /// packet has the one that OUTPUT created.
    fn before_conntrack(&mut self, raw: Ref, hook: Hook, in_use: bool) -> Result<Ref, Unknown> {
        let mut change = PacketChange::default();
        self.set_connection(&mut change, 0);
        let places = change.bits.iter().map(|(level, source)| (*level, source.clone())).collect();
        let mut without = self.with_places(raw, &places, TtlMap::SAME)?;
        if in_use {
            without = self.without_its_entry(raw, without, &change, places)?;
        }
        if hook == Hook::Output {
            let fact = Fact::Attached.content();
            let variable = FreeVariable::Stateless { content: fact, hook: Some(hook), change: 0 };
            let attached = self.space.ask_of_target(variable)?;
            let attached = self.space.store.and(attached, self.space.presence.entry)?;
            return Ok(self.space.store.either(attached, raw, without)?);
        }
        let over_lo = self.space.device_test(Field::Iif, true, |name| name == "lo")?;
        Ok(self.space.store.either(over_lo, raw, without)?)
    }

    /// Matches that read the packet's entry (`-m helper`, `-m socket`) and find none in raw may
    /// give another result after it, where conntrack attaches one.
    fn without_its_entry(
        &mut self,
        raw: Ref,
        without: Ref,
        change: &PacketChange,
        mut places: HashMap<u32, BitSource>,
    ) -> Result<Ref, Full> {
        let mut questions = self.support(raw).questions;
        let Space { layout, variables, .. } = &self.space;
        questions.retain(|q| match variables.get(*q) {
            Some((FreeVariable::Stateless { .. }, Some(m))) => {
                match_effects(m, layout.family).conntrack != Conntrack::No
            }
            _ => false,
        });
        if questions.is_empty() {
            return Ok(without);
        }
        let end = self.space.layout.end;
        let change = self.terminals.change_number(change);
        for question in questions {
            let RulesetDiagram { space, terminals, .. } = self;
            let renamed = terminals.renamed(question, change, 0, &mut space.variables);
            places.insert(end + question, BitSource::bit(end + renamed, false));
        }
        let another = self.with_places(raw, &places, TtlMap::SAME)?;
        let entry = self.space.presence.entry;
        self.space.store.either(entry, another, without)
    }

    /// Conntrack takes the place of the template that CT attached to a packet without an entry.
    fn without_templates(&mut self, raw: Ref) -> Result<Ref, Unknown> {
        let RulesetDiagram { space, terminals, .. } = self;
        let ct = space.layout.field(Field::CtState);
        let mark = space.layout.field(Field::CtMark);
        let entry = ct.of_bit(ct_bit::ENTRY);
        let code = space.store.fresh_code();
        Ok(space.store.map(code, raw, &mut |leaf| {
            let terminal = terminals.get(leaf);
            let mut change = terminals.change(terminal.change).clone();
            if change.bits.get(&entry) != Some(&BitSource::constant(true)) {
                return leaf;
            }
            let is_connection = |level: &u32| {
                (ct.first..ct.end()).contains(level) || (mark.first..mark.end()).contains(level)
            };
            change.bits.retain(|level, _| !is_connection(level));
            let change = terminals.change_number(&change);
            terminals.leaf(Terminal { change, ..terminal })
        })?)
    }

    /// nf_nat_inet_fn in nf_nat_core.c: the rules see what starts a connection, once for its
    /// source and once for its destination. No table before that translates the same end, so the
    /// bit says what the connection was at the start.
    fn consults_nat(&mut self, hook: Hook) -> Result<Ref, Full> {
        let space = &mut self.space;
        let done = match hook {
            Hook::Prerouting | Hook::Output => ct_bit::DNAT,
            Hook::Input | Hook::Postrouting => ct_bit::SNAT,
            Hook::Forward => return Ok(Ref::ZERO),
        };
        let ct = space.layout.field(Field::CtState);
        let entry = |code: u32| code >> ct_bit::ENTRY & 1 == 1 && code >> done & 1 == 0;
        let state = |code: u32| code >> ct_bit::STATE_LOW & 3;
        let new = codes(&mut space.store, ct, |c| entry(c) && state(c) == 0)?;
        let related = codes(&mut space.store, ct, |c| {
            entry(c) && state(c) == 1 && c & 1 << ct_bit::REPLY == 0
        })?;
        let protos = space.layout.field(Field::Proto);
        let mut related = related;
        for icmp in [1u8, 58] {
            let is_icmp = masked(&mut space.store, protos, icmp.into(), 0xff)?;
            related = space.store.minus(related, is_icmp)?;
        }
        let starts = space.store.over(new, related)?;
        let fact = Fact::Bound.content();
        let variable = FreeVariable::Stateless { content: fact, hook: Some(hook), change: 0 };
        let bound = space.ask_of_target(variable)?;
        space.store.minus(starts, bound)
    }

    /// For packets after the first of a translated connection, the destination is rewritten at the
    /// position of the nat table; rewriting the source is the last step of the journey.
    fn translated_again(&mut self, nat: Ref, consulted: Ref, hook: Hook) -> Result<Ref, Full> {
        if !matches!(hook, Hook::Prerouting | Hook::Output) {
            return Ok(nat);
        }
        let space = &mut self.space;
        let ct = space.layout.field(Field::CtState);
        let has = |code: u32, bit: u32| code >> bit & 1 == 1;
        let translated = codes(&mut space.store, ct, |code| {
            has(code, ct_bit::ENTRY) && (has(code, ct_bit::SNAT) || has(code, ct_bit::DNAT))
        })?;
        let again = space.store.minus(translated, consulted)?;
        let mut change = PacketChange::default();
        let (content, end) = (translating(), space.layout.end);
        let mut put = |field: Field, choice: &dyn Fn(u32) -> Choice| {
            let levels = space.layout.field(field);
            for bit in (0..levels.bits).rev() {
                let variable = FreeVariable::Chosen { content, hook, change: 0, bit: choice(bit) };
                let number = space.variables.number(variable, || None);
                change.bits.insert(levels.of_bit(bit), BitSource::bit(end + number, false));
            }
        };
        put(Field::Daddr, &|bit| Choice::Addr(bit as u8));
        put(Field::Dport, &|bit| Choice::Port(bit as u8));
        let change = self.terminals.change_number(&change);
        let changed = Terminal { change, ..Terminal::of(Exit::Continue) };
        let changed = self.terminals.leaf(changed);
        self.space.store.either(again, changed, nat)
    }
}
