//! Constraints on the fields of a packet, and a packet that satisfies them.
//!
//! [`PacketConstraints`] collects the tests of a rule and of the jumps that lead to it. Fields are
//! solved one by one: a candidate from the predicates' boundaries that satisfies all tests of the
//! field. That is complete for typical rulesets (nested prefixes, intervals, a few negations) and
//! fails otherwise: an unsolved constraint costs a packet, and never yields a wrong one, because
//! the interpreter determines the outcome afterwards.

use std::collections::HashMap;

use weir_model::ipset::SetDataType;
use weir_model::{
    Addr, CtState, ElementPart, Family, Field, FieldReading, Hook, IpSet, Match, Packet, Predicate,
    Rule, Test, lower_to_tests,
};
use weir_packet::{ConntrackInfo, FragmentPosition, Transport};
use weir_partition::BitPattern;
use weir_random::Rng;
use weir_semantics::JourneyKind;

/// How the packet is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentOrTruncation {
    WholePacket,
    /// The first fragment.
    FirstFragment,
    /// A later fragment, at this offset in units of eight bytes.
    LaterFragment(u16),
    /// Cut after so many bytes of the transport header.
    TruncatedTransportHeader(usize),
}

/// Constraints on a packet.
#[derive(Clone, Debug)]
pub(crate) struct PacketConstraints {
    pub family: Family,
    pub journey_kind: JourneyKind,
    pub fragment_or_truncation: FragmentOrTruncation,
    field_tests: Vec<(Field, Predicate, bool)>,
    /// Fields that have this value, whatever the tests say.
    forced_values: Vec<(Field, u128)>,
    /// Devices that are these, whatever the tests say.
    forced_devices: Vec<(Field, String)>,
    /// Protocol of choice, where the tests leave it open.
    preferred_proto: Option<u8>,
}

/// What a packet has where nothing constrains it.
#[derive(Clone, Debug)]
pub(crate) struct DefaultDevicesAndMaxBytes {
    pub iif: String,
    pub oif: String,
    /// Longest packet, in bytes from the network header on.
    pub packet_bytes_max: usize,
}

const CT_STATES: [CtState; 5] =
    [CtState::New, CtState::Established, CtState::Related, CtState::Invalid, CtState::Untracked];

impl PacketConstraints {
    /// No constraint yet.
    pub fn new(family: Family, entry: JourneyKind) -> Self {
        let (tests, exact, devices) = (Vec::new(), Vec::new(), Vec::new());
        PacketConstraints {
            family,
            journey_kind: entry,
            fragment_or_truncation: FragmentOrTruncation::WholePacket,
            field_tests: tests,
            forced_values: exact,
            forced_devices: devices,
            preferred_proto: None,
        }
    }

    /// Requires that all tests of a rule hold at `hook`; whether that is possible at all.
    pub fn require_lowered_tests_of_rule(
        &mut self,
        rule: &Rule,
        hook: Hook,
        sets: &HashMap<&str, &IpSet>,
        rng: &mut Rng,
    ) -> bool {
        for test in lower_to_tests(rule, self.family) {
            match test {
                Test::Field { field: Field::Ttl, predicate, negated } => {
                    self.require_ttl_as_seen_at_hook(hook, predicate, negated);
                }
                Test::Field { field, predicate, negated } => {
                    if predicate == Predicate::Present {
                        self.require_header_unless_proto_tested(rule, field);
                    } else {
                        self.field_tests.push((field, predicate, negated));
                    }
                }
                Test::EitherPort { spans, negated: true } => {
                    let either = Predicate::InSpans(spans);
                    self.field_tests.push((Field::Sport, either.clone(), true));
                    self.field_tests.push((Field::Dport, either, true));
                }
                Test::EitherPort { spans, negated: false } => {
                    let side = if rng.one_in(2) { Field::Sport } else { Field::Dport };
                    self.field_tests.push((side, Predicate::InSpans(spans), false));
                }
                Test::Set { index } => self.require_random_element_of_set(rule, index, sets, rng),
                Test::Opaque { index, .. } => {
                    if let Match::Conntrack(c) = &rule.matches[index]
                        && let Some(state) = &c.state
                    {
                        let bits = Predicate::AnyBit(state.value.into());
                        self.field_tests.push((Field::CtState, bits, state.negated));
                    }
                }
                Test::Never => return false,
            }
        }
        true
    }

