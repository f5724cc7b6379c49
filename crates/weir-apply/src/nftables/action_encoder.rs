//! Encodes actions of rules: effects, rejects and translations.

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Effect, Family, NatTarget};

use super::expression_list::{
    ExpressionList, FIRST_REGISTER, PayloadBase, PayloadPlace, register_at,
};
use super::loaded_value::{LoadDependency, NFT_CT_MARK, NFT_META_MARK, NFT_META_PRIORITY};
use super::nft_table_name::nft_family_number;
use super::rule_context::RuleContext;

/// The first two bytes of an IP header, which contain the type of service.
const TYPE_OF_SERVICE_WORD: PayloadPlace =
    PayloadPlace { base: PayloadBase::Network, offset: 0, len: 2 };

/// Adds the expressions of an effect.
///
/// # Errors
/// The effect that cannot be encoded, as an iptables option.
pub(super) fn push_effect(
    expressions: &mut ExpressionList<'_>,
    family: Family,
    effect: &Effect,
) -> Result<(), String> {
    match effect {
        Effect::Mark { xor_value, clear_mask } => {
            push_mark_value(expressions, MarkPlace::Packet, *xor_value, *clear_mask);
            expressions.push_meta_set(NFT_META_MARK);
        }
        Effect::Notrack | Effect::CtNotrack { .. } => expressions.push("notrack", |_| {}),
        Effect::Classify { class: (major, minor) } => {
            let class = u32::from(*major) << 16 | u32::from(*minor);
            expressions.push_immediate(FIRST_REGISTER, &class.to_ne_bytes());
            expressions.push_meta_set(NFT_META_PRIORITY);
        }
        Effect::Tos { xor_value, clear_mask: 0xff } => {
            push_dscp(expressions, family, xor_value >> 2);
            push_ecn(expressions, family, xor_value & 3);
        }
        Effect::Tos { xor_value, clear_mask: 0xfc } if xor_value & 3 == 0 => {
            push_dscp(expressions, family, xor_value >> 2);
        }
        Effect::Tos { clear_mask, .. } => {
            return Err(format!("-j TOS with the mask {clear_mask:#04x}"));
        }
        Effect::Dscp(dscp) => push_dscp(expressions, family, *dscp),
        Effect::Ttl { op: TtlOperation::Set, value } => push_ttl(expressions, family, *value),
        Effect::Ttl { .. } => return Err("-j TTL with an increment or decrement".to_owned()),
        Effect::Other(target) => match target.module {
            "LOG" => push_log(expressions, target)?,
            "NFLOG" => push_nflog(expressions, target)?,
            "CONNMARK" => push_connmark(expressions, target)?,
            module => return Err(format!("-j {module}")),
        },
    }
    Ok(())
}

/// The object that a mark belongs to.
#[derive(Clone, Copy)]
enum MarkPlace {
    Packet,
    Connection,
}

impl MarkPlace {
    fn push_load(self, expressions: &mut ExpressionList<'_>) {
        match self {
            MarkPlace::Packet => expressions.push_meta_load(NFT_META_MARK, FIRST_REGISTER),
            MarkPlace::Connection => expressions.push_ct_load(NFT_CT_MARK, None, FIRST_REGISTER),
        }
    }
}

/// Computes a new mark in the first register.
fn push_mark_value(
    expressions: &mut ExpressionList<'_>,
    old: MarkPlace,
    xor_value: u32,
    clear_mask: u32,
) {
    if clear_mask == u32::MAX {
        return expressions.push_immediate(FIRST_REGISTER, &xor_value.to_ne_bytes());
    }
    old.push_load(expressions);
    let (mask, xor) = ((!clear_mask).to_ne_bytes(), xor_value.to_ne_bytes());
    expressions.push_bitwise(FIRST_REGISTER, &mask, &xor);
}

/// Changes bits in two bytes of a header.
fn push_header_word_change(
    expressions: &mut ExpressionList<'_>,
    place: PayloadPlace,
    kept_mask: u16,
    set_bits: u16,
    has_ipv4_checksum: bool,
) {
    expressions.push_payload_load(place, FIRST_REGISTER);
    let (mask, xor) = (kept_mask.to_be_bytes(), set_bits.to_be_bytes());
    expressions.push_bitwise(FIRST_REGISTER, &mask, &xor);
    expressions.push_payload_write(place, has_ipv4_checksum);
}

fn push_dscp(expressions: &mut ExpressionList<'_>, family: Family, dscp: u8) {
    let is_v4 = family == Family::V4;
    let (kept, shift) = if is_v4 { (0xff03, 2) } else { (0xf03f, 6) };
    push_header_word_change(
        expressions,
        TYPE_OF_SERVICE_WORD,
        kept,
        u16::from(dscp) << shift,
        is_v4,
    );
}

