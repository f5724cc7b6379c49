//! Whether a ruleset treats all packets of a region as expected.
//!
//! [`JourneyVerdicts`] is one diagram: the verdict of every packet on a journey. A region is a set
//! of packets; what of it lies outside of the expected verdicts is the part that fails. The verdict
//! may depend on matches that a packet does not determine (`limit`, `owner`, an unknown match),
//! which are variables after those of the fields. A packet fails if its verdict is wrong for every
//! result of these; if it is wrong for some results only, the region is undecided.
//!
//! Each packet is the first that its connection sends through the nat table, and none that the host
//! sends in reply to another, as in [`Oracle`](weir_semantics::Oracle)'s defaults.

pub(crate) mod assumed_answers;

use std::collections::HashMap;

use weir_model::{Family, Field, Firewall, PacketRegion};
use weir_semantics::{Interpreter, JourneyKind, Verdict};

use crate::bdd::node_store::{DiagramRef, LEAF_LEVEL, LimitReached};
use crate::compared_ruleset::{ComparedRuleset, list_journey_stages};
use crate::comparison_types::{CompareLevel, ComparedPath, StatefulTestPairing};
use crate::packet_sets::device_name_classes::DeviceNameClasses;
use crate::packet_sets::hook_context::HookContext;
use crate::packet_sets::packet_space::{PacketSet, PacketSpaceBasis, PacketSpaceOptions};
use crate::packet_sets::region::Region;
use crate::packet_sets::variable_layout::VariableOrder;
use crate::packet_sets::witness::Witness;
use crate::region_decision::assumed_answers::{
    RegionAssumptions, assign_false_to_connection_facts_by_level,
};
use crate::rule_diagrams::compose::DiagramContext;
use crate::rule_diagrams::rule_and_chain_diagrams::BuildError;
use crate::stateful_test_id::StatefulTestIdResolver;
use crate::variable_order_search::rank_variable_orders;

/// Which part of the steps is for choosing the order of addresses and ports.
const VARIABLE_ORDER_RANKING_STEPS_DIVISOR: u64 = 8;
/// Regions of the failing part that are described.
const FAILING_REGIONS_MAX: usize = 3;

/// What the diagrams of one journey may take.
#[derive(Clone, Copy, Debug)]
pub struct RegionDecisionLimits {
    /// Memory, in bytes.
    pub memory_bytes: usize,
    /// Steps, as in [`CompareOptions::steps_max`](crate::CompareOptions::steps_max).
    pub steps_max: u64,
}

/// Whether all packets of a region have an expected verdict on one journey.
#[derive(Clone, Debug)]
pub enum RegionDecision {
    /// They have, whatever matches that packets do not determine result in.
    Holds,
    /// Some packets have another verdict, whatever these matches result in.
    Fails(Box<FailingPackets>),
    /// Whether some packets have an expected verdict depends on what packets do not determine.
    DependsOnResults(Box<UndecidedPackets>),
    /// There is no such packet on this journey.
    NoPackets,
}

/// The packets of a region that have another verdict than expected.
#[derive(Clone, Debug)]
pub struct FailingPackets {
    /// Which part of the region they are, from 0 to 1; shares are those of
    /// [`PacketSpace::packet_share`](crate::PacketSpace::packet_share).
    pub share_of_region: f64,
    /// One of them, which looks as usual as it can, with the assumed results.
    pub witness: Witness,
    /// Its verdict according to the interpreter.
    pub verdict: Verdict,
    /// Where they lie, the largest region first; at most three.
    pub regions: Vec<Region>,
}

/// Packets of a region whose verdict depends on what packets do not determine.
#[derive(Clone, Debug)]
pub struct UndecidedPackets {
    /// One of them, with the results for which its verdict is not expected.
    pub witness: Witness,
    /// The same with the assumed results in addition.
    pub witness_with_assumed_results: Witness,
}

/// Why a region could not be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionDecisionError {
    /// Not enough memory.
    #[error("the diagrams need more than the allowed {mib} MiB")]
    OutOfMemory {
        /// The limit.
        mib: usize,
    },
    /// Not enough steps.
    #[error("not decided within {millions} million steps")]
    OutOfSteps {
        /// The limit.
        millions: u64,
    },
    /// Another reason, in words.
    #[error("{0}")]
    OtherReason(String),
}

