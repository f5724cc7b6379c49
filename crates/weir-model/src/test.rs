//! A rule as a conjunction of tests on fields.
//!
//! [`tests_of`] lowers a rule's typed matches, in the kernel's order of evaluation, to [`Test`]s.
//! Interpreter, traffic generation, passes and back ends all work on this form, so that the meaning
//! of a match has a single definition. What the field table cannot express becomes
//! [`Test::Opaque`], with its position in the rule; it is never approximated.

use crate::effect::{Hotdrop, match_effects};
use crate::field::Field;
use crate::matching::{AddrMatch, IfaceMatch, Match, Neg, PortSide, PortSpan, TtlOp};
use crate::ruleset::Rule;
use crate::{Addr, Family, Name};
use weir_packet::Packet;

/// The tests of a rule, in the order the kernel evaluates them.
pub type Tests = Vec<Test>;

/// One conjunct of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// A test of one field.
    Field {
        /// Which field.
        field: Field,
        /// What it is compared with.
        predicate: Predicate,
        /// `!`: true where the predicate is false, but never where the field is absent.
        negated: bool,
    },
    /// `--ports`: source or destination port in one of the spans.
    EitherPort {
        /// Sorted as written.
        spans: Vec<(u128, u128)>,
        /// `!`.
        negated: bool,
    },
    /// Membership in an ipset: `rule.matches[index]` is the [`Match::Set`].
    Set {
        /// Index into `rule.matches`.
        index: usize,
    },
    /// A test whose result comes from the caller: `rule.matches[index]`.
    Opaque {
        /// Index into `rule.matches`.
        index: usize,
        /// It is stateful: it must be evaluated exactly as often, and at the same position.
        stateful: bool,
        /// Whether evaluating it may drop the packet.
        hotdrop: Hotdrop,
    },
    /// Never true, e.g. `-p tcp` with an impossible combination.
    Never,
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// The field is present (a bare `-m tcp` requires the header).
    Present,
    /// One of the intervals contains the value; both ends included.
    In(Vec<(u128, u128)>),
    /// `field & mask == value`.
    Masked {
        /// Wanted bits.
        value: u128,
        /// Bits looked at.
        mask: u128,
    },
    /// `field & mask != 0`.
    AnyBit(u128),
    /// A device name.
    Device {
        /// Name, without `+`.
        name: Name,
        /// Whether it matches all names with this prefix.
        prefix: bool,
    },
}

impl Predicate {
    /// Whether the predicate matches a value (never for device names).
    pub fn holds(&self, value: u128) -> bool {
        match self {
            Predicate::Present => true,
            Predicate::In(spans) => spans.iter().any(|&(lo, hi)| lo <= value && value <= hi),
            Predicate::Masked { value: wanted, mask } => value & mask == *wanted,
            Predicate::AnyBit(mask) => value & mask != 0,
            Predicate::Device { .. } => false,
        }
    }

    /// Whether the predicate matches a device name.
    pub fn holds_device(&self, device: &str) -> bool {
        match self {
            Predicate::Device { name, prefix: true } => device.starts_with(&**name),
            Predicate::Device { name, prefix: false } => device == &**name,
            _ => false,
        }
    }
}

/// Lowers a rule: base tests first (source, destination, devices, protocol, fragment, as
/// `ip_packet_match` in net/ipv4/netfilter/ip_tables.c), then its matches left to right.
pub fn tests_of(rule: &Rule, family: Family) -> Tests {
    let mut out = Vec::new();
    push_base(&mut out, rule);
    for (index, m) in rule.matches.iter().enumerate() {
        push_match(&mut out, index, m, family);
    }
    out
}

/// The tests of [`tests_of`], each with the index of the match it comes from; `None` for the base
/// tests (`-s -d -i -o -p -f`).
pub fn located_tests_of(rule: &Rule, family: Family) -> Vec<(Option<usize>, Test)> {
    let mut tests = Vec::new();
    push_base(&mut tests, rule);
    let mut out: Vec<_> = tests.drain(..).map(|t| (None, t)).collect();
    for (index, m) in rule.matches.iter().enumerate() {
        push_match(&mut tests, index, m, family);
        out.extend(tests.drain(..).map(|t| (Some(index), t)));
    }
    out
}

