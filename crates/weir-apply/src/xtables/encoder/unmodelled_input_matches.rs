//! Matches that depend on the host or on bytes that no field models.

use weir_model::match_module_constants::{LAST_SECOND_OF_DAY, WEEKDAY_NAMES};
use weir_model::rule_match::{
    ADDRTYPE_NAMES, ExtensionValue, TypedExtensionOption, UnmodelledInputMatch,
};

use super::u32_match;
use crate::xtables::entry_writer::{EntryWriter, StructBytes, write_device_name};
use crate::xtables::numeric_option_value::numeric_option_value;

/// Appends such a match; `None` where the encoder does not know it.
pub(crate) fn push_unmodelled_input_match(
    out: &mut EntryWriter,
    m: &UnmodelledInputMatch,
) -> Option<()> {
    match m.module {
        "owner" => push_owner(out, &m.options),
        "addrtype" => push_addrtype(out, &m.options),
        "physdev" => push_physdev(out, &m.options),
        "helper" => push_helper(out, &m.options),
        "rpfilter" => push_flag_options(out, "rpfilter", 0, &RPFILTER_FLAGS, &m.options),
        "socket" => push_flag_options(out, "socket", 3, &SOCKET_FLAGS, &m.options),
        "string" => push_string(out, &m.options),
        "u32" => u32_match::push_u32(out, &m.options),
        "tcpmss" => push_tcpmss_match(out, &m.options),
        "time" => push_time_without_monthdays(out, &m.options),
        _ => None,
    }
}

/// Flags of rpfilter (xt_rpfilter.h), in the order of printing.
pub(crate) const RPFILTER_FLAGS: [(&str, u8); 4] =
    [("loose", 1), ("validmark", 2), ("accept-local", 4), ("invert", 8)];
/// Flags of socket (xt_socket.h), in the order of printing.
pub(crate) const SOCKET_FLAGS: [(&str, u8); 3] =
    [("transparent", 1), ("nowildcard", 2), ("restore-skmark", 4)];
/// Options of physdev in the order of printing: the bit, and where a name lies.
pub(crate) const PHYSDEV_OPTIONS: [(&str, u8, Option<usize>); 5] = [
    ("physdev-is-in", 8, None),
    ("physdev-in", 1, Some(0)),
    ("physdev-is-out", 16, None),
    ("physdev-out", 2, Some(32)),
    ("physdev-is-bridged", 4, None),
];

/// One byte of flags.
fn push_flag_options(
    out: &mut EntryWriter,
    module: &str,
    revision: u8,
    flags: &[(&str, u8)],
    options: &[TypedExtensionOption],
) -> Option<()> {
    let byte = options.iter().try_fold(0, |byte, option| {
        let (_, flag) = flags.iter().find(|(name, _)| *name == option.name)?;
        (!option.negated).then_some(byte | flag)
    })?;
    out.push_match(module, revision, &[byte]);
    Some(())
}

/// struct xt_physdev_info
fn push_physdev(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let mut data = StructBytes::<66>::zeroed();
    for option in options {
        let (_, bit, name_at) = PHYSDEV_OPTIONS.iter().find(|(name, ..)| *name == option.name)?;
        if let (Some(at), ExtensionValue::Text(name)) = (*name_at, &option.value) {
            let prefix = name.strip_suffix('+');
            let (name, is_prefix) = (prefix.unwrap_or(name), prefix.is_some());
            write_device_name(&mut data.0, at, at + 16, name, is_prefix);
        }
        data.0[64] |= if option.negated { *bit } else { 0 };
        data.0[65] |= bit;
    }
    out.push_match("physdev", 0, &data.0);
    Some(())
}

/// struct xt_helper_info
fn push_helper(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let [option] = options else { return None };
    let ExtensionValue::Text(name) = &option.value else { return None };
    let mut data = StructBytes::<36>::zeroed();
    data.put_u32(0, option.negated.into());
    data.put_text(4, 30, name)?;
    out.push_match("helper", 0, &data.0);
    Some(())
}

/// struct xt_tcpmss_match_info
fn push_tcpmss_match(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let [option] = options else { return None };
    let ExtensionValue::Range(lo, hi) = option.value else { return None };
    let mut data = StructBytes::<6>::zeroed();
    data.put_u16(0, u16::try_from(lo).ok()?);
    data.put_u16(2, u16::try_from(hi).ok()?);
    data.0[4] = option.negated.into();
    out.push_match("tcpmss", 0, &data.0);
    Some(())
}

/// `XT_STRING_MAX_PATTERN_SIZE`
pub(crate) const STRING_PATTERN_BYTES: usize = 128;

