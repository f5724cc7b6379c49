//! Matches of IPv6 headers and addresses that are checked and preserved verbatim.

use weir_model::Hook::{Forward, Input, Prerouting};
use weir_model::{Family, Match};

use super::{Number, NumberRange, U32_MAX, build_verbatim_match};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, ExtensionScope, ParsedExtensionOptions, flag_option, option_with_argument,
};
use crate::{strtoul, system_name_tables};

const IPV6_ONLY: Option<Family> = Some(Family::V6);

pub(in crate::iptables::extension) static EUI64_MATCH: Extension<Match> = Extension {
    name: "eui64",
    family: IPV6_ONLY,
    options: &[],
    build: |g| build_verbatim_match(g, &[]),
    scope: ExtensionScope::from_hooks(&[Prerouting, Input, Forward]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static FRAG_MATCH: Extension<Match> = Extension {
    name: "frag",
    family: IPV6_ONLY,
    options: &[
        option_with_argument("fragid", 0).invertible(),
        option_with_argument("fraglen", 1).invertible(),
        flag_option("fragres", 2),
        flag_option("fragfirst", 3),
        flag_option("fragmore", 4).excludes(1 << 5),
        flag_option("fraglast", 5).excludes(1 << 4),
    ],
    build: |g| build_verbatim_match(g, &[(0, NumberRange(U32_MAX)), (1, Number(0, U32_MAX))]),
    ..Extension::PRINTED_AS_WRITTEN
};

pub(in crate::iptables::extension) static MH_MATCH: Extension<Match> = Extension {
    name: "mh",
    family: IPV6_ONLY,
    options: &[option_with_argument("mh-type", 0).invertible()],
    build: build_mh_match,
    scope: ExtensionScope::for_protocols(&[135]),
    ..Extension::PRINTED_AS_WRITTEN
};

/// Messages of Mobile IPv6 (RFC 6275): names and their numbers.
const MH_TYPES_0_TO_4: [(&str, u8); 10] = [
    ("binding-refresh-request", 0),
    ("brr", 0),
    ("home-test-init", 1),
    ("hoti", 1),
    ("careof-test-init", 2),
    ("coti", 2),
    ("home-test", 3),
    ("hot", 3),
    ("careof-test", 4),
    ("cot", 4),
];
const MH_TYPES_5_TO_7: [(&str, u8); 6] = [
    ("binding-update", 5),
    ("bu", 5),
    ("binding-acknowledgement", 6),
    ("ba", 6),
    ("binding-error", 7),
    ("be", 7),
];

/// A type by a name, which may be abbreviated, or by number.
///
/// Of several names that begin so the tool takes the one that is no longer, else its first
/// (`name_to_type` of libip6t_mh.c): `bind` is 0. It takes an empty word for 0, too; that is
/// refused here.
fn parse_mh_type(text: &str) -> Option<u8> {
    let begins = |name: &str| {
        name.get(..text.len()).is_some_and(|s| !text.is_empty() && s.eq_ignore_ascii_case(text))
    };
    let names = || MH_TYPES_0_TO_4.iter().chain(&MH_TYPES_5_TO_7).filter(|(name, _)| begins(name));
    let named = names().find(|(name, _)| name.len() == text.len()).or_else(|| names().next());
    match named {
        Some((_, number)) => Some(*number),
        None => strtoul::parse_number_in_range(text, 0, 255).map(|n| n as u8),
    }
}

fn build_mh_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    if let Some(t) = g.first_with_id(0) {
        let (lo, hi) = t.arg.split_once(':').unwrap_or((t.arg, t.arg));
        let open = t.arg.contains(':');
        let read = |text: &str, empty: u8| match text {
            "" if open => Some(empty),
            _ => parse_mh_type(text),
        };
        match (read(lo, 0), read(hi, 255)) {
            (Some(lo), Some(hi)) if lo <= hi => {}
            (Some(_), Some(_)) => {
                return t
                    .arg_error(format!("the lower end of {} is above its upper end", t.arg))
                    .with_help("write the lower type first")
                    .into_err();
            }
            _ => {
                return t
                    .arg_error(format!("no type of mobility header {:?}", t.arg))
                    .with_help(
                        "write a number from 0 to 255, a range FROM:TO, or a name like \
                         binding-update",
                    )
                    .into_err();
            }
        }
    }
    build_verbatim_match(g, &[])
}

/// Both kinds of options headers differ in nothing else.
const fn ipv6_options_header_match(
    name: &'static str,
    options: &'static [crate::iptables::option_specs_and_arguments::OptionSpec],
) -> Extension<Match> {
    Extension {
        name,
        family: IPV6_ONLY,
        options,
        build: build_ipv6_options_header_match,
        ..Extension::PRINTED_AS_WRITTEN
    }
}

pub(in crate::iptables::extension) static IPV6_DST_OPTIONS_MATCH: Extension<Match> =
    ipv6_options_header_match(
        "dst",
        &[option_with_argument("dst-len", 0).invertible(), option_with_argument("dst-opts", 1)],
    );
pub(in crate::iptables::extension) static IPV6_HOP_BY_HOP_MATCH: Extension<Match> =
    ipv6_options_header_match(
        "hbh",
        &[option_with_argument("hbh-len", 0).invertible(), option_with_argument("hbh-opts", 1)],
    );

/// Most options that the match compares (`IP6T_OPTS_OPTSNR`).
const IPV6_OPTIONS_MAX: usize = 16;

/// `--dst-opts TYPE[:LENGTH],…`.
///
/// Of a number above 255, and of one below 0, the tool keeps eight bits, and 256 is option 0; such
/// a number is refused.
fn build_ipv6_options_header_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    if let Some(t) = g.first_with_id(1) {
        let byte =
            |text: &str, min| strtoul::parse_strtoul_refusing_negative(text, min, 255).is_some();
        let good = |(i, word): (usize, &str)| match word.split_once(':') {
            // Option 0 pads by one byte: it has no length. The last of all has none, either.
            Some((kind, length)) => i + 1 < IPV6_OPTIONS_MAX && byte(kind, 1) && byte(length, 0),
            None => byte(word, 0),
        };
        let count = t.arg.split(',').count();
        if count > IPV6_OPTIONS_MAX || !t.arg.split(',').enumerate().all(good) {
            return t
                .arg_error(format!("{:?} is not a list of options", t.arg))
                .with_help(
                    "write at most 16 of TYPE[:LENGTH],…, up to 255, the 16th without length",
                )
                .into_err();
        }
    }
    build_verbatim_match(g, &[(0, Number(0, U32_MAX))])
}

