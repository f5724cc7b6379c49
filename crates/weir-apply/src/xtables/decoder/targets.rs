//! Targets of modules. Each structure is cited where the encoder writes it.

use weir_model::rule_match::ExtensionValue;
use weir_model::target::{ExtensionTarget, NatRange, TtlOperation};
use weir_model::{Addr, Effect, Family, NatTarget, Target};

use super::extension_bytes::{ExtensionBytes, OptionList};
use super::{conntrack_targets, set_modules};
use crate::xtables::encoder::targets::{
    LOG_DEFAULT_LEVEL, LOG_FLAG_OPTIONS, NAT_MAP_IPS, NAT_PERSISTENT, NAT_PROTO_OFFSET,
    NAT_PROTO_RANDOM, NAT_PROTO_RANDOM_FULLY, NAT_PROTO_SPECIFIED, NFLOG_COPY_LENGTH, reject_words,
};
use crate::xtables::set_indices::SetIndices;

/// A target of a module and revision; `None` where the decoder does not know it.
pub(super) fn decode_target(
    family: Family,
    name: &str,
    revision: u8,
    data: &[u8],
    sets: &SetIndices,
) -> Option<Target> {
    let of_length = |length| ExtensionBytes::of_length(data, length);
    let v4 = family == Family::V4;
    Some(match (name, revision) {
        ("REJECT", 0) => {
            let number = usize::try_from(of_length(4)?.u32(0)).ok()?;
            Target::Reject(reject_words(family).get(number).filter(|word| !word.is_empty())?)
        }
        ("DNAT", 2) => nat(NatTarget::Dnat(decode_nat_range2(family, of_length(44)?))),
        ("SNAT", 0) if v4 => nat(NatTarget::Snat(decode_nat_range(family, data)?)),
        ("SNAT", 1) if !v4 => nat(NatTarget::Snat(decode_nat_range(family, data)?)),
        ("MASQUERADE", 0) => nat(NatTarget::Masquerade(decode_nat_range(family, data)?)),
        ("REDIRECT", 0) => nat(NatTarget::Redirect(decode_nat_range(family, data)?)),
        ("TTL", 0) if v4 => decode_ttl_target(of_length(2)?)?,
        ("HL", 0) if !v4 => decode_ttl_target(of_length(2)?)?,
        ("MARK", 2) => {
            let info = of_length(8)?;
            effect(Effect::Mark { xor_value: info.u32(0), clear_mask: info.u32(4) })
        }
        ("CLASSIFY", 0) => {
            let priority = of_length(4)?.u32(0);
            effect(Effect::Classify { class: ((priority >> 16) as u16, priority as u16) })
        }
        ("TOS", 1) => {
            let info = of_length(2)?;
            effect(Effect::Tos { xor_value: info.u8(0), clear_mask: info.u8(1) })
        }
        ("DSCP", 0) => effect(Effect::Dscp(of_length(1)?.u8(0))),
        ("LOG", 0) => effect_of_options("LOG", decode_log(of_length(32)?)?),
        ("NFLOG", 0) => effect_of_options("NFLOG", decode_nflog(of_length(76)?)?),
        ("CT", 2) => effect(conntrack_targets::decode_ct(of_length(60)?)?),
        ("CONNMARK", 2) => {
            effect_of_options("CONNMARK", conntrack_targets::decode_connmark(of_length(15)?)?)
        }
        ("SET", 3) => {
            effect_of_options("SET", set_modules::decode_set_target(of_length(20)?, sets)?)
        }
        ("TRACE", 0) => effect_of_options("TRACE", OptionList::default()),
        ("CHECKSUM", 0) => {
            let mut options = OptionList::default();
            options.push_flag_if(of_length(1)?.u8(0) == 1, "checksum-fill");
            effect_of_options("CHECKSUM", options)
        }
        ("NFQUEUE", 3) => divert_of_options("NFQUEUE", decode_nfqueue(of_length(6)?)),
        ("TPROXY", 1) => divert_of_options("TPROXY", decode_tproxy(family, of_length(26)?)),
        ("NETMAP", 0) => nat(decode_netmap(family, data)?),
        ("TCPMSS", 0) => effect_of_options("TCPMSS", decode_tcpmss(of_length(2)?)),
        _ => return None,
    })
}

fn nat(target: NatTarget) -> Target {
    Target::Nat(Box::new(target))
}

fn effect(effect: Effect) -> Target {
    Target::Effect(Box::new(effect))
}

fn effect_of_options(module: &'static str, options: OptionList) -> Target {
    effect(Effect::Other(ExtensionTarget { module, options: options.0 }))
}

fn divert_of_options(module: &'static str, options: OptionList) -> Target {
    Target::Divert(Box::new(ExtensionTarget { module, options: options.0 }))
}

