//! The packets of a measurement, each with its expected verdict.
//!
//! A firewall's cost depends on where its packets are decided: at the first rule, at the last one,
//! nowhere. Every generated packet was evaluated by the interpreter and is decided where its
//! pattern requires; others are discarded.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use weir_model::{
    Addr, ElementPart, Family, Field, Firewall, IpSet, OriginalRuleIndex, Packet, Predicate,
    TableName, Test, lower_to_tests,
};
use weir_packet::Transport;
use weir_random::Rng;
use weir_semantics::{
    AlwaysFalseOracle, CountedObject, Interpreter, JourneyKind, Outcome, Verdict,
};

use crate::packet_constraints::{DefaultDevicesAndMaxBytes, PacketConstraints};
use crate::random_packets::{self, random_routable_addr};
use crate::rule_paths::{ReachableRule, RulePaths};

/// Which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficPattern {
    /// They match the last rule: the last deciding rule of the built-in filter chain, or its
    /// policy.
    AllMatchAtEnd,
    /// They match the rules, each as often as another.
    Uniform,
    /// They match the rules by Zipf's law, the first rank as often as two of the second.
    Zipf,
    /// Their addresses are from the same /16 (IPv6: /48) as addresses of the rules, but no rule
    /// and no set lists them.
    #[serde(rename = "miss")]
    NearMiss,
    /// Their addresses are far from all addresses of the rules: not even in the same /8 (IPv6:
    /// /32) as one of them, where one is left.
    Far,
}

impl TrafficPattern {
    /// All patterns.
    pub const ALL: [TrafficPattern; 5] = [
        TrafficPattern::AllMatchAtEnd,
        TrafficPattern::Uniform,
        TrafficPattern::Zipf,
        TrafficPattern::NearMiss,
        TrafficPattern::Far,
    ];

    /// The pattern's name, as on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            TrafficPattern::AllMatchAtEnd => "all-match-at-end",
            TrafficPattern::Uniform => "uniform",
            TrafficPattern::Zipf => "zipf",
            TrafficPattern::NearMiss => "miss",
            TrafficPattern::Far => "far",
        }
    }
}

/// What packets are wanted.
#[derive(Clone, Debug)]
pub struct PacketPatternOptions {
    /// Which.
    pub pattern: TrafficPattern,
    /// Family of the packets.
    pub family: Family,
    /// Seed: the same seed, the same packets.
    pub seed: u64,
    /// How many packets at most.
    pub max_packets: usize,
    /// Which way they go.
    pub journey_kind: JourneyKind,
    /// Input and output device of every packet, where the topology settles them; otherwise the
    /// rules do.
    pub fixed_devices: Option<(String, String)>,
    /// Protocol of packets whose rule names none: 6 or 17.
    pub default_proto: u8,
    /// Whether packets that the ruleset does not accept are excluded.
    pub only_accepted: bool,
}

impl Default for PacketPatternOptions {
    fn default() -> Self {
        PacketPatternOptions {
            pattern: TrafficPattern::NearMiss,
            family: Family::V4,
            seed: 1,
            max_packets: 4096,
            journey_kind: JourneyKind::Forward,
            fixed_devices: None,
            default_proto: 17,
            only_accepted: false,
        }
    }
}

/// Why a ruleset has no packets of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternPacketGenerationError {
    /// The rules of the built-in filter chain only jump: none decides, and packets that reach the
    /// policy have matched no rule.
    #[error(
        "the rules of `{chain}` only jump, so no packet is decided by its last rule; `uniform` \
         generates packets that match the rules of its chains"
    )]
    OnlyJumps {
        /// That chain.
        chain: String,
    },
    /// No packet is decided where the pattern requires.
    #[error("{tries} packets were tried, and none of them {requirement}")]
    NoPacketFound {
        /// Number of packets tried.
        tries: usize,
        /// What the pattern requires: `is decided by the last rule of FORWARD`.
        requirement: String,
    },
    /// The ruleset has no rule that accepts or drops.
    #[error("the ruleset has no rule that accepts or drops: `uniform` and `zipf` need one")]
    NoDecidingRule,
    /// There is no listed address to which packets could be near.
    #[error("no rule and no set lists an address or a network of at least /8 (IPv6: /32)")]
    NoListedAddress,
    /// Rules list addresses in every network.
    #[error("rules list addresses in every /8 (IPv6: /32): no address is far from all of them")]
    NoFarAddress,
}