pub(in crate::iptables::extension) static IPV6HEADER_MATCH: Extension<Match> = Extension {
    name: "ipv6header",
    family: IPV6_ONLY,
    options: &[option_with_argument("header", 0).invertible().mandatory(), flag_option("soft", 1)],
    build: build_ipv6header_match,
    ..Extension::PRINTED_AS_WRITTEN
};

/// Names that the module has itself, in addition to those of the host's table of protocols.
const IPV6_HEADER_NAMES: [(&str, u8); 10] = [
    ("hop-by-hop", 0),
    ("protocol", 255),
    ("hop", 0),
    ("dst", 60),
    ("route", 43),
    ("frag", 44),
    ("auth", 51),
    ("esp", 50),
    ("none", 59),
    ("prot", 255),
];

/// Headers of which the module has a bit.
const IPV6_HEADER_NUMBERS: [u8; 8] = [0, 60, 43, 44, 51, 50, 59, 255];

/// The number of a header's name as `name_to_proto` of libip6t_ipv6header.c finds it; a number is a
/// name there, in decimal without zeros before it.
fn find_ipv6_header_number(word: &str) -> Option<u8> {
    let own = || IPV6_HEADER_NAMES.iter().find(|(name, _)| *name == word).map(|(_, n)| *n);
    let numeric = || IPV6_HEADER_NUMBERS.into_iter().find(|n| n.to_string() == word);
    system_name_tables::protocol_number_of_host_table(word)
        .or_else(own)
        .or_else(numeric)
        .filter(|n| IPV6_HEADER_NUMBERS.contains(n))
}

fn build_ipv6header_match(g: &ParsedExtensionOptions) -> ParseResult<Match> {
    if let Some(t) = g.first_with_id(0) {
        let mut words = t.arg.split(',').filter(|word| !word.is_empty()).peekable();
        let bad = match words.peek() {
            Some(_) => words.find(|word| find_ipv6_header_number(word).is_none()),
            None => Some(t.arg),
        };
        if let Some(bad) = bad {
            return t
                .arg_error(format!("{bad:?} is not a header that ipv6header knows"))
                .with_help("use some of hop, dst, route, frag, auth, esp, none, prot")
                .into_err();
        }
    }
    build_verbatim_match(g, &[])
}
