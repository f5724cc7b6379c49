//! The tests of one rule as iptables matches.

use weir_model::mask::prefix_mask;
use weir_model::matching::{IcmpType, Masked, Neg, PortSide, TcpFlags, TtlOp, ct_state as old};
use weir_model::nft::{ElementKey, Key, Load, Test, With, ct_state, ct_status};
use weir_model::{
    Addr, AddrMatch, Base, Family, FragmentMatch, IfaceMatch, Match, PortSpan, ProtoMatch, Rule,
    RuleIndex, Target,
};
use weir_packet::PktType;

use super::protocols::Protocols;

/// Protocols whose header begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A rule of iptables that is being made.
#[derive(Clone, Debug)]
pub(super) struct RuleDraft {
    family: Family,
    /// The protocols that come as far as this.
    protocols: Protocols,
    base: Base,
    matches: Vec<Match>,
    /// There is a stateful match already: tests of the base would be evaluated before it.
    stateful: bool,
    /// No packet is left.
    pub never: bool,
}

type Said = Result<(), String>;

impl RuleDraft {
    pub fn new(family: Family, protocols: Protocols) -> Self {
        let (base, matches) = (Base::default(), Vec::new());
        RuleDraft { family, protocols, base, matches, stateful: false, never: false }
    }

    /// The rule, once it is known what it does.
    pub fn rule(&self, target: Target, credit: Vec<RuleIndex>) -> Rule {
        Rule {
            base: self.base.clone(),
            matches: self.matches.clone(),
            spans: vec![weir_model::Span::NONE; self.matches.len() + 1],
            credit,
            ..Rule::new(target)
        }
    }

    /// Matches that represent several of the rule's tests.
    pub fn taken(&mut self, matches: Vec<Match>) {
        self.matches.extend(matches);
    }

    pub fn opaque(&mut self, m: Match) {
        self.stateful |= matches!(m, Match::Stateful(_));
        self.matches.push(m);
    }

    /// Adds one part of a lookup's key.
    pub fn key(&mut self, key: &Key, part: &ElementKey) -> Said {
        let with = match (part, key.mask) {
            (ElementKey::Device(name), _) => With::Device { name: name.clone(), prefix: false },
            (ElementKey::Span(lo, hi), Some(mask)) if lo == hi => {
                With::Masked { mask, wanted: *lo }
            }
            (ElementKey::Span(..), Some(_)) => return Err("looks up a range under a mask".into()),
            (ElementKey::Span(lo, hi), None) => With::Spans(vec![(*lo, *hi)]),
        };
        self.test(&Test { load: key.load, with, negated: false })
    }

    /// Adds a test.
    pub fn test(&mut self, test: &Test) -> Said {
        match test.load {
            Load::Iifname | Load::Oifname => self.device(test),
            Load::Saddr | Load::Daddr => self.address(test),
            Load::L4proto => self.protocol(test),
            Load::FragmentOffset | Load::HeaderStart => self.fragment(test),
            Load::Sport | Load::Dport => self.port(test),
            Load::TcpFlags => self.flags(test),
            Load::IcmpType | Load::IcmpTypeCode => self.icmp(test),
            Load::EtherSaddr | Load::CtState | Load::CtStatus | Load::PktType => self.word(test),
            Load::Mark | Load::CtMark => self.mark(test),
            Load::Length | Load::Ttl => self.span(test),
            Load::Tos => self.tos(test),
        }
    }

    /// A test that iptables evaluates before all matches.
    fn first(&self, what: &str) -> Said {
        if self.stateful { Err(format!("tests {what} behind a match that counts")) } else { Ok(()) }
    }

    fn device(&mut self, test: &Test) -> Said {
        self.first("a device")?;
        let With::Device { name, prefix } = &test.with else { return unusual(test) };
        let new = IfaceMatch { negated: test.negated, name: name.clone(), prefix: *prefix };
        let slot = if test.load == Load::Iifname { &mut self.base.iif } else { &mut self.base.oif };
        put(slot, new, "a device")
    }

    fn address(&mut self, test: &Test) -> Said {
        let is_source = test.load == Load::Saddr;
        let (lo, hi, mask) = match &test.with {
            With::Masked { mask, wanted } => (*wanted, *wanted, Some(*mask)),
            With::Spans(spans) if spans.len() == 1 => {
                let (lo, hi) = spans[0];
                (lo, hi, prefix_mask((lo, hi), self.family.max()))
            }
            _ => return unusual(test),
        };
        let slot = if is_source { &mut self.base.saddr } else { &mut self.base.daddr };
        if let (Some(mask), None, false) = (mask, &slot, self.stateful) {
            *slot = Some(AddrMatch { negated: test.negated, addr: Addr(lo), mask: Addr(mask) });
            return Ok(());
        }
        if matches!(test.with, With::Masked { .. }) {
            return Err("tests an address under two masks".into());
        }
        let range = Some(Neg { negated: test.negated, value: (Addr(lo), Addr(hi)) });
        let (src, dst) = if is_source { (range, None) } else { (None, range) };
        self.matches.push(Match::IpRange { src, dst });
        Ok(())
    }

