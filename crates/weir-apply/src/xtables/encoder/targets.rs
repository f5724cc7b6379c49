//! Targets as the structures of the kernel.

use weir_model::rule_match::ExtensionValue;
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Addr, Effect, Family, NatTarget, Target};

use super::conntrack_targets::{CT_NOTRACK, CT_NOTRACK_ALIAS};
use super::{conntrack_targets, set_modules};
use crate::xtables::entry_writer::{EntryWriter, StructBytes};
use crate::xtables::numeric_option_value::numeric_option_value;
use crate::xtables::set_indices::SetIndices;

pub(crate) const NAT_MAP_IPS: u32 = 1;
pub(crate) const NAT_PROTO_SPECIFIED: u32 = 1 << 1;
pub(crate) const NAT_PROTO_RANDOM: u32 = 1 << 2;
pub(crate) const NAT_PERSISTENT: u32 = 1 << 3;
pub(crate) const NAT_PROTO_RANDOM_FULLY: u32 = 1 << 4;
pub(crate) const NAT_PROTO_OFFSET: u32 = 1 << 5;

/// `XT_NFLOG_F_COPY_LEN`
pub(crate) const NFLOG_COPY_LENGTH: u16 = 1;

/// Appends the target of a module; `None` where the encoder does not know it.
pub(crate) fn push_module_target(
    out: &mut EntryWriter,
    target: &Target,
    sets: &SetIndices,
) -> Option<()> {
    match target {
        Target::Reject(word) => push_reject(out, word),
        Target::Nat(nat) => push_nat(out, nat),
        Target::Effect(effect) => push_effect(out, effect, sets),
        Target::Divert(target) => push_divert(out, target),
        _ => None,
    }
}

/// enum ipt_reject_with, enum ip6t_reject_with: words by number.
const REJECT_WORDS_V4: [&str; 9] = [
    "icmp-net-unreachable",
    "icmp-host-unreachable",
    "icmp-proto-unreachable",
    "icmp-port-unreachable",
    "",
    "icmp-net-prohibited",
    "icmp-host-prohibited",
    "tcp-reset",
    "icmp-admin-prohibited",
];
const REJECT_WORDS_V6: [&str; 9] = [
    "icmp6-no-route",
    "icmp6-adm-prohibited",
    "",
    "icmp6-addr-unreachable",
    "icmp6-port-unreachable",
    "",
    "tcp-reset",
    "icmp6-policy-fail",
    "icmp6-reject-route",
];

/// The words of `--reject-with` by their numbers; an empty one is not used.
pub(crate) fn reject_words(family: Family) -> &'static [&'static str; 9] {
    match family {
        Family::V4 => &REJECT_WORDS_V4,
        Family::V6 => &REJECT_WORDS_V6,
    }
}

fn push_reject(out: &mut EntryWriter, word: &str) -> Option<()> {
    let number = reject_words(out.family()).iter().position(|known| *known == word)? as u32;
    out.push_target("REJECT", 0, &number.to_ne_bytes());
    Some(())
}

fn push_effect(out: &mut EntryWriter, effect: &Effect, sets: &SetIndices) -> Option<()> {
    match effect {
        Effect::Mark { xor_value: value, clear_mask: mask } => {
            // struct xt_mark_tginfo2
            let mut data = StructBytes::<8>::zeroed();
            data.put_u32(0, *value);
            data.put_u32(4, *mask);
            out.push_target("MARK", 2, &data.0);
        }
        Effect::Classify { class: (major, minor) } => {
            let priority = u32::from(*major) << 16 | u32::from(*minor);
            out.push_target("CLASSIFY", 0, &priority.to_ne_bytes());
        }
        // struct xt_tos_target_info
        Effect::Tos { xor_value: value, clear_mask: mask } => {
            out.push_target("TOS", 1, &[*value, *mask])
        }
        Effect::Dscp(value) => out.push_target("DSCP", 0, &[*value]),
        Effect::Ttl { op, value } => {
            // struct ipt_TTL_info, struct ip6t_HL_info
            let mode = match op {
                TtlOperation::Set => 0,
                TtlOperation::Inc => 1,
                TtlOperation::Dec => 2,
            };
            let name = match out.family() {
                Family::V4 => "TTL",
                Family::V6 => "HL",
            };
            out.push_target(name, 0, &[mode, *value]);
        }
        Effect::Other(target) => return push_other_effect(out, target, sets),
        Effect::Notrack => {
            return conntrack_targets::push_ct(out, CT_NOTRACK | CT_NOTRACK_ALIAS, &[]);
        }
        Effect::CtNotrack { ignored_options } => {
            return conntrack_targets::push_ct(out, CT_NOTRACK, ignored_options);
        }
    }
    Some(())
}

