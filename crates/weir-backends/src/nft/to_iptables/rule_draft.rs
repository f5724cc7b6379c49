//! The tests of one rule as iptables matches.

use weir_model::field::PORT_PROTOCOLS;
use weir_model::mask::interval_to_prefix_mask;
use weir_model::nft::{
    Comparand, ElementKeyPart, LoadExpression, MapKeyExpression, Test, ct_state, ct_status,
};
use weir_model::rule_match::{
    IcmpTypeMatch, MaskedValue, MultiportSelector, Negatable, TcpFlagsMatch, TtlComparison,
    ct_state as old,
};
use weir_model::{
    Addr, AddrMatch, BaseMatch, CreditedOriginals, Family, FragmentMatch, IfaceMatch, Match,
    PortSpan, ProtoMatch, Rule, Target,
};
use weir_packet::PktType;

use super::protocol_set::ProtocolSet;

/// A rule of iptables that is being made.
#[derive(Clone, Debug)]
pub(super) struct IptablesRuleDraft {
    family: Family,
    /// The protocols that come as far as this.
    protocols: ProtocolSet,
    base: BaseMatch,
    matches: Vec<Match>,
    /// There is a stateful match already: tests of the base would be evaluated before it.
    has_stateful_match: bool,
    /// No packet is left.
    pub never_matches: bool,
}

type AddTestResult = Result<(), String>;

impl IptablesRuleDraft {
    pub fn new(family: Family, protocols: ProtocolSet) -> Self {
        let (base, matches) = (BaseMatch::default(), Vec::new());
        IptablesRuleDraft {
            family,
            protocols,
            base,
            matches,
            has_stateful_match: false,
            never_matches: false,
        }
    }

    /// The rule, once it is known what it does.
    pub fn build_rule(&self, target: Target, credited_originals: CreditedOriginals) -> Rule {
        Rule {
            base: self.base.clone(),
            matches: self.matches.clone(),
            match_and_target_spans: vec![weir_model::Span::NONE; self.matches.len() + 1],
            credited_originals,
            ..Rule::unconditional(target)
        }
    }

    /// Matches that represent several of the rule's tests.
    pub fn append_multi_statement_matches(&mut self, matches: Vec<Match>) {
        self.matches.extend(matches);
    }

    pub fn add_opaque_match(&mut self, m: Match) {
        self.has_stateful_match |= matches!(m, Match::Stateful(_));
        self.matches.push(m);
    }

    /// Adds one part of a lookup's key.
    pub fn add_key_part(&mut self, key: &MapKeyExpression, part: &ElementKeyPart) -> AddTestResult {
        let with = match (part, key.mask) {
            (ElementKeyPart::Device(name), _) => {
                Comparand::Device { name: name.clone(), prefix: false }
            }
            (ElementKeyPart::Span(lo, hi), Some(mask)) if lo == hi => {
                Comparand::Masked { mask, wanted: *lo }
            }
            (ElementKeyPart::Span(..), Some(_)) => {
                return Err("looks up a range under a mask".into());
            }
            (ElementKeyPart::Span(lo, hi), None) => Comparand::InSpans(vec![(*lo, *hi)]),
        };
        self.add_test(&Test { expression: key.expression, comparand: with, negated: false })
    }

    /// Adds a test.
    pub fn add_test(&mut self, test: &Test) -> AddTestResult {
        match test.expression {
            LoadExpression::Iifname | LoadExpression::Oifname => self.add_device_test(test),
            LoadExpression::Saddr | LoadExpression::Daddr => self.add_address_test(test),
            LoadExpression::L4proto => self.add_single_protocol_test(test),
            LoadExpression::Ipv4FragmentOffset | LoadExpression::TransportFirstThreeBytes => {
                self.add_fragment_test(test)
            }
            LoadExpression::Sport | LoadExpression::Dport => self.add_port_test_as_multiport(test),
            LoadExpression::TcpFlags => self.add_tcp_flags_test(test),
            LoadExpression::IcmpType | LoadExpression::IcmpTypeCode => self.add_icmp_test(test),
            LoadExpression::EtherSaddr
            | LoadExpression::CtState
            | LoadExpression::CtStatus
            | LoadExpression::PktType => self.add_mac_conntrack_or_pkttype_test(test),
            LoadExpression::Mark | LoadExpression::CtMark => self.add_mark_test(test),
            LoadExpression::MetaLength | LoadExpression::Ttl => self.add_length_or_ttl_test(test),
            LoadExpression::Tos => self.add_tos_test(test),
        }
    }

