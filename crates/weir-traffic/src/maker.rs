//! Rounds over the rules of a ruleset, one packet per rule and round.

use std::collections::{HashMap, HashSet};

use weir_model::{ChangingSets, Family, IpSet, Packet, Rule, RuleIndex, Ruleset};
use weir_random::Rng;
use weir_semantics::{Counted, Interpreter, Outcome};

use crate::constraints::{Defaults, PacketConstraints};
use crate::options::TrafficOptions;
use crate::paths::{Paths, Reached};
use crate::random::{self, Pool};
use crate::reach_hints::{Help, ReachHints};
use crate::variant::{AllowedVariants, variants};

/// Packets for a ruleset, at most `options.count`, no two alike. `sets` are the sets that its rules
/// name, as far as they are known.
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
    let mut maker = PacketMaker {
        reach: ReachHints::new(interpreter, |name| pool.names(name)),
        ruleset,
        options,
        sets: &by_name,
        pool,
        defaults: random::defaults(ruleset, options.length_max),
        seen: HashSet::new(),
        out: Vec::new(),
        rng: Rng::new(options.seed),
    };
    maker.rounds(&paths);
    maker.out
}

/// Rounds without a new packet after which the boundaries are taken as exhausted.
const IDLE_ROUNDS: usize = 3;

/// Tries for each rule, until it is reached.
const TRIES: usize = 6;
/// Rules in a row that the same helped, after which only one in so many is sent to make sure.
const SURE: usize = 8;

struct PacketMaker<'a> {
    reach: ReachHints<'a>,
    ruleset: &'a Ruleset,
    options: &'a TrafficOptions,
    sets: &'a HashMap<&'a str, &'a IpSet>,
    pool: Pool,
    defaults: Defaults,
    seen: HashSet<Packet>,
    out: Vec<Packet>,
    rng: Rng,
}

impl<'a> PacketMaker<'a> {
    fn rounds(&mut self, paths: &Paths<'a>) {
        // With fewer packets than rules, a random choice of rules is covered.
        let mut order: Vec<&Reached<'a>> = paths.rules.iter().collect();
        self.rng.shuffle(&mut order);
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
                if self.rng.one_in(4) {
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
        let packet = self.pool.packet(self.options, &self.defaults, &mut self.rng);
        self.keep(packet);
    }

    /// The packet of a round for a rule; `None` if its constraints contradict each other.
    fn around(&mut self, paths: &Paths<'a>, reached: &Reached<'a>, round: usize) -> Option<Packet> {
        if round == 0 {
            return self.reach(paths, reached);
        }
        let family = self.ruleset.family;
        let hook = paths.walks[reached.walk].hook;
        let mut constraints = self.constraints(paths, reached)?;
        self.reach.apply(&mut constraints, paths, reached, &mut self.rng);
        let TrafficOptions { fragments, truncated, states, .. } = *self.options;
        let allowed = AllowedVariants { fragments, truncated, states };
        let hop = constraints.forwarded(hook).into();
        let mut all = variants(reached.rule, family, hop, allowed, self.sets, &mut self.rng);
        // The same order in every round, so that each round is another change.
        let place = (reached.walk << 56 | reached.chain << 28) as u64 | u64::from(reached.number);
        Rng::new(self.options.seed ^ place).shuffle(&mut all[1..]);
        all.get(round % all.len())?.apply(&mut constraints);
        constraints.packet(&self.defaults, &mut self.rng)
    }

    /// All tests of a rule and of the jumps that lead to it.
    fn constraints(
        &mut self,
        paths: &Paths<'a>,
        reached: &Reached<'a>,
    ) -> Option<PacketConstraints> {
        let hook = paths.walks[reached.walk].hook;
        let mut constraints = PacketConstraints::new(self.ruleset.family, self.options.entry);
        let way = paths.way(reached, &mut self.rng);
        for rule in way.into_iter().chain([reached.rule]) {
            if !constraints.rule(rule, hook, self.sets, &mut self.rng) {
                return None;
            }
        }
        Some(constraints)
    }

    /// A packet that satisfies the rule and reaches it, if one is found; otherwise one that only
    /// satisfies it.
    fn reach(&mut self, paths: &Paths<'a>, reached: &Reached<'a>) -> Option<Packet> {
        let id = reached.rule.credit.first().copied()?;
        let place = (reached.walk, reached.chain);
        let (known, row) = self.reach.helped.get(&place).copied().unwrap_or_default();
        let sure = row >= SURE && !self.rng.one_in(SURE);
        let mut helps = vec![
            Help { oif: true, ..Help::default() },
            Help { iif: true, oif: true, by: None },
            Help { iif: true, ..Help::default() },
            Help::default(),
            known,
        ];
        let mut first = None;
        for tries in 0..TRIES {
            let Some(help) = helps.pop() else { break };
            let Some(mut constraints) = self.constraints(paths, reached) else { return first };
            self.reach.help(help, &mut constraints, paths, reached, &mut self.rng);
            let Some(packet) = constraints.packet(&self.defaults, &mut self.rng) else { continue };
            if sure {
                return Some(packet);
            }
            let outcome = self.reach.send(&packet, self.options.entry);
            if meets(&outcome, id) {
                let row = if tries == 0 { row + 1 } else { 1 };
                self.reach.helped.insert(place, (help, row));
                return Some(packet);
            }
            if let Some(by) = self.returning(paths, &outcome) {
                helps.push(Help { by: Some(by), ..help });
            }
            first = first.or(Some(packet));
        }
        first
    }

    /// A rule that returns from one of the chains in which the packet was decided.
    fn returning(&mut self, paths: &Paths<'a>, outcome: &Outcome<'a>) -> Option<&'a Rule> {
        let last = outcome.hits.last()?;
        let Counted::Rule { table, .. } = last.counted else { return None };
        let walk = paths.walks.iter().position(|w| w.table == table && w.hook == last.hook)?;
        for hit in outcome.hits.iter().rev().filter(|h| h.hook == last.hook) {
            let Counted::Rule { chain, .. } = hit.counted else { break };
            let returns = paths.returns(walk, chain);
            if let Some(rule) = self.rng.choose(returns) {
                return Some(*rule);
            }
        }
        None
    }
}

fn meets(outcome: &Outcome<'_>, id: RuleIndex) -> bool {
    outcome.hits.iter().any(|h| h.credit.first() == Some(&id))
}
