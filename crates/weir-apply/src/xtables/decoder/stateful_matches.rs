//! Matches that keep a budget or a memory. Each structure is cited where the encoder writes it.

use weir_model::match_module_constants::{
    HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS, HASHLIMIT_TICKS_PER_SECOND, LIMIT_DEFAULT_BURST_PACKETS,
    LIMIT_TICKS_PER_SECOND,
};
use weir_model::rule_match::{ExtensionValue, StatefulMatch};
use weir_model::{Addr, Family, Match};
use weir_syntax::iptables::compute_rate_count_and_unit_millis;

use super::extension_bytes::{ExtensionBytes, OptionList};
use crate::xtables::encoder::stateful_matches::{
    CONNBYTES_DIRECTIONS, CONNBYTES_MODES, HASHLIMIT_ABOVE, HASHLIMIT_MODES, RECENT_OPERATIONS,
    RECENT_REAP, RECENT_TTL,
};

/// A match that keeps a budget or a memory; `None` where the decoder does not know it.
pub(super) fn decode_stateful(
    family: Family,
    name: &str,
    revision: u8,
    data: &[u8],
) -> Option<Match> {
    let of_length = |length| ExtensionBytes::of_length(data, length);
    let (module, options) = match (name, revision) {
        ("limit", 0) => ("limit", decode_limit(of_length(8)?)?),
        ("quota", 0) => ("quota", decode_quota(of_length(16)?)),
        ("recent", 1) => ("recent", decode_recent(family, of_length(228)?)?),
        ("statistic", 0) => ("statistic", decode_statistic(of_length(16)?)?),
        ("connlimit", 1) => ("connlimit", decode_connlimit(family, of_length(24)?)?),
        ("connbytes", 0) => ("connbytes", decode_connbytes(of_length(18)?)?),
        ("hashlimit", 3) => ("hashlimit", decode_hashlimit(family, of_length(298)?)?),
        _ => return None,
    };
    Some(Match::Stateful(Box::new(StatefulMatch { module, options: options.0 })))
}

/// A rate by the ticks between two packets; `None` for one that is slower than one a day.
fn decode_rate_count_and_unit_millis(ticks: u64, ticks_per_second: u64) -> Option<(u64, u64)> {
    (1..=ticks_per_second * 86_400)
        .contains(&ticks)
        .then(|| compute_rate_count_and_unit_millis(ticks, ticks_per_second))
}

fn decode_limit(info: ExtensionBytes) -> Option<OptionList> {
    let (count, unit) =
        decode_rate_count_and_unit_millis(info.u32(0).into(), LIMIT_TICKS_PER_SECOND)?;
    let mut options = OptionList::default();
    options.push("limit", ExtensionValue::RateCountPerMilliseconds(count, unit));
    options.push_number_unless(
        LIMIT_DEFAULT_BURST_PACKETS.into(),
        "limit-burst",
        info.u32(4).into(),
    );
    Some(options)
}

fn decode_quota(info: ExtensionBytes) -> OptionList {
    let mut options = OptionList::default();
    let quota = ExtensionValue::Number(info.u64(8));
    options.push_negatable(info.u32(0) & 1 != 0, "quota", quota);
    options
}

fn decode_recent(family: Family, info: ExtensionBytes) -> Option<OptionList> {
    let bits = info.u8(8);
    let (operation, _) = RECENT_OPERATIONS.iter().find(|(_, bit)| bits & bit != 0)?;
    let mut options = OptionList::default();
    options.push_negatable(info.flag(9), operation, ExtensionValue::Flag);
    options.push_number_unless(0, "seconds", info.u32(0).into());
    options.push_flag_if(bits & RECENT_REAP != 0, "reap");
    options.push_number_unless(0, "hitcount", info.u32(4).into());
    options.push_flag_if(bits & RECENT_TTL != 0, "rttl");
    options.push("name", ExtensionValue::Text(info.text(10, 200)?));
    options.push("mask", ExtensionValue::Addr(info.addr(212, family)));
    options.push_flag_if(info.u8(210) == 0, "rsource");
    options.push_flag_if(info.u8(210) == 1, "rdest");
    Some(options)
}

