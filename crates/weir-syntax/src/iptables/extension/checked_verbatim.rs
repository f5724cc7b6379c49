//! Modules whose options are checked and preserved verbatim.
//!
//! Their options are known, so that a misspelt, missing or contradictory one is refused here with
//! its position, and not by `iptables-restore` while a ruleset is loaded. Their values are left as
//! they were written. What a rule with one does is in the table of effects: without a row it is
//! opaque, as with an unknown module.

pub(super) mod hmark;
pub(super) mod ipv6_header_matches;
pub(super) mod matches;
pub(super) mod rateest_target;
pub(super) mod targets;

use weir_model::rule_match::WrittenOption;
use weir_model::{Match, Target};

use super::option_values;
use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::address;
use crate::iptables::option_specs_and_arguments::{
    OptionArity, ParsedExtensionOptions, ParsedOption,
};
use crate::strtoul;

const U32_MAX: u64 = u32::MAX as u64;

/// What an option's argument must be.
#[derive(Clone, Copy)]
enum ArgumentKind {
    /// A number from the first to the second.
    Number(u64, u64),
    /// `a`, `a:b`, `a:` or `:b`, each at most this. The tools take an upper end below the lower
    /// one, too.
    NumberRange(u64),
    /// Text of that many bytes.
    Text(usize, usize),
    /// Text of at least that many bytes, of which the tool keeps so many.
    TruncatedText(usize, usize),
    /// One of these words, in any case.
    CaselessKeyword(&'static [&'static str]),
    /// One of these words as it is.
    ExactKeyword(&'static [&'static str]),
    /// An address, with a mask or length or without.
    Net,
    /// A prefix length, or a mask that has one.
    PrefixLength,
}

use ArgumentKind::{
    CaselessKeyword, ExactKeyword, Net, Number, NumberRange, PrefixLength, Text, TruncatedText,
};

/// A match, its options checked.
fn build_verbatim_match(
    g: &ParsedExtensionOptions,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Match> {
    Ok(Match::from_written_options(g.name, check_and_copy_options(g, kinds)?))
}

/// A target, its options checked.
fn build_verbatim_target(
    g: &ParsedExtensionOptions,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Target> {
    Ok(Target::from_written_options(g.name, check_and_copy_options(g, kinds)?))
}

fn check_and_copy_options(
    g: &ParsedExtensionOptions,
    kinds: &[(u8, ArgumentKind)],
) -> ParseResult<Vec<WrittenOption>> {
    let mut options = Vec::new();
    for t in g.iter() {
        let kind = kinds.iter().find(|(id, _)| *id == t.id).map(|(_, kind)| *kind);
        if let Some(kind) = kind {
            check_argument(t, kind, g)?;
        }
        let kept = match kind {
            // It ends inside a character only if `check_argument` refused it.
            Some(TruncatedText(_, max)) => t.arg.get(..max).unwrap_or(t.arg),
            _ => t.arg,
        };
        let has_argument =
            g.option_specs.iter().any(|o| o.id == t.id && o.arity != OptionArity::Flag);
        options.push(WrittenOption {
            negated: t.negated,
            name: g.option_name_without_dashes(t.id),
            argument: has_argument.then(|| kept.to_owned()),
        });
    }
    Ok(options)
}

fn check_argument(
    t: &ParsedOption,
    kind: ArgumentKind,
    g: &ParsedExtensionOptions,
) -> ParseResult<()> {
    match kind {
        Number(min, max) => option_values::parse_integer(t, min, max).map(drop),
        NumberRange(max) => option_values::parse_number_range(t, max).map(drop),
        Text(min, max) if t.arg.len() <= max => check_text(t, min),
        Text(_, max) => text_too_long_error(t, max).into_err(),
        // What the tool keeps must be text.
        TruncatedText(_, max) if t.arg.len() > max && !t.arg.is_char_boundary(max) => {
            text_too_long_error(t, max).into_err()
        }
        TruncatedText(min, _) => check_text(t, min),
        CaselessKeyword(words) if words.iter().any(|w| w.eq_ignore_ascii_case(t.arg)) => Ok(()),
        ExactKeyword(words) if words.contains(&t.arg) => Ok(()),
        CaselessKeyword(words) | ExactKeyword(words) => keyword_error(t, words).into_err(),
        Net => option_values::parse_unmasked_host_net(t, g).map(drop),
        PrefixLength => {
            let bits = g.family.addr_bits();
            let length = match t.arg.contains(['.', ':']) {
                false => strtoul::parse_number_in_range(t.arg, 0, bits.into()),
                true => address::parse_mask(t.arg, g.family)
                    .and_then(|mask| g.family.prefix_len_of_mask(mask.0))
                    .map(u64::from),
            };
            match length {
                Some(_) => Ok(()),
                None => t
                    .arg_error(format!("{} is not a prefix length", t.arg))
                    .with_help(format!(
                        "write a number from 0 to {bits}, or a mask that has a length"
                    ))
                    .into_err(),
            }
        }
    }
}

/// Refuses text that is too short, or that one line cannot hold.
fn check_text(t: &ParsedOption, min: usize) -> ParseResult<()> {
    match t.arg {
        text if text.len() < min => {
            t.arg_error("empty argument").with_help("write a name").into_err()
        }
        text if text.contains('\n') => {
            t.arg_error("line end in an argument").with_help("remove it").into_err()
        }
        _ => Ok(()),
    }
}

fn text_too_long_error(t: &ParsedOption, max: usize) -> Diagnostic {
    t.arg_error(format!("longer than {max} bytes")).with_help("write a shorter one")
}

fn keyword_error(t: &ParsedOption, words: &[&str]) -> Diagnostic {
    let help = match words.iter().find(|w| w.eq_ignore_ascii_case(t.arg)) {
        Some(known) => format!("iptables distinguishes upper and lower case: write {known}"),
        None => format!("use one of {}", words.join(", ")),
    };
    t.arg_error(format!("{:?} is not understood here", t.arg)).with_help(help)
}
