//! Every chain of a firewall, in every engine that takes it, compared packet by packet.

use std::collections::BTreeMap;

use weir_classify::ruleset::{FlattenLimits, LookupProgram, LookupStructures};
use weir_classify::{BuildLimits, Engine};
use weir_model::{Family, Firewall, Hook, Packet, Ruleset, TableName};
use weir_review::lookup_walk::find_differing_packet;
use weir_semantics::{Interpreter, JourneyKind, SeededOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};

/// What was compared.
#[derive(Debug, Default)]
pub struct ComparisonCounts {
    pub packets: usize,
    pub chains: usize,
    pub rules: usize,
    pub evaluated_rules: usize,
    /// Chains with more than one stretch.
    pub divided_chains: usize,
    pub calls: usize,
    /// By engine: chains that it took.
    pub accepted: BTreeMap<&'static str, usize>,
}

/// How to compare.
pub struct RulesetComparison {
    /// Packets of each chain.
    pub packet_count: usize,
    pub seed: u64,
    pub limits: FlattenLimits,
    pub engines: Vec<Engine>,
}

impl RulesetComparison {
    pub fn with_all_engines(packet_count: usize, seed: u64) -> RulesetComparison {
        let (limits, engines) = (FlattenLimits::default(), Engine::ALL.to_vec());
        RulesetComparison { packet_count, seed, limits, engines }
    }

    /// Compares all built-in chains of both families.
    ///
    /// # Panics
    /// At the first difference.
    pub fn compare_firewall(&self, name: &str, firewall: &Firewall, counts: &mut ComparisonCounts) {
        let interpreter = Interpreter::new(firewall);
        for ruleset in firewall.rulesets() {
            let packets = self.generate_packets(ruleset, firewall);
            for table in &ruleset.tables {
                for &hook in table.name.hooks() {
                    let is_there =
                        table.chain(hook.chain_name()).is_some_and(|c| c.policy.is_some());
                    if is_there {
                        let at = (ruleset.family, table.name, hook);
                        self.compare_chain(name, firewall, &interpreter, at, &packets, counts);
                    }
                }
            }
        }
    }

    fn compare_chain(
        &self,
        name: &str,
        firewall: &Firewall,
        interpreter: &Interpreter<'_>,
        (family, table, hook): (Family, TableName, Hook),
        packets: &[Packet],
        counts: &mut ComparisonCounts,
    ) {
        let chain = (table, hook.chain_name());
        let program = LookupProgram::compile(firewall, family, chain, self.limits)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let packets: Vec<Packet> = packets.iter().map(|p| packet_at_hook(p, hook)).collect();
        counts.chains += 1;
        counts.packets += packets.len();
        counts.rules += program.reachable_rule_count();
        counts.evaluated_rules += program.rules_evaluated_after_lookup().len();
        counts.divided_chains += program.chains().iter().filter(|c| c.stretches.len() > 1).count();
        counts.calls += program.chains().len() - 1;
        let limits = BuildLimits { memory_bytes_max: 64 << 20, steps_max: 2_000_000 };
        let built = self
            .engines
            .iter()
            .filter_map(|engine| LookupStructures::build(&program, *engine, &limits).ok());
        let built: Vec<LookupStructures<'_, '_>> = built.collect();
        for structures in &built {
            *counts.accepted.entry(structures.engine().name()).or_default() += 1;
        }
        let mut oracle = SeededOracle(self.seed);
        let found =
            find_differing_packet(&program, &built, interpreter, hook, &packets, &mut oracle);
        if let Some(differing) = found {
            let packet = &packets[differing.packet_index];
            panic!("{name}, {table} at {hook:?}: {differing:#?}\n{packet:?}");
        }
    }

    fn generate_packets(&self, ruleset: &Ruleset, firewall: &Firewall) -> Vec<Packet> {
        let ways = [JourneyKind::Forward, JourneyKind::Input, JourneyKind::Output];
        let of_way = |journey_kind| {
            let options = TrafficOptions {
                seed: self.seed,
                max_packets: self.packet_count / 3,
                journey_kind,
                ..TrafficOptions::default()
            };
            generate_boundary_and_random_packets(ruleset, &firewall.sets, &options)
        };
        ways.into_iter().flat_map(of_way).collect()
    }
}

/// A packet as a hook sees it.
fn packet_at_hook(packet: &Packet, hook: Hook) -> Packet {
    let mut packet = packet.clone();
    match hook {
        Hook::Prerouting | Hook::Input => packet.oif.clear(),
        Hook::Output => {
            packet.iif.clear();
            packet.smac = None;
        }
        Hook::Forward | Hook::Postrouting => {}
    }
    packet
}

/// A firewall of a text, if it is one.
pub fn read_firewall(text: &str, family: Option<Family>, sets: &str) -> Option<Firewall> {
    let sets = weir_syntax::ipset::parse(sets).ok()?;
    let ruleset = parse(text, &ParserSettings { family, ..ParserSettings::default() }).ok()?;
    Some(match ruleset.family {
        Family::V4 => Firewall { v4: Some(ruleset), v6: None, sets },
        Family::V6 => Firewall { v4: None, v6: Some(ruleset), sets },
    })
}
