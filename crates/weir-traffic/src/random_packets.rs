//! Random packets, drawn mostly from the values that the rules name.

use std::collections::HashMap;

use weir_model::field::Layer;
use weir_model::{
    Addr, CtState, ElementPart, Family, Field, IpSet, Packet, Predicate, Ruleset, Test,
    lower_to_tests,
};
use weir_packet::{ConntrackInfo, FragmentPosition, Transport};
use weir_random::Rng;
use weir_semantics::JourneyKind;

use crate::packet_constraints::{DefaultDevicesAndMaxBytes, random_documentation_addr};
use crate::traffic_options::TrafficOptions;

/// Values that a pool keeps of each field; more would cost memory and bring nothing.
const MAX_VALUES_PER_FIELD: usize = 8192;

/// The values that a ruleset names, by field.
#[derive(Debug)]
pub(crate) struct RulesetValuePool {
    family: Family,
    /// Lowest and highest value of each test.
    value_spans: HashMap<Field, Vec<(u128, u128)>>,
    iifs: Vec<String>,
    oifs: Vec<String>,
}

impl RulesetValuePool {
    /// Collects the values of all rules and of the sets they name.
    pub fn new(ruleset: &Ruleset, sets: &[IpSet]) -> Self {
        let family = ruleset.family;
        let mut pool = RulesetValuePool {
            family,
            value_spans: HashMap::new(),
            iifs: Vec::new(),
            oifs: Vec::new(),
        };
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            for test in lower_to_tests(rule, family) {
                match test {
                    Test::Field { field, predicate, .. } => {
                        pool.add_predicate_values(field, &predicate)
                    }
                    Test::EitherPort { spans, .. } => {
                        pool.add_predicate_values(Field::Dport, &Predicate::InSpans(spans));
                    }
                    Test::Set { .. } | Test::Opaque { .. } | Test::Never => {}
                }
            }
        }
        for set in sets.iter().filter(|s| s.family.is_none_or(|f| f == family)) {
            // Of each further element, the values would not be kept.
            let kept = set.elements.iter().take(MAX_VALUES_PER_FIELD);
            for part in kept.flat_map(|e| &e.parts) {
                pool.add_element_part(part);
            }
        }
        for names in [&mut pool.iifs, &mut pool.oifs] {
            names.sort();
            names.dedup();
        }
        pool
    }

    /// Whether a rule names the device.
    pub fn is_device_named_by_rule(&self, device: &str) -> bool {
        self.iifs.iter().chain(&self.oifs).any(|n| n == device)
    }

    fn add_predicate_values(&mut self, field: Field, predicate: &Predicate) {
        let max = field.max_value(self.family);
        match predicate {
            Predicate::InSpans(spans) => {
                let kept = self.value_spans.entry(field).or_default();
                kept.extend(spans.iter().take(MAX_VALUES_PER_FIELD.saturating_sub(kept.len())));
            }
            Predicate::Masked { value, mask } => {
                let kept = self.value_spans.entry(field).or_default();
                if kept.len() < MAX_VALUES_PER_FIELD {
                    kept.push((*value, value | (!mask & max)));
                }
            }
            Predicate::Device { name, prefix } => {
                let names = if field == Field::Iif { &mut self.iifs } else { &mut self.oifs };
                if names.len() < MAX_VALUES_PER_FIELD {
                    names.push(if *prefix { format!("{name}0") } else { name.to_string() });
                }
            }
            Predicate::Present | Predicate::AnyBit(_) => {}
        }
    }

    fn add_element_part(&mut self, part: &ElementPart) {
        match part {
            ElementPart::AddrOrPrefix { addr, len } => {
                let mask = self.family.netmask((*len).into());
                let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                self.add_predicate_values(Field::Saddr, &predicate);
                self.add_predicate_values(Field::Daddr, &predicate);
            }
            ElementPart::ProtoAndPort { port_or_icmp_type_and_code: port, .. } => {
                let port = u128::from(*port);
                self.add_predicate_values(Field::Dport, &Predicate::InSpans(vec![(port, port)]));
            }
            _ => {}
        }
    }

    fn draw_value_near_rule_span(&self, field: Field, rng: &mut Rng) -> Option<u128> {
        let (lo, hi) = *rng.pick_if_any(self.value_spans.get(&field)?)?;
        let max = field.max_value(self.family);
        Some(match rng.below(8) {
            0 => lo,
            1 => hi,
            2 => lo.saturating_sub(1),
            3 => hi.saturating_add(1).min(max),
            // What was written backwards holds nothing; its ends are worth a try all the same.
            _ => rng.between(lo.min(hi), lo.max(hi)),
        })
    }

    /// A value of a field: three times in four one that the rules name.
    fn draw_rule_or_usual_value(&self, field: Field, usual: u128, rng: &mut Rng) -> u128 {
        match rng.below(4) {
            0 => usual,
            _ => self.draw_value_near_rule_span(field, rng).unwrap_or(usual),
        }
    }

    fn draw_device(&self, field: Field, usual: &str, rng: &mut Rng) -> String {
        let names = if field == Field::Iif { &self.iifs } else { &self.oifs };
        match rng.below(3) {
            0 => usual.to_owned(),
            _ => rng.pick_if_any(names).map_or(usual, |n| n).chars().take(15).collect(),
        }
    }

    fn draw_addr(&self, field: Field, rng: &mut Rng) -> Addr {
        if rng.one_in(16) {
            return Addr(random_routable_addr(self.family, rng));
        }
        // What one address is matched against often occurs as the other, too.
        let from = match (rng.below(8), field) {
            (0, Field::Saddr) => Field::Daddr,
            (0, _) => Field::Saddr,
            _ => field,
        };
        Addr(self.draw_rule_or_usual_value(
            from,
            random_documentation_addr(self.family, field == Field::Saddr, rng),
            rng,
        ))
    }

    /// A random packet.
    pub fn draw_packet(
        &self,
        options: &TrafficOptions,
        defaults: &DefaultDevicesAndMaxBytes,
        rng: &mut Rng,
    ) -> Packet {
        let icmp = if self.family == Family::V4 { 1 } else { 58 };
        let usual = [6, 6, 6, 17, 17, icmp, 132, 47][rng.below(8)];
        let proto = if rng.one_in(4) {
            self.draw_rule_or_usual_value(Field::Proto, usual, rng)
        } else {
            usual
        } as u8;
        let (saddr, daddr) = (self.draw_addr(Field::Saddr, rng), self.draw_addr(Field::Daddr, rng));
        let mut p = Packet::new(self.family, saddr, daddr, proto);
        if options.journey_kind != JourneyKind::Output {
            p.iif = self.draw_device(Field::Iif, &defaults.iif, rng);
            let mac = self.draw_rule_or_usual_value(Field::SourceMac, 0x0200_0000_0001, rng);
            p.smac = Some(std::array::from_fn(|i| (mac >> (40 - 8 * i)) as u8));
        }
        if options.journey_kind != JourneyKind::Input {
            p.oif = self.draw_device(Field::Oif, &defaults.oif, rng);
        }
        // Only what rules test is drawn: a new row of the table changes no packet of a seed.
        let is_tested = |field: &Field| self.value_spans.contains_key(field);
        for field in Field::freely_settable_number_fields().filter(is_tested) {
            // Few packets carry metadata.
            if field.row().layer == Layer::Meta && !rng.one_in(4) {
                continue;
            }
            let value = self.draw_rule_or_usual_value(
                field,
                field.row().ordinary_value_if_freely_settable.unwrap_or(0),
                rng,
            );
            // A router does not forward a packet with less.
            let least = if field == Field::Ttl { 2 } else { 0 };
            field.write_if_present(&mut p, value.max(least));
        }
        p.transport = self.draw_transport(proto, rng);
        p.payload = vec![0; rng.below(64)];
        if options.include_untested_ct_states {
            let states = [CtState::New, CtState::Established, CtState::Related, CtState::Invalid];
            p.ct = ConntrackInfo::from_state(if rng.one_in(2) {
                CtState::New
            } else {
                states[rng.below(4)]
            });
        }
        if options.include_fragments && rng.one_in(16) {
            self.make_first_or_later_fragment(&mut p, rng);
        }
        p
    }

    fn draw_transport(&self, proto: u8, rng: &mut Rng) -> Transport {
        let mut port = |field| {
            let any = u128::from(rng.next_u64() as u16);
            self.draw_rule_or_usual_value(field, any, rng) as u16
        };
        match proto {
            6 => {
                let (sport, dport) = (port(Field::Sport), port(Field::Dport));
                let flags = [2, 0x12, 0x10, 0x18, 0x11, 4, 0, 0x3f][rng.below(8)];
                Transport::Tcp { sport, dport, seq: 1, ack: 0, flags, options: Vec::new() }
            }
            17 | 136 => Transport::Udp { sport: port(Field::Sport), dport: port(Field::Dport) },
            132 => Transport::Sctp { sport: port(Field::Sport), dport: port(Field::Dport), tag: 0 },
            33 => Transport::DccpPorts { sport: port(Field::Sport), dport: port(Field::Dport) },
            1 | 58 => {
                let echo: u128 = if proto == 1 { 8 << 8 } else { 128 << 8 };
                let [kind, code] =
                    (self.draw_rule_or_usual_value(Field::IcmpTypeAndCode, echo, rng) as u16)
                        .to_be_bytes();
                Transport::Icmp { kind, code, rest: [0, 1, 0, 1] }
            }
            _ => Transport::NoParsedHeader,
        }
    }

    fn make_first_or_later_fragment(&self, p: &mut Packet, rng: &mut Rng) {
        if rng.one_in(2) {
            p.fragment = FragmentPosition { offset: 0, more_fragments: true };
            let short = (8 - (p.transport_header_bytes() + p.payload.len()) % 8) % 8;
            p.payload.resize(p.payload.len() + short, 0);
            return;
        }
        let offset = 2 + rng.below(180) as u16;
        p.fragment = FragmentPosition { offset, more_fragments: false };
        p.transport = Transport::NoParsedHeader;
        p.payload.resize(p.payload.len().max(8), 0);
    }
}