fn push_ecn(expressions: &mut ExpressionList<'_>, family: Family, ecn: u8) {
    if family == Family::V4 {
        return push_header_word_change(
            expressions,
            TYPE_OF_SERVICE_WORD,
            0xfffc,
            ecn.into(),
            true,
        );
    }
    // Bits 4 and 5 of the second byte.
    let place = PayloadPlace { base: PayloadBase::Network, offset: 1, len: 1 };
    expressions.push_payload_load(place, FIRST_REGISTER);
    expressions.push_bitwise(FIRST_REGISTER, &[0xcf], &[ecn << 4]);
    expressions.push_payload_write(place, false);
}

fn push_ttl(expressions: &mut ExpressionList<'_>, family: Family, ttl: u8) {
    match family {
        Family::V4 => {
            let place = PayloadPlace { base: PayloadBase::Network, offset: 8, len: 2 };
            push_header_word_change(expressions, place, 0x00ff, u16::from(ttl) << 8, true);
        }
        Family::V6 => {
            let place = PayloadPlace { base: PayloadBase::Network, offset: 7, len: 1 };
            expressions.push_immediate(FIRST_REGISTER, &[ttl]);
            expressions.push_payload_write(place, false);
        }
    }
}

const NFTA_LOG_GROUP: u16 = 1;
const NFTA_LOG_PREFIX: u16 = 2;
const NFTA_LOG_SNAPLEN: u16 = 3;
const NFTA_LOG_QTHRESHOLD: u16 = 4;
const NFTA_LOG_LEVEL: u16 = 5;
const NFTA_LOG_FLAGS: u16 = 6;

fn unsupported_option(target: &ExtensionTarget, option: &TypedExtensionOption) -> String {
    format!("-j {} --{}", target.module, option.name)
}

fn push_log(expressions: &mut ExpressionList<'_>, target: &ExtensionTarget) -> Result<(), String> {
    const LOG_LEVEL_WARNING: u32 = 4;
    const NF_LOG_TCPSEQ: u32 = 1;
    const NF_LOG_TCPOPT: u32 = 1 << 1;
    const NF_LOG_IPOPT: u32 = 1 << 2;
    const NF_LOG_UID: u32 = 1 << 3;
    const NF_LOG_MACDECODE: u32 = 1 << 5;
    let (mut prefix, mut level, mut flags) = (None, LOG_LEVEL_WARNING, 0);
    for option in &target.options {
        match (option.name, &option.value) {
            ("log-prefix", ExtensionValue::Text(text)) if text.is_empty() => {}
            ("log-prefix", ExtensionValue::Text(text)) => prefix = Some(text),
            ("log-level", ExtensionValue::Number(number)) if *number < 8 => level = *number as u32,
            ("log-tcp-sequence", _) => flags |= NF_LOG_TCPSEQ,
            ("log-tcp-options", _) => flags |= NF_LOG_TCPOPT,
            ("log-ip-options", _) => flags |= NF_LOG_IPOPT,
            ("log-uid", _) => flags |= NF_LOG_UID,
            ("log-macdecode", _) => flags |= NF_LOG_MACDECODE,
            _ => return Err(unsupported_option(target, option)),
        }
    }
    expressions.push("log", |log| {
        if let Some(prefix) = prefix {
            log.put_text(NFTA_LOG_PREFIX, prefix);
        }
        log.put_be32(NFTA_LOG_LEVEL, level);
        if flags != 0 {
            log.put_be32(NFTA_LOG_FLAGS, flags);
        }
    });
    Ok(())
}

fn push_nflog(
    expressions: &mut ExpressionList<'_>,
    target: &ExtensionTarget,
) -> Result<(), String> {
    let (mut group, mut prefix, mut snaplen, mut threshold) = (0u16, None, None, None);
    for option in &target.options {
        let unsupported = |_| unsupported_option(target, option);
        match (option.name, &option.value) {
            ("nflog-group", ExtensionValue::Number(number)) => {
                group = u16::try_from(*number).map_err(unsupported)?;
            }
            ("nflog-prefix", ExtensionValue::Text(text)) => prefix = Some(text),
            ("nflog-size", ExtensionValue::Number(number)) => {
                snaplen = Some(u32::try_from(*number).map_err(unsupported)?);
            }
            ("nflog-threshold", ExtensionValue::Number(number)) => {
                threshold = Some(u16::try_from(*number).map_err(unsupported)?);
            }
            _ => return Err(unsupported_option(target, option)),
        }
    }
    expressions.push("log", |log| {
        if let Some(prefix) = prefix {
            log.put_text(NFTA_LOG_PREFIX, prefix);
        }
        log.put(NFTA_LOG_GROUP, &group.to_be_bytes());
        if let Some(snaplen) = snaplen {
            log.put_be32(NFTA_LOG_SNAPLEN, snaplen);
        }
        if let Some(threshold) = threshold {
            log.put(NFTA_LOG_QTHRESHOLD, &threshold.to_be_bytes());
        }
    });
    Ok(())
}

