//! Hooks and journeys as diagrams: what the interpreter's `Journey` does for one packet.

use weir_model::{Family, Field, Firewall, Hook, Ruleset, TableName};

use super::chain::{Place, Unknown};
use super::change::{Change, Source, TtlMap};
use super::compare::{Level, Way};
use super::layout::{Block, ct_bit};
use super::lower::{At, codes, masked, spans_in};
use super::store::{Full, Ref};
use super::terminal::{Exit, Terminal};
use super::then::Meaning;
use super::who::Who;
use crate::interpreter::{Entry, needs_conntrack, tables_at};
use crate::outcome::Verdict;

/// One of the firewalls that are compared.
#[derive(Debug)]
pub(crate) struct Side<'f> {
    ruleset: Option<&'f Ruleset>,
    who: Who,
    /// Conntrack is in use: nat is consulted.
    conntrack: bool,
    /// Which of the space's firewalls it is.
    number: usize,
}

impl<'f> Side<'f> {
    pub fn new(
        firewall: &'f Firewall,
        family: Family,
        number: usize,
        who: Who,
        conntrack: bool,
    ) -> Self {
        let ruleset = firewall.ruleset(family);
        let uses = || ruleset.is_some_and(|r| r.rules().any(|(_, _, r)| needs_conntrack(r)));
        Side { ruleset, who, conntrack: conntrack || uses(), number }
    }
}

impl Meaning<'_> {
    /// What becomes of packets on a way. `keep`: diagrams in use that are younger than `from`.
    pub fn way(
        &mut self,
        side: &Side<'_>,
        way: Way,
        level: Level,
        keep: &mut Vec<Ref>,
        from: usize,
    ) -> Result<Ref, Unknown> {
        self.space.side = side.number;
        let mut builder = Builder { meaning: self, side, keep, from };
        let all = match way {
            Way::Hook(hook) => builder.hook(At::hook(hook))?,
            Way::Entry(Entry::Output) => builder.output()?,
            Way::Entry(entry) => builder.arrival(entry)?,
        };
        self.finished(all, level)
    }

    /// Reclaims all that is younger than `from` and neither kept nor of a set, where it pays.
    pub fn sweep_all(&mut self, keep: &mut [Ref], from: usize) {
        let space = &mut self.space;
        if !space.store.wants_sweep() {
            return;
        }
        let mut roots = keep.to_vec();
        roots.extend(space.sets.values());
        space.store.sweep(from, &mut roots);
        let mut swept = roots.into_iter();
        let mut next = |r: &mut Ref| *r = swept.next().unwrap_or(Ref::ZERO);
        keep.iter_mut().for_each(&mut next);
        space.sets.values_mut().for_each(&mut next);
    }

    /// What goes on in the end was accepted. Fields are no longer told: the effects say all.
    fn finished(&mut self, f: Ref, level: Level) -> Result<Ref, Unknown> {
        let redirected = self.space.layout.levels(Block::Redirected).first;
        let places = [(redirected, Source::constant(false))].into();
        let f = self.with_places(f, &places, TtlMap::SAME)?;
        let Meaning { space, terminals } = self;
        let code = space.store.fresh_code();
        Ok(space.store.map(code, f, &mut |leaf| {
            let terminal = terminals.get(leaf);
            let exit = match terminal.exit {
                Exit::Continue => Exit::Verdict(Verdict::Accept),
                other => other,
            };
            terminals.leaf(match level {
                Level::Effects => Terminal { exit, change: 0, ..terminal },
                Level::Verdict => Terminal::of(exit),
            })
        })?)
    }
}

/// A way under construction; parts of it wait on `keep`.
struct Builder<'m, 'f, 'k> {
    meaning: &'m mut Meaning<'f>,
    side: &'k Side<'k>,
    keep: &'k mut Vec<Ref>,
    from: usize,
}