fn push_other_effect(
    out: &mut EntryWriter,
    target: &ExtensionTarget,
    sets: &SetIndices,
) -> Option<()> {
    match target.module {
        "LOG" => push_log(out, target),
        "NFLOG" => push_nflog(out, target),
        "TCPMSS" => push_tcpmss(out, target),
        "CT" => conntrack_targets::push_ct(out, 0, &target.options),
        "CONNMARK" => conntrack_targets::push_connmark(out, target),
        "SET" => set_modules::push_set_target(out, target, sets),
        "TRACE" => {
            out.push_target("TRACE", 0, &[]);
            Some(())
        }
        "CHECKSUM" => {
            // struct xt_CHECKSUM_info: XT_CHECKSUM_OP_FILL
            out.push_target("CHECKSUM", 0, &[1]);
            Some(())
        }
        _ => None,
    }
}

/// struct xt_nflog_info
fn push_nflog(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<76>::zeroed();
    for option in &target.options {
        match (option.name, &option.value) {
            ("nflog-prefix", ExtensionValue::Text(prefix)) => data.put_text(12, 64, prefix)?,
            ("nflog-group", value) => data.put_u16(4, numeric_option_value(value)?),
            ("nflog-threshold", value) => data.put_u16(6, numeric_option_value(value)?),
            ("nflog-range", value) => data.put_u32(0, numeric_option_value(value)?),
            ("nflog-size", value) => {
                data.put_u32(0, numeric_option_value(value)?);
                data.put_u16(8, NFLOG_COPY_LENGTH);
            }
            _ => return None,
        }
    }
    out.push_target("NFLOG", 0, &data.0);
    Some(())
}

/// Targets that hand the packet over.
fn push_divert(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    match target.module {
        "NFQUEUE" => push_nfqueue(out, target),
        "TPROXY" => push_tproxy(out, target),
        _ => None,
    }
}

/// struct xt_NFQ_info_v3
fn push_nfqueue(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<6>::zeroed();
    data.put_u16(2, 1);
    let mut flags = 0;
    for option in &target.options {
        match (option.name, &option.value) {
            ("queue-num", value) => data.put_u16(0, numeric_option_value(value)?),
            ("queue-balance", ExtensionValue::Range(first, last)) => {
                data.put_u16(0, u16::try_from(*first).ok()?);
                data.put_u16(2, u16::try_from(last.checked_sub(*first)? + 1).ok()?);
            }
            ("queue-bypass", _) => flags |= 1,
            ("queue-cpu-fanout", _) => flags |= 2,
            _ => return None,
        }
    }
    data.put_u16(4, flags);
    out.push_target("NFQUEUE", 3, &data.0);
    Some(())
}

/// struct xt_tproxy_target_info_v1
fn push_tproxy(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<28>::zeroed();
    for option in &target.options {
        match (option.name, &option.value) {
            ("on-port", value) => data.put_be16(24, numeric_option_value(value)?),
            ("on-ip", ExtensionValue::Addr(addr)) => data.put_addr(8, *addr, out.family()),
            ("tproxy-mark", ExtensionValue::Masked(value, mask)) => {
                data.put_u32(0, u32::try_from(*mask).ok()?);
                data.put_u32(4, u32::try_from(*value).ok()?);
            }
            _ => return None,
        }
    }
    out.push_target("TPROXY", 1, &data.0);
    Some(())
}

/// The level where none is given; it is not printed.
pub(crate) const LOG_DEFAULT_LEVEL: u8 = 4;
/// Flags of `LOG` in the order of printing (`XT_LOG_*`, include/uapi/linux/netfilter/xt_LOG.h).
pub(crate) const LOG_FLAG_OPTIONS: [(&str, u8); 5] = [
    ("log-tcp-sequence", 1),
    ("log-tcp-options", 2),
    ("log-ip-options", 4),
    ("log-uid", 8),
    ("log-macdecode", 32),
];

