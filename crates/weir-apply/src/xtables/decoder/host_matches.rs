//! Matches that depend on the host: owner and addrtype.

use weir_model::Match;
use weir_model::rule_match::{ADDRTYPE_NAMES, ExtensionValue, UnmodelledInputMatch};

use super::extension_bytes::{ExtensionBytes, OptionList};

/// A match that depends on the host; `None` where the decoder does not know it.
pub(super) fn decode_host_match(name: &str, revision: u8, data: &[u8]) -> Option<Match> {
    let (module, options) = match (name, revision) {
        ("owner", 1) => ("owner", decode_owner(ExtensionBytes::of_length(data, 18)?)),
        ("addrtype", 1) => ("addrtype", decode_addrtype(ExtensionBytes::of_length(data, 8)?)),
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