fn push_base(out: &mut Tests, rule: &Rule) {
    let base = &rule.base;
    push_addr(out, Field::Saddr, base.saddr);
    push_addr(out, Field::Daddr, base.daddr);
    push_iface(out, Field::Iif, base.iif.as_ref());
    push_iface(out, Field::Oif, base.oif.as_ref());
    if let Some(p) = base.proto {
        push_value(out, Field::Proto, p.proto.into(), p.negated);
    }
    if let Some(f) = base.fragment {
        push_value(out, Field::Fragment, 1, f.negated);
    }
}

fn field(field: Field, predicate: Predicate, negated: bool) -> Test {
    Test::Field { field, predicate, negated }
}

fn push_value(out: &mut Tests, f: Field, value: u128, negated: bool) {
    out.push(field(f, Predicate::In(vec![(value, value)]), negated));
}

fn push_addr(out: &mut Tests, f: Field, m: Option<AddrMatch>) {
    let Some(AddrMatch { negated, addr: Addr(value), mask: Addr(mask) }) = m else { return };
    out.push(field(f, Predicate::Masked { value, mask }, negated));
}

fn push_iface(out: &mut Tests, f: Field, m: Option<&IfaceMatch>) {
    let Some(m) = m else { return };
    out.push(field(f, Predicate::Device { name: m.name.clone(), prefix: m.prefix }, m.negated));
}

/// Both ports of a match. A match without any port test still requires the header.
fn push_ports(out: &mut Tests, sport: Option<&Neg<PortSpan>>, dport: Option<&Neg<PortSpan>>) {
    for (f, port) in [(Field::Sport, sport), (Field::Dport, dport)] {
        if let Some(Neg { negated, value }) = port {
            out.push(field(f, Predicate::In(vec![span(*value)]), *negated));
        }
    }
    if sport.is_none() && dport.is_none() {
        out.push(field(Field::Sport, Predicate::Present, false));
    }
}

fn span(p: PortSpan) -> (u128, u128) {
    (p.lo.into(), p.hi.into())
}

fn push_match(out: &mut Tests, index: usize, m: &Match, family: Family) {
    match m {
        Match::Tcp { sport, dport, flags, option } => {
            push_ports(out, sport.as_ref(), dport.as_ref());
            if let Some(Neg { negated, value }) = flags {
                let (mask, value) = (value.mask.into(), value.comp.into());
                out.push(field(Field::TcpFlags, Predicate::Masked { value, mask }, *negated));
            }
            if option.is_some() {
                out.push(opaque(index, m, family));
            }
        }
        Match::Udp { sport, dport } => push_ports(out, sport.as_ref(), dport.as_ref()),
        Match::Sctp { sport, dport, chunks } => {
            push_ports(out, sport.as_ref(), dport.as_ref());
            if chunks.is_some() {
                out.push(opaque(index, m, family));
            }
        }
        Match::Dccp { sport, dport, types, option } => {
            push_ports(out, sport.as_ref(), dport.as_ref());
            if types.is_some() || option.is_some() {
                out.push(opaque(index, m, family));
            }
        }
        Match::Icmp(Neg { negated, value }) => {
            let base = u128::from(value.kind) << 8;
            let any = family == Family::V4 && value.kind == 255;
            let codes = if any {
                (0, 0xffff)
            } else {
                (base | u128::from(value.codes.0), base | u128::from(value.codes.1))
            };
            out.push(field(Field::Icmp, Predicate::In(vec![codes]), *negated));
        }
        Match::Multiport { which, ports: Neg { negated, value } } => {
            let spans: Vec<_> = value.iter().copied().map(span).collect();
            out.push(match which {
                PortSide::Source => field(Field::Sport, Predicate::In(spans), *negated),
                PortSide::Destination => field(Field::Dport, Predicate::In(spans), *negated),
                PortSide::Either => Test::EitherPort { spans, negated: *negated },
            });
        }
        Match::IpRange { src, dst } => {
            for (f, range) in [(Field::Saddr, src), (Field::Daddr, dst)] {
                if let Some(Neg { negated, value: (lo, hi) }) = range {
                    out.push(field(f, Predicate::In(vec![(lo.0, hi.0)]), *negated));
                }
            }
        }
        _ => out.extend(test_of_metadata(index, m, family)),
    }
}