    /// Takes this protocol where the tests leave it open.
    pub fn prefer_proto(&mut self, proto: u8) {
        self.preferred_proto = Some(proto);
    }

    /// Whether no test reads the field.
    pub fn has_no_test_or_forced_value(&self, field: Field) -> bool {
        !self.has_test_or_forced_value(field)
    }

    /// Sets a field, whatever the tests say.
    pub fn force_value(&mut self, field: Field, value: u128) {
        self.forced_values.retain(|(f, _)| *f != field);
        self.forced_values.push((field, value));
    }

    /// Sets a device, whatever the tests say.
    pub fn force_device(&mut self, field: Field, name: &str) {
        self.forced_devices.retain(|(f, _)| *f != field);
        self.forced_devices.push((field, name.chars().take(15).collect()));
    }

    /// Forwarding takes one off before FORWARD and POSTROUTING see the packet.
    fn require_ttl_as_seen_at_hook(&mut self, hook: Hook, predicate: Predicate, negated: bool) {
        let later = self.is_ttl_decremented_at_hook(hook);
        let predicate = match predicate {
            Predicate::InSpans(spans) if later => {
                Predicate::InSpans(spans.iter().map(|(lo, hi)| (lo + 1, hi + 1)).collect())
            }
            other => other,
        };
        self.field_tests.push((Field::Ttl, predicate, negated));
    }

    /// Whether the packet was forwarded when the hook sees it.
    pub fn is_ttl_decremented_at_hook(&self, hook: Hook) -> bool {
        self.journey_kind == JourneyKind::Forward
            && matches!(hook, Hook::Forward | Hook::Postrouting)
    }

    /// A bare `-m tcp` requires the protocol's header; the protocol test says which.
    fn require_header_unless_proto_tested(&mut self, rule: &Rule, field: Field) {
        if rule.base.proto.is_none() {
            self.field_tests.push((field, Predicate::Present, false));
        }
    }

    /// Requires that the packet is an element of the set that a match names.
    fn require_random_element_of_set(
        &mut self,
        rule: &Rule,
        index: usize,
        sets: &HashMap<&str, &IpSet>,
        rng: &mut Rng,
    ) {
        let Match::Set(m) = &rule.matches[index] else { return };
        if m.negated {
            return;
        }
        let Some(mut set) = sets.get(&*m.name).copied() else { return };
        if let Some(ElementPart::MemberSet(name)) =
            rng.pick_if_any(&set.elements).and_then(|e| e.parts.first())
        {
            let Some(member) = sets.get(&**name) else { return };
            set = member;
        }
        let Some(element) = rng.pick_if_any(&set.elements) else { return };
        for ((part, kind), src) in
            element.parts.iter().zip(&set.kind.data_types).zip(&m.src_directions)
        {
            self.require_element_part(part, *kind, *src);
        }
    }

    /// Requires one part of an element.
    pub fn require_element_part(&mut self, part: &ElementPart, kind: SetDataType, src: bool) {
        let side = |s: Field, d: Field| if src { s } else { d };
        let single = |v: u128| Predicate::InSpans(vec![(v, v)]);
        match part {
            ElementPart::AddrOrPrefix { addr, len } => {
                let mask = self.family.netmask((*len).into());
                let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                self.field_tests.push((side(Field::Saddr, Field::Daddr), predicate, false));
            }
            ElementPart::ProtoAndPort { proto, port_or_icmp_type_and_code: port } => {
                if let Some(proto) = proto {
                    self.field_tests.push((Field::Proto, single((*proto).into()), false));
                }
                let icmp = matches!(proto, Some(1 | 58));
                let field =
                    if icmp { Field::IcmpTypeAndCode } else { side(Field::Sport, Field::Dport) };
                self.field_tests.push((field, single((*port).into()), false));
            }
            ElementPart::Mac(mac) => {
                let value = mac.iter().fold(0, |n, b| n << 8 | u128::from(*b));
                self.field_tests.push((Field::SourceMac, single(value), false));
            }
            ElementPart::Mark(mark) => {
                self.field_tests.push((Field::Mark, single((*mark).into()), false));
            }
            ElementPart::Iface { name, .. } => {
                let predicate = Predicate::Device { name: name.clone(), prefix: false };
                self.field_tests.push((side(Field::Iif, Field::Oif), predicate, false));
            }
            ElementPart::MemberSet(_) => debug_assert_eq!(kind, SetDataType::Set),
        }
    }

