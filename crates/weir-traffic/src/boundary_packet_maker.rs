//! Rounds over the rules of a ruleset, one packet per rule and round.

use std::collections::{HashMap, HashSet};

use weir_model::{ChangingSets, Family, IpSet, OriginalRuleIndex, Packet, Rule, Ruleset};
use weir_random::Rng;
use weir_semantics::{CountedObject, Interpreter, Outcome};

use crate::packet_constraints::{DefaultDevicesAndMaxBytes, PacketConstraints};
use crate::packet_mutation::{AllowedShapesAndCtStates, generate_mutations};
use crate::random_packets::{self, RulesetValuePool};
use crate::reach_hints::{ChainReachHints, DeviceOrReturnRuleHint};
use crate::rule_paths::{ReachableRule, RulePaths};
use crate::traffic_options::TrafficOptions;

/// Packets for a ruleset, at most `options.count`, no two alike. `sets` are the sets that its rules
/// name, as far as they are known.
pub fn generate_boundary_and_random_packets(
    ruleset: &Ruleset,
    sets: &[IpSet],
    options: &TrafficOptions,
) -> Vec<Packet> {
    let by_name: HashMap<&str, &IpSet> = sets.iter().map(|s| (&*s.name, s)).collect();
    let paths = RulePaths::new(ruleset, options.journey_kind);
    let pool = RulesetValuePool::new(ruleset, sets);
    let rulesets = match ruleset.family {
        Family::V4 => [Some(ruleset), None],
        Family::V6 => [None, Some(ruleset)],
    };
    let changing =
        ChangingSets::from_rulesets_with_set_definitions(rulesets.into_iter().flatten(), sets);
    let interpreter = Interpreter::from_rulesets_and_sets(rulesets, sets, &changing);
    let mut maker = BoundaryPacketMaker {
        reach_hints: ChainReachHints::new(interpreter, |name| pool.is_device_named_by_rule(name)),
        ruleset,
        options,
        sets_by_name: &by_name,
        value_pool: pool,
        packet_defaults: random_packets::choose_most_named_devices(
            ruleset,
            options.packet_bytes_max,
        ),
        seen_packets: HashSet::new(),
        generated_packets: Vec::new(),
        rng: Rng::new(options.seed),
    };
    maker.generate_rounds(&paths);
    maker.generated_packets
}

/// Rounds without a new packet after which the boundaries are taken as exhausted.
const MAX_IDLE_ROUNDS: usize = 3;

/// Tries for each rule, until it is reached.
const TRIES_PER_RULE: usize = 6;
/// Rules in a row that the same helped, after which only one in so many is sent to make sure.
const HINT_STREAK_BEFORE_SAMPLED_CHECKS: usize = 8;

struct BoundaryPacketMaker<'a> {
    reach_hints: ChainReachHints<'a>,
    ruleset: &'a Ruleset,
    options: &'a TrafficOptions,
    sets_by_name: &'a HashMap<&'a str, &'a IpSet>,
    value_pool: RulesetValuePool,
    packet_defaults: DefaultDevicesAndMaxBytes,
    seen_packets: HashSet<Packet>,
    generated_packets: Vec<Packet>,
    rng: Rng,
}

impl<'a> BoundaryPacketMaker<'a> {
    fn generate_rounds(&mut self, paths: &RulePaths<'a>) {
        // With fewer packets than rules, a random choice of rules is covered.
        let mut order: Vec<&ReachableRule<'a>> = paths.rules.iter().collect();
        self.rng.shuffle(&mut order);
        let mut idle = 0;
        for round in 0.. {
            let before = self.generated_packets.len();
            for reached in &order {
                if self.has_enough_packets() {
                    return;
                }
                if let Some(packet) = self.build_rule_packet_for_round(paths, reached, round) {
                    self.push_unseen_packet(packet);
                }
                if self.rng.one_in(4) {
                    self.push_random_packet();
                }
            }
            idle = if self.generated_packets.len() == before { idle + 1 } else { 0 };
            if idle == MAX_IDLE_ROUNDS || order.is_empty() {
                break;
            }
        }
        // What the boundaries left open is filled with random ones.
        let mut tries = self.options.max_packets * 4;
        while !self.has_enough_packets() && tries > 0 {
            self.push_random_packet();
            tries -= 1;
        }
    }

    fn has_enough_packets(&self) -> bool {
        self.generated_packets.len() >= self.options.max_packets
    }

    fn push_unseen_packet(&mut self, packet: Packet) {
        if !self.has_enough_packets() && self.seen_packets.insert(packet.clone()) {
            self.generated_packets.push(packet);
        }
    }

    fn push_random_packet(&mut self) {
        let packet =
            self.value_pool.draw_packet(self.options, &self.packet_defaults, &mut self.rng);
        self.push_unseen_packet(packet);
    }

