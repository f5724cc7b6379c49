//! The packets of a measurement, each with its expected verdict.
//!
//! A firewall's cost depends on where its packets are decided: at the first rule, at the last one,
//! nowhere. Every generated packet was evaluated by the interpreter and is decided where its
//! pattern requires; others are discarded.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use weir_model::{
    Addr, ElementPart, Family, Field, Firewall, IpSet, Packet, Predicate, RuleIndex, TableName,
    Test, tests_of,
};
use weir_packet::Transport;
use weir_random::Rng;
use weir_semantics::{AlwaysFalse, Counted, Entry, Interpreter, Outcome, Verdict};

use crate::constraints::{Defaults, PacketConstraints};
use crate::paths::{Paths, Reached};
use crate::random::{self, routable};

/// Which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// They match the last rule: the last deciding rule of the built-in filter chain, or its
    /// policy.
    AllMatchAtEnd,
    /// They match the rules, each as often as another.
    Uniform,
    /// They match the rules by Zipf's law, the first rank as often as two of the second.
    Zipf,
    /// Their addresses are from the same /16 (IPv6: /48) as addresses of the rules, but no rule
    /// and no set lists them.
    Miss,
    /// Their addresses are far from all addresses of the rules: not even in the same /8 (IPv6:
    /// /32) as one of them, where one is left.
    Far,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 5] =
        [Pattern::AllMatchAtEnd, Pattern::Uniform, Pattern::Zipf, Pattern::Miss, Pattern::Far];

    /// The pattern's name, as on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Pattern::AllMatchAtEnd => "all-match-at-end",
            Pattern::Uniform => "uniform",
            Pattern::Zipf => "zipf",
            Pattern::Miss => "miss",
            Pattern::Far => "far",
        }
    }
}

/// What packets are wanted.
#[derive(Clone, Debug)]
pub struct PatternOptions {
    /// Which.
    pub pattern: Pattern,
    /// Family of the packets.
    pub family: Family,
    /// Seed: the same seed, the same packets.
    pub seed: u64,
    /// How many packets at most.
    pub count: usize,
    /// Which way they go.
    pub entry: Entry,
    /// Input and output device of every packet, where the topology settles them; otherwise the
    /// rules do.
    pub devices: Option<(String, String)>,
    /// Protocol of packets whose rule names none: 6 or 17.
    pub proto: u8,
}

impl Default for PatternOptions {
    fn default() -> Self {
        PatternOptions {
            pattern: Pattern::Miss,
            family: Family::V4,
            seed: 1,
            count: 4096,
            entry: Entry::Forward,
            devices: None,
            proto: 17,
        }
    }
}

/// The packets of a pattern with their expected verdicts; fewer than `options.count` if the ruleset
/// does not have as many, none if it does not have the pattern at all.
pub fn patterns(firewall: &Firewall, options: &PatternOptions) -> Vec<(Packet, Verdict)> {
    let Some(ruleset) = firewall.ruleset(options.family) else { return Vec::new() };
    let sets: HashMap<&str, &IpSet> = firewall.sets.iter().map(|s| (&*s.name, s)).collect();
    let mut defaults = random::defaults(ruleset, 1500);
    if let Some((iif, oif)) = &options.devices {
        (defaults.iif, defaults.oif) = (iif.clone(), oif.clone());
    }
    let mut maker = PatternMaker {
        options,
        sets: &sets,
        defaults,
        interpreter: Interpreter::new(firewall),
        listed: Listed::new(firewall, options.family),
        seen: HashSet::new(),
        out: Vec::new(),
        rng: Rng::new(options.seed),
    };
    let paths = Paths::new(ruleset, options.entry);
    match options.pattern {
        Pattern::AllMatchAtEnd => maker.at_end(&paths),
        Pattern::Uniform => maker.by_rank(&paths, |_| 1.0),
        Pattern::Zipf => maker.by_rank(&paths, |rank| 1.0 / rank as f64),
        Pattern::Miss => maker.aside(true),
        Pattern::Far => maker.aside(false),
    }
    maker.out
}

/// Tries for each packet wanted, after which a pattern is taken as exhausted.
const TRIES: usize = 32;

struct PatternMaker<'a> {
    options: &'a PatternOptions,
    sets: &'a HashMap<&'a str, &'a IpSet>,
    defaults: Defaults,
    interpreter: Interpreter<'a>,
    listed: Listed,
    seen: HashSet<Packet>,
    out: Vec<(Packet, Verdict)>,
    rng: Rng,
}

impl<'a> PatternMaker<'a> {
    fn full(&self) -> bool {
        self.out.len() >= self.options.count
    }

