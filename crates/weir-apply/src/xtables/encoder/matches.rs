//! Matches that test header fields, as the structures of the kernel.
//!
//! Each function cites its structure; `None` is a value that the structure does not hold.

use weir_model::rule_match::{
    IcmpTypeMatch, MultiportSelector, Negatable, TcpFlagsMatch, TtlComparison,
};
use weir_model::{Addr, Family, Match, PortSpan};
use weir_packet::PktType;

use super::{conntrack_matches, set_modules, stateful_matches, unmodelled_input_matches};
use crate::xtables::entry_writer::{EntryWriter, StructBytes};
use crate::xtables::set_indices::SetIndices;

/// Appends a match; `None` where the encoder does not know it.
pub(crate) fn push_match(out: &mut EntryWriter, m: &Match, sets: &SetIndices) -> Option<()> {
    match m {
        Match::Tcp { sport, dport, flags, option } => {
            push_tcp(out, sport.as_ref(), dport.as_ref(), flags.as_ref(), option.as_ref());
        }
        Match::Udp { sport, dport } => push_udp(out, sport.as_ref(), dport.as_ref()),
        Match::Icmp(test) => push_icmp(out, test),
        Match::Multiport { which, ports } => return push_multiport(out, *which, ports),
        Match::IpRange { src, dst } => push_iprange(out, src.as_ref(), dst.as_ref()),
        Match::Mac(test) => {
            // struct xt_mac_info
            let mut data = StructBytes::<12>::zeroed();
            data.0[..6].copy_from_slice(&test.value);
            data.put_u32(8, test.negated.into());
            out.push_match("mac", 0, &data.0);
        }
        Match::Mark(test) => {
            push_mark(out, "mark", test.value.value, test.value.mask, test.negated)
        }
        Match::ConnMark(test) => {
            push_mark(out, "connmark", test.value.value, test.value.mask, test.negated);
        }
        Match::State(test) => conntrack_matches::push_state(out, test),
        Match::Conntrack(test) => return conntrack_matches::push_conntrack(out, test),
        Match::Length(test) => {
            // struct xt_length_info
            let mut data = StructBytes::<6>::zeroed();
            data.put_u16(0, test.value.0);
            data.put_u16(2, test.value.1);
            data.0[4] = test.negated.into();
            out.push_match("length", 0, &data.0);
        }
        Match::Ttl { op, value } => push_ttl(out, *op, *value),
        // struct xt_dscp_info
        Match::Dscp(test) => out.push_match("dscp", 0, &[test.value, test.negated.into()]),
        Match::Tos(test) => {
            // struct xt_tos_match_info: the mask is first.
            let (value, mask) = test.value;
            out.push_match("tos", 1, &[mask, value, test.negated.into()]);
        }
        Match::PktType(test) => push_pkttype(out, test),
        // struct xt_comment_info
        Match::Comment(text) => {
            let mut data = StructBytes::<256>::zeroed();
            data.put_text(0, 256, text)?;
            out.push_match("comment", 0, &data.0);
        }
        Match::Stateful(m) => return stateful_matches::push_stateful(out, m),
        Match::UnmodelledInput(m) => {
            return unmodelled_input_matches::push_unmodelled_input_match(out, m);
        }
        Match::Set(m) => return set_modules::push_set_match(out, m, sets),
        Match::Sctp { sport, dport, chunks: None } => {
            push_sctp_ports(out, sport.as_ref(), dport.as_ref());
        }
        Match::Sctp { .. } | Match::Dccp { .. } | Match::Opaque(_) => return None,
    }
    Some(())
}

/// Both ends of a span of ports, or all ports.
fn port_bounds_or_all(test: Option<&Negatable<PortSpan>>) -> (u16, u16) {
    test.map_or((0, u16::MAX), |test| (test.value.lo, test.value.hi))
}

fn bit_if_negated<T>(test: Option<&Negatable<T>>, bit: u8) -> u8 {
    if test.is_some_and(|test| test.negated) { bit } else { 0 }
}

fn put_ports_returning_inverse_bits<const N: usize>(
    data: &mut StructBytes<N>,
    sport: Option<&Negatable<PortSpan>>,
    dport: Option<&Negatable<PortSpan>>,
) -> u8 {
    for (at, test) in [(0, sport), (4, dport)] {
        let (lo, hi) = port_bounds_or_all(test);
        data.put_u16(at, lo);
        data.put_u16(at + 2, hi);
    }
    bit_if_negated(sport, 1) | bit_if_negated(dport, 2)
}

/// struct xt_tcp
fn push_tcp(
    out: &mut EntryWriter,
    sport: Option<&Negatable<PortSpan>>,
    dport: Option<&Negatable<PortSpan>>,
    flags: Option<&Negatable<TcpFlagsMatch>>,
    option: Option<&Negatable<u8>>,
) {
    let mut data = StructBytes::<12>::zeroed();
    let inverse = put_ports_returning_inverse_bits(&mut data, sport, dport);
    data.0[8] = option.map_or(0, |option| option.value);
    data.0[9] = flags.map_or(0, |flags| flags.value.mask);
    data.0[10] = flags.map_or(0, |flags| flags.value.comp);
    data.0[11] = inverse | bit_if_negated(flags, 4) | bit_if_negated(option, 8);
    out.push_match("tcp", 0, &data.0);
}

