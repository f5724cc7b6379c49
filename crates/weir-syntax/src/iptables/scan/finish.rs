//! The end of a line: its extensions become values, and their requirements are checked.

use std::cell::Cell;

use weir_model::{Hook, Match, Span, Target};

use super::{Jump, Line, Open, Scan, hook_bit};
use crate::diagnostic::{Diagnostic, Fallible};
use crate::iptables::extension;
use crate::iptables::option::{Extension, ExtensionScope, Given};

impl<'w> Scan<'_, '_, 'w> {
    /// `!` and a list of addresses do not go together in one rule.
    fn check_lists(&self) -> Fallible<()> {
        if self.sources.is_empty() && self.destinations.is_empty() {
            return Ok(());
        }
        let Some(span) = self.negated_address else { return Ok(()) };
        Diagnostic::new("! with a list of addresses", span)
            .help("write a chain that returns on each address, or an ipset")
            .fail()
    }

    pub(super) fn finish(self) -> Fallible<Line<'w>> {
        if self.ignored {
            return Ok(Line::ignored());
        }
        if let Some(bang) = self.invert {
            return Diagnostic::new("! before nothing", bang).help("remove it").fail();
        }
        let start = self.words.first().map_or(Span::NONE, |w| w.span);
        self.check_lists()?;
        let Some(command) = self.command else {
            return Diagnostic::new("line without a command", start)
                .help("a rule begins with -A CHAIN")
                .fail();
        };
        let mut line = Line {
            command,
            base: self.base,
            sources: self.sources,
            destinations: self.destinations,
            matches: Vec::with_capacity(self.open.len()),
            target: Target::None,
            counters: self.counters,
            spans: Vec::with_capacity(self.open.len() + 1),
            hooks: u8::MAX,
            narrowed_by: "",
            given: self.given,
        };
        let mut target = None;
        for (owner, (open, span)) in self.open.into_iter().enumerate() {
            let given = |options, name| Given {
                family: self.around.family,
                table: self.around.table,
                resolve: self.around.resolve,
                name,
                span,
                base: &line.base,
                taken: &self.taken,
                owner: owner as u8,
                options,
                hooks: Cell::new(&[]),
            };
            match open {
                Open::Opaque(o) => {
                    line.matches.push(Match::Opaque(Box::new(o)));
                    line.spans.push(span);
                }
                Open::Match(e) => {
                    let (m, hooks) = build(&given(e.options, e.name), e)?;
                    line.matches.push(m);
                    line.spans.push(span);
                    line.narrow(e.name, e.place.hooks, hooks);
                }
                Open::Target(e) => {
                    let (t, hooks) = build(&given(e.options, e.name), e)?;
                    target = Some((t, span));
                    line.narrow(e.name, e.place.hooks, hooks);
                }
            }
        }
        let (target, span) = match self.jump {
            Jump::None => (Target::None, line.command.span),
            Jump::Plain(t) => (t, self.jump_span),
            Jump::Opaque(o) => (Target::Opaque(Box::new(o)), self.jump_span),
            Jump::Extension => target.unwrap_or((Target::None, self.jump_span)),
        };
        extension::check_rule(&target, &line.matches, span)?;
        line.target = target;
        line.spans.push(span);
        Ok(line)
    }
}

/// Makes an extension's value; with it the hooks that the value leaves (none: all).
fn build<T>(g: &Given, e: &Extension<T>) -> Fallible<(T, &'static [Hook])> {
    check_given(g, e.place)?;
    let value = (e.build)(g)?;
    Ok((value, g.hooks.get()))
}

impl Line<'_> {
    /// Keeps only the hooks that the extension `by` allows, for itself and for its value.
    fn narrow(&mut self, by: &'static str, place: &[Hook], value: &[Hook]) {
        for hooks in [place, value].into_iter().filter(|h| !h.is_empty()) {
            let bits = hooks.iter().fold(0, |bits, h| bits | hook_bit(*h));
            if self.hooks & bits != self.hooks {
                self.narrowed_by = by;
            }
            self.hooks &= bits;
        }
    }
}

/// What the option table and the place of an extension say about what was given.
fn check_given(g: &Given, place: ExtensionScope) -> Fallible<()> {
    let bits = g.iter().fold(0u32, |bits, t| bits | 1 << t.id);
    for o in g.options {
        let bit = 1 << o.id;
        if o.mandatory && bits & bit == 0 {
            return g
                .problem(format!("{} without --{}", g.name, o.name))
                .help("the option must be given")
                .fail();
        }
        if bits & bit == 0 {
            continue;
        }
        let Some(t) = g.first(o.id) else { continue };
        if let Some(other) = g.iter().find(|t| o.excludes >> t.id & 1 == 1) {
            let (a, b) = (o.name, g.spelled(other.id));
            return Diagnostic::new(format!("--{a} and --{b} together"), other.span)
                .help("give one of them")
                .fail();
        }
        if o.also & !bits != 0 {
            let missing = (o.also & !bits).trailing_zeros() as u8;
            return Diagnostic::new(
                format!("--{} without --{}", o.name, g.spelled(missing)),
                t.span,
            )
            .fail();
        }
    }
    let proto = g.base.proto.filter(|p| !p.negated).map(|p| p.proto);
    if !place.protocols.is_empty() && !proto.is_some_and(|p| place.protocols.contains(&p)) {
        let names: Vec<_> =
            place.protocols.iter().filter_map(|p| crate::names::protocol_name(*p)).collect();
        return g
            .problem(format!("{} in a rule that is not for its protocol only", g.name))
            .help(format!("write -p {} in the rule", names.join(", ")))
            .fail();
    }
    if !place.tables.is_empty() && !place.tables.contains(&g.table) {
        let names: Vec<_> = place.tables.iter().map(|t| t.as_str()).collect();
        return g
            .problem(format!("{} in the {} table", g.name, g.table))
            .help(format!("the kernel accepts it only in {}", names.join(", ")))
            .fail();
    }
    Ok(())
}