/// struct xt_string_info
fn push_string(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let mut data = StructBytes::<160>::zeroed();
    data.put_u16(2, u16::MAX);
    for option in options {
        match (option.name, &option.value) {
            ("string" | "hex-string", ExtensionValue::ByteString(pattern)) => {
                data.0[20..20 + STRING_PATTERN_BYTES]
                    .get_mut(..pattern.len())?
                    .copy_from_slice(pattern);
                data.0[148] = pattern.len() as u8;
                data.0[149] |= u8::from(option.negated);
            }
            ("algo", ExtensionValue::Keyword(name)) => data.put_text(4, 16, name)?,
            ("from", value) => data.put_u16(0, numeric_option_value(value)?),
            ("to", value) => data.put_u16(2, numeric_option_value(value)?),
            ("icase", _) => data.0[149] |= 2,
            _ => return None,
        }
    }
    out.push_match("string", 1, &data.0);
    Some(())
}

/// struct xt_owner_match_info
fn push_owner(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let mut data = StructBytes::<20>::zeroed();
    for option in options {
        let bit = match (option.name, &option.value) {
            ("uid-owner", ExtensionValue::Range(lo, hi)) => {
                data.put_u32(0, u32::try_from(*lo).ok()?);
                data.put_u32(4, u32::try_from(*hi).ok()?);
                1
            }
            ("gid-owner", ExtensionValue::Range(lo, hi)) => {
                data.put_u32(8, u32::try_from(*lo).ok()?);
                data.put_u32(12, u32::try_from(*hi).ok()?);
                2
            }
            ("socket-exists", ExtensionValue::Flag) => 4,
            ("suppl-groups", ExtensionValue::Flag) => 8,
            _ => return None,
        };
        data.0[16] |= bit;
        data.0[17] |= if option.negated { bit } else { 0 };
    }
    out.push_match("owner", 1, &data.0);
    Some(())
}

/// struct xt_addrtype_info_v1
fn push_addrtype(out: &mut EntryWriter, options: &[TypedExtensionOption]) -> Option<()> {
    let mut data = StructBytes::<8>::zeroed();
    let mut flags = 0;
    for option in options {
        match (option.name, &option.value) {
            ("src-type", ExtensionValue::KeywordList(types)) => {
                data.put_u16(0, addrtype_bits(types)?);
                flags |= u32::from(option.negated);
            }
            ("dst-type", ExtensionValue::KeywordList(types)) => {
                data.put_u16(2, addrtype_bits(types)?);
                flags |= u32::from(option.negated) << 1;
            }
            ("limit-iface-in", ExtensionValue::Flag) => flags |= 4,
            ("limit-iface-out", ExtensionValue::Flag) => flags |= 8,
            _ => return None,
        }
    }
    data.put_u32(4, flags);
    out.push_match("addrtype", 1, &data.0);
    Some(())
}

fn addrtype_bits(types: &[&str]) -> Option<u16> {
    types.iter().try_fold(0, |bits, name| {
        let bit = ADDRTYPE_NAMES.iter().position(|known| known == name)?;
        Some(bits | 1 << bit)
    })
}

/// `XT_TIME_ALL_MONTHDAYS`, `XT_TIME_ALL_WEEKDAYS`
pub(crate) const ALL_MONTHDAYS: u32 = 0xffff_fffe;
pub(crate) const ALL_WEEKDAYS: u8 = 0xfe;
/// `XT_TIME_LOCAL_TZ`, `XT_TIME_CONTIGUOUS`
pub(crate) const TIME_FLAGS: [(&str, u8); 2] = [("kerneltz", 1), ("contiguous", 2)];

/// struct xt_time_info, for times that do not name days of the month.
fn push_time_without_monthdays(
    out: &mut EntryWriter,
    options: &[TypedExtensionOption],
) -> Option<()> {
    let mut data = StructBytes::<24>::zeroed();
    data.put_u32(12, LAST_SECOND_OF_DAY);
    data.put_u32(16, ALL_MONTHDAYS);
    data.0[20] = ALL_WEEKDAYS;
    for option in options {
        match (option.name, &option.value) {
            ("timestart", ExtensionValue::DurationInModuleUnit(seconds)) => {
                data.put_u32(8, u32::try_from(*seconds).ok()?);
            }
            ("timestop", ExtensionValue::DurationInModuleUnit(seconds)) => {
                data.put_u32(12, u32::try_from(*seconds).ok()?);
            }
            ("datestart", value) => data.put_u32(0, numeric_option_value(value)?),
            ("datestop", value) => data.put_u32(4, numeric_option_value(value)?),
            ("weekdays", ExtensionValue::KeywordList(days)) => {
                let bits = days.iter().try_fold(0, |bits, day| {
                    let bit = WEEKDAY_NAMES.iter().position(|name| name == day)?;
                    Some(bits | 2 << bit)
                })?;
                data.0[20] = if option.negated { ALL_WEEKDAYS & !bits } else { bits };
            }
            (flag, ExtensionValue::Flag) => {
                data.0[21] |= TIME_FLAGS.iter().find(|(name, _)| *name == flag)?.1;
            }
            _ => return None,
        }
    }
    out.push_match("time", 0, &data.0);
    Some(())
}