/// A packet of a pattern, with what decides it.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternPacket {
    /// The packet.
    pub packet: Packet,
    /// Its verdict.
    pub verdict: Verdict,
    /// The counter that it hit last.
    pub decided_by: Option<DecidingFilterRuleOrPolicy>,
    /// Number of rules whose evaluation was begun.
    pub rules_tried: u32,
}

impl PatternPacket {
    /// A packet with the result of its evaluation.
    pub fn from_outcome(packet: Packet, outcome: &Outcome<'_>) -> PatternPacket {
        PatternPacket {
            packet,
            verdict: outcome.verdict,
            decided_by: find_last_filter_counter(outcome),
            rules_tried: outcome.rules_tried,
        }
    }
}

/// Where a packet is decided: the last counter that it hits in the filter table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecidingFilterRuleOrPolicy {
    /// The chain.
    pub chain: String,
    /// The number of the rule in it, from 1; `None` for the policy of a built-in chain.
    pub rule: Option<u32>,
    /// Whether the chain is one that users create, which packets reach by a jump.
    pub is_user_chain: bool,
}

/// The packets of a pattern with their expected verdicts; fewer than `options.max_packets` if the
/// ruleset does not have as many, none if it has no rules of the family.
///
/// # Errors
/// If the ruleset does not have the pattern; no other packets are generated instead.
pub fn generate_pattern_packets(
    firewall: &Firewall,
    options: &PacketPatternOptions,
) -> Result<Vec<PatternPacket>, PatternPacketGenerationError> {
    let Some(ruleset) = firewall.ruleset(options.family) else { return Ok(Vec::new()) };
    let sets: HashMap<&str, &IpSet> = firewall.sets.iter().map(|s| (&*s.name, s)).collect();
    let mut packet_defaults = random_packets::choose_most_named_devices(ruleset, 1500);
    if let Some((iif, oif)) = &options.fixed_devices {
        (packet_defaults.iif, packet_defaults.oif) = (iif.clone(), oif.clone());
    }
    let mut maker = PatternPacketMaker {
        options,
        sets_by_name: &sets,
        packet_defaults,
        interpreter: Interpreter::new(firewall),
        listed_addrs: ListedAddrs::new(firewall, options.family),
        seen_packets: HashSet::new(),
        generated_packets: Vec::new(),
        rng: Rng::new(options.seed),
    };
    let paths = RulePaths::new(ruleset, options.journey_kind);
    match options.pattern {
        TrafficPattern::AllMatchAtEnd => maker.generate_last_rule_or_policy_packets(&paths)?,
        TrafficPattern::Uniform => {
            maker.generate_packets_weighted_by_random_rank(&paths, |_| 1.0)?;
        }
        TrafficPattern::Zipf => {
            maker.generate_packets_weighted_by_random_rank(&paths, |rank| 1.0 / rank as f64)?;
        }
        TrafficPattern::NearMiss => maker.generate_unlisted_addr_packets(true)?,
        TrafficPattern::Far => maker.generate_unlisted_addr_packets(false)?,
    }
    if maker.generated_packets.is_empty() && options.max_packets > 0 {
        return Err(PatternPacketGenerationError::NoPacketFound {
            tries: options.max_packets * TRIES_PER_PACKET,
            requirement: format!("fits the pattern `{}`", options.pattern.as_str()),
        });
    }
    Ok(maker.generated_packets)
}

/// Tries for each packet wanted, after which a pattern is taken as exhausted.
const TRIES_PER_PACKET: usize = 32;

/// Number of random addresses tried to find one outside all listed networks.
const FAR_ADDRESS_TRIES: usize = 4096;

struct PatternPacketMaker<'a> {
    options: &'a PacketPatternOptions,
    sets_by_name: &'a HashMap<&'a str, &'a IpSet>,
    packet_defaults: DefaultDevicesAndMaxBytes,
    interpreter: Interpreter<'a>,
    listed_addrs: ListedAddrs,
    seen_packets: HashSet<Packet>,
    generated_packets: Vec<PatternPacket>,
    rng: Rng,
}

impl<'a> PatternPacketMaker<'a> {
    fn has_enough_packets(&self) -> bool {
        self.generated_packets.len() >= self.options.max_packets
    }

