//! Parses a `create` line.

use weir_model::ipset::{SetDataType, SetStorage};
use weir_model::{Addr, Family, SetKind, SetOption, Span};

use crate::diagnostic::{Diagnostic, ParseResult};
use crate::iptables::word_splitting::Word;
use crate::{iptables::address, strtoul};

/// Longest timeout that the tool takes, in seconds (`IPSET_TIMEOUT_MAX`: milliseconds in 31 bits).
pub(super) const ELEMENT_TIMEOUT_MAX_SECONDS: u64 = i32::MAX as u64 / 1000;

/// What a `create` line says.
pub(super) struct ParsedSetKindAndOptions {
    pub kind: SetKind,
    pub family: Option<Family>,
    pub options: Vec<SetOption>,
}

/// Kinds of set that there are.
const NON_LIST_SET_KIND_NAMES: [&str; 15] = [
    "bitmap:ip",
    "bitmap:ip,mac",
    "bitmap:port",
    "hash:ip",
    "hash:ip,mac",
    "hash:ip,mark",
    "hash:ip,port",
    "hash:ip,port,ip",
    "hash:ip,port,net",
    "hash:mac",
    "hash:net",
    "hash:net,iface",
    "hash:net,net",
    "hash:net,port",
    "hash:net,port,net",
];

/// The kind of the name of a type, e.g. `hash:net`.
pub fn parse_ipset_type_name(name: &str) -> Option<SetKind> {
    if name == "list:set" {
        return Some(SetKind { storage: SetStorage::List, data_types: vec![SetDataType::Set] });
    }
    let (method, parts) = NON_LIST_SET_KIND_NAMES.iter().find(|k| **k == name)?.split_once(':')?;
    let method = if method == "hash" { SetStorage::Hash } else { SetStorage::Bitmap };
    let parts = parts
        .split(',')
        .map(|part| match part {
            "ip" => SetDataType::Ip,
            "net" => SetDataType::Net,
            "port" => SetDataType::Port,
            "mac" => SetDataType::Mac,
            "mark" => SetDataType::Mark,
            "iface" => SetDataType::Iface,
            other => unreachable!("a data type of the table above: {other}"),
        })
        .collect();
    Some(SetKind { storage: method, data_types: parts })
}

/// Reads what follows `create NAME`.
pub(super) fn parse_set_kind_and_options(
    words: &[Word],
    line: Span,
) -> ParseResult<ParsedSetKindAndOptions> {
    let Some(first) = words.first() else {
        return Diagnostic::new("create without a kind of set", line).into_err();
    };
    let Some(kind) = parse_ipset_type_name(&first.text) else {
        return Diagnostic::new(format!("no kind of set {}", first.text), first.span)
            .with_help(format!("use one of {}, list:set", NON_LIST_SET_KIND_NAMES.join(", ")))
            .into_err();
    };
    let mut out = ParsedSetKindAndOptions {
        family: default_family_by_data_types(&kind),
        kind,
        options: Vec::new(),
    };
    let mut at = 1;
    while at < words.len() {
        at += parse_create_option(&words[at], words.get(at + 1), &mut out)?;
    }
    if out.kind.storage == SetStorage::Bitmap
        && !out
            .options
            .iter()
            .any(|o| matches!(o, SetOption::AddrRange(..) | SetOption::PortRange(..)))
    {
        return Diagnostic::new("bitmap without a range", line)
            .with_help("write range FROM-TO")
            .into_err();
    }
    if out.kind.storage == SetStorage::List
        && !out.options.iter().any(|o| matches!(o, SetOption::ListSize(_)))
    {
        out.options.push(SetOption::ListSize(8));
    }
    Ok(out)
}

fn default_family_by_data_types(kind: &SetKind) -> Option<Family> {
    kind.data_types
        .iter()
        .any(|p| matches!(p, SetDataType::Ip | SetDataType::Net))
        .then_some(Family::V4)
}

