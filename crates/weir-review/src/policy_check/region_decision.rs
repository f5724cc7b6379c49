//! Regions of a policy on one path: decided by the diagrams, worded for people.

use weir_diagram::{
    DeviceNameClasses, FailingPackets, FieldValues, JourneyVerdicts, Region, RegionAssumptions,
    RegionDecision, RegionDecisionError, RegionDecisionLimits, StatefulTestIdResolver,
    StatefulTestPairing, UndecidedPackets, Witness,
};
use weir_model::effect::match_module_name;
use weir_model::{
    Family, Field, FieldCondition, FieldSet, Firewall, Match, Packet, PacketRegion, Predicate,
};
use weir_semantics::trace::trace_journey;
use weir_semantics::{Interpreter, JourneyKind};
use weir_syntax::iptables;
use weir_syntax::policy::{PolicyTest, PolicyTestPackets};

use super::packet_decision::to_traced_packet;
use super::policy_report::{PolicyPathReport, PolicyTestResult, TracedPacket};
use super::test_conditions::{
    assumed_result, is_assumed_not_to_drop, is_expected_verdict, journeys_of_test,
};

/// A test of a region.
pub(super) struct RegionTest<'p> {
    /// Its number among the tests of the policy.
    pub index: usize,
    pub test: &'p PolicyTest,
    /// The families in which it is decided.
    pub families: Vec<Family>,
}

impl RegionTest<'_> {
    /// The fields that the words of the test give.
    fn given(&self) -> FieldSet {
        match &self.test.subject {
            PolicyTestPackets::Packet { given, .. } | PolicyTestPackets::Region { given, .. } => {
                *given
            }
        }
    }
}

/// The results of some tests on one journey.
pub(super) struct DecidedRegions {
    /// Numbers of tests, and their results; regions without a packet there have none.
    pub paths: Vec<(usize, PolicyPathReport)>,
    /// Steps of the diagrams.
    pub steps: u64,
}