/// struct ipt_log_info, which IPv6 shares.
fn push_log(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<32>::zeroed();
    data.0[0] = LOG_DEFAULT_LEVEL;
    for option in &target.options {
        match (option.name, &option.value) {
            ("log-level", value) => data.0[0] = numeric_option_value(value)?,
            ("log-prefix", ExtensionValue::Text(prefix)) => data.put_text(2, 30, prefix)?,
            (flag, _) => {
                data.0[1] |= LOG_FLAG_OPTIONS.iter().find(|(name, _)| *name == flag)?.1;
            }
        }
    }
    out.push_target("LOG", 0, &data.0);
    Some(())
}

/// struct xt_tcpmss_info; 0xffff clamps to the path MTU.
fn push_tcpmss(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let [option] = target.options.as_slice() else { return None };
    let mss: u16 = match option.name {
        "set-mss" => numeric_option_value(&option.value)?,
        "clamp-mss-to-pmtu" => u16::MAX,
        _ => return None,
    };
    out.push_target("TCPMSS", 0, &mss.to_ne_bytes());
    Some(())
}

fn push_nat(out: &mut EntryWriter, nat: &NatTarget) -> Option<()> {
    match nat {
        NatTarget::Dnat(range) => push_nat_range2(out, "DNAT", range),
        NatTarget::Snat(range) => push_nat_range(out, "SNAT", range),
        NatTarget::Masquerade(range) => push_nat_range(out, "MASQUERADE", range),
        NatTarget::Redirect(range) => push_nat_range(out, "REDIRECT", range),
        NatTarget::Netmap(addr, mask) => {
            let last = Addr(addr.0 | out.family().max_addr() & !mask.0);
            let range = NatRange { addrs: Some((*addr, last)), ..NatRange::default() };
            push_nat_range(out, "NETMAP", &range);
        }
    }
    Some(())
}

fn nat_flags(range: &NatRange) -> u32 {
    let flag = |set: bool, bit| if set { bit } else { 0 };
    flag(range.addrs.is_some(), NAT_MAP_IPS)
        | flag(range.ports.is_some(), NAT_PROTO_SPECIFIED)
        | flag(range.random, NAT_PROTO_RANDOM)
        | flag(range.persistent, NAT_PERSISTENT)
        | flag(range.random_fully, NAT_PROTO_RANDOM_FULLY)
        | flag(range.base_port.is_some_and(|port| port != 0), NAT_PROTO_OFFSET)
}

/// struct nf_nat_range2
fn push_nat_range2(out: &mut EntryWriter, name: &str, range: &NatRange) {
    let family = out.family();
    let mut data = StructBytes::<44>::zeroed();
    data.put_u32(0, nat_flags(range));
    if let Some((lo, hi)) = range.addrs {
        data.put_addr(4, lo, family);
        data.put_addr(20, hi, family);
    }
    if let Some((lo, hi)) = range.ports {
        data.put_be16(36, lo);
        data.put_be16(38, hi);
    }
    data.put_be16(40, range.base_port.unwrap_or(0));
    out.push_target(name, 2, &data.0);
}

/// struct nf_nat_ipv4_multi_range_compat with one range; struct nf_nat_range for IPv6.
fn push_nat_range(out: &mut EntryWriter, name: &str, range: &NatRange) {
    let family = out.family();
    let mut data = StructBytes::<40>::zeroed();
    let (flags_at, addrs_at, ports_at, bytes) = match family {
        Family::V4 => (4, [8, 12], 16, 20),
        Family::V6 => (0, [4, 20], 36, 40),
    };
    if family == Family::V4 {
        data.put_u32(0, 1);
    }
    data.put_u32(flags_at, nat_flags(range));
    if let Some((lo, hi)) = range.addrs {
        data.put_addr(addrs_at[0], lo, family);
        data.put_addr(addrs_at[1], hi, family);
    }
    if let Some((lo, hi)) = range.ports {
        data.put_be16(ports_at, lo);
        data.put_be16(ports_at + 2, hi);
    }
    // SNAT has revision 1 for IPv6 (`xt_nat_target_reg` in net/netfilter/xt_nat.c).
    let revision = u8::from(family == Family::V6 && name == "SNAT");
    out.push_target(name, revision, &data.0[..bytes]);
}
