//! `-m set` and `-j SET`, which name sets by number.

use weir_model::ipset::SET_DIRECTIONS_MAX;
use weir_model::rule_match::{ExtensionValue, SetMatch};
use weir_model::target::ExtensionTarget;

use crate::xtables::entry_writer::{EntryWriter, StructBytes};
use crate::xtables::numeric_option_value::numeric_option_value;
use crate::xtables::set_indices::SetIndices;

/// `IPSET_INVALID_ID`: a set that is not given.
pub(crate) const NO_SET_INDEX: u16 = u16::MAX;
/// `IPSET_INV_MATCH`
pub(crate) const SET_INVERSE: u8 = 1;
/// `IPSET_FLAG_SKIP_COUNTER_UPDATE`, `IPSET_FLAG_SKIP_SUBCOUNTER_UPDATE`
pub(crate) const SET_SKIP_UPDATE_OPTIONS: [(&str, u32); 2] =
    [("--update-counters", 1 << 3), ("--update-subcounters", 1 << 4)];
/// `IPSET_FLAG_RETURN_NOMATCH`
pub(crate) const SET_RETURN_NOMATCH: u32 = 1 << 7;
/// `IPSET_FLAG_EXIST`
pub(crate) const SET_EXIST: u32 = 1;
/// `IPSET_FLAG_MAP_SKBMARK` and the next two
pub(crate) const SET_MAP_OPTIONS: [(&str, u32); 3] =
    [("map-mark", 1 << 8), ("map-prio", 1 << 9), ("map-queue", 1 << 10)];
/// `IPSET_COUNTER_EQ` and the next three, with the suffix of the option and whether it is negated.
pub(crate) const SET_COUNTER_TESTS: [(u8, &str, bool); 4] =
    [(1, "eq", false), (2, "eq", true), (3, "lt", false), (4, "gt", false)];

/// struct xt_set_info: number, dimensions, directions.
struct SetInfo {
    index: u16,
    dimensions: u8,
    flags: u8,
}

impl SetInfo {
    const NONE: SetInfo = SetInfo { index: NO_SET_INDEX, dimensions: 0, flags: 0 };

    fn of_set(sets: &SetIndices, name: &str, src_directions: &[bool]) -> Option<SetInfo> {
        if src_directions.len() > SET_DIRECTIONS_MAX {
            return None;
        }
        let bits = src_directions.iter().enumerate().filter(|(_, src)| **src);
        let flags = bits.fold(0, |flags, (dimension, _)| flags | 2 << dimension);
        let (index, dimensions) = (sets.find_index(name)?, src_directions.len() as u8);
        Some(SetInfo { index, dimensions, flags })
    }

    fn put<const N: usize>(&self, data: &mut StructBytes<N>, at: usize) {
        data.put_u16(at, self.index);
        (data.0[at + 2], data.0[at + 3]) = (self.dimensions, self.flags);
    }
}

/// struct xt_set_info_match_v4
pub(crate) fn push_set_match(out: &mut EntryWriter, m: &SetMatch, sets: &SetIndices) -> Option<()> {
    let mut data = StructBytes::<48>::zeroed();
    let mut set = SetInfo::of_set(sets, &m.name, &m.src_directions)?;
    set.flags |= if m.negated { SET_INVERSE } else { 0 };
    set.put(&mut data, 0);
    let mut flags = 0;
    let mut words = m.options.iter().map(String::as_str);
    let mut negated = false;
    while let Some(word) = words.next() {
        let skipped = SET_SKIP_UPDATE_OPTIONS.iter().find(|(name, _)| *name == word);
        match (word, skipped) {
            ("!", _) => {
                negated = true;
                continue;
            }
            ("--return-nomatch", _) if !negated => flags |= SET_RETURN_NOMATCH,
            (_, Some((_, flag))) if negated => flags |= flag,
            (_, Some(_)) => return None,
            _ => {
                let (counter, comparison) = word.strip_prefix("--")?.split_once('-')?;
                let at = match counter {
                    "packets" => 8,
                    "bytes" => 24,
                    _ => return None,
                };
                let mut tests = SET_COUNTER_TESTS.iter();
                let (operation, ..) =
                    tests.find(|(_, name, not)| *name == comparison && *not == negated)?;
                data.put_u64(at, words.next()?.parse().ok()?);
                data.0[at + 8] = *operation;
            }
        }
        negated = false;
    }
    data.put_u32(40, flags);
    out.push_match("set", 4, &data.0);
    Some(())
}

/// struct xt_set_info_target_v3
pub(crate) fn push_set_target(
    out: &mut EntryWriter,
    target: &ExtensionTarget,
    sets: &SetIndices,
) -> Option<()> {
    let mut data = StructBytes::<20>::zeroed();
    for at in [0, 4, 8] {
        SetInfo::NONE.put(&mut data, at);
    }
    let (mut flags, mut timeout) = (0, u32::MAX);
    for option in &target.options {
        let at = match option.name {
            "add-set" => 0,
            "del-set" => 4,
            "map-set" => 8,
            "exist" => {
                flags |= SET_EXIST;
                continue;
            }
            "timeout" => {
                timeout = numeric_option_value(&option.value)?;
                continue;
            }
            name => {
                flags |= SET_MAP_OPTIONS.iter().find(|(known, _)| *known == name)?.1;
                continue;
            }
        };
        let ExtensionValue::Text(words) = &option.value else { return None };
        let (name, directions) = words.rsplit_once(' ')?;
        let directions: Vec<bool> = directions.split(',').map(|word| word == "src").collect();
        SetInfo::of_set(sets, name, &directions)?.put(&mut data, at);
    }
    data.put_u32(12, flags);
    data.put_u32(16, timeout);
    out.push_target("SET", 3, &data.0);
    Some(())
}

/// The sets that a target of SET names.
pub(crate) fn set_names_of_target(target: &ExtensionTarget) -> impl Iterator<Item = &str> {
    target.options.iter().filter_map(|option| match &option.value {
        ExtensionValue::Text(words) => Some(words.rsplit_once(' ')?.0),
        _ => None,
    })
}