    /// The packet of a round for a rule; `None` if its constraints contradict each other.
    fn build_rule_packet_for_round(
        &mut self,
        paths: &RulePaths<'a>,
        reached: &ReachableRule<'a>,
        round: usize,
    ) -> Option<Packet> {
        if round == 0 {
            return self.find_reaching_or_satisfying_packet(paths, reached);
        }
        let family = self.ruleset.family;
        let hook = paths.table_hook_paths[reached.table_hook_index].hook;
        let mut constraints = self.collect_rule_path_constraints(paths, reached)?;
        self.reach_hints.apply_chain_hint(&mut constraints, paths, reached, &mut self.rng);
        let TrafficOptions {
            include_fragments: fragments,
            include_truncated: truncated,
            include_untested_ct_states: states,
            ..
        } = *self.options;
        let allowed = AllowedShapesAndCtStates {
            include_fragments: fragments,
            include_truncated: truncated,
            include_untested_ct_states: states,
        };
        let hop = constraints.is_ttl_decremented_at_hook(hook).into();
        let mut all = generate_mutations(
            reached.rule,
            family,
            hop,
            allowed,
            self.sets_by_name,
            &mut self.rng,
        );
        // The same order in every round, so that each round is another change.
        let place = (reached.table_hook_index << 56 | reached.chain_index << 28) as u64
            | u64::from(reached.rulenum_from_1);
        Rng::new(self.options.seed ^ place).shuffle(&mut all[1..]);
        all.get(round % all.len())?.apply_to_constraints(&mut constraints);
        constraints.build_packet(&self.packet_defaults, &mut self.rng)
    }

    /// All tests of a rule and of the jumps that lead to it.
    fn collect_rule_path_constraints(
        &mut self,
        paths: &RulePaths<'a>,
        reached: &ReachableRule<'a>,
    ) -> Option<PacketConstraints> {
        let hook = paths.table_hook_paths[reached.table_hook_index].hook;
        let mut constraints =
            PacketConstraints::new(self.ruleset.family, self.options.journey_kind);
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
        Some(constraints)
    }

    /// A packet that satisfies the rule and reaches it, if one is found; otherwise one that only
    /// satisfies it.
    fn find_reaching_or_satisfying_packet(
        &mut self,
        paths: &RulePaths<'a>,
        reached: &ReachableRule<'a>,
    ) -> Option<Packet> {
        let id = reached.rule.credited_originals.first().copied()?;
        let place = (reached.table_hook_index, reached.chain_index);
        let (known, row) =
            self.reach_hints.successful_hints.get(&place).copied().unwrap_or_default();
        let sure = row >= HINT_STREAK_BEFORE_SAMPLED_CHECKS
            && !self.rng.one_in(HINT_STREAK_BEFORE_SAMPLED_CHECKS);
        let mut helps = vec![
            DeviceOrReturnRuleHint { use_unnamed_oif: true, ..DeviceOrReturnRuleHint::default() },
            DeviceOrReturnRuleHint {
                use_unnamed_iif: true,
                use_unnamed_oif: true,
                return_rule: None,
            },
            DeviceOrReturnRuleHint { use_unnamed_iif: true, ..DeviceOrReturnRuleHint::default() },
            DeviceOrReturnRuleHint::default(),
            known,
        ];
        let mut first = None;
        for tries in 0..TRIES_PER_RULE {
            let Some(help) = helps.pop() else { break };
            let Some(mut constraints) = self.collect_rule_path_constraints(paths, reached) else {
                return first;
            };
            self.reach_hints.apply_hint(help, &mut constraints, paths, reached, &mut self.rng);
            let Some(packet) = constraints.build_packet(&self.packet_defaults, &mut self.rng)
            else {
                continue;
            };
            if sure {
                return Some(packet);
            }
            let outcome = self.reach_hints.packet_outcome(&packet, self.options.journey_kind);
            if hits_rule(&outcome, id) {
                let row = if tries == 0 { row + 1 } else { 1 };
                self.reach_hints.successful_hints.insert(place, (help, row));
                return Some(packet);
            }
            if let Some(by) = self.pick_return_rule_of_deciding_chain(paths, &outcome) {
                helps.push(DeviceOrReturnRuleHint { return_rule: Some(by), ..help });
            }
            first = first.or(Some(packet));
        }
        first
    }

    /// A rule that returns from one of the chains in which the packet was decided.
    fn pick_return_rule_of_deciding_chain(
        &mut self,
        paths: &RulePaths<'a>,
        outcome: &Outcome<'a>,
    ) -> Option<&'a Rule> {
        let last = outcome.hits.last()?;
        let CountedObject::Rule { table, .. } = last.counted_object else { return None };
        let walk =
            paths.table_hook_paths.iter().position(|w| w.table == table && w.hook == last.hook)?;
        for hit in outcome.hits.iter().rev().filter(|h| h.hook == last.hook) {
            let CountedObject::Rule { chain, .. } = hit.counted_object else { break };
            let returns = paths.return_rules_of_chain(walk, chain);
            if let Some(rule) = self.rng.pick_if_any(returns) {
                return Some(*rule);
            }
        }
        None
    }
}

fn hits_rule(outcome: &Outcome<'_>, id: OriginalRuleIndex) -> bool {
    outcome.hits.iter().any(|h| h.credited_originals.first() == Some(&id))
}