fn decode_statistic(info: ExtensionBytes) -> Option<OptionList> {
    let negated = info.u16(2) & 1 != 0;
    let mut options = OptionList::default();
    match info.u16(0) {
        0 => {
            options.push("mode", ExtensionValue::Keyword("random"));
            let probability = ExtensionValue::Probability(info.u32(4));
            options.push_negatable(negated, "probability", probability);
        }
        1 => {
            options.push("mode", ExtensionValue::Keyword("nth"));
            let every = u64::from(info.u32(4)) + 1;
            options.push_negatable(negated, "every", ExtensionValue::Number(every));
            options.push("packet", ExtensionValue::Number(info.u32(8).into()));
        }
        _ => return None,
    }
    Some(options)
}

fn decode_connlimit(family: Family, info: ExtensionBytes) -> Option<OptionList> {
    let (limit, flags) = (ExtensionValue::Number(info.u32(16).into()), info.u32(20));
    let Addr(mask) = info.addr(0, family);
    let length = family.prefix_len_of_mask(mask)?;
    let mut options = OptionList::default();
    options.push(if flags & 1 != 0 { "connlimit-upto" } else { "connlimit-above" }, limit);
    options.push("connlimit-mask", ExtensionValue::Number(length.into()));
    let side = if flags & 2 != 0 { "connlimit-daddr" } else { "connlimit-saddr" };
    options.push(side, ExtensionValue::Flag);
    Some(options)
}

fn decode_connbytes(info: ExtensionBytes) -> Option<OptionList> {
    let (from, to) = (info.u64(0), info.u64(8));
    let mut options = OptionList::default();
    let value = ExtensionValue::Range(from.min(to), from.max(to));
    options.push_negatable(from > to, "connbytes", value);
    let mode = CONNBYTES_MODES.get(usize::from(info.u8(16)))?;
    options.push("connbytes-mode", ExtensionValue::Keyword(mode));
    let direction = CONNBYTES_DIRECTIONS.get(usize::from(info.u8(17)))?;
    options.push("connbytes-dir", ExtensionValue::Keyword(direction));
    Some(options)
}

fn decode_hashlimit(family: Family, info: ExtensionBytes) -> Option<OptionList> {
    let mode = info.u32(272);
    let (count, unit_millis) =
        decode_rate_count_and_unit_millis(info.u64(256), HASHLIMIT_TICKS_PER_SECOND)?;
    let mut options = OptionList::default();
    options.push(
        if mode & HASHLIMIT_ABOVE != 0 { "hashlimit-above" } else { "hashlimit-upto" },
        ExtensionValue::RateCountPerMilliseconds(count, unit_millis),
    );
    options.push("hashlimit-burst", ExtensionValue::Number(info.u64(264)));
    let modes = HASHLIMIT_MODES.iter().filter(|(_, bit)| mode & bit != 0);
    let modes: Vec<&'static str> = modes.map(|(name, _)| *name).collect();
    if !modes.is_empty() {
        options.push("hashlimit-mode", ExtensionValue::KeywordList(modes));
    }
    options.push("hashlimit-name", ExtensionValue::Text(info.text(0, 255)?));
    let gc_interval = HASHLIMIT_DEFAULT_GC_INTERVAL_MILLIS.into();
    let bits = u64::from(family.addr_bits());
    for (name, usual, value) in [
        ("hashlimit-htable-size", 0, u64::from(info.u32(276))),
        ("hashlimit-htable-max", 0, info.u32(280).into()),
        ("hashlimit-htable-gcinterval", gc_interval, info.u32(284).into()),
        ("hashlimit-htable-expire", unit_millis, info.u32(288).into()),
        ("hashlimit-srcmask", bits, info.u8(296).into()),
        ("hashlimit-dstmask", bits, info.u8(297).into()),
    ] {
        options.push_number_unless(usual, name, value);
    }
    Some(options)
}