    fn evaluate_packet(&self, packet: &Packet) -> Outcome<'a> {
        self.interpreter.evaluate_journey(packet, self.options.journey_kind, &mut AlwaysFalseOracle)
    }

    fn push_unseen_wanted_packet(&mut self, packet: Packet, outcome: &Outcome<'_>) {
        if self.options.only_accepted && outcome.verdict != Verdict::Accept {
            return;
        }
        if self.seen_packets.insert(packet.clone()) {
            self.generated_packets.push(PatternPacket::from_outcome(packet, outcome));
        }
    }

    /// Packets that satisfy rules, picked by weight; a rule that none of its packets reaches is
    /// omitted after a few tries.
    fn generate_packets_weighted_by_random_rank(
        &mut self,
        paths: &RulePaths<'_>,
        weight: impl Fn(usize) -> f64,
    ) -> Result<(), PatternPacketGenerationError> {
        let mut rules: Vec<&ReachableRule<'_>> =
            paths.rules.iter().filter(|r| r.rule.target.is_terminating()).collect();
        if rules.is_empty() {
            return Err(PatternPacketGenerationError::NoDecidingRule);
        }
        self.rng.shuffle(&mut rules);
        let mut sums = Vec::with_capacity(rules.len());
        let mut sum = 0.0;
        for rank in 1..=rules.len() {
            sum += weight(rank);
            sums.push(sum);
        }
        for _ in 0..self.options.max_packets * TRIES_PER_PACKET {
            if self.has_enough_packets() {
                break;
            }
            let at = self.rng.next_u64() as f64 / u64::MAX as f64 * sum;
            let reached = rules[sums.partition_point(|s| *s < at).min(rules.len() - 1)];
            let Some(packet) = self.build_unconfirmed_rule_packet(paths, reached) else { continue };
            let outcome = self.evaluate_packet(&packet);
            if hits_credited_rule(&outcome, &reached.rule.credited_originals) {
                self.push_unseen_wanted_packet(packet, &outcome);
            }
        }
        Ok(())
    }

    /// A packet that satisfies a rule; what the rule leaves open is random.
    fn build_unconfirmed_rule_packet(
        &mut self,
        paths: &RulePaths<'_>,
        reached: &ReachableRule<'_>,
    ) -> Option<Packet> {
        let hook = paths.table_hook_paths[reached.table_hook_index].hook;
        let mut constraints = self.fixed_device_and_proto_constraints();
        let way = paths.pick_jump_path_nearest_first(reached, &mut self.rng);
        for rule in way.into_iter().chain([reached.rule]) {
            if !constraints.require_lowered_tests_of_rule(
                rule,
                hook,
                self.sets_by_name,
                &mut self.rng,
            ) {
                return None;
            }
        }
        let mut packet = constraints.build_packet(&self.packet_defaults, &mut self.rng)?;
        self.randomize_sport(&mut packet, &constraints);
        Some(packet)
    }

    fn fixed_device_and_proto_constraints(&self) -> PacketConstraints {
        let mut constraints =
            PacketConstraints::new(self.options.family, self.options.journey_kind);
        constraints.prefer_proto(self.options.default_proto);
        if let Some((iif, oif)) = &self.options.fixed_devices {
            constraints.force_device(Field::Iif, iif);
            constraints.force_device(Field::Oif, oif);
        }
        constraints
    }

    /// Makes packets of one rule differ: a source port, where the rule leaves it open.
    fn randomize_sport(&mut self, packet: &mut Packet, constraints: &PacketConstraints) {
        if constraints.has_no_test_or_forced_value(Field::Sport) {
            let sport = 1024 + self.rng.below(60_000) as u16;
            set_sport(packet, sport);
        }
    }

    /// Packets that the last rule of the built-in filter chain takes, or else its policy.
    fn generate_last_rule_or_policy_packets(
        &mut self,
        paths: &RulePaths<'_>,
    ) -> Result<(), PatternPacketGenerationError> {
        let filter = |w: usize| paths.table_hook_paths[w].table == TableName::Filter;
        let last = paths.rules.iter().rfind(|r| {
            let base = paths
                .rules
                .iter()
                .find(|b| b.table_hook_index == r.table_hook_index)
                .map(|b| b.chain_index);
            filter(r.table_hook_index)
                && Some(r.chain_index) == base
                && r.rule.target.is_terminating()
        });
        let decides_in_filter =
            |r: &ReachableRule<'_>| filter(r.table_hook_index) && r.rule.target.is_terminating();
        if last.is_none() && paths.rules.iter().any(decides_in_filter) {
            let chain = match self.options.journey_kind {
                JourneyKind::Forward => "FORWARD",
                JourneyKind::Input => "INPUT",
                JourneyKind::Output => "OUTPUT",
            };
            return Err(PatternPacketGenerationError::OnlyJumps { chain: chain.to_owned() });
        }
        for _ in 0..self.options.max_packets * TRIES_PER_PACKET {
            if self.has_enough_packets() {
                break;
            }
            let packet = match last {
                Some(reached) => self.build_unconfirmed_rule_packet(paths, reached),
                None => self
                    .fixed_device_and_proto_constraints()
                    .build_packet(&self.packet_defaults, &mut self.rng),
            };
            let Some(mut packet) = packet else { continue };
            if last.is_none() {
                (packet.saddr, packet.daddr) = self.pick_near_or_far_addrs(false)?;
            }
            let outcome = self.evaluate_packet(&packet);
            let ends = match last {
                Some(reached) => hits_credited_rule(&outcome, &reached.rule.credited_originals),
                None => ends_in_filter_policy(&outcome),
            };
            if ends {
                self.push_unseen_wanted_packet(packet, &outcome);
            }
        }
        Ok(())
    }

    /// Packets whose addresses no rule lists.
    fn generate_unlisted_addr_packets(
        &mut self,
        near: bool,
    ) -> Result<(), PatternPacketGenerationError> {
        let ListedAddrs { source_slash16_or_48_nets, destination_slash16_or_48_nets, .. } =
            &self.listed_addrs;
        if near && source_slash16_or_48_nets.is_empty() && destination_slash16_or_48_nets.is_empty()
        {
            return Err(PatternPacketGenerationError::NoListedAddress);
        }
        for _ in 0..self.options.max_packets * TRIES_PER_PACKET {
            if self.has_enough_packets() {
                break;
            }
            let Some(mut packet) = self
                .fixed_device_and_proto_constraints()
                .build_packet(&self.packet_defaults, &mut self.rng)
            else {
                break;
            };
            (packet.saddr, packet.daddr) = self.pick_near_or_far_addrs(near)?;
            if [packet.saddr, packet.daddr]
                .iter()
                .any(|a| self.listed_addrs.has_addr_in_narrow_net(a.0))
            {
                continue;
            }
            let sport = 1024 + self.rng.below(60_000) as u16;
            set_sport(&mut packet, sport);
            let outcome = self.evaluate_packet(&packet);
            self.push_unseen_wanted_packet(packet, &outcome);
        }
        Ok(())
    }

    /// Source and destination: near or far from what the rules list.
    fn pick_near_or_far_addrs(
        &mut self,
        near: bool,
    ) -> Result<(Addr, Addr), PatternPacketGenerationError> {
        let family = self.options.family;
        let wide = if family == Family::V4 { 16 } else { 48 };
        let mut one = |nets: &[u128], far: &HashSet<u128>| {
            if near {
                let random = self.rng.next_u128() & family.max_addr() & !family.netmask(wide);
                if let Some(net) = self.rng.pick_if_any(nets) {
                    return Ok(Addr(net | random));
                }
            }
            let top = if family == Family::V4 { 8 } else { 32 };
            for _ in 0..FAR_ADDRESS_TRIES {
                let addr = random_routable_addr(family, &mut self.rng);
                if !far.contains(&(addr & family.netmask(top))) {
                    return Ok(Addr(addr));
                }
            }
            // Of packets near to listed sources, no rule lists destinations, or the other way
            // round.
            if near {
                return Ok(Addr(random_routable_addr(family, &mut self.rng)));
            }
            Err(PatternPacketGenerationError::NoFarAddress)
        };
        let ListedAddrs {
            source_slash16_or_48_nets: sources,
            destination_slash16_or_48_nets: destinations,
            slash8_or_32_nets: tops,
            ..
        } = &self.listed_addrs;
        Ok((one(sources, tops)?, one(destinations, tops)?))
    }
}