/// The verdict of every packet on a journey through one ruleset.
#[derive(Debug)]
pub struct JourneyVerdicts<'f> {
    context: DiagramContext<'f>,
    interpreter: Interpreter<'f>,
    state_ids: StatefulTestIdResolver,
    journey: JourneyKind,
    limits: RegionDecisionLimits,
    /// Packets by verdict, with the results of what they do not determine.
    packets_by_verdict: Vec<(Verdict, DiagramRef)>,
    /// Packets of the journey: with the devices that it has.
    journey_packets: DiagramRef,
    /// Nodes below are kept.
    first_young_node: usize,
}

impl<'f> JourneyVerdicts<'f> {
    /// Builds the diagram. `tested_devices`: names, and prefixes (true), that regions will test.
    ///
    /// # Errors
    /// [`RegionDecisionError`]: the limits.
    pub fn build(
        firewall: &'f Firewall,
        family: Family,
        journey: JourneyKind,
        tested_devices: &[(String, bool)],
        limits: RegionDecisionLimits,
    ) -> Result<JourneyVerdicts<'f>, RegionDecisionError> {
        let paths = [ComparedPath::WholeJourney(journey)];
        let ranking_steps_max = limits.steps_max / VARIABLE_ORDER_RANKING_STEPS_DIVISOR;
        let ranked =
            rank_variable_orders(family, firewall.ruleset(family), &paths, ranking_steps_max);
        let mut steps = ranked.steps;
        let mut last = None;
        for order in ranked.orders {
            let of = (firewall, family, journey, tested_devices);
            match JourneyVerdicts::build_with_variable_order(of, order, limits, &mut steps) {
                Ok(built) => return Ok(built),
                Err(BuildError::LimitReached(LimitReached::Memory)) => {
                    last = Some(LimitReached::Memory);
                }
                Err(error) => return Err(limits.error_of(error)),
            }
        }
        Err(limits.error_of(BuildError::LimitReached(last.unwrap_or(LimitReached::Memory))))
    }

    fn build_with_variable_order(
        (firewall, family, journey, tested_devices): (
            &'f Firewall,
            Family,
            JourneyKind,
            &[(String, bool)],
        ),
        order: VariableOrder,
        limits: RegionDecisionLimits,
        steps: &mut u64,
    ) -> Result<JourneyVerdicts<'f>, BuildError> {
        let basis = PacketSpaceBasis::of_firewalls_and_devices(family, &[firewall], tested_devices);
        let options = PacketSpaceOptions { order, memory_bytes: limits.memory_bytes };
        let mut context = DiagramContext::new(basis.make_space(options)?);
        context.space.store.steps = *steps;
        context.space.store.steps_max = limits.steps_max;
        context.terminals.distinguishes_effects = false;
        let state_ids = StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByRuleText);
        let side = [ComparedRuleset::new(firewall, family, 0, state_ids.clone(), false)];
        let journey_packets = build_journey_packets(&mut context, journey)?;
        let path = ComparedPath::WholeJourney(journey);
        let stages = list_journey_stages(path, &side);
        let from = context.space.store.node_count();
        let mut live_diagrams = Vec::new();
        for stage in &stages {
            let built = context.build_stage(&side[0], *stage, &mut live_diagrams, from);
            *steps = context.space.store.steps;
            live_diagrams.push(built?);
        }
        let composed = context.compose_stages((path, &stages), None, &mut live_diagrams, from);
        *steps = context.space.store.steps;
        let verdicts = context.convert_terminals_to_outcomes(composed?, CompareLevel::Verdict)?;
        context.chain_cache = Default::default();
        let mut packets_by_verdict = Vec::new();
        let facts = assign_false_to_connection_facts_by_level(&context);
        for verdict in context.verdicts_in_diagram(verdicts) {
            let packets = context.packets_with_verdict(verdicts, verdict)?;
            let packets = context.fix_variables(packets, &facts, &mut HashMap::new())?;
            packets_by_verdict.push((verdict, packets));
        }
        let interpreter = Interpreter::new(firewall);
        let mut built = JourneyVerdicts {
            context,
            interpreter,
            state_ids,
            journey,
            limits,
            packets_by_verdict,
            journey_packets,
            first_young_node: from,
        };
        built.sweep_if_needed();
        Ok(built)
    }

    /// Decides a region. `is_expected` says of each verdict whether packets may have it.
    ///
    /// # Errors
    /// [`RegionDecisionError`]: the limits; or the interpreter contradicts the diagrams.
    pub fn decide_region(
        &mut self,
        region: &PacketRegion,
        is_expected: &dyn Fn(Verdict) -> bool,
        assumptions: RegionAssumptions<'_>,
    ) -> Result<RegionDecision, RegionDecisionError> {
        let assumed = self.context.assign_assumed_results_by_level(assumptions);
        let decision = self.try_decide(region, is_expected, &assumed);
        self.sweep_if_needed();
        match decision {
            Ok(decision) => decision,
            Err(full) => Err(self.limits.error_of(BuildError::LimitReached(full))),
        }
    }

    /// Steps that building and deciding took so far.
    pub fn steps_spent(&self) -> u64 {
        self.context.space.store.steps
    }

    /// The classes of device names that the ruleset and the regions distinguish.
    pub fn device_name_classes(&self) -> &DeviceNameClasses {
        &self.context.space.layout.device_classes
    }

    fn try_decide(
        &mut self,
        region: &PacketRegion,
        is_expected: &dyn Fn(Verdict) -> bool,
        assumed: &HashMap<u32, bool>,
    ) -> Result<Result<RegionDecision, RegionDecisionError>, LimitReached> {
        let packets = self.packets_of_region(region)?;
        if packets == DiagramRef::ZERO {
            return Ok(Ok(RegionDecision::NoPackets));
        }
        let (mut not_expected, mut wrong) = (packets, DiagramRef::ZERO);
        for (verdict, with_verdict) in &self.packets_by_verdict {
            let inside = self.context.space.store.and(packets, *with_verdict)?;
            let inside = self.context.fix_variables(inside, assumed, &mut HashMap::new())?;
            let store = &mut self.context.space.store;
            if is_expected(*verdict) {
                not_expected = store.minus(not_expected, inside)?;
            } else if *verdict != Verdict::Unknown {
                wrong = store.first_nonzero(wrong, inside)?;
            }
        }
        if not_expected == DiagramRef::ZERO {
            return Ok(Ok(RegionDecision::Holds));
        }
        let failing = self.packets_for_all_results(wrong, &mut HashMap::new())?;
        if failing == DiagramRef::ZERO {
            let witness = self.without_absent_devices_and_mac(self.context.witness(not_expected));
            let witness_with_assumed_results = self.with_assumed_results(witness.clone(), assumed);
            let undecided = UndecidedPackets { witness, witness_with_assumed_results };
            return Ok(Ok(RegionDecision::DependsOnResults(Box::new(undecided))));
        }
        let witness = self.without_absent_devices_and_mac(self.context.witness(failing));
        let witness = self.with_assumed_results(witness, assumed);
        self.describe_failing_packets(failing, packets, witness, is_expected)
    }

    fn describe_failing_packets(
        &mut self,
        failing: DiagramRef,
        packets: DiagramRef,
        witness: Witness,
        is_expected: &dyn Fn(Verdict) -> bool,
    ) -> Result<Result<RegionDecision, RegionDecisionError>, LimitReached> {
        let mut oracle = witness.to_oracle(&self.state_ids);
        let outcome = self.interpreter.evaluate_journey(&witness.packet, self.journey, &mut oracle);
        if is_expected(outcome.verdict) {
            let why = format!(
                "the diagrams and the interpreter disagree, which is a bug in weir: {:?}",
                witness.packet
            );
            return Ok(Err(RegionDecisionError::OtherReason(why)));
        }
        let space = &mut self.context.space;
        let whole = space.packet_share(PacketSet(packets))?;
        let share = space.packet_share(PacketSet(failing))? / whole;
        let regions = space.largest_regions_with_packet_sets(
            PacketSet(failing),
            FAILING_REGIONS_MAX,
            true,
        )?;
        let regions = regions.into_iter().map(|(region, _)| region).collect();
        let verdict = outcome.verdict;
        Ok(Ok(RegionDecision::Fails(Box::new(FailingPackets {
            share_of_region: share.min(1.0),
            witness,
            verdict,
            regions,
        }))))
    }

    /// The possible packets of a region on the journey.
    fn packets_of_region(&mut self, region: &PacketRegion) -> Result<DiagramRef, LimitReached> {
        let space = &mut self.context.space;
        let mut packets = self.journey_packets;
        let unreadable = space.presence.unreadable_header;
        packets = space.store.minus(packets, unreadable)?;
        let at = HookContext::EVERYTHING_KNOWN;
        for condition in &region.conditions {
            let mut any = DiagramRef::ZERO;
            for predicate in &condition.alternatives {
                let lowered =
                    space.lower_field_test(condition.field, predicate, false, false, at)?;
                any = space.store.first_nonzero(any, lowered.matching_packets)?;
            }
            let (there, _) = space.presence.field_presence_and_hotdrop(condition.field, false);
            let mut inside = match condition.negated {
                false => any,
                true => space.store.minus(there, any)?,
            };
            if condition.accepts_absent_field {
                let absent = space.store.minus(DiagramRef::ONE, there)?;
                inside = space.store.first_nonzero(inside, absent)?;
            }
            packets = space.store.and(packets, inside)?;
        }
        Ok(packets)
    }

    /// The packets of a set that are in it for all results of what packets do not determine.
    fn packets_for_all_results(
        &mut self,
        set: DiagramRef,
        known: &mut HashMap<DiagramRef, DiagramRef>,
    ) -> Result<DiagramRef, LimitReached> {
        let level = self.context.space.store.level(set);
        if level == LEAF_LEVEL {
            return Ok(set);
        }
        // Results come after all fields: what still tests one is false for some result.
        if level >= self.context.space.layout.fields_end {
            return Ok(DiagramRef::ZERO);
        }
        if let Some(found) = known.get(&set) {
            return Ok(*found);
        }
        let (low, high) = self.context.space.store.branches(set);
        let low = self.packets_for_all_results(low, known)?;
        let high = self.packets_for_all_results(high, known)?;
        let found = self.context.space.store.make_node(level, low, high)?;
        known.insert(set, found);
        Ok(found)
    }

    /// A witness without the devices that no packet of the journey has.
    fn without_absent_devices_and_mac(&self, mut witness: Witness) -> Witness {
        match self.journey {
            JourneyKind::Forward => {}
            JourneyKind::Input => witness.packet.oif.clear(),
            JourneyKind::Output => {
                witness.packet.iif.clear();
                witness.packet.smac = None;
            }
        }
        witness
    }

    /// A witness with results in addition to those that make it one; by level.
    fn with_assumed_results(&self, mut witness: Witness, assumed: &HashMap<u32, bool>) -> Witness {
        let fields_end = self.context.space.layout.fields_end;
        let results = assumed
            .iter()
            .map(|(level, result)| self.context.space.make_assumption(level - fields_end, *result));
        witness.assumptions.extend(results);
        witness
    }

    fn sweep_if_needed(&mut self) {
        let mut live: Vec<DiagramRef> =
            self.packets_by_verdict.iter().map(|(_, set)| *set).collect();
        live.push(self.journey_packets);
        self.context.sweep_if_needed(&mut live, self.first_young_node);
        for ((_, set), swept) in self.packets_by_verdict.iter_mut().zip(&live) {
            *set = *swept;
        }
        self.journey_packets = live.pop().unwrap_or(DiagramRef::ZERO);
    }
}

