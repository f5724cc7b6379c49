//! Matches that depend on the host: owner and addrtype.

use weir_model::rule_match::{
    ADDRTYPE_NAMES, ExtensionOption, ExtensionValue, UnmodelledInputMatch,
};

use super::entry_writer::{EntryWriter, StructBytes};

/// Appends such a match; `None` where the encoder does not know it.
pub(super) fn push_owner_or_addrtype(
    out: &mut EntryWriter,
    m: &UnmodelledInputMatch,
) -> Option<()> {
    match m.module {
        "owner" => push_owner(out, &m.options),
        "addrtype" => push_addrtype(out, &m.options),
        _ => None,
    }
}

/// struct xt_owner_match_info
fn push_owner(out: &mut EntryWriter, options: &[ExtensionOption]) -> Option<()> {
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
fn push_addrtype(out: &mut EntryWriter, options: &[ExtensionOption]) -> Option<()> {
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
