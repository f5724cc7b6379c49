//! A rule as a conjunction of tests on fields.
//!
//! [`lower_to_tests`] lowers a rule's typed matches, in the kernel's order of evaluation, to
//! [`Test`]s. Interpreter, traffic generation, passes and back ends all work on this form, so that
//! the meaning of a match has a single definition. What the field table cannot express becomes
//! [`Test::Opaque`], with its position in the rule; it is never approximated.

use crate::effect::{Hotdrop, match_effects};
use crate::field::Field;
use crate::rule_match::{
    AddrMatch, IfaceMatch, Match, MultiportSelector, Negatable, PortSpan, TtlComparison,
};
use crate::ruleset::Rule;
use crate::{Addr, Family, SharedName};
use weir_packet::Packet;

/// The tests of a rule, in the order the kernel evaluates them.
pub type RuleTests = Vec<Test>;

/// One conjunct of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    InSpans(Vec<(u128, u128)>),
    /// `field & mask == value`.
    Masked {
        /// Wanted bits.
        value: u128,
        /// Bits that are tested.
        mask: u128,
    },
    /// `field & mask != 0`.
    AnyBit(u128),
    /// A device name.
    Device {
        /// Name, without `+`.
        name: SharedName,
        /// Whether it matches all names with this prefix.
        prefix: bool,
    },
}

impl Predicate {
    /// Whether the predicate matches a value (never for device names).
    pub fn holds_for_value(&self, value: u128) -> bool {
        match self {
            Predicate::Present => true,
            Predicate::InSpans(spans) => spans.iter().any(|&(lo, hi)| lo <= value && value <= hi),
            Predicate::Masked { value: wanted, mask } => value & mask == *wanted,
            Predicate::AnyBit(mask) => value & mask != 0,
            Predicate::Device { .. } => false,
        }
    }

    /// Whether the predicate matches a device name.
    pub fn holds_for_device(&self, device: &str) -> bool {
        match self {
            Predicate::Device { name, prefix: true } => device.starts_with(&**name),
            Predicate::Device { name, prefix: false } => device == &**name,
            _ => false,
        }
    }
}

/// Lowers a rule: base tests first (source, destination, devices, protocol, fragment, as
/// `ip_packet_match` in net/ipv4/netfilter/ip_tables.c), then its matches left to right.
pub fn lower_to_tests(rule: &Rule, family: Family) -> RuleTests {
    let mut out = Vec::new();
    push_base_tests(&mut out, rule);
    for (index, m) in rule.matches.iter().enumerate() {
        push_match_tests(&mut out, index, m, family);
    }
    out
}

/// The tests of [`lower_to_tests`], each with the index of the match it comes from; `None` for the
/// base tests (`-s -d -i -o -p -f`).
pub fn lower_to_tests_with_match_index(rule: &Rule, family: Family) -> Vec<(Option<usize>, Test)> {
    let mut tests = Vec::new();
    push_base_tests(&mut tests, rule);
    let mut out: Vec<_> = tests.drain(..).map(|t| (None, t)).collect();
    for (index, m) in rule.matches.iter().enumerate() {
        push_match_tests(&mut tests, index, m, family);
        out.extend(tests.drain(..).map(|t| (Some(index), t)));
    }
    out
}

/// The base tests of a rule (`-s -d -i -o -p -f`): the first of [`lower_to_tests`].
pub fn lower_base_to_tests(rule: &Rule) -> RuleTests {
    let mut out = Vec::new();
    push_base_tests(&mut out, rule);
    out
}

fn push_base_tests(out: &mut RuleTests, rule: &Rule) {
    let base = &rule.base;
    push_optional_masked_addr_test(out, Field::Saddr, base.saddr);
    push_optional_masked_addr_test(out, Field::Daddr, base.daddr);
    push_optional_device_test(out, Field::Iif, base.iif.as_ref());
    push_optional_device_test(out, Field::Oif, base.oif.as_ref());
    if let Some(p) = base.proto {
        push_exact_value_test(out, Field::Proto, p.proto.into(), p.negated);
    }
    if let Some(f) = base.fragment {
        push_exact_value_test(out, Field::IsLaterFragment, 1, f.negated);
    }
}