/// A random address that a router would forward: no network of its own meaning.
pub(crate) fn random_routable_addr(family: Family, rng: &mut Rng) -> u128 {
    match family {
        Family::V4 => loop {
            let addr = rng.next_u64() as u32;
            if !matches!(addr >> 24, 0 | 127 | 224..=255) && addr >> 16 != 0xa9fe {
                return addr.into();
            }
        },
        Family::V6 => 1 << 125 | rng.next_u128() >> 3,
    }
}

/// The devices that rules name most, for packets whose rule names none.
pub(crate) fn choose_most_named_devices(
    ruleset: &Ruleset,
    length_max: usize,
) -> DefaultDevicesAndMaxBytes {
    let most = |out: bool, usual: &str| {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, _, rule) in ruleset.rules_with_table_and_chain() {
            let device = if out { &rule.base.oif } else { &rule.base.iif };
            let device = device.as_ref().filter(|d| !d.is_prefix && !d.negated && &*d.name != "lo");
            if let Some(device) = device {
                *counts.entry(&device.name).or_default() += 1;
            }
        }
        let best = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)));
        best.map_or(usual.to_owned(), |(name, _)| name.to_owned())
    };
    let (iif, mut oif) = (most(false, "eth0"), most(true, "eth1"));
    if iif == oif {
        oif = if iif == "eth1" { "eth0" } else { "eth1" }.to_owned();
    }
    DefaultDevicesAndMaxBytes { iif, oif, packet_bytes_max: length_max }
}
