//! `-j HMARK`: the mark becomes a hash of header fields.

use std::collections::BTreeSet;

use weir_model::Target;

use super::{Number, PrefixLength, U32_MAX, build_verbatim_target};
use crate::diagnostic::ParseResult;
use crate::iptables::option_specs_and_arguments::{
    Extension, OptionSpec, ParsedExtensionOptions, ParsedOption, option_with_argument,
};

const U16_MAX: u64 = u16::MAX as u64;

const TUPLE_OPTION_ID: u8 = 0;
const SRC_PREFIX_OPTION_ID: u8 = 1;
const DST_PREFIX_OPTION_ID: u8 = 2;
const SPORT_MASK_OPTION_ID: u8 = 3;
const DPORT_MASK_OPTION_ID: u8 = 4;
const SPI_MASK_OPTION_ID: u8 = 5;
const SPORT_OPTION_ID: u8 = 6;
const DPORT_OPTION_ID: u8 = 7;
const SPI_OPTION_ID: u8 = 8;
const PROTO_MASK_OPTION_ID: u8 = 9;
const RND_OPTION_ID: u8 = 10;
const MOD_OPTION_ID: u8 = 11;
const OFFSET_OPTION_ID: u8 = 12;

/// Fields of a tuple in the order in which they are looked up, and the options that set their
/// masks.
const TUPLE_FIELDS: [(&str, Option<u8>); 7] = [
    ("ct", None),
    ("src", Some(SRC_PREFIX_OPTION_ID)),
    ("dst", Some(DST_PREFIX_OPTION_ID)),
    ("sport", Some(SPORT_MASK_OPTION_ID)),
    ("dport", Some(DPORT_MASK_OPTION_ID)),
    ("proto", Some(PROTO_MASK_OPTION_ID)),
    ("spi", Some(SPI_MASK_OPTION_ID)),
];

pub(in crate::iptables::extension) static HMARK_TARGET: Extension<Target> = Extension {
    name: "HMARK",
    options: &[
        option_with_argument("hmark-tuple", TUPLE_OPTION_ID),
        option_with_argument("hmark-src-prefix", SRC_PREFIX_OPTION_ID),
        option_with_argument("hmark-dst-prefix", DST_PREFIX_OPTION_ID),
        port_option_excluding_spi("hmark-sport-mask", SPORT_MASK_OPTION_ID, SPI_MASK_OPTION_ID),
        port_option_excluding_spi("hmark-dport-mask", DPORT_MASK_OPTION_ID, SPI_MASK_OPTION_ID),
        option_with_argument("hmark-spi-mask", SPI_MASK_OPTION_ID)
            .excludes(1 << SPORT_MASK_OPTION_ID | 1 << DPORT_MASK_OPTION_ID),
        port_option_excluding_spi("hmark-sport", SPORT_OPTION_ID, SPI_OPTION_ID),
        port_option_excluding_spi("hmark-dport", DPORT_OPTION_ID, SPI_OPTION_ID),
        option_with_argument("hmark-spi", SPI_OPTION_ID)
            .excludes(1 << SPORT_OPTION_ID | 1 << DPORT_OPTION_ID),
        option_with_argument("hmark-proto-mask", PROTO_MASK_OPTION_ID),
        option_with_argument("hmark-rnd", RND_OPTION_ID).mandatory(),
        option_with_argument("hmark-mod", MOD_OPTION_ID).mandatory(),
        option_with_argument("hmark-offset", OFFSET_OPTION_ID),
    ],
    build: require_fields_and_build_hmark,
    ..Extension::PRINTED_AS_WRITTEN
};

/// An SPI is where the ports of other protocols are.
const fn port_option_excluding_spi(name: &'static str, id: u8, spi: u8) -> OptionSpec {
    option_with_argument(name, id).excludes(1 << spi)
}

fn require_fields_and_build_hmark(g: &ParsedExtensionOptions) -> ParseResult<Target> {
    if g.iter().all(|t| matches!(t.id, RND_OPTION_ID | MOD_OPTION_ID | OFFSET_OPTION_ID)) {
        return g
            .extension_error("HMARK without fields to hash")
            .with_help("give --hmark-tuple")
            .into_err();
    }
    let (short, long) = (Number(0, U16_MAX), Number(0, U32_MAX));
    let target = build_verbatim_target(
        g,
        &[
            (SRC_PREFIX_OPTION_ID, PrefixLength),
            (DST_PREFIX_OPTION_ID, PrefixLength),
            (SPORT_MASK_OPTION_ID, short),
            (DPORT_MASK_OPTION_ID, short),
            (SPI_MASK_OPTION_ID, long),
            (SPORT_OPTION_ID, short),
            (DPORT_OPTION_ID, short),
            (SPI_OPTION_ID, long),
            (PROTO_MASK_OPTION_ID, short),
            (RND_OPTION_ID, long),
            (MOD_OPTION_ID, Number(1, U32_MAX)),
            (OFFSET_OPTION_ID, long),
        ],
    )?;
    check_conflicting_hash_fields(g)?;
    Ok(target)
}

/// The options that the fields of a tuple set.
///
/// A field may be abbreviated, in any case: the first of [`TUPLE_FIELDS`] that begins so is it
/// (`hmark_parse` of libxt_HMARK.c).
fn parse_tuple_mask_option_ids(tuple: &ParsedOption) -> ParseResult<BTreeSet<u8>> {
    let mut ids = BTreeSet::new();
    for word in tuple.arg.split(',') {
        let begins = |name: &str| {
            !word.is_empty()
                && name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        match TUPLE_FIELDS.iter().find(|(name, _)| begins(name)) {
            Some((_, id)) => ids.extend(*id),
            None => {
                return tuple
                    .arg_error(format!("{word:?} is not a field of a tuple"))
                    .with_help(format!("use some of {}", TUPLE_FIELDS.map(|(n, _)| n).join(", ")))
                    .into_err();
            }
        }
    }
    Ok(ids)
}

/// A field of the tuple is not set by an option that follows it, and ports are not hashed with an
/// SPI. An option before the tuple is taken: the tuple replaces its mask.
fn check_conflicting_hash_fields(g: &ParsedExtensionOptions) -> ParseResult<()> {
    let Some(tuple) = g.first_with_id(TUPLE_OPTION_ID) else { return Ok(()) };
    let listed = parse_tuple_mask_option_ids(tuple)?;
    if let Some(t) =
        g.iter().skip_while(|t| t.id != TUPLE_OPTION_ID).find(|t| listed.contains(&t.id))
    {
        return t
            .arg_error("--hmark-tuple has this field, too")
            .with_help("remove it here or in the tuple")
            .into_err();
    }
    let has = |id| listed.contains(&id) || g.has_option(id);
    if has(SPI_MASK_OPTION_ID) && (has(SPORT_MASK_OPTION_ID) || has(DPORT_MASK_OPTION_ID)) {
        return g
            .extension_error("HMARK of ports and of an SPI")
            .with_help("hash the ports in one rule and the SPI in another")
            .into_err();
    }
    Ok(())
}