    fn tests_of_field(&self, field: Field) -> Vec<(&Predicate, bool)> {
        self.field_tests.iter().filter(|t| t.0 == field).map(|t| (&t.1, t.2)).collect()
    }

    fn has_test_or_forced_value(&self, field: Field) -> bool {
        self.field_tests.iter().any(|t| t.0 == field)
            || self.forced_values.iter().any(|e| e.0 == field)
    }

    fn solve_field(&self, field: Field, default: u128, rng: &mut Rng) -> Option<u128> {
        if let Some((_, value)) = self.forced_values.iter().find(|e| e.0 == field) {
            return Some(*value);
        }
        solve_value(&self.tests_of_field(field), field.max_value(self.family), default, rng)
    }

    fn solve_device_field(&self, field: Field, default: &str) -> Option<String> {
        if let Some((_, name)) = self.forced_devices.iter().find(|d| d.0 == field) {
            return Some(name.clone());
        }
        solve_device_name(&self.tests_of_field(field), default)
    }

    /// A packet that satisfies all of it; `None` if none was found.
    pub fn build_packet(
        &self,
        defaults: &DefaultDevicesAndMaxBytes,
        rng: &mut Rng,
    ) -> Option<Packet> {
        let proto =
            self.solve_field(Field::Proto, self.choose_proto_for_tested_fields(rng), rng)? as u8;
        let (saddr, daddr) = (
            random_documentation_addr(self.family, true, rng),
            random_documentation_addr(self.family, false, rng),
        );
        let saddr = Addr(self.solve_field(Field::Saddr, saddr, rng)?);
        let daddr = Addr(self.solve_field(Field::Daddr, daddr, rng)?);
        let mut p = Packet::new(self.family, saddr, daddr, proto);
        if self.journey_kind != JourneyKind::Output {
            p.iif = self.solve_device_field(Field::Iif, &defaults.iif)?;
            let mac = self.solve_field(Field::SourceMac, 0x0200_0000_0001, rng)?;
            p.smac = Some(std::array::from_fn(|i| (mac >> (40 - 8 * i)) as u8));
        }
        if self.journey_kind != JourneyKind::Input {
            p.oif = self.solve_device_field(Field::Oif, &defaults.oif)?;
        }
        for field in Field::freely_settable_number_fields().chain([Field::PktType]) {
            let usual = field.row().ordinary_value_if_freely_settable.unwrap_or(0);
            field.write_if_present(&mut p, self.solve_field(field, usual, rng)?);
        }
        p.ct = self.solve_conntrack_info(rng)?;
        p.transport = self.build_transport(proto, rng)?;
        p.payload = vec![0; 12];
        self.fragment_or_truncate(&mut p, rng)?;
        self.resize_to_length(&mut p, defaults, rng)?;
        Some(p)
    }

    /// The protocol that the tested fields need, where the protocol itself is not tested.
    fn choose_proto_for_tested_fields(&self, rng: &mut Rng) -> u128 {
        if self.has_test_or_forced_value(Field::IcmpTypeAndCode) {
            return if self.family == Family::V4 { 1 } else { 58 };
        }
        let ports = self.has_test_or_forced_value(Field::Sport)
            || self.has_test_or_forced_value(Field::Dport);
        match rng.below(4) {
            _ if self.has_test_or_forced_value(Field::TcpFlags) => 6,
            _ if self.preferred_proto.is_some() => self.preferred_proto.map_or(6, u128::from),
            0 => 17,
            1 if !ports => 47,
            _ => 6,
        }
    }