    fn protocol(&mut self, test: &Test) -> Said {
        self.first("the protocol")?;
        let proto = one(test).filter(|p| *p != 0).ok_or("tests several protocols at once")?;
        let new = ProtoMatch { negated: test.negated, proto: proto as u8 };
        put(&mut self.base.proto, new, "the protocol")
    }

    /// The test of the offset before the first test of a transport header, and `-f`.
    fn fragment(&mut self, test: &Test) -> Said {
        self.first("for fragments")?;
        let whole = match (&test.with, test.load) {
            // What is not there does not hold: a later fragment has no header.
            (With::Spans(s), Load::HeaderStart) if s[..] == [(0, 0xff_ffff)] && !test.negated => {
                true
            }
            (With::Spans(s), Load::FragmentOffset) if s[..] == [(0, 0)] => !test.negated,
            (With::AnyBit(0x1fff), Load::FragmentOffset) => test.negated,
            _ => return unusual(test),
        };
        let new = FragmentMatch { negated: whole };
        // A fragment whose header is looked at: there is none.
        self.never |= self.base.fragment.is_some_and(|old| old != new);
        self.base.fragment = Some(new);
        Ok(())
    }

    fn port(&mut self, test: &Test) -> Said {
        if !self.protocols.within(&WITH_PORTS) {
            return Err("tests ports without a test of the protocol".into());
        }
        let With::Spans(spans) = &test.with else { return unusual(test) };
        let span = |(lo, hi): &(u128, u128)| PortSpan { lo: *lo as u16, hi: *hi as u16 };
        let value: Vec<PortSpan> = spans.iter().map(span).collect();
        let which = if test.load == Load::Sport { PortSide::Source } else { PortSide::Destination };
        self.matches.push(Match::Multiport { which, ports: Neg { negated: test.negated, value } });
        Ok(())
    }

