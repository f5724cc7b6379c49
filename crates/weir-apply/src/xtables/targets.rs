//! Targets as the structures of the kernel.

use weir_model::rule_match::ExtensionValue;
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Effect, Family, NatTarget, Target};

use super::entry_writer::{EntryWriter, StructBytes};
use super::option_fields::number_of_option_value;

pub(super) const NAT_MAP_IPS: u32 = 1;
pub(super) const NAT_PROTO_SPECIFIED: u32 = 1 << 1;
pub(super) const NAT_PROTO_RANDOM: u32 = 1 << 2;
pub(super) const NAT_PERSISTENT: u32 = 1 << 3;
pub(super) const NAT_PROTO_RANDOM_FULLY: u32 = 1 << 4;
pub(super) const NAT_PROTO_OFFSET: u32 = 1 << 5;

/// Appends the target of a module; `None` where the encoder does not know it.
pub(super) fn push_target(out: &mut EntryWriter, target: &Target) -> Option<()> {
    match target {
        Target::Reject(word) => push_reject(out, word),
        Target::Nat(nat) => push_nat(out, nat),
        Target::Effect(effect) => push_effect(out, effect),
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
pub(super) fn reject_words(family: Family) -> &'static [&'static str; 9] {
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

fn push_effect(out: &mut EntryWriter, effect: &Effect) -> Option<()> {
    match effect {
        Effect::Mark { value, mask } => {
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
        Effect::Tos { value, mask } => out.push_target("TOS", 1, &[*value, *mask]),
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
        Effect::Other(target) => return push_log_or_tcpmss(out, target),
        Effect::Notrack | Effect::CtNotrack { .. } => return None,
    }
    Some(())
}

fn push_log_or_tcpmss(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    match target.module {
        "LOG" => push_log(out, target),
        "TCPMSS" => push_tcpmss(out, target),
        _ => None,
    }
}

/// The level where none is given; it is not printed.
pub(super) const LOG_WARNING: u8 = 4;
/// Flags of `LOG` in the order of printing (`XT_LOG_*`, include/uapi/linux/netfilter/xt_LOG.h).
pub(super) const LOG_FLAG_OPTIONS: [(&str, u8); 5] = [
    ("log-tcp-sequence", 1),
    ("log-tcp-options", 2),
    ("log-ip-options", 4),
    ("log-uid", 8),
    ("log-macdecode", 32),
];

/// struct ipt_log_info, which IPv6 shares.
fn push_log(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<32>::zeroed();
    data.0[0] = LOG_WARNING;
    for option in &target.options {
        match (option.name, &option.value) {
            ("log-level", value) => data.0[0] = number_of_option_value(value)?,
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
        "set-mss" => number_of_option_value(&option.value)?,
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
        NatTarget::Netmap(..) => return None,
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
