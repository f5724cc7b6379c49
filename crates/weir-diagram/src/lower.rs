//! The tests of a rule as boolean functions of the variables.
//!
//! A test of a header has three results: it matches, it does not, or it drops the packet because
//! the header is truncated. So it becomes two functions, [`Lowered::holds`] and [`Lowered::drops`].
//! What the packet looks like depends on the point of evaluation ([`At`]): before routing it has no
//! output device, before conntrack no entry, and a local packet has no MAC address.

use weir_model::matching::{ConntrackMatch, SetMatch, ct_state};
use weir_model::{Field, FieldSet, Hotdrop, Match, Predicate, Rule, Test, match_effects};
use weir_semantics::digest::{content, dropping};

use crate::Space;
use crate::at::At;
use crate::presence::{codes, ct_bits_of, devices, masked, spans_in};
use crate::store::{Full, Ref};
use crate::variable::{FreeVariable, StateInput};
/// A test as booleans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowered {
    /// It matches.
    pub holds: Ref,
    /// It drops the packet immediately.
    pub drops: Ref,
}

impl Lowered {
    const NEVER: Lowered = Lowered { holds: Ref::ZERO, drops: Ref::ZERO };

    const fn plain(holds: Ref) -> Lowered {
        Lowered { holds, drops: Ref::ZERO }
    }
}

impl Space<'_> {
    /// A test of a rule, as [`located_tests_of`](weir_model::located_tests_of) returns it. `who`
    /// identifies the rule's stateful tests.
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
                    let of = StateInput { hook: at.hook, reads: FieldSet::ALL, change: 0 };
                    let variable = FreeVariable::Stateful { who, content: content(m), nth: 0, of };
                    return self.ask(variable, || m.clone()).map(Lowered::plain);
                }
                Ok(Lowered::plain(self.set_test(set, at)?))
            }
            Test::Opaque { index, stateful, hotdrop } => {
                let m = &rule.matches[*index];
                let reads = match_effects(m, self.layout.family).reads;
                let of = StateInput { hook: at.hook, reads, change: 0 };
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
    fn conntrack_test(&mut self, c: &ConntrackMatch, asked: Ref, at: At) -> Result<Ref, Full> {
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