    fn solve_conntrack_info(&self, rng: &mut Rng) -> Option<ConntrackInfo> {
        let tests = self.tests_of_field(Field::CtState);
        let wanted = self.forced_values.iter().find(|e| e.0 == Field::CtState).map(|e| e.1);
        let probe = Packet::new(self.family, Addr(0), Addr(0), 6);
        let fits = |ct: ConntrackInfo| {
            let mut p = probe.clone();
            p.ct = ct;
            let FieldReading::Value(bits) = Field::CtState.read(&p) else { return false };
            match wanted {
                Some(wanted) => bits == wanted,
                None => tests.iter().all(|(p, negated)| p.holds_for_value(bits) != *negated),
            }
        };
        let translations = [(false, false), (false, true), (true, false), (true, true)];
        let mut all = translations.into_iter().flat_map(|(snat, dnat)| {
            CT_STATES.map(move |state| ConntrackInfo {
                snat,
                dnat,
                ..ConntrackInfo::from_state(state)
            })
        });
        let mut ct = all.find(|ct| fits(*ct))?;
        ct.mark = self.solve_field(Field::CtMark, 0, rng)? as u32;
        Some(ct)
    }

    fn build_transport(&self, proto: u8, rng: &mut Rng) -> Option<Transport> {
        let mut port = |field| {
            let usual = if field == Field::Sport { 40_000 } else { 9 };
            self.solve_field(field, usual, rng).map(|v| v as u16)
        };
        Some(match proto {
            6 => {
                let (sport, dport) = (port(Field::Sport)?, port(Field::Dport)?);
                let flags = self.solve_field(Field::TcpFlags, 2, rng)? as u8;
                Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: Vec::new() }
            }
            17 | 136 => Transport::Udp { sport: port(Field::Sport)?, dport: port(Field::Dport)? },
            132 => {
                Transport::Sctp { sport: port(Field::Sport)?, dport: port(Field::Dport)?, tag: 0 }
            }
            33 => Transport::DccpPorts { sport: port(Field::Sport)?, dport: port(Field::Dport)? },
            1 | 58 => {
                let usual = if proto == 1 { 8 << 8 } else { 128 << 8 };
                let kind = self.solve_field(Field::IcmpTypeAndCode, usual, rng)? as u16;
                let [kind, code] = kind.to_be_bytes();
                Transport::Icmp { kind, code, rest: [0, 1, 0, 1] }
            }
            _ => Transport::NoParsedHeader,
        })
    }

    /// Makes a fragment or a truncated packet of it, where required.
    fn fragment_or_truncate(&self, p: &mut Packet, rng: &mut Rng) -> Option<()> {
        let later = self.solve_field(Field::IsLaterFragment, 0, rng)? == 1;
        let shape = match self.fragment_or_truncation {
            FragmentOrTruncation::WholePacket if later => FragmentOrTruncation::LaterFragment(185),
            other => other,
        };
        match shape {
            FragmentOrTruncation::WholePacket => {}
            FragmentOrTruncation::FirstFragment => {
                p.fragment = FragmentPosition { offset: 0, more_fragments: true };
                let short = (8 - (p.transport_header_bytes() + p.payload.len()) % 8) % 8;
                p.payload.resize(p.payload.len() + short, 0);
            }
            FragmentOrTruncation::LaterFragment(offset) => {
                p.fragment = FragmentPosition { offset, more_fragments: false };
                // Bytes that look like a port, for matches that read them nevertheless.
                let (sport, dport) = p.ports().unwrap_or((0, 0));
                p.payload = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
                p.payload.resize(24, 0);
                p.transport = Transport::NoParsedHeader;
            }
            FragmentOrTruncation::TruncatedTransportHeader(bytes) => {
                let (sport, dport) = p.ports().unwrap_or((0, 0));
                p.payload = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
                // Headers that no field models (ESP, AH) are ordinary bytes.
                let unmodelled = p.transport == Transport::NoParsedHeader;
                let whole = if unmodelled { 8 } else { p.transport_header_bytes() };
                p.payload.resize(bytes.min(whole.saturating_sub(1)), 0);
                if !unmodelled {
                    p.transport = Transport::Truncated;
                }
            }
        }
        Some(())
    }

    /// Gives the packet the required length.
    fn resize_to_length(
        &self,
        p: &mut Packet,
        defaults: &DefaultDevicesAndMaxBytes,
        rng: &mut Rng,
    ) -> Option<()> {
        if !self.has_test_or_forced_value(Field::Length)
            || matches!(
                self.fragment_or_truncation,
                FragmentOrTruncation::TruncatedTransportHeader(_)
            )
        {
            return Some(());
        }
        let wanted = self.solve_field(Field::Length, p.len() as u128, rng)? as usize;
        let headers = p.len() - p.payload.len();
        if wanted < headers || wanted > defaults.packet_bytes_max {
            return None;
        }
        p.payload.resize(wanted - headers, 0);
        Some(())
    }
}

