//! `-m set` and `-j SET`, which name sets by number.

use weir_model::ipset::SET_DIRECTIONS_MAX;
use weir_model::rule_match::{ExtensionValue, SetMatch};
use weir_model::{Match, SharedName};

use super::extension_bytes::{ExtensionBytes, OptionList};
use crate::xtables::encoder::set_modules::{
    NO_SET_INDEX, SET_COUNTER_TESTS, SET_EXIST, SET_INVERSE, SET_MAP_OPTIONS, SET_RETURN_NOMATCH,
    SET_SKIP_UPDATE_OPTIONS,
};
use crate::xtables::set_indices::SetIndices;

/// struct xt_set_info: the name, and the directions; `None` where there is no such set.
fn decode_set_info(
    info: ExtensionBytes,
    at: usize,
    sets: &SetIndices,
) -> Option<(SharedName, Vec<bool>)> {
    let dimensions = usize::from(info.u8(at + 2));
    if dimensions > SET_DIRECTIONS_MAX {
        return None;
    }
    let flags = info.u8(at + 3);
    let src_directions = (0..dimensions).map(|dimension| flags & 2 << dimension != 0).collect();
    Some((sets.find_name(info.u16(at))?, src_directions))
}

pub(super) fn decode_set_match(info: ExtensionBytes, sets: &SetIndices) -> Option<Match> {
    let (name, src_directions) = decode_set_info(info, 0, sets)?;
    let flags = info.u32(40);
    let mut options = Vec::new();
    if flags & SET_RETURN_NOMATCH != 0 {
        options.push("--return-nomatch".to_owned());
    }
    for (option, flag) in SET_SKIP_UPDATE_OPTIONS {
        if flags & flag != 0 {
            options.extend(["!".to_owned(), option.to_owned()]);
        }
    }
    for (counter, at) in [("packets", 8), ("bytes", 24)] {
        let operation = info.u8(at + 8);
        let Some((_, comparison, negated)) =
            SET_COUNTER_TESTS.iter().find(|(number, ..)| *number == operation)
        else {
            continue;
        };
        if *negated {
            options.push("!".to_owned());
        }
        options.extend([format!("--{counter}-{comparison}"), info.u64(at).to_string()]);
    }
    let negated = info.u8(3) & SET_INVERSE != 0;
    Some(Match::Set(SetMatch { negated, name, src_directions, options }))
}

pub(super) fn decode_set_target(info: ExtensionBytes, sets: &SetIndices) -> Option<OptionList> {
    let (flags, timeout) = (info.u32(12), info.u32(16));
    let mut options = OptionList::default();
    for (at, name) in [(0, "add-set"), (4, "del-set"), (8, "map-set")] {
        if info.u16(at) == NO_SET_INDEX {
            continue;
        }
        let (set, src_directions) = decode_set_info(info, at, sets)?;
        let directions: Vec<&str> =
            src_directions.iter().map(|src| if *src { "src" } else { "dst" }).collect();
        options.push(name, ExtensionValue::Text(format!("{set} {}", directions.join(","))));
        if at == 0 {
            options.push_flag_if(flags & SET_EXIST != 0, "exist");
            options.push_number_unless(u32::MAX.into(), "timeout", timeout.into());
        }
    }
    for (name, flag) in SET_MAP_OPTIONS {
        options.push_flag_if(flags & flag != 0, name);
    }
    Some(options)
}
