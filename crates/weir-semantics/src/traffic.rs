//! Packets for a ruleset: on and around every boundary of every rule, and random ones.
//!
//! A ruleset of 36,000 rules has millions of boundaries. [`packets`] goes round all reachable
//! rules, one packet a rule and round, so that a bounded count still meets every rule: first a
//! packet that satisfies the rule and the jumps that lead to it, then one change a round (a value
//! one below, on and one above each edge, a bit of a mask flipped, another protocol, another
//! conntrack state, fragments, cut headers). One packet in five is random, its fields drawn mostly
//! from the values that the rules name.
//!
//! [`patterns`] makes the packets of a measurement, each with the verdict that it meets.

mod dice;
mod paths;
pub mod pattern;
mod random;
mod reach;
mod variant;
mod wish;

use std::collections::{HashMap, HashSet};

use weir_model::{ChangingSets, Family, IpSet, Packet, Ruleset};

use self::dice::Dice;
use self::paths::{Paths, Reached};
pub use self::pattern::{Pattern, PatternOptions, patterns};
use self::random::Pool;
use self::reach::Reach;
use self::variant::{Allowed, variants};
use self::wish::{Defaults, Wish};
use crate::{Entry, Interpreter};

/// What packets are wanted.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Seed: the same seed, the same packets.
    pub seed: u64,
    /// How many packets at most.
    pub count: usize,
    /// Which way they go.
    pub entry: Entry,
    /// First and later fragments among them.
    pub fragments: bool,
    /// Cut transport headers among them.
    pub truncated: bool,
    /// Conntrack states other than the rules wish for among them.
    pub states: bool,
    /// Longest packet, in bytes from the network header on.
    pub length_max: usize,
}

impl Default for TrafficOptions {
    fn default() -> Self {
        TrafficOptions {
            seed: 1,
            count: 20_000,
            entry: Entry::Forward,
            fragments: true,
            truncated: true,
            states: true,
            length_max: 1500,
        }
    }
}

/// Packets for a ruleset, at most `options.count`, no two alike. `sets` are the sets that its
/// rules name, as far as they are known.
pub fn packets(ruleset: &Ruleset, sets: &[IpSet], options: &TrafficOptions) -> Vec<Packet> {
    let by_name: HashMap<&str, &IpSet> = sets.iter().map(|s| (&*s.name, s)).collect();
    let paths = Paths::new(ruleset, options.entry);
    let pool = Pool::new(ruleset, sets);
    let rulesets = match ruleset.family {
        Family::V4 => [Some(ruleset), None],
        Family::V6 => [None, Some(ruleset)],
    };
    let changing = ChangingSets::of_rulesets(rulesets.into_iter().flatten(), sets);
    let interpreter = Interpreter::of(rulesets, sets, &changing);
    let mut maker = Maker {
        reach: Reach::new(interpreter, |name| pool.names(name)),
        ruleset,
        options,
        sets: &by_name,
        pool,
        defaults: random::defaults(ruleset, options.length_max),
        seen: HashSet::new(),
        out: Vec::new(),
        dice: Dice::new(options.seed),
    };
    maker.rounds(&paths);
    maker.out
}

/// Rounds without a new packet after which the boundaries are taken as exhausted.
const IDLE_ROUNDS: usize = 3;

struct Maker<'a> {
    reach: Reach<'a>,
    ruleset: &'a Ruleset,
    options: &'a TrafficOptions,
    sets: &'a HashMap<&'a str, &'a IpSet>,
    pool: Pool,
    defaults: Defaults,
    seen: HashSet<Packet>,
    out: Vec<Packet>,
    dice: Dice,
}

impl<'a> Maker<'a> {
    fn rounds(&mut self, paths: &Paths<'a>) {
        // With fewer packets than rules, a random choice of rules is met.
        let mut order: Vec<&Reached<'a>> = paths.rules.iter().collect();
        self.dice.shuffle(&mut order);
        let mut idle = 0;
        for round in 0.. {
            let before = self.out.len();
            for reached in &order {
                if self.full() {
                    return;
                }
                if let Some(packet) = self.around(paths, reached, round) {
                    self.keep(packet);
                }
                if self.dice.one_in(4) {
                    self.random();
                }
            }
            idle = if self.out.len() == before { idle + 1 } else { 0 };
            if idle == IDLE_ROUNDS || order.is_empty() {
                break;
            }
        }
        // What the boundaries left open is filled with random ones.
        let mut tries = self.options.count * 4;
        while !self.full() && tries > 0 {
            self.random();
            tries -= 1;
        }
    }

    fn full(&self) -> bool {
        self.out.len() >= self.options.count
    }

    fn keep(&mut self, packet: Packet) {
        if !self.full() && self.seen.insert(packet.clone()) {
            self.out.push(packet);
        }
    }

    fn random(&mut self) {
        let packet = self.pool.packet(self.options, &self.defaults, &mut self.dice);
        self.keep(packet);
    }

    /// The packet of a round for a rule; `None` where its wishes contradict each other.
    fn around(&mut self, paths: &Paths<'a>, reached: &Reached<'a>, round: usize) -> Option<Packet> {
        if round == 0 {
            return self.reach(paths, reached);
        }
        let family = self.ruleset.family;
        let hook = paths.walks[reached.walk].hook;
        let mut wish = self.wish(paths, reached)?;
        self.reach.apply(&mut wish, paths, reached, &mut self.dice);
        let TrafficOptions { fragments, truncated, states, .. } = *self.options;
        let allowed = Allowed { fragments, truncated, states };
        let hop = wish.forwarded(hook).into();
        let mut all = variants(reached.rule, family, hop, allowed, self.sets, &mut self.dice);
        // The same order in every round, so that each round is another change.
        let place = (reached.walk << 56 | reached.chain << 28) as u64 | u64::from(reached.number);
        Dice::new(self.options.seed ^ place).shuffle(&mut all[1..]);
        all.get(round % all.len())?.apply(&mut wish);
        wish.packet(&self.defaults, &mut self.dice)
    }

    /// All tests of a rule and of the jumps that lead to it.
    fn wish(&mut self, paths: &Paths<'a>, reached: &Reached<'a>) -> Option<Wish> {
        let hook = paths.walks[reached.walk].hook;
        let mut wish = Wish::new(self.ruleset.family, self.options.entry);
        let way = paths.way(reached, &mut self.dice);
        for rule in way.into_iter().chain([reached.rule]) {
            if !wish.rule(rule, hook, self.sets, &mut self.dice) {
                return None;
            }
        }
        Some(wish)
    }
}
