//! Matches that keep a budget or a memory.

use weir_model::match_module_constants::{
    HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS, HASHLIMIT_TICKS_PER_SECOND, LIMIT_DEFAULT_BURST_PACKETS,
    LIMIT_TICKS_PER_SECOND,
};
use weir_model::rule_match::{ExtensionValue, StatefulMatch};
use weir_model::{Addr, Family};

use crate::xtables::entry_offsets::read_u32;
use crate::xtables::entry_writer::{EntryWriter, StructBytes};
use crate::xtables::numeric_option_value::numeric_option_value;

/// `XT_HASHLIMIT_INVERT`
pub(crate) const HASHLIMIT_ABOVE: u32 = 1 << 4;
/// Modes of hashlimit in the order of printing, with their bits.
pub(crate) const HASHLIMIT_MODES: [(&str, u32); 4] =
    [("srcip", 1 << 2), ("srcport", 1 << 3), ("dstip", 1), ("dstport", 1 << 1)];
/// Operations of recent, with their bits.
pub(crate) const RECENT_OPERATIONS: [(&str, u8); 4] =
    [("rcheck", 1), ("set", 1 << 1), ("update", 1 << 2), ("remove", 1 << 3)];
pub(crate) const RECENT_TTL: u8 = 1 << 4;
pub(crate) const RECENT_REAP: u8 = 1 << 5;

/// Appends a match that keeps a budget or a memory; `None` where the encoder does not know it.
pub(crate) fn push_stateful(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    match m.module {
        "limit" => push_limit(out, m),
        "quota" => push_quota(out, m),
        "recent" => push_recent(out, m),
        "statistic" => push_statistic(out, m),
        "connlimit" => push_connlimit(out, m),
        "connbytes" => push_connbytes(out, m),
        "hashlimit" => push_hashlimit(out, m),
        _ => None,
    }
}

/// struct xt_rateinfo, of which the kernel fills what follows the burst.
fn push_limit(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let (mut ticks, mut burst) = (None, LIMIT_DEFAULT_BURST_PACKETS);
    for option in &m.options {
        match (option.name, &option.value) {
            ("limit", ExtensionValue::RateCountPerMilliseconds(count, unit_millis)) => {
                let per_unit = LIMIT_TICKS_PER_SECOND * unit_millis / 1000;
                ticks = Some(u32::try_from(per_unit.checked_div(*count)?).ok()?);
            }
            ("limit-burst", value) => burst = numeric_option_value(value)?,
            _ => return None,
        }
    }
    let mut data = StructBytes::<40>::zeroed();
    data.put_u32(0, ticks?);
    data.put_u32(4, burst);
    out.push_match("limit", 0, &data.0);
    Some(())
}

/// struct xt_quota_info
fn push_quota(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let [option] = m.options.as_slice() else { return None };
    let ExtensionValue::Number(quota) = option.value else { return None };
    let mut data = StructBytes::<24>::zeroed();
    data.put_u32(0, option.negated.into());
    data.put_u64(8, quota);
    out.push_match("quota", 0, &data.0);
    Some(())
}

/// struct xt_recent_mtinfo_v1
fn push_recent(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let mut data = StructBytes::<228>::zeroed();
    for option in &m.options {
        match (option.name, &option.value) {
            ("seconds", value) => data.put_u32(0, numeric_option_value(value)?),
            ("hitcount", value) => data.put_u32(4, numeric_option_value(value)?),
            ("reap", _) => data.0[8] |= RECENT_REAP,
            ("rttl", _) => data.0[8] |= RECENT_TTL,
            ("name", ExtensionValue::Text(name)) => {
                // The tool copies a name with its zero byte over the default one.
                data.put_text(10, 200, "DEFAULT")?;
                data.put_text(10, 200, name)?;
                data.0[10 + name.len()] = 0;
            }
            ("mask", ExtensionValue::Addr(mask)) => data.put_addr(212, *mask, out.family()),
            ("rsource", _) => data.0[210] = 0,
            ("rdest", _) => data.0[210] = 1,
            (operation, _) => {
                data.0[8] |= RECENT_OPERATIONS.iter().find(|(name, _)| *name == operation)?.1;
                data.0[9] = option.negated.into();
            }
        }
    }
    out.push_match("recent", 1, &data.0);
    Some(())
}

/// struct xt_statistic_info
fn push_statistic(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let mut data = StructBytes::<24>::zeroed();
    for option in &m.options {
        match (option.name, &option.value) {
            ("mode", ExtensionValue::Keyword(mode)) => data.put_u16(0, u16::from(*mode == "nth")),
            ("probability", ExtensionValue::Probability(p)) => data.put_u32(4, *p),
            // The kernel matches when its counter reaches the last of the packets.
            ("every", value) => {
                data.put_u32(4, numeric_option_value::<u32>(value)?.checked_sub(1)?)
            }
            ("packet", value) => data.put_u32(8, numeric_option_value(value)?),
            _ => return None,
        }
        if option.negated {
            data.put_u16(2, 1);
        }
    }
    // The tool computes `count` in either mode; the kernel does not use it.
    let (every, packet) = (read_u32(&data.0, 4), read_u32(&data.0, 8));
    data.put_u32(12, every.wrapping_sub(packet));
    out.push_match("statistic", 0, &data.0);
    Some(())
}