/// The possible packets of a journey, unfragmented and with the devices that it has.
fn build_journey_packets(
    context: &mut DiagramContext<'_>,
    journey: JourneyKind,
) -> Result<DiagramRef, LimitReached> {
    let space = &mut context.space;
    let mut packets = space.possible_packets;
    let (has_iif, has_oif) = match journey {
        JourneyKind::Forward => (true, true),
        JourneyKind::Input => (true, false),
        JourneyKind::Output => (false, true),
    };
    for (field, is_there) in [(Field::Iif, has_iif), (Field::Oif, has_oif)] {
        let named = space.lower_device_test(field, true, |name| name.is_empty() != is_there)?;
        packets = space.store.and(packets, named)?;
    }
    let later = space.presence.later_fragment;
    packets = space.store.minus(packets, later)?;
    if journey == JourneyKind::Output {
        let mac = space.presence.source_mac;
        packets = space.store.minus(packets, mac)?;
    }
    Ok(packets)
}

impl RegionDecisionLimits {
    fn error_of(&self, error: BuildError) -> RegionDecisionError {
        match error {
            BuildError::LimitReached(LimitReached::Memory) => {
                RegionDecisionError::OutOfMemory { mib: self.memory_bytes >> 20 }
            }
            BuildError::LimitReached(LimitReached::Steps) => {
                RegionDecisionError::OutOfSteps { millions: self.steps_max / 1_000_000 }
            }
            BuildError::OtherReason(why) => RegionDecisionError::OtherReason(why),
        }
    }
}