    /// A test that iptables evaluates before all matches.
    fn refuse_test_after_stateful(&self, what: &str) -> AddTestResult {
        if self.has_stateful_match {
            Err(format!("tests {what} behind a match that counts"))
        } else {
            Ok(())
        }
    }

    fn add_device_test(&mut self, test: &Test) -> AddTestResult {
        self.refuse_test_after_stateful("a device")?;
        let Comparand::Device { name, prefix } = &test.comparand else {
            return unsupported_test_error(test);
        };
        let new = IfaceMatch { negated: test.negated, name: name.clone(), is_prefix: *prefix };
        let slot = if test.expression == LoadExpression::Iifname {
            &mut self.base.iif
        } else {
            &mut self.base.oif
        };
        set_base_test(slot, new, "a device")
    }

    fn add_address_test(&mut self, test: &Test) -> AddTestResult {
        let is_source = test.expression == LoadExpression::Saddr;
        let (lo, hi, mask) = match &test.comparand {
            Comparand::Masked { mask, wanted } => (*wanted, *wanted, Some(*mask)),
            Comparand::InSpans(spans) if spans.len() == 1 => {
                let (lo, hi) = spans[0];
                (lo, hi, interval_to_prefix_mask((lo, hi), self.family.max_addr()))
            }
            _ => return unsupported_test_error(test),
        };
        let slot = if is_source { &mut self.base.saddr } else { &mut self.base.daddr };
        if let (Some(mask), None, false) = (mask, &slot, self.has_stateful_match) {
            *slot = Some(AddrMatch { negated: test.negated, addr: Addr(lo), mask: Addr(mask) });
            return Ok(());
        }
        if matches!(test.comparand, Comparand::Masked { .. }) {
            return Err("tests an address under two masks".into());
        }
        let range = Some(Negatable { negated: test.negated, value: (Addr(lo), Addr(hi)) });
        let (src, dst) = if is_source { (range, None) } else { (None, range) };
        self.matches.push(Match::IpRange { src, dst });
        Ok(())
    }

    fn add_single_protocol_test(&mut self, test: &Test) -> AddTestResult {
        self.refuse_test_after_stateful("the protocol")?;
        let proto = single_compared_value(test)
            .filter(|p| *p != 0)
            .ok_or("tests several protocols at once")?;
        let new = ProtoMatch { negated: test.negated, proto: proto as u8 };
        set_base_test(&mut self.base.proto, new, "the protocol")
    }

    /// The test of the offset before the first test of a transport header, and `-f`.
    fn add_fragment_test(&mut self, test: &Test) -> AddTestResult {
        self.refuse_test_after_stateful("for fragments")?;
        let whole = match (&test.comparand, test.expression) {
            // What is not there does not hold: a later fragment has no header.
            (Comparand::InSpans(s), LoadExpression::TransportFirstThreeBytes)
                if s[..] == [(0, 0xff_ffff)] && !test.negated =>
            {
                true
            }
            (Comparand::InSpans(s), LoadExpression::Ipv4FragmentOffset) if s[..] == [(0, 0)] => {
                !test.negated
            }
            (Comparand::AnyBit(0x1fff), LoadExpression::Ipv4FragmentOffset) => test.negated,
            _ => return unsupported_test_error(test),
        };
        let new = FragmentMatch { negated: whole };
        // A fragment whose header is tested: there is none.
        self.never_matches |= self.base.fragment.is_some_and(|old| old != new);
        self.base.fragment = Some(new);
        Ok(())
    }

