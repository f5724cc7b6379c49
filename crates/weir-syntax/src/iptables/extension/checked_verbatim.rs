//! Modules whose options are checked and preserved verbatim.
//!
//! Their options are known, so that a misspelt, missing or contradictory one is refused here with
//! its position, and not by `iptables-restore` while a ruleset is loaded. Their values are left as
//! they were written. What a rule with one does is in the table of effects: without a row it is
//! opaque, as with an unknown module.

pub(super) mod hmark;
pub(super) mod matches;
pub(super) mod targets;

use weir_model::rule_match::WrittenOption;
use weir_model::{Match, Target};

use super::option_values;
use crate::diagnostic::ParseResult;
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{ExtensionArguments, OptionArity, ParsedOption};

/// What an option's argument must be.
#[derive(Clone, Copy)]
enum ArgumentKind {
    /// A number from the first to the second.
    Number(u64, u64),
    /// `a`, `a:b`, `a:` or `:b`, each at most this.
    NumberRange(u64),
    /// Text of that many bytes.
    Text(usize, usize),
    /// One of these words, in any case.
    Keyword(&'static [&'static str]),
    /// A list of numbers from the second to the third, or of names.
    NumberOrNameList(&'static [&'static str], u64, u64),
    /// An address, with a mask or length or without.
    Net,
    /// A prefix length, or a mask that has one.
    PrefixLength,
}

use ArgumentKind::{Keyword, Net, Number, NumberOrNameList, NumberRange, PrefixLength, Text};

/// A match, its options checked.
fn build_verbatim_match(
    g: &ExtensionArguments,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Match> {
    Ok(Match::from_written_options(g.name, check_options(g, kinds)?))
}

/// A target, its options checked.
fn build_verbatim_target(
    g: &ExtensionArguments,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Target> {
    Ok(Target::from_written_options(g.name, check_options(g, kinds)?))
}

fn check_options(
    g: &ExtensionArguments,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Vec<WrittenOption>> {
    let mut options = Vec::new();
    for t in g.iter() {
        if let Some((_, kind)) = kinds.iter().find(|(id, _)| *id == t.id) {
            check_argument(t, *kind, g)?;
        }
        let has_argument =
            g.option_specs.iter().any(|o| o.id == t.id && o.arity != OptionArity::Flag);
        options.push(WrittenOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            argument: has_argument.then(|| t.arg.to_owned()),
        });
    }
    Ok(options)
}

fn check_argument(t: &ParsedOption, kind: ArgumentKind, g: &ExtensionArguments) -> ParseResult<()> {
    match kind {
        Number(min, max) => option_values::parse_integer(t, min, max).map(drop),
        NumberRange(max) => match option_values::parse_number_range(t, max)? {
            (lo, hi) if lo > hi => t
                .arg_error(format!("the lower end of {} is above its upper end", t.arg))
                .with_help("write the lower number first")
                .into_err(),
            _ => Ok(()),
        },
        Text(min, max) => match t.arg.len() {
            len if len < min => t.arg_error("empty argument").with_help("write a name").into_err(),
            len if len > max => t
                .arg_error(format!("longer than {max} bytes"))
                .with_help("write a shorter one")
                .into_err(),
            _ if t.arg.contains('\n') => {
                t.arg_error("line end in an argument").with_help("remove it").into_err()
            }
            _ => Ok(()),
        },
        Keyword(words) => check_word_in_list(t, t.arg, words),
        NumberOrNameList(names, min, max) => t.arg.split(',').try_for_each(|word| {
            match crate::strtoul::parse_number_in_range(word, min, max) {
                Some(_) => Ok(()),
                None if min <= max
                    && crate::strtoul::parse_number_in_range(word, 0, u64::MAX).is_some() =>
                {
                    t.arg_error(format!("{word} is not from {min} to {max}"))
                        .with_help(format!("numbers from {min} to {max}, or {}", names.join(", ")))
                        .into_err()
                }
                None => check_word_in_list(t, word, names),
            }
        }),
        Net => option_values::parse_host_net(t, g).map(drop),
        PrefixLength if t.arg.contains(['.', ':']) => {
            let mask = address::parse_mask(t.arg, g.family);
            match mask.and_then(|mask| g.family.prefix_len_of_mask(mask.0)) {
                Some(_) => Ok(()),
                None => t
                    .arg_error(format!("the mask {} is not a prefix length", t.arg))
                    .with_help("write a number")
                    .into_err(),
            }
        }
        PrefixLength => option_values::parse_integer(t, 0, g.family.addr_bits().into()).map(drop),
    }
}

fn check_word_in_list(t: &ParsedOption, word: &str, words: &[&str]) -> ParseResult<()> {
    if words.iter().any(|w| w.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    t.arg_error(format!("{word:?} is not understood here"))
        .with_help(format!("use one of {}", words.join(", ")))
        .into_err()
}
