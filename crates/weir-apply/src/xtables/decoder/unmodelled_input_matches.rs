//! Matches that depend on the host or on bytes that no field models.

use weir_model::Match;
use weir_model::match_module_constants::{LAST_SECOND_OF_DAY, WEEKDAY_NAMES};
use weir_model::rule_match::{ADDRTYPE_NAMES, ExtensionValue, UnmodelledInputMatch};

use super::extension_bytes::{ExtensionBytes, OptionList};
use super::u32_match;
use crate::xtables::encoder::unmodelled_input_matches::{
    ALL_MONTHDAYS, ALL_WEEKDAYS, PHYSDEV_OPTIONS, RPFILTER_FLAGS, SOCKET_FLAGS,
    STRING_PATTERN_BYTES, TIME_FLAGS,
};

/// A match that depends on the host; `None` where the decoder does not know it.
pub(super) fn decode_unmodelled_input_match(
    name: &str,
    revision: u8,
    data: &[u8],
) -> Option<Match> {
    let of_length = |length| ExtensionBytes::of_length(data, length);
    let (module, options) = match (name, revision) {
        ("owner", 1) => ("owner", decode_owner(of_length(18)?)),
        ("addrtype", 1) => ("addrtype", decode_addrtype(of_length(8)?)),
        ("physdev", 0) => ("physdev", decode_physdev(of_length(66)?)?),
        ("helper", 0) => ("helper", decode_helper(of_length(36)?)?),
        ("rpfilter", 0) => ("rpfilter", decode_flag_options(of_length(1)?, &RPFILTER_FLAGS)),
        ("socket", 3) => ("socket", decode_flag_options(of_length(1)?, &SOCKET_FLAGS)),
        ("u32", 0) => ("u32", u32_match::decode_u32(of_length(1982)?)?),
        ("tcpmss", 0) => ("tcpmss", decode_tcpmss_match(of_length(6)?)),
        ("time", 0) => ("time", decode_time_without_monthdays(of_length(22)?)?),
        ("string", 1) => ("string", decode_string(of_length(150)?)?),
        _ => return None,
    };
    Some(Match::UnmodelledInput(Box::new(UnmodelledInputMatch { module, options: options.0 })))
}

fn decode_owner(info: ExtensionBytes) -> OptionList {
    let (tests, inverse) = (info.u8(16), info.u8(17));
    let range = |at: usize| ExtensionValue::Range(info.u32(at).into(), info.u32(at + 4).into());
    let mut options = OptionList::default();
    // The order of printing.
    for (bit, name, value) in [
        (4, "socket-exists", ExtensionValue::Flag),
        (1, "uid-owner", range(0)),
        (2, "gid-owner", range(8)),
        (8, "suppl-groups", ExtensionValue::Flag),
    ] {
        if tests & bit != 0 {
            options.push_negatable(inverse & bit != 0, name, value);
        }
    }
    options
}

fn decode_addrtype(info: ExtensionBytes) -> OptionList {
    let flags = info.u32(4);
    let mut options = OptionList::default();
    for (at, name, inverse_bit) in [(0, "src-type", 1), (2, "dst-type", 2)] {
        let bits = info.u16(at);
        let names = ADDRTYPE_NAMES.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0);
        let names: Vec<&'static str> = names.map(|(_, name)| *name).collect();
        if !names.is_empty() {
            let value = ExtensionValue::KeywordList(names);
            options.push_negatable(flags & inverse_bit != 0, name, value);
        }
    }
    options.push_flag_if(flags & 4 != 0, "limit-iface-in");
    options.push_flag_if(flags & 8 != 0, "limit-iface-out");
    options
}

fn decode_flag_options(info: ExtensionBytes, flags: &[(&'static str, u8)]) -> OptionList {
    let mut options = OptionList::default();
    for (name, flag) in flags {
        options.push_flag_if(info.u8(0) & flag != 0, name);
    }
    options
}

fn decode_physdev(info: ExtensionBytes) -> Option<OptionList> {
    let (inverse, tests) = (info.u8(64), info.u8(65));
    let mut options = OptionList::default();
    for (name, bit, name_at) in PHYSDEV_OPTIONS {
        if tests & bit == 0 {
            continue;
        }
        let value = match name_at {
            Some(at) => ExtensionValue::Text(info.text(at, 16)?),
            None => ExtensionValue::Flag,
        };
        options.push_negatable(inverse & bit != 0, name, value);
    }
    Some(options)
}

fn decode_helper(info: ExtensionBytes) -> Option<OptionList> {
    let mut options = OptionList::default();
    let name = ExtensionValue::Text(info.text(4, 30)?);
    options.push_negatable(info.u32(0) != 0, "helper", name);
    Some(options)
}

fn decode_string(info: ExtensionBytes) -> Option<OptionList> {
    let length = usize::from(info.u8(148));
    let pattern = info.0[20..20 + STRING_PATTERN_BYTES].get(..length)?;
    let is_printable = pattern.iter().all(|byte| (0x20..0x7f).contains(byte));
    let algorithm = info.text(4, 16)?;
    let algorithm = ["bm", "kmp"].into_iter().find(|known| *known == algorithm)?;
    let mut options = OptionList::default();
    let name = if is_printable { "string" } else { "hex-string" };
    let value = ExtensionValue::ByteString(pattern.to_vec());
    options.push_negatable(info.u8(149) & 1 != 0, name, value);
    options.push("algo", ExtensionValue::Keyword(algorithm));
    options.push_number_unless(0, "from", info.u16(0).into());
    options.push_number_unless(u16::MAX.into(), "to", info.u16(2).into());
    options.push_flag_if(info.u8(149) & 2 != 0, "icase");
    Some(options)
}

fn decode_tcpmss_match(info: ExtensionBytes) -> OptionList {
    let mut options = OptionList::default();
    let range = ExtensionValue::Range(info.u16(0).into(), info.u16(2).into());
    options.push_negatable(info.flag(4), "mss", range);
    options
}

/// `None` for a match that names days of the month.
fn decode_time_without_monthdays(info: ExtensionBytes) -> Option<OptionList> {
    if info.u32(16) != ALL_MONTHDAYS {
        return None;
    }
    let (start, stop) = (info.u32(8), info.u32(12));
    let mut options = OptionList::default();
    if start != 0 || stop != LAST_SECOND_OF_DAY {
        options.push("timestart", ExtensionValue::DurationInModuleUnit(start.into()));
        options.push("timestop", ExtensionValue::DurationInModuleUnit(stop.into()));
    }
    let weekdays = info.u8(20);
    // No day is written as not all of them.
    let (negated, chosen) = if weekdays == 0 { (true, ALL_WEEKDAYS) } else { (false, weekdays) };
    if weekdays != ALL_WEEKDAYS {
        let days = WEEKDAY_NAMES.iter().enumerate().filter(|(day, _)| chosen & 2 << day != 0);
        let days = days.map(|(_, name)| *name).collect();
        options.push_negatable(negated, "weekdays", ExtensionValue::KeywordList(days));
    }
    options.push_number_unless(0, "datestart", info.u32(0).into());
    options.push("datestop", ExtensionValue::Number(info.u32(4).into()));
    for (name, flag) in TIME_FLAGS {
        options.push_flag_if(info.u8(21) & flag != 0, name);
    }
    Some(options)
}