fn set_sport(packet: &mut Packet, port: u16) {
    if let Transport::Tcp { sport, .. }
    | Transport::Udp { sport, .. }
    | Transport::Sctp { sport, .. }
    | Transport::DccpPorts { sport, .. } = &mut packet.transport
    {
        *sport = port;
    }
}

fn hits_credited_rule(outcome: &Outcome<'_>, credited_originals: &[OriginalRuleIndex]) -> bool {
    !credited_originals.is_empty()
        && outcome.hits.iter().any(|h| h.credited_originals.first() == credited_originals.first())
}

/// The last rule or policy of the filter table that counted the packet.
fn find_last_filter_counter(outcome: &Outcome<'_>) -> Option<DecidingFilterRuleOrPolicy> {
    outcome.hits.iter().rev().find_map(|hit| match hit.counted_object {
        CountedObject::Rule { table: TableName::Filter, chain, number } => {
            Some(DecidingFilterRuleOrPolicy {
                chain: chain.to_string(),
                rule: Some(number),
                is_user_chain: !BUILT_IN_FILTER_CHAINS.contains(&&**chain),
            })
        }
        CountedObject::Policy { table: TableName::Filter, chain } => {
            Some(DecidingFilterRuleOrPolicy {
                chain: chain.to_string(),
                rule: None,
                is_user_chain: false,
            })
        }
        CountedObject::Rule { .. }
        | CountedObject::Policy { .. }
        | CountedObject::IpsetElement { .. } => None,
    })
}