/// An address out of the ranges for documentation, so that no packet is taken for another's.
pub(crate) fn random_documentation_addr(family: Family, source: bool, rng: &mut Rng) -> u128 {
    let net: u128 = match (family, source) {
        (Family::V4, true) => 0xc633_6400,
        (Family::V4, false) => 0xcb00_7100,
        (Family::V6, true) => 0x2001_0db8_0001 << 80,
        (Family::V6, false) => 0x2001_0db8_0002 << 80,
    };
    net | (1 + rng.below(254)) as u128
}

/// A value at most `max` for which all tests hold.
fn solve_value(
    tests: &[(&Predicate, bool)],
    max: u128,
    default: u128,
    rng: &mut Rng,
) -> Option<u128> {
    let holds =
        |v: u128| v <= max && tests.iter().all(|(p, negated)| p.holds_for_value(v) != *negated);
    if holds(default) {
        return Some(default);
    }
    // All masks together: what is left free may be anything.
    let mut wanted = Some(BitPattern::ALL);
    let mut candidates = Vec::new();
    for (predicate, negated) in tests {
        match (predicate, negated) {
            (Predicate::Masked { value, mask: m }, false) => {
                wanted = wanted.and_then(|w| w.and(BitPattern::new(*value, *m)));
            }
            (Predicate::Masked { value, mask }, true) => {
                candidates.extend([value ^ (mask & mask.wrapping_neg()), value.wrapping_sub(1)]);
                candidates.push((value | (!mask & max)).wrapping_add(1));
            }
            (Predicate::InSpans(spans), false) => {
                // A span that was written backwards holds nothing; the udp match takes such a one.
                if let Some((lo, hi)) = rng.pick_if_any(spans)
                    && lo <= hi
                {
                    candidates.push(rng.between(*lo, *hi));
                }
                candidates.extend(spans.iter().flat_map(|(lo, hi)| [*lo, *hi]));
            }
            (Predicate::InSpans(spans), true) => {
                let around = |(lo, hi): &(u128, u128)| [lo.wrapping_sub(1), hi.wrapping_add(1)];
                candidates.extend(spans.iter().flat_map(around));
            }
            (Predicate::AnyBit(m), _) => {
                candidates.extend((0..128).map(|i| 1 << i).filter(|b| b & m != 0));
                candidates.push(!m & max);
            }
            (Predicate::Present | Predicate::Device { .. }, _) => {}
        }
    }
    candidates.extend([default, 0]);
    // Masks that contradict each other leave nothing, whatever is tried.
    let under = |v: u128| wanted.map_or(v, |w| w.fill_unmasked_bits_from(v)) & max;
    let found = candidates.iter().map(|v| under(*v)).chain(candidates.iter().copied());
    if let Some(v) = found.into_iter().find(|v| holds(*v)) {
        return Some(v);
    }
    (0..32).map(|_| under(rng.next_u128())).find(|v| holds(*v))
}

/// A device name for which all tests hold.
fn solve_device_name(tests: &[(&Predicate, bool)], default: &str) -> Option<String> {
    let holds = |n: &str| tests.iter().all(|(p, negated)| p.holds_for_device(n) != *negated);
    if holds(default) {
        return Some(default.to_owned());
    }
    let mut candidates = Vec::new();
    for (predicate, negated) in tests {
        if let (Predicate::Device { name, prefix }, false) = (predicate, negated) {
            match prefix {
                false => candidates.push(name.to_string()),
                true => candidates.extend((0..4).map(|i| format!("{name}{i}"))),
            }
        }
    }
    candidates.extend(["eth0", "eth1", "wan7", "dev9"].map(str::to_owned));
    candidates.retain(|n| n.len() <= 15 && holds(n));
    candidates.into_iter().next()
}