/// Reads one option; returns how many words it took.
fn parse_create_option(
    word: &Word,
    next: Option<&Word>,
    out: &mut ParsedSetKindAndOptions,
) -> ParseResult<usize> {
    let bare = match &*word.text {
        "counters" => Some(SetOption::Counters),
        "comment" => Some(SetOption::Comment),
        "skbinfo" => Some(SetOption::SkbInfo),
        "forceadd" => Some(SetOption::ForceAdd),
        "-exist" | "-!" | "--exist" => return Ok(1),
        _ => None,
    };
    if let Some(option) = bare {
        return push_unique_option(out, option, word).map(|()| 1);
    }
    let Some(value) = next else {
        return Diagnostic::new(format!("{} without its value, or unknown", word.text), word.span)
            .into_err();
    };
    let hash = out.kind.storage == SetStorage::Hash;
    let n = |min: u64, max: u64| match strtoul::parse_number_in_range(&value.text, min, max) {
        Some(n) => Ok(n),
        None => Diagnostic::new(
            format!("{} {} is not from {min} to {max}", word.text, value.text),
            value.span,
        )
        .with_help("ipset restore refuses it: write a number of this range")
        .into_err(),
    };
    let u32_max = u64::from(u32::MAX);
    let option = match &*word.text {
        "family" if hash => {
            out.family = Some(match &*value.text {
                "inet" | "ipv4" | "-4" => Family::V4,
                "inet6" | "ipv6" | "-6" => Family::V6,
                other => {
                    return Diagnostic::new(format!("no family {other}"), value.span)
                        .with_help("write inet or inet6")
                        .into_err();
                }
            });
            return Ok(2);
        }
        "hashsize" if hash => SetOption::HashSize(round_up_hash_size(n(0, u32_max)? as u32)),
        "maxelem" if hash => SetOption::MaxElem(n(0, u32_max)? as u32),
        "bucketsize" if hash => SetOption::BucketSize(n(0, 255)? as u8),
        "initval" if hash => SetOption::InitVal(n(0, u32_max)? as u32),
        "markmask" if out.kind.data_types.contains(&SetDataType::Mark) => {
            SetOption::MarkMask(n(0, u32_max)? as u32)
        }
        "netmask" if out.kind.data_types == [SetDataType::Ip] => {
            SetOption::Netmask(n(1, out.family.map_or(32, Family::addr_bits).into())? as u8)
        }
        "timeout" => SetOption::DefaultElementTimeout(n(0, ELEMENT_TIMEOUT_MAX_SECONDS)? as u32),
        "size" if out.kind.storage == SetStorage::List => {
            SetOption::ListSize(n(4, u32_max)? as u32)
        }
        "range" if out.kind.storage == SetStorage::Bitmap => parse_bitmap_range(value, out)?,
        other => {
            return Diagnostic::new(format!("no option {other} of this kind of set"), word.span)
                .into_err();
        }
    };
    push_unique_option(out, option, word).map(|()| 2)
}

fn push_unique_option(
    out: &mut ParsedSetKindAndOptions,
    option: SetOption,
    word: &Word,
) -> ParseResult<()> {
    let same = |o: &&SetOption| std::mem::discriminant(*o) == std::mem::discriminant(&option);
    if out.options.iter().any(|o| same(&o)) {
        return Diagnostic::new(format!("{} a second time", word.text), word.span).into_err();
    }
    out.options.push(option);
    Ok(())
}

/// The kernel rounds up to a power of two, 64 at least.
fn round_up_hash_size(n: u32) -> u32 {
    n.max(64).checked_next_power_of_two().unwrap_or(1 << 31)
}

/// `FROM-TO`, or a prefix for addresses.
fn parse_bitmap_range(value: &Word, out: &ParsedSetKindAndOptions) -> ParseResult<SetOption> {
    let bad = || Diagnostic::new(format!("{} is not a range", value.text), value.span);
    let read = || -> Option<SetOption> {
        if out.kind.data_types[0] == SetDataType::Port {
            let (lo, hi) = value.text.split_once('-').unwrap_or((&value.text, &value.text));
            let (lo, hi) = (strtoul::parse_u16(lo)?, strtoul::parse_u16(hi)?);
            return Some(SetOption::PortRange(lo.min(hi), lo.max(hi)));
        }
        let (lo, hi) = match value.text.split_once('-') {
            Some((lo, hi)) => (
                address::parse_xtables_numeric_addr(lo, Family::V4)?,
                address::parse_xtables_numeric_addr(hi, Family::V4)?,
            ),
            None => {
                let (a, mask) =
                    address::parse_xtables_unmasked_addr_and_mask(&value.text, Family::V4).ok()?;
                Family::V4.prefix_len_of_mask(mask.0)?;
                (Addr(a.0 & mask.0), Addr(a.0 & mask.0 | (!mask.0 & Family::V4.max_addr())))
            }
        };
        Some(SetOption::AddrRange(Addr(lo.0.min(hi.0)), Addr(lo.0.max(hi.0))))
    };
    let Some(option) = read() else { return bad().into_err() };
    if let SetOption::AddrRange(lo, hi) = option {
        let netmask = out.options.iter().find_map(|o| match o {
            SetOption::Netmask(n) => Some(*n),
            _ => None,
        });
        if netmask.is_none() && hi.0 - lo.0 > 0xffff {
            return bad()
                .with_help("a bitmap holds at most 65536 addresses: use hash:ip")
                .into_err();
        }
    }
    Ok(option)
}