const BUILT_IN_FILTER_CHAINS: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];

fn ends_in_filter_policy(outcome: &Outcome<'_>) -> bool {
    let filter =
        |c: &CountedObject<'_>| matches!(c, CountedObject::Policy { table: TableName::Filter, .. });
    outcome.hits.iter().any(|h| filter(&h.counted_object))
}

/// The addresses that rules and sets list, as networks.
struct ListedAddrs {
    family: Family,
    /// Networks by mask; a mask wider than /8 lists too much to be avoided.
    nets_by_mask: HashMap<u128, HashSet<u128>>,
    addr_spans: Vec<(u128, u128)>,
    /// /16s (IPv6: /48s) of listed sources and destinations.
    source_slash16_or_48_nets: Vec<u128>,
    destination_slash16_or_48_nets: Vec<u128>,
    /// /8s (IPv6: /32s) of all.
    slash8_or_32_nets: HashSet<u128>,
}

impl ListedAddrs {
    fn new(firewall: &Firewall, family: Family) -> Self {
        let mut listed = ListedAddrs {
            family,
            nets_by_mask: HashMap::new(),
            addr_spans: Vec::new(),
            source_slash16_or_48_nets: Vec::new(),
            destination_slash16_or_48_nets: Vec::new(),
            slash8_or_32_nets: HashSet::new(),
        };
        let rules =
            firewall.ruleset(family).into_iter().flat_map(|r| r.rules_with_table_and_chain());
        for (_, _, rule) in rules {
            for test in lower_to_tests(rule, family) {
                if let Test::Field {
                    field: field @ (Field::Saddr | Field::Daddr),
                    predicate,
                    negated: false,
                } = test
                {
                    listed.add_predicate_addrs(
                        &predicate,
                        field == Field::Saddr,
                        field == Field::Daddr,
                    );
                }
            }
        }
        let sets = firewall.sets.iter().filter(|s| s.family == Some(family));
        for part in sets.flat_map(|s| s.elements.iter()).flat_map(|e| &e.parts) {
            if let ElementPart::AddrOrPrefix { addr, len } = part {
                let mask = family.netmask((*len).into());
                let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                listed.add_predicate_addrs(&predicate, true, true);
            }
        }
        for nets in
            [&mut listed.source_slash16_or_48_nets, &mut listed.destination_slash16_or_48_nets]
        {
            nets.sort_unstable();
            nets.dedup();
        }
        listed
    }

    fn add_predicate_addrs(&mut self, predicate: &Predicate, source: bool, destination: bool) {
        let (wide, top) = if self.family == Family::V4 { (16, 8) } else { (48, 32) };
        let value = match predicate {
            Predicate::Masked { value, mask } if mask.count_ones() >= top => {
                self.nets_by_mask.entry(*mask).or_default().insert(*value);
                *value
            }
            Predicate::InSpans(spans) if !spans.is_empty() => {
                self.addr_spans.extend(spans);
                spans[0].0
            }
            _ => return,
        };
        let net = value & self.family.netmask(wide);
        if source {
            self.source_slash16_or_48_nets.push(net);
        }
        if destination {
            self.destination_slash16_or_48_nets.push(net);
        }
        self.slash8_or_32_nets.insert(value & self.family.netmask(top));
    }

    fn has_addr_in_narrow_net(&self, addr: u128) -> bool {
        // A network as wide as the /16 itself would leave no neighbour.
        let wide = if self.family == Family::V4 { 16 } else { 48 };
        self.nets_by_mask
            .iter()
            .filter(|(mask, _)| mask.count_ones() > wide)
            .any(|(mask, nets)| nets.contains(&(addr & mask)))
            || self.addr_spans.iter().any(|(lo, hi)| *lo <= addr && addr <= *hi)
    }
}