/// struct xt_connlimit_info
fn push_connlimit(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let mut data = StructBytes::<32>::zeroed();
    let mut flags = 0;
    for option in &m.options {
        match (option.name, &option.value) {
            ("connlimit-upto", value) => {
                data.put_u32(16, numeric_option_value(value)?);
                flags |= 1;
            }
            ("connlimit-above", value) => data.put_u32(16, numeric_option_value(value)?),
            ("connlimit-mask", value) => {
                let family = out.family();
                let length = numeric_option_value::<u32>(value)?;
                if length > family.addr_bits() {
                    return None;
                }
                data.put_addr(0, Addr(family.netmask(length)), family);
            }
            ("connlimit-saddr", _) => {}
            ("connlimit-daddr", _) => flags |= 2,
            _ => return None,
        }
    }
    data.put_u32(20, flags);
    out.push_match("connlimit", 1, &data.0);
    Some(())
}

/// Modes and directions of connbytes by their numbers.
pub(crate) const CONNBYTES_MODES: [&str; 3] = ["packets", "bytes", "avgpkt"];
pub(crate) const CONNBYTES_DIRECTIONS: [&str; 3] = ["original", "reply", "both"];

/// struct xt_connbytes_info: swapped bounds are a negation.
fn push_connbytes(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let mut data = StructBytes::<24>::zeroed();
    for option in &m.options {
        match (option.name, &option.value) {
            ("connbytes", ExtensionValue::Range(lo, hi)) => {
                let (from, to) = if option.negated { (hi, lo) } else { (lo, hi) };
                data.put_u64(0, *from);
                data.put_u64(8, *to);
            }
            ("connbytes-mode", ExtensionValue::Keyword(word)) => {
                data.0[16] = CONNBYTES_MODES.iter().position(|known| known == word)? as u8;
            }
            ("connbytes-dir", ExtensionValue::Keyword(word)) => {
                data.0[17] = CONNBYTES_DIRECTIONS.iter().position(|known| known == word)? as u8;
            }
            _ => return None,
        }
    }
    out.push_match("connbytes", 0, &data.0);
    Some(())
}

/// struct xt_hashlimit_mtinfo3, for rates of packets.
fn push_hashlimit(out: &mut EntryWriter, m: &StatefulMatch) -> Option<()> {
    let mut data = StructBytes::<312>::zeroed();
    let (mut mode, mut expire_millis) = (0, None);
    data.put_u32(284, HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS);
    let whole_address = match out.family() {
        Family::V4 => 32,
        Family::V6 => 128,
    };
    (data.0[296], data.0[297]) = (whole_address, whole_address);
    for option in &m.options {
        let value = &option.value;
        match (option.name, value) {
            (
                "hashlimit-upto" | "hashlimit-above",
                ExtensionValue::RateCountPerMilliseconds(count, unit_millis),
            ) => {
                let per_unit = HASHLIMIT_TICKS_PER_SECOND * unit_millis / 1000;
                data.put_u64(256, per_unit.checked_div(*count)?);
                expire_millis = expire_millis.or(Some(u32::try_from(*unit_millis).ok()?));
                mode |= if option.name == "hashlimit-above" { HASHLIMIT_ABOVE } else { 0 };
            }
            ("hashlimit-burst", value) => data.put_u64(264, numeric_option_value(value)?),
            ("hashlimit-mode", ExtensionValue::KeywordList(modes)) => {
                for name in modes {
                    mode |= HASHLIMIT_MODES.iter().find(|(known, _)| known == name)?.1;
                }
            }
            ("hashlimit-name", ExtensionValue::Text(name)) => data.put_text(0, 255, name)?,
            ("hashlimit-htable-size", value) => data.put_u32(276, numeric_option_value(value)?),
            ("hashlimit-htable-max", value) => data.put_u32(280, numeric_option_value(value)?),
            ("hashlimit-htable-gcinterval", value) => {
                data.put_u32(284, numeric_option_value(value)?);
            }
            ("hashlimit-htable-expire", value) => {
                expire_millis = Some(numeric_option_value(value)?);
            }
            ("hashlimit-srcmask", value) => data.0[296] = numeric_option_value(value)?,
            ("hashlimit-dstmask", value) => data.0[297] = numeric_option_value(value)?,
            _ => return None,
        }
    }
    data.put_u32(272, mode);
    data.put_u32(288, expire_millis?);
    out.push_match("hashlimit", 3, &data.0);
    Some(())
}