/// A test that no field says, with what evaluating it does.
fn opaque(index: usize, m: &Match, family: Family) -> Test {
    let row = match_effects(m, family);
    // The tests of fields before it have looked for the header.
    let has_fields = matches!(m, Match::Tcp { .. } | Match::Sctp { .. } | Match::Dccp { .. });
    let hotdrop = match row.hotdrop {
        Hotdrop::CutHeader if has_fields => Hotdrop::Never,
        other => other,
    };
    Test::Opaque { index, stateful: row.is_stateful(), hotdrop }
}

/// The matches that are one test of one field, and those that no field says.
fn test_of_metadata(index: usize, m: &Match, family: Family) -> Option<Test> {
    Some(match m {
        Match::Mac(Neg { negated, value }) => {
            let mac = value.iter().fold(0, |n, b| n << 8 | u128::from(*b));
            field(Field::SourceMac, Predicate::In(vec![(mac, mac)]), *negated)
        }
        Match::Mark(Neg { negated, value }) | Match::ConnMark(Neg { negated, value }) => {
            let f = if matches!(m, Match::Mark(_)) { Field::Mark } else { Field::CtMark };
            let (value, mask) = (value.value.into(), value.mask.into());
            field(f, Predicate::Masked { value, mask }, *negated)
        }
        Match::State(Neg { negated, value }) => {
            field(Field::CtState, Predicate::AnyBit((*value).into()), *negated)
        }
        Match::Conntrack(c) => match c.only_state() {
            Some(Neg { negated, value }) => {
                field(Field::CtState, Predicate::AnyBit((*value).into()), *negated)
            }
            None => opaque(index, m, family),
        },
        Match::Length(Neg { negated, value: (lo, hi) }) => {
            field(Field::Length, Predicate::In(vec![((*lo).into(), (*hi).into())]), *negated)
        }
        Match::Ttl { op, value } => ttl_test(*op, *value),
        Match::Dscp(Neg { negated, value }) => {
            let (value, mask) = (u128::from(*value) << 2, 0xfc);
            field(Field::Tos, Predicate::Masked { value, mask }, *negated)
        }
        Match::Tos(Neg { negated, value: (value, mask) }) => {
            let (value, mask) = ((*value).into(), (*mask).into());
            field(Field::Tos, Predicate::Masked { value, mask }, *negated)
        }
        Match::PktType(Neg { negated, value }) => {
            let mut p = Packet::new(family, Addr(0), Addr(0), 0);
            p.pkttype = *value;
            let crate::Read::Value(v) = Field::PktType.read(&p) else { return None };
            field(Field::PktType, Predicate::In(vec![(v, v)]), *negated)
        }
        Match::Set(_) => Test::Set { index },
        Match::Comment(_) => return None,
        Match::Stateful(_) | Match::Host(_) | Match::Opaque(_) => opaque(index, m, family),
        Match::Tcp { .. }
        | Match::Udp { .. }
        | Match::Sctp { .. }
        | Match::Dccp { .. }
        | Match::Icmp(_)
        | Match::Multiport { .. }
        | Match::IpRange { .. } => return None,
    })
}

fn ttl_test(op: TtlOp, value: u8) -> Test {
    let v = u128::from(value);
    let spans = match op {
        TtlOp::Eq | TtlOp::Ne => vec![(v, v)],
        TtlOp::Lt if v == 0 => return Test::Never,
        TtlOp::Lt => vec![(0, v - 1)],
        TtlOp::Gt if v == 255 => return Test::Never,
        TtlOp::Gt => vec![(v + 1, 255)],
    };
    field(Field::Ttl, Predicate::In(spans), op == TtlOp::Ne)
}