    fn send(&self, packet: &Packet) -> Outcome<'a> {
        self.interpreter.journey(packet, self.options.entry, &mut AlwaysFalse)
    }

    fn keep(&mut self, packet: Packet, verdict: Verdict) {
        if self.seen.insert(packet.clone()) {
            self.out.push((packet, verdict));
        }
    }

    /// Packets that satisfy rules, picked by weight; a rule that none of its packets reaches is
    /// omitted after a few tries.
    fn by_rank(&mut self, paths: &Paths<'_>, weight: impl Fn(usize) -> f64) {
        let mut rules: Vec<&Reached<'_>> =
            paths.rules.iter().filter(|r| r.rule.target.decides()).collect();
        self.rng.shuffle(&mut rules);
        let mut sums = Vec::with_capacity(rules.len());
        let mut sum = 0.0;
        for rank in 1..=rules.len() {
            sum += weight(rank);
            sums.push(sum);
        }
        for _ in 0..self.options.count * TRIES {
            if self.full() || rules.is_empty() {
                return;
            }
            let at = self.rng.bits() as f64 / u64::MAX as f64 * sum;
            let reached = rules[sums.partition_point(|s| *s < at).min(rules.len() - 1)];
            let Some(packet) = self.satisfy(paths, reached) else { continue };
            let outcome = self.send(&packet);
            if hits(&outcome, &reached.rule.credit) {
                let verdict = outcome.verdict;
                self.keep(packet, verdict);
            }
        }
    }

    /// A packet that satisfies a rule; what the rule leaves open is random.
    fn satisfy(&mut self, paths: &Paths<'_>, reached: &Reached<'_>) -> Option<Packet> {
        let hook = paths.walks[reached.walk].hook;
        let mut constraints = self.constraints();
        let way = paths.way(reached, &mut self.rng);
        for rule in way.into_iter().chain([reached.rule]) {
            if !constraints.rule(rule, hook, self.sets, &mut self.rng) {
                return None;
            }
        }
        let mut packet = constraints.packet(&self.defaults, &mut self.rng)?;
        self.vary(&mut packet, &constraints);
        Some(packet)
    }

    fn constraints(&self) -> PacketConstraints {
        let mut constraints = PacketConstraints::new(self.options.family, self.options.entry);
        constraints.prefer_proto(self.options.proto);
        if let Some((iif, oif)) = &self.options.devices {
            constraints.set_device(Field::Iif, iif);
            constraints.set_device(Field::Oif, oif);
        }
        constraints
    }

    /// Makes packets of one rule differ: a source port, where the rule leaves it open.
    fn vary(&mut self, packet: &mut Packet, constraints: &PacketConstraints) {
        if constraints.leaves_open(Field::Sport) {
            let sport = 1024 + self.rng.below(60_000) as u16;
            set_sport(packet, sport);
        }
    }

    /// Packets that the last rule of the built-in filter chain takes, or else its policy.
    fn at_end(&mut self, paths: &Paths<'_>) {
        let filter = |w: usize| paths.walks[w].table == TableName::Filter;
        let last = paths.rules.iter().rfind(|r| {
            let base = paths.rules.iter().find(|b| b.walk == r.walk).map(|b| b.chain);
            filter(r.walk) && Some(r.chain) == base && r.rule.target.decides()
        });
        for _ in 0..self.options.count * TRIES {
            if self.full() {
                return;
            }
            let packet = match last {
                Some(reached) => self.satisfy(paths, reached),
                None => self.constraints().packet(&self.defaults, &mut self.rng),
            };
            let Some(mut packet) = packet else { continue };
            if last.is_none() {
                (packet.saddr, packet.daddr) = self.apart(false);
            }
            let outcome = self.send(&packet);
            let ends = match last {
                Some(reached) => hits(&outcome, &reached.rule.credit),
                None => ends_in_policy(&outcome),
            };
            if ends {
                let verdict = outcome.verdict;
                self.keep(packet, verdict);
            }
        }
    }

    /// Packets whose addresses no rule lists.
    fn aside(&mut self, near: bool) {
        for _ in 0..self.options.count * TRIES {
            if self.full() {
                return;
            }
            let Some(mut packet) = self.constraints().packet(&self.defaults, &mut self.rng) else {
                return;
            };
            (packet.saddr, packet.daddr) = self.apart(near);
            if [packet.saddr, packet.daddr].iter().any(|a| self.listed.holds(a.0)) {
                continue;
            }
            let sport = 1024 + self.rng.below(60_000) as u16;
            set_sport(&mut packet, sport);
            let verdict = self.send(&packet).verdict;
            self.keep(packet, verdict);
        }
    }

    /// Source and destination: near or far from what the rules list.
    fn apart(&mut self, near: bool) -> (Addr, Addr) {
        let family = self.options.family;
        let wide = if family == Family::V4 { 16 } else { 48 };
        let mut one = |nets: &[u128], far: &HashSet<u128>| {
            if near {
                let random = self.rng.wide() & family.max() & !family.mask(wide);
                if let Some(net) = self.rng.choose(nets) {
                    return Addr(net | random);
                }
            }
            let top = if family == Family::V4 { 8 } else { 32 };
            let mut addr = routable(family, &mut self.rng);
            for _ in 0..64 {
                if !far.contains(&(addr & family.mask(top))) {
                    break;
                }
                addr = routable(family, &mut self.rng);
            }
            Addr(addr)
        };
        let Listed { sources, destinations, tops, .. } = &self.listed;
        (one(sources, tops), one(destinations, tops))
    }
}

