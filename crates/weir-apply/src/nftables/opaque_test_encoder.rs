//! Encodes tests that the field table does not model, from their text.

use weir_model::nft::ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES;
use weir_model::{Addr, Family};

use super::expression_list::{ExpressionList, FIRST_REGISTER, LookedUpSet, RegisterComparison};
use super::loaded_value::{LoadedValue, NFT_CT_STATUS, NFT_FIB_RESULT_ADDRTYPE, host_order_bytes};
use super::rule_context::{RuleContext, UNNAMED_SET};
use super::test_encoder::{push_prefix_test, push_range_test};

/// Adds the expressions of a test.
///
/// # Errors
/// If the text is unknown.
pub(super) fn push_opaque_test(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    text: &str,
) -> Result<(), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let pushed = match words[..] {
        ["limit", "rate", rate, "burst", burst, "packets"] => push_limit(expressions, rate, burst),
        ["numgen", kind, "mod", modulus, comparison, number] => {
            push_numgen(expressions, kind, modulus, comparison, number)
        }
        ["fib", ref rest @ ..] => push_fib_type(expressions, context, rest),
        ["meta", key, numbers] => push_socket_owner(expressions, key, numbers),
        ["ct", ref rest @ ..] => push_ct_test(expressions, context.family, rest),
        _ => None,
    };
    pushed.ok_or_else(|| text.to_owned())
}

fn parse_number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn parse_number_range(word: &str) -> Option<(u128, u128)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((parse_number(first)?.into(), parse_number(last)?.into()))
}

