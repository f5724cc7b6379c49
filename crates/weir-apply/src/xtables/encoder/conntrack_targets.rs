//! Targets of connection tracking: CT, NOTRACK and CONNMARK.

use weir_model::rule_match::{ExtensionValue, TypedExtensionOption};
use weir_model::target::{CT_EVENT_NAMES, ExtensionTarget};

use crate::xtables::entry_writer::{EntryWriter, StructBytes};
use crate::xtables::numeric_option_value::numeric_option_value;

pub(crate) const CT_NOTRACK: u16 = 1;
/// `-j NOTRACK` is an alias of `-j CT --notrack`.
pub(crate) const CT_NOTRACK_ALIAS: u16 = 1 << 1;
pub(crate) const CT_ZONE_DIR_ORIG: u16 = 1 << 2;
pub(crate) const CT_ZONE_DIR_REPL: u16 = 1 << 3;
pub(crate) const CT_ZONE_MARK: u16 = 1 << 4;

/// struct xt_ct_target_info_v1, which revision 2 has, too.
pub(crate) fn push_ct(
    out: &mut EntryWriter,
    flags: u16,
    options: &[TypedExtensionOption],
) -> Option<()> {
    let mut data = StructBytes::<72>::zeroed();
    let mut flags = flags;
    for option in options {
        match (option.name, &option.value) {
            ("helper", ExtensionValue::Text(name)) => data.put_text(12, 16, name)?,
            ("timeout", ExtensionValue::Text(name)) => data.put_text(28, 32, name)?,
            ("ctevents", ExtensionValue::KeywordList(names)) => data.put_u32(4, event_bits(names)?),
            ("expevents", ExtensionValue::KeywordList(names)) => {
                data.put_u32(8, event_bits(names)?);
            }
            ("zone" | "zone-orig" | "zone-reply", value) => {
                flags |= match option.name {
                    "zone-orig" => CT_ZONE_DIR_ORIG,
                    "zone-reply" => CT_ZONE_DIR_REPL,
                    _ => 0,
                };
                match value {
                    ExtensionValue::Keyword("mark") => flags |= CT_ZONE_MARK,
                    value => data.put_u16(2, numeric_option_value(value)?),
                }
            }
            _ => return None,
        }
    }
    data.put_u16(0, flags);
    out.push_target("CT", 2, &data.0);
    Some(())
}

fn event_bits(names: &[&str]) -> Option<u32> {
    names.iter().try_fold(0, |bits, name| {
        let bit = CT_EVENT_NAMES.iter().position(|known| known == name)?;
        Some(bits | 1 << bit)
    })
}

/// Modes of CONNMARK by their numbers.
pub(crate) const CONNMARK_MODES: [&str; 3] = ["set-xmark", "save-mark", "restore-mark"];
/// Directions of its shift by their numbers.
pub(crate) const CONNMARK_SHIFTS: [&str; 2] = ["left-shift-mark", "right-shift-mark"];

/// struct xt_connmark_tginfo2
pub(crate) fn push_connmark(out: &mut EntryWriter, target: &ExtensionTarget) -> Option<()> {
    let mut data = StructBytes::<15>::zeroed();
    data.put_u32(4, u32::MAX);
    data.put_u32(8, u32::MAX);
    for option in &target.options {
        let mode = CONNMARK_MODES.iter().position(|mode| *mode == option.name);
        let shift = CONNMARK_SHIFTS.iter().position(|shift| *shift == option.name);
        match (option.name, &option.value) {
            ("nfmask", value) => data.put_u32(8, numeric_option_value(value)?),
            ("ctmask", value) => data.put_u32(4, numeric_option_value(value)?),
            (_, ExtensionValue::Masked(value, mask)) if mode == Some(0) => {
                data.put_u32(0, u32::try_from(*value).ok()?);
                data.put_u32(4, u32::try_from(*mask).ok()?);
            }
            (_, value) if mode.is_none() => {
                data.0[12] = shift? as u8;
                data.0[13] = numeric_option_value(value)?;
            }
            _ => {}
        }
        if let Some(mode) = mode {
            data.0[14] = mode as u8;
        }
    }
    out.push_target("CONNMARK", 2, &data.0);
    Some(())
}
