//! Modules whose options are checked and preserved verbatim.
//!
//! No field, effect or state of these is modelled: a rule with one is opaque, as with an unknown
//! module. But their options are known, so that a misspelt, missing or contradictory one is refused
//! here with its position, and not by `iptables-restore` while a ruleset is loaded.

mod matches;
mod targets;

pub(super) use matches::MATCHES;
pub(super) use targets::TARGETS;

use weir_model::matching::Opaque;
use weir_model::{Match, Target};

use super::value;
use crate::diagnostic::Fallible;
use crate::iptables::option::{Arity, Given, Taken};

/// What an option's argument must be.
#[derive(Clone, Copy)]
enum ArgumentKind {
    /// A number from the first to the second.
    Number(u64, u64),
    /// `a`, `a:b`, `a:` or `:b`, each at most this.
    Range(u64),
    /// Text of that many bytes.
    Text(usize, usize),
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// A list of numbers from the second to the third, or of names.
    List(&'static [&'static str], u64, u64),
    /// An address, with a mask or length or without.
    Net,
    /// A prefix length.
    Length,
}

use ArgumentKind::{Length, List, Net, Number, Range, Text, Word};

/// A match, its options checked.
fn keep_match(g: &Given, kinds: &[(u8, ArgumentKind)]) -> Fallible<Match> {
    Ok(Match::Opaque(Box::new(keep(g, kinds)?)))
}

/// A target, its options checked.
fn keep_target(g: &Given, kinds: &[(u8, ArgumentKind)]) -> Fallible<Target> {
    Ok(Target::Opaque(Box::new(keep(g, kinds)?)))
}

fn keep(g: &Given, kinds: &[(u8, ArgumentKind)]) -> Fallible<Opaque> {
    let mut words = Vec::new();
    for t in g.iter() {
        if let Some((_, kind)) = kinds.iter().find(|(id, _)| *id == t.id) {
            check(t, *kind, g)?;
        }
        if t.negated {
            words.push("!".to_owned());
        }
        words.push(format!("--{}", g.spelled(t.id)));
        if g.options.iter().any(|o| o.id == t.id && o.arity != Arity::Flag) {
            words.push(t.arg.to_owned());
        }
    }
    Ok(Opaque { name: g.name.to_owned(), words })
}

fn check(t: &Taken, kind: ArgumentKind, g: &Given) -> Fallible<()> {
    match kind {
        Number(min, max) => value::integer(t, min, max).map(drop),
        Range(max) => match value::range(t, max)? {
            (lo, hi) if lo > hi => t
                .problem(format!("the lower end of {} is above its upper end", t.arg))
                .help("write the lower number first")
                .fail(),
            _ => Ok(()),
        },
        Text(min, max) => match t.arg.len() {
            len if len < min => t.problem("empty argument").help("write a name").fail(),
            len if len > max => {
                t.problem(format!("longer than {max} bytes")).help("write a shorter one").fail()
            }
            _ if t.arg.contains('\n') => {
                t.problem("line end in an argument").help("remove it").fail()
            }
            _ => Ok(()),
        },
        Word(words) => one_of(t, t.arg, words),
        List(names, min, max) => {
            t.arg.split(',').try_for_each(|word| match crate::number::whole(word, min, max) {
                Some(_) => Ok(()),
                None if min <= max && crate::number::whole(word, 0, u64::MAX).is_some() => t
                    .problem(format!("{word} is not from {min} to {max}"))
                    .help(format!("numbers from {min} to {max}, or {}", names.join(", ")))
                    .fail(),
                None => one_of(t, word, names),
            })
        }
        Net => value::host_net(t, g).map(drop),
        Length => value::integer(t, 0, g.family.bits().into()).map(drop),
    }
}

fn one_of(t: &Taken, word: &str, words: &[&str]) -> Fallible<()> {
    if words.iter().any(|w| w.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    t.problem(format!("{word:?} is not understood here"))
        .help(format!("use one of {}", words.join(", ")))
        .fail()
}
