//! Matches on connection tracking.

use weir_model::AddrMatch;
use weir_model::rule_match::{ConntrackMatch, Negatable, ct_state};

use crate::xtables::entry_writer::{EntryWriter, StructBytes};

/// Bits of the model and of struct xt_conntrack_mtinfo3 (xt_conntrack.h).
pub(crate) const MODEL_AND_KERNEL_STATE_BITS: [(u16, u16); 7] = [
    (ct_state::INVALID, 1),
    (ct_state::ESTABLISHED, 1 << 1),
    (ct_state::RELATED, 1 << 2),
    (ct_state::NEW, 1 << 3),
    (ct_state::SNAT, 1 << 6),
    (ct_state::DNAT, 1 << 7),
    (ct_state::UNTRACKED, 1 << 8),
];
pub(crate) const CONNTRACK_STATE: u16 = 1;
pub(crate) const CONNTRACK_PROTO: u16 = 1 << 1;
/// The source of the original direction; the other three addresses follow.
pub(crate) const CONNTRACK_FIRST_ADDR: u16 = 1 << 2;
pub(crate) const CONNTRACK_STATUS: u16 = 1 << 6;
pub(crate) const CONNTRACK_EXPIRES: u16 = 1 << 7;
pub(crate) const CONNTRACK_DIRECTION: u16 = 1 << 12;
pub(crate) const CONNTRACK_STATE_ALIAS: u16 = 1 << 13;

fn kernel_state_bits(model: u16) -> u16 {
    MODEL_AND_KERNEL_STATE_BITS
        .iter()
        .filter(|(bit, _)| model & bit != 0)
        .map(|(_, kernel)| kernel)
        .sum()
}

/// struct xt_conntrack_mtinfo3
struct ConntrackMatchBytes {
    data: StructBytes<164>,
    tests: u16,
    inverse: u16,
}

impl ConntrackMatchBytes {
    fn new() -> ConntrackMatchBytes {
        ConntrackMatchBytes { data: StructBytes::zeroed(), tests: 0, inverse: 0 }
    }

    fn set_match_flag(&mut self, bit: u16, negated: bool) {
        self.tests |= bit;
        self.inverse |= if negated { bit } else { 0 };
    }

    fn push(mut self, out: &mut EntryWriter) {
        self.data.put_u16(146, self.tests);
        self.data.put_u16(148, self.inverse);
        out.push_match("conntrack", 3, &self.data.0);
    }
}

/// `-m state` is an alias of `conntrack`, which the kernel stores.
pub(crate) fn push_state(out: &mut EntryWriter, test: &Negatable<u16>) {
    let mut info = ConntrackMatchBytes::new();
    info.data.put_u16(150, kernel_state_bits(test.value));
    info.set_match_flag(CONNTRACK_STATE, test.negated);
    info.tests |= CONNTRACK_STATE_ALIAS;
    info.push(out);
}

/// Bytes of an address that IPv4 does not use are zero; the tool fills them by how the option was
/// written.
pub(crate) fn push_conntrack(out: &mut EntryWriter, test: &ConntrackMatch) -> Option<()> {
    let mut info = ConntrackMatchBytes::new();
    if let Some(state) = &test.state {
        info.data.put_u16(150, kernel_state_bits(state.value));
        info.set_match_flag(CONNTRACK_STATE, state.negated);
    }
    if let Some(protocol) = &test.proto {
        info.data.put_u16(136, protocol.value.into());
        info.set_match_flag(CONNTRACK_PROTO, protocol.negated);
    }
    if let Some(status) = &test.status {
        info.data.put_u16(152, u16::try_from(status.value).ok()?);
        info.set_match_flag(CONNTRACK_STATUS, status.negated);
    }
    if let Some(expire) = &test.expire {
        info.data.put_u32(128, expire.value.0);
        info.data.put_u32(132, expire.value.1);
        info.set_match_flag(CONNTRACK_EXPIRES, expire.negated);
    }
    let family = out.family();
    let addrs = [test.orig_src, test.orig_dst, test.repl_src, test.repl_dst];
    for (index, addr) in addrs.into_iter().enumerate() {
        let Some(AddrMatch { negated, addr, mask }) = addr else { continue };
        info.data.put_addr(32 * index, addr, family);
        info.data.put_addr(32 * index + 16, mask, family);
        info.set_match_flag(CONNTRACK_FIRST_ADDR << index, negated);
    }
    let ports = [&test.orig_sport, &test.orig_dport, &test.repl_sport, &test.repl_dport];
    for (index, port) in ports.into_iter().enumerate() {
        let Some(port) = port else { continue };
        info.data.put_u16(138 + 2 * index, port.value.lo);
        info.data.put_u16(154 + 2 * index, port.value.hi);
        info.set_match_flag(1 << (8 + index), port.negated);
    }
    if let Some(original) = test.original_dir {
        info.set_match_flag(CONNTRACK_DIRECTION, !original);
    }
    info.push(out);
    Some(())
}