/// Decides the regions that have packets of a family on a journey.
pub(super) fn decide_regions_on_journey(
    regions: &[RegionTest<'_>],
    firewall: &Firewall,
    (family, journey): (Family, JourneyKind),
    (memory_bytes, steps_max): (usize, u64),
) -> DecidedRegions {
    let tests: Vec<(&RegionTest<'_>, PacketRegion)> = regions
        .iter()
        .filter(|region| region.families.contains(&family))
        .filter(|region| journeys_of_test(region.test).contains(&journey))
        .filter_map(|region| Some((region, region_with_journey_conditions(region.test, journey)?)))
        .collect();
    let devices: Vec<(String, bool)> = tests
        .iter()
        .flat_map(|(_, region)| region.tested_device_names_and_prefixes())
        .map(|(name, prefix)| (name.to_owned(), prefix))
        .collect();
    let limits = RegionDecisionLimits { memory_bytes, steps_max };
    let mut verdicts = match JourneyVerdicts::build(firewall, family, journey, &devices, limits) {
        Ok(verdicts) => verdicts,
        Err(error) => {
            let undecided = |(test, _): &(&RegionTest<'_>, _)| {
                (test.index, report_undecided(family, journey, &error))
            };
            return DecidedRegions {
                paths: tests.iter().map(undecided).collect(),
                steps: steps_max,
            };
        }
    };
    let words = PathReportBuilder {
        interpreter: Interpreter::new(firewall),
        state_ids: StatefulTestIdResolver::new(firewall, StatefulTestPairing::ByRuleText),
        devices: verdicts.device_name_classes().clone(),
        family,
        journey,
    };
    let mut paths = Vec::new();
    for (region_test, region) in &tests {
        let is_expected = |verdict| is_expected_verdict(&region_test.test.expected, verdict);
        let assumed_result = |m: &Match| {
            assumed_result(&region_test.test.assumed_results, match_module_name(m, family))
        };
        let never_drops = |name: &str| is_assumed_not_to_drop(region_test.test, name);
        let assumptions =
            RegionAssumptions { assumed_result: &assumed_result, never_drops: &never_drops };
        let path = match verdicts.decide_region(region, &is_expected, assumptions) {
            Ok(RegionDecision::NoPackets) => continue,
            Ok(RegionDecision::Holds) => {
                PolicyPathReport::new(family, journey, PolicyTestResult::Holds)
            }
            Ok(RegionDecision::Fails(failing)) => {
                words.report_failing_packets(&failing, region_test.given())
            }
            Ok(RegionDecision::DependsOnResults(packets)) => {
                words.report_undecided_packets(&packets)
            }
            Err(error) => report_undecided(family, journey, &error),
        };
        paths.push((region_test.index, path));
    }
    DecidedRegions { paths, steps: verdicts.steps_spent() }
}

/// The region of a test with the conditions of the journey: a packet whose TTL runs out is not
/// forwarded, whatever the rules are.
pub(super) fn region_with_journey_conditions(
    test: &PolicyTest,
    journey: JourneyKind,
) -> Option<PacketRegion> {
    let PolicyTestPackets::Region { region, given, .. } = &test.subject else { return None };
    let mut region = region.clone();
    if journey == JourneyKind::Forward && !given.contains(Field::Ttl) {
        region.conditions.push(FieldCondition {
            field: Field::Ttl,
            alternatives: vec![Predicate::InSpans(vec![(2, 255)])],
            negated: false,
            accepts_absent_field: false,
        });
    }
    Some(region)
}

/// A region of failing packets in words, without what all packets of a region have unless the test
/// says otherwise.
fn render_failing_region(region: &Region, given: FieldSet) -> String {
    let is_usual = |value: &FieldValues| {
        let one = (value.values.len() == 1).then(|| value.values[0].as_str());
        match (&*value.name, one) {
            ("iif" | "oif", Some("none")) => true,
            ("mark", Some("0x0")) => !given.contains(Field::Mark),
            ("ct mark", Some("0x0")) => !given.contains(Field::CtMark),
            ("pkttype", Some("unicast")) => !given.contains(Field::PktType),
            ("ct state", Some("new")) => !given.contains(Field::CtState),
            ("ip ttl" | "ip6 ttl" | "ip6 hoplimit", Some("2-255")) => !given.contains(Field::Ttl),
            // What the headers need.
            ("length", Some(lengths)) => lengths.ends_with("-65535"),
            // SYN without FIN, RST and ACK; PSH and URG may be anything.
            ("tcp flags", _) => {
                !given.contains(Field::TcpFlags) && value.values.len() + value.omitted_count == 4
            }
            _ => false,
        }
    };
    let mut region = region.clone();
    region.field_values.retain(|value| !is_usual(value));
    match region.field_values.is_empty() {
        true => "every packet of the region".to_owned(),
        false => region.to_string().replace(" not snat not dnat", ""),
    }
}

fn report_undecided(
    family: Family,
    journey: JourneyKind,
    error: &RegionDecisionError,
) -> PolicyPathReport {
    let mut path = PolicyPathReport::new(family, journey, PolicyTestResult::Undecided);
    path.why = Some(match error {
        RegionDecisionError::OtherReason(_) => error.to_string(),
        RegionDecisionError::OutOfMemory { .. } => format!("{error}; --memory allows more"),
        RegionDecisionError::OutOfSteps { .. } => format!("{error}; --steps allows more"),
    });
    path
}

/// What the words of a path's result need.
struct PathReportBuilder<'f> {
    interpreter: Interpreter<'f>,
    state_ids: StatefulTestIdResolver,
    devices: DeviceNameClasses,
    family: Family,
    journey: JourneyKind,
}

impl PathReportBuilder<'_> {
    fn report_failing_packets(
        &self,
        failing: &FailingPackets,
        given: FieldSet,
    ) -> PolicyPathReport {
        let mut path = PolicyPathReport::new(self.family, self.journey, PolicyTestResult::Fails);
        path.failing_share = Some(failing.share_of_region);
        path.failing_regions =
            failing.regions.iter().map(|region| render_failing_region(region, given)).collect();
        path.packet = Some(self.trace_witness(&failing.witness));
        path
    }

    fn report_undecided_packets(&self, packets: &UndecidedPackets) -> PolicyPathReport {
        let mut path =
            PolicyPathReport::new(self.family, self.journey, PolicyTestResult::Undecided);
        let traced = self.trace_witness(&packets.witness_with_assumed_results);
        let assumed = packets
            .witness
            .describe_assumptions_as_phrases(&|m| iptables::print_match(m, self.family));
        path.why = Some(match assumed.is_empty() {
            true => traced.verdict.clone(),
            false => format!("{} if {}", traced.verdict, assumed.join(" and ")),
        });
        path.packet = Some(traced);
        path
    }

    fn trace_witness(&self, witness: &Witness) -> TracedPacket {
        let mut oracle = witness.to_oracle(&self.state_ids);
        let trace = trace_journey(&self.interpreter, &witness.packet, self.journey, &mut oracle);
        to_traced_packet(&witness.packet, &trace, self.describe_devices(&witness.packet))
    }

    /// Devices of a packet that stand for others.
    fn describe_devices(&self, packet: &Packet) -> Vec<String> {
        let mut phrases = Vec::new();
        for name in [&packet.iif, &packet.oif] {
            let meaning = self.devices.describe_name(name);
            let phrase = format!("{name} stands for {meaning}");
            if !name.is_empty() && meaning != *name && !phrases.contains(&phrase) {
                phrases.push(phrase);
            }
        }
        phrases
    }
}