/// Encodes the cases that can be printed as nft text (`print_effect` of weir-syntax).
fn push_connmark(
    expressions: &mut ExpressionList<'_>,
    target: &ExtensionTarget,
) -> Result<(), String> {
    let has = |name: &str| target.options.iter().any(|option| option.name == name);
    let mask = |name: &str| {
        let option = target.options.iter().find(|option| option.name == name);
        option.map_or(u32::MAX, |option| match option.value {
            ExtensionValue::Number(number) | ExtensionValue::Hex(number) => number as u32,
            _ => 0,
        })
    };
    if has("left-shift-mark") || has("right-shift-mark") {
        return Err("-j CONNMARK with a shifted mark".to_owned());
    }
    let (nfmask, ctmask) = (mask("nfmask"), mask("ctmask"));
    let mut push_masked = |mark: MarkPlace, mask: u32| {
        mark.push_load(expressions);
        if mask != u32::MAX {
            expressions.push_bitwise(FIRST_REGISTER, &mask.to_ne_bytes(), &[0; 4]);
        }
    };
    if has("save-mark") && ctmask == u32::MAX {
        push_masked(MarkPlace::Packet, nfmask);
        expressions.push_ct_set(NFT_CT_MARK);
        return Ok(());
    }
    if has("restore-mark") && nfmask == u32::MAX {
        push_masked(MarkPlace::Connection, ctmask);
        expressions.push_meta_set(NFT_META_MARK);
        return Ok(());
    }
    match &target.options[..] {
        [
            TypedExtensionOption {
                name: "set-xmark",
                value: ExtensionValue::Masked(value, mask),
                ..
            },
        ] => {
            push_mark_value(expressions, MarkPlace::Connection, *value as u32, *mask as u32);
            expressions.push_ct_set(NFT_CT_MARK);
            Ok(())
        }
        _ => Err("-j CONNMARK that copies some bits into another mark".to_owned()),
    }
}

/// Adds a reject, given as the argument of `--reject-with`.
///
/// # Errors
/// If the argument is unknown.
pub(super) fn push_reject(
    expressions: &mut ExpressionList<'_>,
    context: &mut RuleContext<'_>,
    word: &str,
) -> Result<(), String> {
    const NFTA_REJECT_TYPE: u16 = 1;
    const NFTA_REJECT_ICMP_CODE: u16 = 2;
    const NFT_REJECT_ICMP_UNREACH: u32 = 0;
    const NFT_REJECT_TCP_RST: u32 = 1;
    const TCP: u8 = 6;
    let (kind, code) = match (word, context.family) {
        ("tcp-reset", _) => (NFT_REJECT_TCP_RST, 0),
        ("icmp-net-unreachable", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 0),
        ("icmp-host-unreachable", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 1),
        ("icmp-proto-unreachable", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 2),
        ("icmp-port-unreachable", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 3),
        ("icmp-net-prohibited", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 9),
        ("icmp-host-prohibited", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 10),
        ("icmp-admin-prohibited", Family::V4) => (NFT_REJECT_ICMP_UNREACH, 13),
        ("icmp6-no-route", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 0),
        ("icmp6-adm-prohibited", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 1),
        ("icmp6-addr-unreachable", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 3),
        ("icmp6-port-unreachable", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 4),
        ("icmp6-policy-fail", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 5),
        ("icmp6-reject-route", Family::V6) => (NFT_REJECT_ICMP_UNREACH, 6),
        _ => return Err(format!("-j REJECT --reject-with {word}")),
    };
    if kind == NFT_REJECT_TCP_RST {
        context.push_dependency(expressions, Some(LoadDependency::L4Proto(TCP)))?;
    }
    expressions.push("reject", |reject| {
        reject.put_be32(NFTA_REJECT_TYPE, kind);
        reject.put(NFTA_REJECT_ICMP_CODE, &[code]);
    });
    Ok(())
}