    fn add_port_test_as_multiport(&mut self, test: &Test) -> AddTestResult {
        if !self.protocols.is_subset_of(&PORT_PROTOCOLS) {
            return Err("tests ports without a test of the protocol".into());
        }
        let Comparand::InSpans(spans) = &test.comparand else {
            return unsupported_test_error(test);
        };
        let span = |(lo, hi): &(u128, u128)| PortSpan { lo: *lo as u16, hi: *hi as u16 };
        let value: Vec<PortSpan> = spans.iter().map(span).collect();
        let which = if test.expression == LoadExpression::Sport {
            MultiportSelector::Source
        } else {
            MultiportSelector::Destination
        };
        self.matches
            .push(Match::Multiport { which, ports: Negatable { negated: test.negated, value } });
        Ok(())
    }

    fn add_tcp_flags_test(&mut self, test: &Test) -> AddTestResult {
        if !self.protocols.is_subset_of(&[6]) {
            return Err("tests TCP flags without a test of the protocol".into());
        }
        let (mask, comp, negated) = match &test.comparand {
            Comparand::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            Comparand::AnyBit(bits) => (*bits, 0, !test.negated),
            Comparand::InSpans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (0xff, lo, test.negated),
                [(0, 0xff)] => (0, 0, test.negated),
                _ => return unsupported_test_error(test),
            },
            Comparand::Device { .. } => return unsupported_test_error(test),
        };
        let value = TcpFlagsMatch { mask: mask as u8, comp: comp as u8 };
        let flags = Some(Negatable { negated, value });
        self.matches.push(Match::Tcp { sport: None, dport: None, flags, option: None });
        Ok(())
    }

    fn add_icmp_test(&mut self, test: &Test) -> AddTestResult {
        let own = if self.family == Family::V4 { 1 } else { 58 };
        if !self.protocols.is_subset_of(&[own]) {
            return Err("tests the ICMP type without a test of the protocol".into());
        }
        let Comparand::InSpans(spans) = &test.comparand else {
            return unsupported_test_error(test);
        };
        let (kind, codes) = match (spans[..].first(), spans.len(), test.expression) {
            (Some(&(0, 0xff)), 1, LoadExpression::IcmpType) if own == 1 => (255, (0, 255)),
            (Some(&(lo, hi)), 1, LoadExpression::IcmpType) if lo == hi => (lo, (0, 255)),
            (Some(&(lo, hi)), 1, _) if lo >> 8 == hi >> 8 => (lo >> 8, (lo & 0xff, hi & 0xff)),
            _ => return unsupported_test_error(test),
        };
        // Type 255 of iptables is any type.
        if own == 1 && kind == 255 && spans[0].0 != 0 {
            return unsupported_test_error(test);
        }
        let value = IcmpTypeMatch { kind: kind as u8, codes: (codes.0 as u8, codes.1 as u8) };
        self.matches.push(Match::Icmp(Negatable { negated: test.negated, value }));
        Ok(())
    }

    /// Tests of a few named values.
    fn add_mac_conntrack_or_pkttype_test(&mut self, test: &Test) -> AddTestResult {
        let negated = test.negated;
        let m = match (&test.comparand, test.expression) {
            (Comparand::AnyBit(bits), LoadExpression::CtState) => {
                Match::State(Negatable { negated, value: to_ctstate_bits(*bits) })
            }
            // Without an entry nft's test stops the rule, negated or not; iptables' does not.
            (Comparand::AnyBit(bits), LoadExpression::CtStatus) if !negated => {
                let bit = |b: u32, o: u16| if *bits & u128::from(b) != 0 { o } else { 0 };
                let value = bit(ct_status::SNAT, old::SNAT) | bit(ct_status::DNAT, old::DNAT);
                Match::State(Negatable { negated, value })
            }
            (_, LoadExpression::EtherSaddr) => {
                let Some(mac) = single_compared_value(test) else {
                    return unsupported_test_error(test);
                };
                let bytes = mac.to_be_bytes();
                let value = [bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]];
                Match::Mac(Negatable { negated, value })
            }
            (_, LoadExpression::PktType) => {
                let value = match single_compared_value(test) {
                    Some(0) => PktType::Unicast,
                    Some(1) => PktType::Broadcast,
                    Some(2) => PktType::Multicast,
                    _ => return unsupported_test_error(test),
                };
                Match::PktType(Negatable { negated, value })
            }
            _ => return unsupported_test_error(test),
        };
        self.matches.push(m);
        Ok(())
    }

    fn add_mark_test(&mut self, test: &Test) -> AddTestResult {
        let (mask, wanted, negated) = match &test.comparand {
            Comparand::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            Comparand::AnyBit(bits) => (*bits, 0, !test.negated),
            Comparand::InSpans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (u128::from(u32::MAX), lo, test.negated),
                _ => return unsupported_test_error(test),
            },
            Comparand::Device { .. } => return unsupported_test_error(test),
        };
        let value = MaskedValue { value: wanted as u32, mask: mask as u32 };
        let tested = Negatable { negated, value };
        let is_mark = test.expression == LoadExpression::Mark;
        self.matches.push(if is_mark { Match::Mark(tested) } else { Match::ConnMark(tested) });
        Ok(())
    }

    fn add_length_or_ttl_test(&mut self, test: &Test) -> AddTestResult {
        let Comparand::InSpans(spans) = &test.comparand else {
            return unsupported_test_error(test);
        };
        let &[(lo, hi)] = &spans[..] else { return unsupported_test_error(test) };
        if test.expression == LoadExpression::MetaLength {
            if hi > 0xffff {
                return unsupported_test_error(test);
            }
            let value = (lo as u16, hi as u16);
            self.matches.push(Match::Length(Negatable { negated: test.negated, value }));
            return Ok(());
        }
        let (op, value) = match (lo, hi, test.negated) {
            (lo, hi, false) if lo == hi => (TtlComparison::Eq, lo),
            (lo, hi, true) if lo == hi => (TtlComparison::Ne, lo),
            (0, hi, false) if hi < 255 => (TtlComparison::Lt, hi + 1),
            (0, hi, true) => (TtlComparison::Gt, hi),
            (lo, 255, false) if lo > 0 => (TtlComparison::Gt, lo - 1),
            (lo, 255, true) => (TtlComparison::Lt, lo),
            _ => return unsupported_test_error(test),
        };
        self.matches.push(Match::Ttl { op, value: value as u8 });
        Ok(())
    }

    fn add_tos_test(&mut self, test: &Test) -> AddTestResult {
        let (mask, wanted, negated) = match &test.comparand {
            Comparand::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            Comparand::AnyBit(bits) => (*bits, 0, !test.negated),
            Comparand::InSpans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (0xff, lo, test.negated),
                _ => return unsupported_test_error(test),
            },
            Comparand::Device { .. } => return unsupported_test_error(test),
        };
        self.matches.push(Match::Tos(Negatable { negated, value: (wanted as u8, mask as u8) }));
        Ok(())
    }
}

fn set_base_test<T: PartialEq>(slot: &mut Option<T>, new: T, what: &str) -> AddTestResult {
    match slot {
        Some(old) if *old != new => Err(format!("tests {what} twice")),
        _ => {
            *slot = Some(new);
            Ok(())
        }
    }
}

fn unsupported_test_error<T>(test: &Test) -> Result<T, String> {
    Err(format!("iptables has no such test: {test:?}"))
}

/// The only value that a test is about.
fn single_compared_value(test: &Test) -> Option<u128> {
    match &test.comparand {
        Comparand::InSpans(spans) => match spans[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        },
        _ => None,
    }
}

/// Bits of `ct state` as bits of `--ctstate`.
fn to_ctstate_bits(bits: u128) -> u16 {
    let pairs = [
        (ct_state::INVALID, old::INVALID),
        (ct_state::ESTABLISHED, old::ESTABLISHED),
        (ct_state::RELATED, old::RELATED),
        (ct_state::NEW, old::NEW),
        (ct_state::UNTRACKED, old::UNTRACKED),
    ];
    pairs.iter().filter(|(new, _)| bits & u128::from(*new) != 0).map(|(_, old)| old).sum()
}
