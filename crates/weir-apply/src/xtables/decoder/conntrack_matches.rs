//! Matches on connection tracking.

use weir_model::rule_match::ConntrackMatch;
use weir_model::{AddrMatch, Family, Match, PortSpan};

use super::extension_bytes::{ExtensionBytes, negatable};
use crate::xtables::encoder::conntrack_matches::{
    CONNTRACK_DIRECTION, CONNTRACK_EXPIRES, CONNTRACK_FIRST_ADDR, CONNTRACK_PROTO, CONNTRACK_STATE,
    CONNTRACK_STATE_ALIAS, CONNTRACK_STATUS, MODEL_AND_KERNEL_STATE_BITS,
};

/// `-m conntrack`, or `-m state`, which is an alias of it.
pub(super) fn decode_conntrack(family: Family, info: ExtensionBytes) -> Option<Match> {
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
    let addr_match = |index: usize| {
        let bit = CONNTRACK_FIRST_ADDR << index;
        let (addr, mask) = (info.addr(32 * index, family), info.addr(32 * index + 16, family));
        given(bit).then_some(AddrMatch { negated: negated(bit), addr, mask })
    };
    let protocol = u8::try_from(info.u16(136)).ok()?;
    let expire = (info.u32(128), info.u32(132));
    Some(Match::Conntrack(Box::new(ConntrackMatch {
        state: given(CONNTRACK_STATE).then_some(state),
        proto: given(CONNTRACK_PROTO).then_some(negatable(negated(CONNTRACK_PROTO), protocol)),
        orig_src: addr_match(0),
        orig_dst: addr_match(1),
        repl_src: addr_match(2),
        repl_dst: addr_match(3),
        orig_sport: port(0),
        orig_dport: port(1),
        repl_sport: port(2),
        repl_dport: port(3),
        status: given(CONNTRACK_STATUS)
            .then_some(negatable(negated(CONNTRACK_STATUS), info.u16(152).into())),
        expire: given(CONNTRACK_EXPIRES).then_some(negatable(negated(CONNTRACK_EXPIRES), expire)),
        original_dir: given(CONNTRACK_DIRECTION).then_some(!negated(CONNTRACK_DIRECTION)),
    })))
}