/// Adds an address translation.
///
/// # Errors
/// The effect that cannot be encoded, as an iptables option.
pub(super) fn push_nat(
    expressions: &mut ExpressionList<'_>,
    family: Family,
    target: &NatTarget,
) -> Result<(), String> {
    let range = match target {
        NatTarget::Dnat(range)
        | NatTarget::Snat(range)
        | NatTarget::Masquerade(range)
        | NatTarget::Redirect(range) => range,
        NatTarget::Netmap(..) => return Err("-j NETMAP".to_owned()),
    };
    if range.base_port.is_some() {
        return Err("a translation to a shifted port range".to_owned());
    }
    let registers = push_nat_values(expressions, family, range);
    let flags = nat_flags(range);
    let mut masquerade_or_redirect = |name: &str, attributes: [u16; 3]| {
        let values = [flags, registers.port_min, registers.port_max];
        expressions.push_with_numbers(name, &list_given_numbers(attributes, values));
    };
    match target {
        // `NFTA_MASQ_…` and `NFTA_REDIR_…`.
        NatTarget::Masquerade(_) => masquerade_or_redirect("masq", [1, 2, 3]),
        NatTarget::Redirect(_) => masquerade_or_redirect("redir", [3, 1, 2]),
        _ => {
            let is_dnat = matches!(target, NatTarget::Dnat(_));
            push_snat_or_dnat(expressions, family, is_dnat, &registers, flags);
        }
    }
    Ok(())
}

/// The registers with the values of an address translation.
#[derive(Default)]
struct NatRegisters {
    addr_min: Option<u32>,
    addr_max: Option<u32>,
    port_min: Option<u32>,
    port_max: Option<u32>,
}

fn push_nat_values(
    expressions: &mut ExpressionList<'_>,
    family: Family,
    range: &NatRange,
) -> NatRegisters {
    let mut used = 0;
    let mut push = |value: &[u8]| {
        let register = register_at(4 * used);
        used += 1;
        expressions.push_immediate(register, value);
        Some(register)
    };
    let mut registers = NatRegisters::default();
    let first_byte = 16 - (family.addr_bits() / 8) as usize;
    if let Some((first, last)) = range.addrs {
        registers.addr_min = push(&first.0.to_be_bytes()[first_byte..]);
        if first != last {
            registers.addr_max = push(&last.0.to_be_bytes()[first_byte..]);
        }
    }
    if let Some((first, last)) = range.ports {
        registers.port_min = push(&first.to_be_bytes());
        if first != last {
            registers.port_max = push(&last.to_be_bytes());
        }
    }
    registers
}

/// The flags of a translation; `None` if there are none.
fn nat_flags(range: &NatRange) -> Option<u32> {
    const NF_NAT_RANGE_PROTO_SPECIFIED: u32 = 1 << 1;
    const NF_NAT_RANGE_PROTO_RANDOM: u32 = 1 << 2;
    const NF_NAT_RANGE_PERSISTENT: u32 = 1 << 3;
    const NF_NAT_RANGE_PROTO_RANDOM_FULLY: u32 = 1 << 4;
    let flags = [
        (range.ports.is_some(), NF_NAT_RANGE_PROTO_SPECIFIED),
        (range.random, NF_NAT_RANGE_PROTO_RANDOM),
        (range.persistent, NF_NAT_RANGE_PERSISTENT),
        (range.random_fully, NF_NAT_RANGE_PROTO_RANDOM_FULLY),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).reduce(|a, b| a | b)
}

/// Attributes with the values that are given.
fn list_given_numbers<const N: usize>(
    attributes: [u16; N],
    values: [Option<u32>; N],
) -> Vec<(u16, u32)> {
    attributes.into_iter().zip(values).filter_map(|(kind, value)| Some((kind, value?))).collect()
}

fn push_snat_or_dnat(
    expressions: &mut ExpressionList<'_>,
    family: Family,
    is_dnat: bool,
    registers: &NatRegisters,
    flags: Option<u32>,
) {
    const NFTA_NAT_TYPE: u16 = 1;
    const NFTA_NAT_FAMILY: u16 = 2;
    const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
    const NFTA_NAT_REG_ADDR_MAX: u16 = 4;
    const NFTA_NAT_REG_PROTO_MIN: u16 = 5;
    const NFTA_NAT_REG_PROTO_MAX: u16 = 6;
    const NFTA_NAT_FLAGS: u16 = 7;
    let attributes = [
        NFTA_NAT_TYPE,
        NFTA_NAT_FAMILY,
        NFTA_NAT_REG_ADDR_MIN,
        NFTA_NAT_REG_ADDR_MAX,
        NFTA_NAT_REG_PROTO_MIN,
        NFTA_NAT_REG_PROTO_MAX,
        NFTA_NAT_FLAGS,
    ];
    let values = [
        Some(is_dnat.into()),
        Some(nft_family_number(family).into()),
        registers.addr_min,
        registers.addr_max,
        registers.port_min,
        registers.port_max,
        flags,
    ];
    expressions.push_with_numbers("nat", &list_given_numbers(attributes, values));
}