    fn flags(&mut self, test: &Test) -> Said {
        if !self.protocols.within(&[6]) {
            return Err("tests TCP flags without a test of the protocol".into());
        }
        let (mask, comp, negated) = match &test.with {
            With::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            With::AnyBit(bits) => (*bits, 0, !test.negated),
            With::Spans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (0xff, lo, test.negated),
                [(0, 0xff)] => (0, 0, test.negated),
                _ => return unusual(test),
            },
            With::Device { .. } => return unusual(test),
        };
        let value = TcpFlags { mask: mask as u8, comp: comp as u8 };
        let flags = Some(Neg { negated, value });
        self.matches.push(Match::Tcp { sport: None, dport: None, flags, option: None });
        Ok(())
    }

    fn icmp(&mut self, test: &Test) -> Said {
        let own = if self.family == Family::V4 { 1 } else { 58 };
        if !self.protocols.within(&[own]) {
            return Err("tests the ICMP type without a test of the protocol".into());
        }
        let With::Spans(spans) = &test.with else { return unusual(test) };
        let (kind, codes) = match (spans[..].first(), spans.len(), test.load) {
            (Some(&(0, 0xff)), 1, Load::IcmpType) if own == 1 => (255, (0, 255)),
            (Some(&(lo, hi)), 1, Load::IcmpType) if lo == hi => (lo, (0, 255)),
            (Some(&(lo, hi)), 1, _) if lo >> 8 == hi >> 8 => (lo >> 8, (lo & 0xff, hi & 0xff)),
            _ => return unusual(test),
        };
        // Type 255 of iptables is any type.
        if own == 1 && kind == 255 && spans[0].0 != 0 {
            return unusual(test);
        }
        let value = IcmpType { kind: kind as u8, codes: (codes.0 as u8, codes.1 as u8) };
        self.matches.push(Match::Icmp(Neg { negated: test.negated, value }));
        Ok(())
    }

    /// Tests of a few named values.
    fn word(&mut self, test: &Test) -> Said {
        let negated = test.negated;
        let m = match (&test.with, test.load) {
            (With::AnyBit(bits), Load::CtState) => {
                Match::State(Neg { negated, value: states(*bits) })
            }
            // Without an entry nft's test stops the rule, negated or not; iptables' does not.
            (With::AnyBit(bits), Load::CtStatus) if !negated => {
                let bit = |b: u32, o: u16| if *bits & u128::from(b) != 0 { o } else { 0 };
                let value = bit(ct_status::SNAT, old::SNAT) | bit(ct_status::DNAT, old::DNAT);
                Match::State(Neg { negated, value })
            }
            (_, Load::EtherSaddr) => {
                let Some(mac) = one(test) else { return unusual(test) };
                let bytes = mac.to_be_bytes();
                let value = [bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]];
                Match::Mac(Neg { negated, value })
            }
            (_, Load::PktType) => {
                let value = match one(test) {
                    Some(0) => PktType::Unicast,
                    Some(1) => PktType::Broadcast,
                    Some(2) => PktType::Multicast,
                    _ => return unusual(test),
                };
                Match::PktType(Neg { negated, value })
            }
            _ => return unusual(test),
        };
        self.matches.push(m);
        Ok(())
    }

    fn mark(&mut self, test: &Test) -> Said {
        let (mask, wanted, negated) = match &test.with {
            With::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            With::AnyBit(bits) => (*bits, 0, !test.negated),
            With::Spans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (u128::from(u32::MAX), lo, test.negated),
                _ => return unusual(test),
            },
            With::Device { .. } => return unusual(test),
        };
        let value = Masked { value: wanted as u32, mask: mask as u32 };
        let tested = Neg { negated, value };
        let is_mark = test.load == Load::Mark;
        self.matches.push(if is_mark { Match::Mark(tested) } else { Match::ConnMark(tested) });
        Ok(())
    }

    fn span(&mut self, test: &Test) -> Said {
        let With::Spans(spans) = &test.with else { return unusual(test) };
        let &[(lo, hi)] = &spans[..] else { return unusual(test) };
        if test.load == Load::Length {
            if hi > 0xffff {
                return unusual(test);
            }
            let value = (lo as u16, hi as u16);
            self.matches.push(Match::Length(Neg { negated: test.negated, value }));
            return Ok(());
        }
        let (op, value) = match (lo, hi, test.negated) {
            (lo, hi, false) if lo == hi => (TtlOp::Eq, lo),
            (lo, hi, true) if lo == hi => (TtlOp::Ne, lo),
            (0, hi, false) if hi < 255 => (TtlOp::Lt, hi + 1),
            (0, hi, true) => (TtlOp::Gt, hi),
            (lo, 255, false) if lo > 0 => (TtlOp::Gt, lo - 1),
            (lo, 255, true) => (TtlOp::Lt, lo),
            _ => return unusual(test),
        };
        self.matches.push(Match::Ttl { op, value: value as u8 });
        Ok(())
    }

    fn tos(&mut self, test: &Test) -> Said {
        let (mask, wanted, negated) = match &test.with {
            With::Masked { mask, wanted } => (*mask, *wanted, test.negated),
            With::AnyBit(bits) => (*bits, 0, !test.negated),
            With::Spans(spans) => match spans[..] {
                [(lo, hi)] if lo == hi => (0xff, lo, test.negated),
                _ => return unusual(test),
            },
            With::Device { .. } => return unusual(test),
        };
        self.matches.push(Match::Tos(Neg { negated, value: (wanted as u8, mask as u8) }));
        Ok(())
    }
}

fn put<T: PartialEq>(slot: &mut Option<T>, new: T, what: &str) -> Said {
    match slot {
        Some(old) if *old != new => Err(format!("tests {what} twice")),
        _ => {
            *slot = Some(new);
            Ok(())
        }
    }
}

fn unusual<T>(test: &Test) -> Result<T, String> {
    Err(format!("iptables has no such test: {test:?}"))
}

/// The only value that a test is about.
fn one(test: &Test) -> Option<u128> {
    match &test.with {
        With::Spans(spans) => match spans[..] {
            [(lo, hi)] if lo == hi => Some(lo),
            _ => None,
        },
        _ => None,
    }
}

/// Bits of `ct state` as bits of `--ctstate`.
fn states(bits: u128) -> u16 {
    let pairs = [
        (ct_state::INVALID, old::INVALID),
        (ct_state::ESTABLISHED, old::ESTABLISHED),
        (ct_state::RELATED, old::RELATED),
        (ct_state::NEW, old::NEW),
        (ct_state::UNTRACKED, old::UNTRACKED),
    ];
    pairs.iter().filter(|(new, _)| bits & u128::from(*new) != 0).map(|(_, old)| old).sum()
}