/// struct xt_udp
fn push_udp(
    out: &mut EntryWriter,
    sport: Option<&Negatable<PortSpan>>,
    dport: Option<&Negatable<PortSpan>>,
) {
    let mut data = StructBytes::<10>::zeroed();
    data.0[8] = put_ports_returning_inverse_bits(&mut data, sport, dport);
    out.push_match("udp", 0, &data.0);
}

/// struct xt_sctp_info, for ports alone.
fn push_sctp_ports(
    out: &mut EntryWriter,
    sport: Option<&Negatable<PortSpan>>,
    dport: Option<&Negatable<PortSpan>>,
) {
    let mut data = StructBytes::<292>::zeroed();
    // No flags of any type of chunk are tested.
    for flag_test_at in [268, 271, 274, 277] {
        data.0[flag_test_at] = 0xff;
    }
    let (mut tests, mut inverse) = (0, 0);
    for (at, test, bit) in [(4, sport, 1), (0, dport, 2)] {
        let Some(Negatable { negated, value }) = test else { continue };
        data.put_u16(at, value.lo);
        data.put_u16(at + 2, value.hi);
        tests |= bit;
        inverse |= if *negated { bit } else { 0 };
    }
    data.put_u32(284, tests);
    data.put_u32(288, inverse);
    out.push_match("sctp", 0, &data.0);
}

/// struct ipt_icmp, struct ip6t_icmp
fn push_icmp(out: &mut EntryWriter, test: &Negatable<IcmpTypeMatch>) {
    let name = match out.family() {
        Family::V4 => "icmp",
        Family::V6 => "icmp6",
    };
    let IcmpTypeMatch { kind, codes: (lo, hi) } = test.value;
    out.push_match(name, 0, &[kind, lo, hi, test.negated.into()]);
}

/// struct xt_multiport_v1: a range has two slots, the first of them flagged.
fn push_multiport(
    out: &mut EntryWriter,
    which: MultiportSelector,
    ports: &Negatable<Vec<PortSpan>>,
) -> Option<()> {
    const MULTIPORT_SLOTS: usize = 15;
    let mut data = StructBytes::<48>::zeroed();
    data.0[0] = match which {
        MultiportSelector::Source => 0,
        MultiportSelector::Destination => 1,
        MultiportSelector::Either => 2,
    };
    let mut slot = 0;
    for span in &ports.value {
        let is_range = span.lo != span.hi;
        if slot + usize::from(is_range) >= MULTIPORT_SLOTS {
            return None;
        }
        data.put_u16(2 + 2 * slot, span.lo);
        if is_range {
            data.0[32 + slot] = 1;
            slot += 1;
            data.put_u16(2 + 2 * slot, span.hi);
        }
        slot += 1;
    }
    data.0[1] = slot as u8;
    data.0[47] = ports.negated.into();
    out.push_match("multiport", 1, &data.0);
    Some(())
}

/// struct xt_iprange_mtinfo
fn push_iprange(
    out: &mut EntryWriter,
    src: Option<&Negatable<(Addr, Addr)>>,
    dst: Option<&Negatable<(Addr, Addr)>>,
) {
    let mut data = StructBytes::<68>::zeroed();
    let family = out.family();
    for (at, test, bit) in [(0, src, 1), (32, dst, 2)] {
        let Some(test) = test else { continue };
        data.put_addr(at, test.value.0, family);
        data.put_addr(at + 16, test.value.1, family);
        data.0[64] |= bit | bit_if_negated(Some(test), bit << 4);
    }
    out.push_match("iprange", 1, &data.0);
}

/// struct xt_mark_mtinfo1, struct xt_connmark_mtinfo1
fn push_mark(out: &mut EntryWriter, name: &str, value: u32, mask: u32, negated: bool) {
    let mut data = StructBytes::<12>::zeroed();
    data.put_u32(0, value);
    data.put_u32(4, mask);
    data.0[8] = negated.into();
    out.push_match(name, 1, &data.0);
}

/// struct ipt_ttl_info, struct ip6t_hl_info
fn push_ttl(out: &mut EntryWriter, op: TtlComparison, value: u8) {
    let name = match out.family() {
        Family::V4 => "ttl",
        Family::V6 => "hl",
    };
    let mode = match op {
        TtlComparison::Eq => 0,
        TtlComparison::Ne => 1,
        TtlComparison::Lt => 2,
        TtlComparison::Gt => 3,
    };
    out.push_match(name, 0, &[mode, value]);
}

/// struct xt_pkttype_info
fn push_pkttype(out: &mut EntryWriter, test: &Negatable<PktType>) {
    let kind = match test.value {
        PktType::Unicast => 0,
        PktType::Broadcast => 1,
        PktType::Multicast => 2,
    };
    let mut data = StructBytes::<8>::zeroed();
    data.put_u32(0, kind);
    data.put_u32(4, test.negated.into());
    out.push_match("pkttype", 0, &data.0);
}