fn build_field_test(field: Field, predicate: Predicate, negated: bool) -> Test {
    Test::Field { field, predicate, negated }
}

fn push_exact_value_test(out: &mut RuleTests, f: Field, value: u128, negated: bool) {
    out.push(build_field_test(f, Predicate::InSpans(vec![(value, value)]), negated));
}

fn push_optional_masked_addr_test(out: &mut RuleTests, f: Field, m: Option<AddrMatch>) {
    let Some(AddrMatch { negated, addr: Addr(value), mask: Addr(mask) }) = m else { return };
    out.push(build_field_test(f, Predicate::Masked { value, mask }, negated));
}

fn push_optional_device_test(out: &mut RuleTests, f: Field, m: Option<&IfaceMatch>) {
    let Some(m) = m else { return };
    out.push(build_field_test(
        f,
        Predicate::Device { name: m.name.clone(), prefix: m.is_prefix },
        m.negated,
    ));
}

/// Both ports of a match. A match without any port test still requires the header.
fn push_port_or_header_tests(
    out: &mut RuleTests,
    sport: Option<&Negatable<PortSpan>>,
    dport: Option<&Negatable<PortSpan>>,
) {
    for (f, port) in [(Field::Sport, sport), (Field::Dport, dport)] {
        if let Some(Negatable { negated, value }) = port {
            out.push(build_field_test(
                f,
                Predicate::InSpans(vec![port_interval(*value)]),
                *negated,
            ));
        }
    }
    if sport.is_none() && dport.is_none() {
        out.push(build_field_test(Field::Sport, Predicate::Present, false));
    }
}

fn port_interval(p: PortSpan) -> (u128, u128) {
    (p.lo.into(), p.hi.into())
}

fn push_match_tests(out: &mut RuleTests, index: usize, m: &Match, family: Family) {
    match m {
        Match::Tcp { sport, dport, flags, option } => {
            push_port_or_header_tests(out, sport.as_ref(), dport.as_ref());
            if let Some(Negatable { negated, value }) = flags {
                let (mask, value) = (value.mask.into(), value.comp.into());
                out.push(build_field_test(
                    Field::TcpFlags,
                    Predicate::Masked { value, mask },
                    *negated,
                ));
            }
            if option.is_some() {
                out.push(opaque_test(index, m, family));
            }
        }
        Match::Udp { sport, dport } => {
            push_port_or_header_tests(out, sport.as_ref(), dport.as_ref())
        }
        Match::Sctp { sport, dport, chunks } => {
            push_port_or_header_tests(out, sport.as_ref(), dport.as_ref());
            if chunks.is_some() {
                out.push(opaque_test(index, m, family));
            }
        }
        Match::Dccp { sport, dport, types, option } => {
            push_port_or_header_tests(out, sport.as_ref(), dport.as_ref());
            if types.is_some() || option.is_some() {
                out.push(opaque_test(index, m, family));
            }
        }
        Match::Icmp(Negatable { negated, value }) => {
            let base = u128::from(value.kind) << 8;
            let any = family == Family::V4 && value.kind == 255;
            let codes = if any {
                (0, 0xffff)
            } else {
                (base | u128::from(value.codes.0), base | u128::from(value.codes.1))
            };
            out.push(build_field_test(
                Field::IcmpTypeAndCode,
                Predicate::InSpans(vec![codes]),
                *negated,
            ));
        }
        Match::Multiport { which, ports: Negatable { negated, value } } => {
            let spans: Vec<_> = value.iter().copied().map(port_interval).collect();
            out.push(match which {
                MultiportSelector::Source => {
                    build_field_test(Field::Sport, Predicate::InSpans(spans), *negated)
                }
                MultiportSelector::Destination => {
                    build_field_test(Field::Dport, Predicate::InSpans(spans), *negated)
                }
                MultiportSelector::Either => Test::EitherPort { spans, negated: *negated },
            });
        }
        Match::IpRange { src, dst } => {
            for (f, range) in [(Field::Saddr, src), (Field::Daddr, dst)] {
                out.extend(range.as_ref().and_then(|range| address_range_test(f, range)));
            }
        }
        _ => out.extend(lower_single_test_match(index, m, family)),
    }
}

