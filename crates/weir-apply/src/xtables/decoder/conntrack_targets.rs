//! Targets of connection tracking: CT, NOTRACK and CONNMARK.

use weir_model::Effect;
use weir_model::rule_match::ExtensionValue;
use weir_model::target::{CT_EVENT_NAMES, ExtensionTarget};

use super::extension_bytes::{ExtensionBytes, OptionList};
use crate::xtables::encoder::conntrack_targets::{
    CONNMARK_MODES, CONNMARK_SHIFTS, CT_NOTRACK, CT_NOTRACK_ALIAS, CT_ZONE_DIR_ORIG,
    CT_ZONE_DIR_REPL, CT_ZONE_MARK,
};

pub(super) fn decode_ct(info: ExtensionBytes) -> Option<Effect> {
    let flags = info.u16(0);
    if flags & CT_NOTRACK_ALIAS != 0 {
        return Some(Effect::Notrack);
    }
    let mut options = OptionList::default();
    options.push_text_unless_empty("helper", info.text(12, 16)?);
    options.push_text_unless_empty("timeout", info.text(28, 32)?);
    for (at, name) in [(4, "ctevents"), (8, "expevents")] {
        let bits = info.u32(at);
        let events = CT_EVENT_NAMES.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0);
        let events: Vec<&'static str> = events.map(|(_, name)| *name).collect();
        if !events.is_empty() {
            options.push(name, ExtensionValue::KeywordList(events));
        }
    }
    let zone = match (flags & CT_ZONE_MARK != 0, info.u16(2)) {
        (true, _) => ExtensionValue::Keyword("mark"),
        (false, zone) => ExtensionValue::Number(zone.into()),
    };
    let direction = match (flags & CT_ZONE_DIR_ORIG != 0, flags & CT_ZONE_DIR_REPL != 0) {
        (true, false) => "zone-orig",
        (false, true) => "zone-reply",
        _ => "zone",
    };
    if direction != "zone" || zone != ExtensionValue::Number(0) {
        options.push(direction, zone);
    }
    Some(if flags & CT_NOTRACK != 0 {
        Effect::CtNotrack { ignored_options: options.0 }
    } else {
        Effect::Other(ExtensionTarget { module: "CT", options: options.0 })
    })
}

pub(super) fn decode_connmark(info: ExtensionBytes) -> Option<OptionList> {
    let (value, ctmask, nfmask) = (info.u32(0), info.u32(4), info.u32(8));
    let mode = CONNMARK_MODES.get(usize::from(info.u8(14)))?;
    let mut options = OptionList::default();
    if info.u8(14) == 0 {
        options.push(mode, ExtensionValue::Masked(value.into(), ctmask.into()));
    } else {
        options.push(mode, ExtensionValue::Flag);
        options.push("nfmask", ExtensionValue::Hex(nfmask.into()));
        options.push("ctmask", ExtensionValue::Hex(ctmask.into()));
    }
    let shift = CONNMARK_SHIFTS.get(usize::from(info.u8(12)))?;
    options.push_number_unless(0, shift, info.u8(13).into());
    Some(options)
}