impl Builder<'_, '_, '_> {
    fn arrival(&mut self, entry: Entry) -> Result<Ref, Unknown> {
        let before = self.hook(At::hook(Hook::Prerouting))?;
        self.keep.push(before);
        let input = self.hook(At::hook(Hook::Input))?;
        self.keep.push(input);
        if entry == Entry::Forward {
            let forward = self.hook(At::hook(Hook::Forward))?;
            self.keep.push(forward);
            let after = self.hook(At::hook(Hook::Postrouting))?;
            let forward = self.keep.pop().unwrap_or(forward);
            let through = self.meaning.then(forward, after)?;
            let hop = self.hop()?;
            let through = self.meaning.then(hop, through)?;
            let input = self.keep.pop().unwrap_or(input);
            let redirected = self.meaning.space.layout.levels(Block::Redirected).first;
            let store = &mut self.meaning.space.store;
            let redirected = store.node(redirected, Ref::ZERO, Ref::ONE)?;
            let routed = store.either(redirected, input, through)?;
            self.keep.push(routed);
        }
        let routed = self.keep.pop().unwrap_or(input);
        let before = self.keep.pop().unwrap_or(before);
        Ok(self.meaning.then(before, routed)?)
    }

    fn output(&mut self) -> Result<Ref, Unknown> {
        let out = self.hook(At::hook(Hook::Output))?;
        self.keep.push(out);
        let after = self.hook(At::hook(Hook::Postrouting).local())?;
        let out = self.keep.pop().unwrap_or(out);
        Ok(self.meaning.then(out, after)?)
    }

    /// ip_forward and ip6_forward take one off before the FORWARD hook.
    fn hop(&mut self) -> Result<Ref, Full> {
        let Meaning { space, terminals } = &mut *self.meaning;
        let change = Change { ttl: TtlMap::add(-1), ..Change::default() };
        let change = terminals.change_number(&change);
        let lives = terminals.leaf(Terminal { change, ..Terminal::of(Exit::Continue) });
        let expires = terminals.exit(Exit::Verdict(Verdict::Expired));
        let over = spans_in(&mut space.store, space.layout.field(Field::Ttl), &[(0, 1)])?;
        space.store.either(over, expires, lives)
    }

    /// The tables of a hook, one after the other.
    fn hook(&mut self, at: At) -> Result<Ref, Unknown> {
        let Some(hook) = at.hook else { return Ok(Ref::ZERO) };
        let mut out = Ref::ZERO;
        for name in tables_at(hook) {
            let Some(table) = self.side.ruleset.and_then(|r| r.table(name)) else { continue };
            if *name == TableName::Nat && !self.side.conntrack {
                continue;
            }
            self.keep.push(out);
            let place = Place { at, table: *name };
            let Builder { meaning, side, keep, from } = self;
            let made = meaning.table(table, &side.who, place, keep, *from)?;
            let made = match name {
                TableName::Raw => self.before_conntrack(made, hook)?,
                TableName::Nat => {
                    let consulted = self.consults_nat(hook)?;
                    self.meaning.space.store.and(consulted, made)?
                }
                _ => made,
            };
            out = self.keep.pop().unwrap_or(out);
            out = self.meaning.then(out, made)?;
            self.sweep(&mut out);
        }
        Ok(out)
    }

    /// Reclaims what a table left behind.
    fn sweep(&mut self, out: &mut Ref) {
        self.keep.push(*out);
        self.meaning.sweep_all(self.keep, self.from);
        *out = self.keep.pop().unwrap_or(*out);
    }

    /// The raw table runs before conntrack: no entry is there yet, except over `lo`, where the
    /// packet brings the one that OUTPUT made.
    fn before_conntrack(&mut self, raw: Ref, hook: Hook) -> Result<Ref, Unknown> {
        let meaning = &mut *self.meaning;
        let mut change = Change::default();
        meaning.set_connection(&mut change, 0);
        let places = change.bits.into_iter().collect();
        let without = meaning.with_places(raw, &places, TtlMap::SAME)?;
        if hook == Hook::Output {
            return Ok(without);
        }
        let over_lo = meaning.space.device_test(Field::Iif, true, |name| name == "lo")?;
        Ok(meaning.space.store.either(over_lo, raw, without)?)
    }

    /// nf_nat_inet_fn in nf_nat_core.c: the rules see what starts a connection, once for its
    /// source and once for its destination. No table before that translates the same end, so the
    /// bit says what the connection was at the start.
    fn consults_nat(&mut self, hook: Hook) -> Result<Ref, Full> {
        let space = &mut self.meaning.space;
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
        space.store.over(new, related)
    }
}