/// xt_iprange.c compares with both ends: a reversed range contains no address.
fn address_range_test(field: Field, range: &Negatable<(Addr, Addr)>) -> Option<Test> {
    let Negatable { negated, value: (lo, hi) } = range;
    if lo.0 > hi.0 {
        return (!negated).then_some(Test::Never);
    }
    Some(build_field_test(field, Predicate::InSpans(vec![(lo.0, hi.0)]), *negated))
}

/// A test that no field says, with what evaluating it does.
fn opaque_test(index: usize, m: &Match, family: Family) -> Test {
    let row = match_effects(m, family);
    // The tests of fields before it have looked for the header.
    let has_fields = matches!(m, Match::Tcp { .. } | Match::Sctp { .. } | Match::Dccp { .. });
    let hotdrop = match row.hotdrop {
        Hotdrop::OnTruncatedHeader if has_fields => Hotdrop::Never,
        other => other,
    };
    Test::Opaque { index, stateful: row.is_stateful(), hotdrop }
}

/// The matches that are one test of one field, and those that no field says.
fn lower_single_test_match(index: usize, m: &Match, family: Family) -> Option<Test> {
    Some(match m {
        Match::Mac(Negatable { negated, value }) => {
            let mac = value.iter().fold(0, |n, b| n << 8 | u128::from(*b));
            build_field_test(Field::SourceMac, Predicate::InSpans(vec![(mac, mac)]), *negated)
        }
        Match::Mark(Negatable { negated, value })
        | Match::ConnMark(Negatable { negated, value }) => {
            let f = if matches!(m, Match::Mark(_)) { Field::Mark } else { Field::CtMark };
            let (value, mask) = (value.value.into(), value.mask.into());
            build_field_test(f, Predicate::Masked { value, mask }, *negated)
        }
        Match::State(Negatable { negated, value }) => {
            build_field_test(Field::CtState, Predicate::AnyBit((*value).into()), *negated)
        }
        Match::Conntrack(c) => match c.sole_state_test() {
            Some(Negatable { negated, value }) => {
                build_field_test(Field::CtState, Predicate::AnyBit((*value).into()), *negated)
            }
            None => opaque_test(index, m, family),
        },
        Match::Length(Negatable { negated, value: (lo, hi) }) => build_field_test(
            Field::Length,
            Predicate::InSpans(vec![((*lo).into(), (*hi).into())]),
            *negated,
        ),
        Match::Ttl { op, value } => ttl_test(*op, *value),
        Match::Dscp(Negatable { negated, value }) => {
            let (value, mask) = (u128::from(*value) << 2, 0xfc);
            build_field_test(Field::Tos, Predicate::Masked { value, mask }, *negated)
        }
        Match::Tos(Negatable { negated, value: (value, mask) }) => {
            let (value, mask) = ((*value).into(), (*mask).into());
            build_field_test(Field::Tos, Predicate::Masked { value, mask }, *negated)
        }
        Match::PktType(Negatable { negated, value }) => {
            let mut p = Packet::new(family, Addr(0), Addr(0), 0);
            p.pkttype = *value;
            let crate::FieldReading::Value(v) = Field::PktType.read(&p) else { return None };
            build_field_test(Field::PktType, Predicate::InSpans(vec![(v, v)]), *negated)
        }
        Match::Set(_) => Test::Set { index },
        Match::Comment(_) => return None,
        Match::Stateful(_) | Match::UnmodelledInput(_) | Match::Opaque(_) => {
            opaque_test(index, m, family)
        }
        Match::Tcp { .. }
        | Match::Udp { .. }
        | Match::Sctp { .. }
        | Match::Dccp { .. }
        | Match::Icmp(_)
        | Match::Multiport { .. }
        | Match::IpRange { .. } => return None,
    })
}

fn ttl_test(op: TtlComparison, value: u8) -> Test {
    let v = u128::from(value);
    let spans = match op {
        TtlComparison::Eq | TtlComparison::Ne => vec![(v, v)],
        TtlComparison::Lt if v == 0 => return Test::Never,
        TtlComparison::Lt => vec![(0, v - 1)],
        TtlComparison::Gt if v == 255 => return Test::Never,
        TtlComparison::Gt => vec![(v + 1, 255)],
    };
    build_field_test(Field::Ttl, Predicate::InSpans(spans), op == TtlComparison::Ne)
}