fn decode_nfqueue(info: ExtensionBytes) -> OptionList {
    let (first, total, flags) = (info.u16(0), info.u16(2), info.u16(4));
    let mut options = OptionList::default();
    match total {
        0 | 1 => options.push("queue-num", ExtensionValue::Number(first.into())),
        total => {
            let last = u64::from(first) + u64::from(total) - 1;
            options.push("queue-balance", ExtensionValue::Range(first.into(), last));
        }
    }
    options.push_flag_if(flags & 1 != 0, "queue-bypass");
    options.push_flag_if(flags & 2 != 0, "queue-cpu-fanout");
    options
}

fn decode_tproxy(family: Family, info: ExtensionBytes) -> OptionList {
    let mut options = OptionList::default();
    options.push("on-port", ExtensionValue::Number(info.be16(24).into()));
    options.push("on-ip", ExtensionValue::Addr(info.addr(8, family)));
    let mark = ExtensionValue::Masked(info.u32(4).into(), info.u32(0).into());
    options.push("tproxy-mark", mark);
    options
}

/// The range of addresses is a network.
fn decode_netmap(family: Family, data: &[u8]) -> Option<NatTarget> {
    let (first, last) = decode_nat_range(family, data)?.addrs?;
    let mask = Addr(family.max_addr() & !(first.0 ^ last.0));
    Some(NatTarget::Netmap(first, mask))
}

fn decode_nflog(info: ExtensionBytes) -> Option<OptionList> {
    let mut options = OptionList::default();
    options.push_text_unless_empty("nflog-prefix", info.text(12, 64)?);
    options.push_number_unless(0, "nflog-group", info.u16(4).into());
    let length = u64::from(info.u32(0));
    if info.u16(8) & NFLOG_COPY_LENGTH != 0 {
        options.push("nflog-size", ExtensionValue::Number(length));
    } else {
        options.push_number_unless(0, "nflog-range", length);
    }
    options.push_number_unless(0, "nflog-threshold", info.u16(6).into());
    Some(options)
}

fn decode_ttl_target(info: ExtensionBytes) -> Option<Target> {
    let op = match info.u8(0) {
        0 => TtlOperation::Set,
        1 => TtlOperation::Inc,
        2 => TtlOperation::Dec,
        _ => return None,
    };
    Some(effect(Effect::Ttl { op, value: info.u8(1) }))
}

fn decode_log(info: ExtensionBytes) -> Option<OptionList> {
    let mut options = OptionList::default();
    options.push_text_unless_empty("log-prefix", info.text(2, 30)?);
    options.push_number_unless(LOG_DEFAULT_LEVEL.into(), "log-level", info.u8(0).into());
    for (name, bit) in LOG_FLAG_OPTIONS {
        options.push_flag_if(info.u8(1) & bit != 0, name);
    }
    Some(options)
}

fn decode_tcpmss(info: ExtensionBytes) -> OptionList {
    let mut options = OptionList::default();
    match info.u16(0) {
        u16::MAX => options.push("clamp-mss-to-pmtu", ExtensionValue::Flag),
        mss => options.push("set-mss", ExtensionValue::Number(mss.into())),
    }
    options
}

/// A range of flags, addresses, ports and base port, each read from where it lies.
fn nat_range_with_flags_only(flags: u32) -> NatRange {
    NatRange {
        random: flags & NAT_PROTO_RANDOM != 0,
        random_fully: flags & NAT_PROTO_RANDOM_FULLY != 0,
        persistent: flags & NAT_PERSISTENT != 0,
        ..NatRange::default()
    }
}

fn decode_nat_range2(family: Family, info: ExtensionBytes) -> NatRange {
    let flags = info.u32(0);
    let addrs = (info.addr(4, family), info.addr(20, family));
    NatRange {
        addrs: (flags & NAT_MAP_IPS != 0).then_some(addrs),
        ports: (flags & NAT_PROTO_SPECIFIED != 0).then_some((info.be16(36), info.be16(38))),
        base_port: (flags & NAT_PROTO_OFFSET != 0).then_some(info.be16(40)),
        ..nat_range_with_flags_only(flags)
    }
}

fn decode_nat_range(family: Family, data: &[u8]) -> Option<NatRange> {
    let (length, flags_at, addrs_at, ports_at) = match family {
        Family::V4 => (20, 4, [8, 12], 16),
        Family::V6 => (40, 0, [4, 20], 36),
    };
    let info = ExtensionBytes::of_length(data, length)?;
    let flags = info.u32(flags_at);
    let addrs = (info.addr(addrs_at[0], family), info.addr(addrs_at[1], family));
    let ports = (info.be16(ports_at), info.be16(ports_at + 2));
    Some(NatRange {
        addrs: (flags & NAT_MAP_IPS != 0).then_some(addrs),
        ports: (flags & NAT_PROTO_SPECIFIED != 0).then_some(ports),
        ..nat_range_with_flags_only(flags)
    })
}