fn set_sport(packet: &mut Packet, port: u16) {
    if let Transport::Tcp { sport, .. }
    | Transport::Udp { sport, .. }
    | Transport::Sctp { sport, .. }
    | Transport::Dccp { sport, .. } = &mut packet.transport
    {
        *sport = port;
    }
}

fn hits(outcome: &Outcome<'_>, credit: &[RuleIndex]) -> bool {
    !credit.is_empty() && outcome.hits.iter().any(|h| h.credit.first() == credit.first())
}

fn ends_in_policy(outcome: &Outcome<'_>) -> bool {
    let filter = |c: &Counted<'_>| matches!(c, Counted::Policy { table: TableName::Filter, .. });
    outcome.hits.iter().any(|h| filter(&h.counted))
}

/// The addresses that rules and sets list, as networks.
struct Listed {
    family: Family,
    /// Networks by mask; a mask wider than /8 lists too much to be avoided.
    nets: HashMap<u128, HashSet<u128>>,
    spans: Vec<(u128, u128)>,
    /// /16s (IPv6: /48s) of listed sources and destinations.
    sources: Vec<u128>,
    destinations: Vec<u128>,
    /// /8s (IPv6: /32s) of all.
    tops: HashSet<u128>,
}

impl Listed {
    fn new(firewall: &Firewall, family: Family) -> Self {
        let mut listed = Listed {
            family,
            nets: HashMap::new(),
            spans: Vec::new(),
            sources: Vec::new(),
            destinations: Vec::new(),
            tops: HashSet::new(),
        };
        let rules = firewall.ruleset(family).into_iter().flat_map(|r| r.rules());
        for (_, _, rule) in rules {
            for test in tests_of(rule, family) {
                if let Test::Field {
                    field: field @ (Field::Saddr | Field::Daddr),
                    predicate,
                    negated: false,
                } = test
                {
                    listed.note(&predicate, field == Field::Saddr, field == Field::Daddr);
                }
            }
        }
        let sets = firewall.sets.iter().filter(|s| s.family == Some(family));
        for part in sets.flat_map(|s| &s.elements).flat_map(|e| &e.parts) {
            if let ElementPart::Net { addr, len } = part {
                let mask = family.mask((*len).into());
                let predicate = Predicate::Masked { value: addr.0 & mask, mask };
                listed.note(&predicate, true, true);
            }
        }
        for nets in [&mut listed.sources, &mut listed.destinations] {
            nets.sort_unstable();
            nets.dedup();
        }
        listed
    }

    fn note(&mut self, predicate: &Predicate, source: bool, destination: bool) {
        let (wide, top) = if self.family == Family::V4 { (16, 8) } else { (48, 32) };
        let value = match predicate {
            Predicate::Masked { value, mask } if mask.count_ones() >= top => {
                self.nets.entry(*mask).or_default().insert(*value);
                *value
            }
            Predicate::In(spans) if !spans.is_empty() => {
                self.spans.extend(spans);
                spans[0].0
            }
            _ => return,
        };
        let net = value & self.family.mask(wide);
        if source {
            self.sources.push(net);
        }
        if destination {
            self.destinations.push(net);
        }
        self.tops.insert(value & self.family.mask(top));
    }

    fn holds(&self, addr: u128) -> bool {
        // A network as wide as the /16 itself would leave no neighbour.
        let wide = if self.family == Family::V4 { 16 } else { 48 };
        self.nets
            .iter()
            .filter(|(mask, _)| mask.count_ones() > wide)
            .any(|(mask, nets)| nets.contains(&(addr & mask)))
            || self.spans.iter().any(|(lo, hi)| *lo <= addr && addr <= *hi)
    }
}
