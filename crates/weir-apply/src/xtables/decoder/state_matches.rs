//! Matches on connection tracking, and matches that keep a budget.

use weir_model::rule_match::{ConntrackMatch, ExtensionValue, StatefulMatch};
use weir_model::{Match, PortSpan};
use weir_syntax::iptables::compute_rate_count_and_unit_millis;

use super::extension_bytes::{ExtensionBytes, OptionList, negatable};
use crate::xtables::state_matches::{
    CONNTRACK_DIRECTION, CONNTRACK_EXPIRES, CONNTRACK_PROTO, CONNTRACK_STATE,
    CONNTRACK_STATE_ALIAS, CONNTRACK_STATUS, LIMIT_DEFAULT_BURST, LIMIT_TICKS_PER_SECOND,
    MODEL_AND_KERNEL_STATE_BITS,
};

/// `-m conntrack`, or `-m state`, which is an alias of it.
pub(super) fn decode_conntrack(info: ExtensionBytes) -> Option<Match> {
    let (tests, inverse) = (info.u16(146), info.u16(148));
    let given = |bit: u16| tests & bit != 0;
    let negated = |bit: u16| inverse & bit != 0;
    let states = MODEL_AND_KERNEL_STATE_BITS
        .iter()
        .filter(|(_, kernel)| info.u16(150) & kernel != 0)
        .fold(0, |bits, (model, _)| bits | model);
    let state = negatable(negated(CONNTRACK_STATE), states);
    if given(CONNTRACK_STATE_ALIAS) {
        return Some(Match::State(state));
    }
    let port = |index: usize| {
        let bit = 1 << (8 + index);
        let span = PortSpan { lo: info.u16(138 + 2 * index), hi: info.u16(154 + 2 * index) };
        given(bit).then_some(negatable(negated(bit), span))
    };
    let protocol = u8::try_from(info.u16(136)).ok()?;
    let expire = (info.u32(128), info.u32(132));
    Some(Match::Conntrack(Box::new(ConntrackMatch {
        state: given(CONNTRACK_STATE).then_some(state),
        proto: given(CONNTRACK_PROTO).then_some(negatable(negated(CONNTRACK_PROTO), protocol)),
        orig_sport: port(0),
        orig_dport: port(1),
        repl_sport: port(2),
        repl_dport: port(3),
        status: given(CONNTRACK_STATUS)
            .then_some(negatable(negated(CONNTRACK_STATUS), info.u16(152).into())),
        expire: given(CONNTRACK_EXPIRES).then_some(negatable(negated(CONNTRACK_EXPIRES), expire)),
        original_dir: given(CONNTRACK_DIRECTION).then_some(!negated(CONNTRACK_DIRECTION)),
        // Addresses are refused by the encoder.
        ..ConntrackMatch::default()
    })))
}

/// A match that keeps a budget or a memory.
pub(super) fn decode_stateful(name: &str, revision: u8, data: &[u8]) -> Option<Match> {
    let (module, options) = match (name, revision) {
        ("limit", 0) => ("limit", decode_limit(ExtensionBytes::of_length(data, 8)?)?),
        ("quota", 0) => {
            let info = ExtensionBytes::of_length(data, 16)?;
            let mut options = OptionList::default();
            let quota = ExtensionValue::Number(info.u64(8));
            options.push_negatable(info.u32(0) & 1 != 0, "quota", quota);
            ("quota", options)
        }
        _ => return None,
    };
    Some(Match::Stateful(Box::new(StatefulMatch { module, options: options.0 })))
}

fn decode_limit(info: ExtensionBytes) -> Option<OptionList> {
    let ticks = u64::from(info.u32(0));
    if ticks == 0 || ticks > LIMIT_TICKS_PER_SECOND * 86_400 {
        return None;
    }
    let (count, unit) = compute_rate_count_and_unit_millis(ticks, LIMIT_TICKS_PER_SECOND);
    let mut options = OptionList::default();
    options.push("limit", ExtensionValue::Rate(count, unit));
    options.push_number_unless(LIMIT_DEFAULT_BURST.into(), "limit-burst", info.u32(4).into());
    Some(options)
}