/// Splits off `!=` or `==`.
fn split_negation<'w, 't>(words: &'w [&'t str]) -> (bool, &'w [&'t str]) {
    match words {
        ["!=", rest @ ..] => (true, rest),
        ["==", rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

fn push_limit(expressions: &mut ExpressionList<'_>, rate: &str, burst: &str) -> Option<()> {
    const NFTA_LIMIT_RATE: u16 = 1;
    const NFTA_LIMIT_UNIT: u16 = 2;
    const NFTA_LIMIT_BURST: u16 = 3;
    const NFTA_LIMIT_TYPE: u16 = 4;
    const NFTA_LIMIT_FLAGS: u16 = 5;
    const NFT_LIMIT_PKTS: u32 = 0;
    let (count, unit) = rate.split_once('/')?;
    let unit_seconds = match unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => 24 * 60 * 60,
        _ => return None,
    };
    let (count, burst) = (count.parse().ok()?, burst.parse().ok()?);
    expressions.push("limit", |limit| {
        limit.put_be64(NFTA_LIMIT_RATE, count);
        limit.put_be64(NFTA_LIMIT_UNIT, unit_seconds);
        limit.put_be32(NFTA_LIMIT_BURST, burst);
        limit.put_be32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
        limit.put_be32(NFTA_LIMIT_FLAGS, 0);
    });
    Some(())
}

fn push_numgen(
    expressions: &mut ExpressionList<'_>,
    kind: &str,
    modulus: &str,
    comparison: &str,
    number: &str,
) -> Option<()> {
    const NFTA_NG_DREG: u16 = 1;
    const NFTA_NG_MODULUS: u16 = 2;
    const NFTA_NG_TYPE: u16 = 3;
    const NFTA_NG_OFFSET: u16 = 4;
    const NFT_NG_INCREMENTAL: u32 = 0;
    const NFT_NG_RANDOM: u32 = 1;
    let kind = match kind {
        "inc" => NFT_NG_INCREMENTAL,
        "random" => NFT_NG_RANDOM,
        _ => return None,
    };
    let (comparison, is_ordering) = match comparison {
        "==" => (RegisterComparison::Equal, false),
        "!=" => (RegisterComparison::NotEqual, false),
        "<" => (RegisterComparison::Less, true),
        ">=" => (RegisterComparison::GreaterOrEqual, true),
        _ => return None,
    };
    let (modulus, number) = (parse_number(modulus)?, parse_number(number)?);
    let numbers = [
        (NFTA_NG_DREG, FIRST_REGISTER),
        (NFTA_NG_MODULUS, modulus),
        (NFTA_NG_TYPE, kind),
        (NFTA_NG_OFFSET, 0),
    ];
    expressions.push_with_numbers("numgen", &numbers);
    if is_ordering {
        expressions.push_to_network_order();
        expressions.push_cmp(comparison, &number.to_be_bytes());
    } else {
        expressions.push_cmp(comparison, &number.to_ne_bytes());
    }
    Some(())
}

/// `saddr . iif type != { local, unicast }`.
fn push_fib_type(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    words: &[&str],
) -> Option<()> {
    const NFTA_FIB_DREG: u16 = 1;
    const NFTA_FIB_RESULT: u16 = 2;
    const NFTA_FIB_FLAGS: u16 = 3;
    const NFTA_FIB_F_SADDR: u32 = 1;
    const NFTA_FIB_F_DADDR: u32 = 1 << 1;
    const NFTA_FIB_F_IIF: u32 = 1 << 3;
    const NFTA_FIB_F_OIF: u32 = 1 << 4;
    let flag = |word: &str| match word {
        "saddr" => Some(NFTA_FIB_F_SADDR),
        "daddr" => Some(NFTA_FIB_F_DADDR),
        "iif" => Some(NFTA_FIB_F_IIF),
        "oif" => Some(NFTA_FIB_F_OIF),
        _ => None,
    };
    let (flags, rest) = match words {
        [address, ".", device, "type", rest @ ..] => (flag(address)? | flag(device)?, rest),
        [address, "type", rest @ ..] => (flag(address)?, rest),
        _ => return None,
    };
    let (negated, rest) = split_negation(rest);
    let ["{", names @ .., "}"] = rest else { return None };
    // Route types are numbered in this order (`RTN_UNICAST` is 1).
    let number = |name: &&str| {
        let name = name.trim_end_matches(',');
        let known =
            ROUTE_TYPE_NAMES_SHARED_WITH_IPTABLES.iter().position(|known| *known == name)?;
        Some(known as u128 + 1)
    };
    let mut types: Vec<u128> = names.iter().map(number).collect::<Option<_>>()?;
    types.sort_unstable();
    types.dedup();
    let numbers = [
        (NFTA_FIB_DREG, FIRST_REGISTER),
        (NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE),
        (NFTA_FIB_FLAGS, flags),
    ];
    expressions.push_with_numbers("fib", &numbers);
    match types[..] {
        [] => return None,
        [one] => {
            let comparison = RegisterComparison::equal_unless(negated);
            expressions.push_cmp(comparison, &host_order_bytes(one, 4));
        }
        _ => {
            let spans: Vec<(u128, u128)> = types.iter().map(|number| (*number, *number)).collect();
            let id = context.push_unnamed_set(&LoadedValue::fib_type(flags), &spans);
            expressions.push_set_test(LookedUpSet { name: UNNAMED_SET, id }, negated);
        }
    }
    Some(())
}

/// `meta skuid 5`, `meta skgid 5-9`.
fn push_socket_owner(expressions: &mut ExpressionList<'_>, key: &str, numbers: &str) -> Option<()> {
    const NFT_META_SKUID: u32 = 10;
    const NFT_META_SKGID: u32 = 11;
    let key = match key {
        "skuid" => NFT_META_SKUID,
        "skgid" => NFT_META_SKGID,
        _ => return None,
    };
    let value = LoadedValue::socket_owner(key);
    let (first, last) = parse_number_range(numbers)?;
    if first == last {
        value.push_load(expressions, FIRST_REGISTER);
        expressions.push_cmp(RegisterComparison::Equal, &value.bytes_of(first));
    } else {
        push_range_test(expressions, &value, (first, last), false);
    }
    Some(())
}

// `enum nft_ct_keys`.
const NFT_CT_DIRECTION: u32 = 1;
const NFT_CT_PROTOCOL: u32 = 10;
const NFT_CT_PROTO_SRC: u32 = 11;
const NFT_CT_PROTO_DST: u32 = 12;
const NFT_CT_SRC_IP: u32 = 19;
const NFT_CT_DST_IP: u32 = 20;
const NFT_CT_SRC_IP6: u32 = 21;
const NFT_CT_DST_IP6: u32 = 22;

/// What follows `ct`.
fn push_ct_test(
    expressions: &mut ExpressionList<'_>,
    family: Family,
    words: &[&str],
) -> Option<()> {
    let direction_number = |word: &str| match word {
        "original" => Some(0u8),
        "reply" => Some(1u8),
        _ => None,
    };
    match words {
        ["direction", direction] => {
            expressions.push_ct_load(NFT_CT_DIRECTION, None, FIRST_REGISTER);
            expressions.push_cmp(RegisterComparison::Equal, &[direction_number(direction)?]);
        }
        ["status", "&", mask, comparison, "0"] => {
            let mask = parse_number(mask)?.to_ne_bytes();
            let (negated, []) = split_negation(std::slice::from_ref(comparison)) else {
                return None;
            };
            expressions.push_ct_load(NFT_CT_STATUS, None, FIRST_REGISTER);
            expressions.push_bitwise(FIRST_REGISTER, &mask, &[0; 4]);
            expressions.push_cmp(RegisterComparison::equal_unless(negated), &[0; 4]);
        }
        [direction, "protocol", rest @ ..] => {
            let (negated, rest) = split_negation(rest);
            let [proto] = rest else { return None };
            let direction = direction_number(direction)?;
            let proto: u8 = proto.parse().ok()?;
            expressions.push_ct_load(NFT_CT_PROTOCOL, Some(direction), FIRST_REGISTER);
            expressions.push_cmp(RegisterComparison::equal_unless(negated), &[proto]);
        }
        [direction, port @ ("proto-src" | "proto-dst"), rest @ ..] => {
            let (negated, rest) = split_negation(rest);
            let [ports] = rest else { return None };
            let (first, last) = parse_number_range(ports)?;
            let key = if *port == "proto-src" { NFT_CT_PROTO_SRC } else { NFT_CT_PROTO_DST };
            let value = LoadedValue::ct_tuple(key, direction_number(direction)?, 2);
            if first == last {
                value.push_load(expressions, FIRST_REGISTER);
                let comparison = RegisterComparison::equal_unless(negated);
                expressions.push_cmp(comparison, &value.bytes_of(first));
            } else {
                push_range_test(expressions, &value, (first, last), negated);
            }
        }
        [direction, "ip" | "ip6", end @ ("saddr" | "daddr"), rest @ ..] => {
            let (negated, rest) = split_negation(rest);
            let [prefix] = rest else { return None };
            let key = match (family, *end) {
                (Family::V4, "saddr") => NFT_CT_SRC_IP,
                (Family::V4, _) => NFT_CT_DST_IP,
                (Family::V6, "saddr") => NFT_CT_SRC_IP6,
                (Family::V6, _) => NFT_CT_DST_IP6,
            };
            let bytes = (family.addr_bits() / 8) as usize;
            let value = LoadedValue::ct_tuple(key, direction_number(direction)?, bytes);
            let (addr, len) = parse_prefix(prefix, family)?;
            push_prefix_test(
                expressions,
                &value,
                addr,
                len,
                RegisterComparison::equal_unless(negated),
            );
        }
        _ => return None,
    }
    Some(())
}

fn parse_prefix(text: &str, family: Family) -> Option<(u128, u32)> {
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr, len.parse().ok()?),
        None => (text, family.addr_bits()),
    };
    let addr: std::net::IpAddr = addr.parse().ok()?;
    Some((Addr::from(addr).0, len))
}
