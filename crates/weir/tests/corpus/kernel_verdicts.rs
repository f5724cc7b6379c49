//! Packets of a policy's tests, sent through the kernel with the ruleset loaded.

use weir_model::{CtState, Firewall, Packet};
use weir_packet::ConntrackInfo;
use weir_review::policy_check::{PolicyReport, PolicyTestReport, is_expected_verdict};
use weir_semantics::{Interpreter, JourneyKind};
use weir_syntax::packet::print_packet;
use weir_syntax::policy::{PolicyTest, PolicyTestPackets};
use weir_verify::{ComparedPacket, VerifyOptions, VerifyReport, verify};

use crate::policy_case::{PolicyCase, journey_of_path};
use crate::region_samples::{RegionSampler, is_in_region};

/// Packets of a test that is sent alone.
const PACKETS_PER_SEPARATE_TEST: usize = 3;

/// What the kernel said of a policy.
pub struct KernelConfirmation {
    /// For each test with packets in the kernel, how many had the stated verdict.
    packets_of_confirmed_tests: Vec<usize>,
    /// The other tests, and why no packet of theirs was sent.
    pub tests_without_packets: Vec<(String, String)>,
    /// Packets with another verdict than stated, and what differs from the interpreter.
    pub contradictions: Vec<String>,
}

impl KernelConfirmation {
    /// Confirmed tests, and their packets.
    pub fn count_tests_and_packets(&self) -> (usize, usize) {
        let packets = &self.packets_of_confirmed_tests;
        (packets.len(), packets.iter().sum())
    }
}

/// Sends packets of all tests of a policy that holds.
pub fn confirm_policy_by_kernel(
    case: &PolicyCase,
    firewall: &Firewall,
    report: &PolicyReport,
) -> KernelConfirmation {
    let mut sampler = RegionSampler::new(firewall, case.family);
    let mut packets = Vec::new();
    for (test, decided) in case.policy.tests.iter().zip(&report.tests) {
        for path in &decided.paths {
            let journey = journey_of_path(path.path);
            let sampled = sampler.sample_test(test, journey);
            packets.extend(sampled.into_iter().map(|packet| (journey, packet)));
        }
    }
    let kernel = send_packets_through_kernel(firewall, packets, true);
    let is_conntrack_used = Interpreter::new(firewall).is_conntrack_used_by_family(case.family);
    let mut confirmation = KernelConfirmation {
        packets_of_confirmed_tests: Vec::new(),
        tests_without_packets: Vec::new(),
        contradictions: Vec::new(),
    };
    if !kernel.has_no_unintended_difference() {
        confirmation.contradictions.push(format!("{}: {kernel}", case.name));
    }
    for (test, decided) in case.policy.tests.iter().zip(&report.tests) {
        let is_assuming = !test.assumed_results.is_empty() || !test.assumed_not_to_drop.is_empty();
        let (mut stated, other) = count_packets_of_test(test, decided, &kernel, is_conntrack_used);
        if let (Some(wrong), false) = (&other, is_assuming) {
            confirmation.contradictions.push(format!(
                "{}: {}: the kernel: {:?} for {}",
                case.name,
                test.words,
                wrong.verdict,
                print_packet(&wrong.packet)
            ));
        }
        if stated == 0 {
            stated = confirm_test_alone(test, decided, firewall, (&mut sampler, is_conntrack_used));
        }
        match stated {
            0 => confirmation.tests_without_packets.push((
                test.words.clone(),
                match other {
                    Some(sent) => format!("{:?}: the assumption is not true", sent.verdict),
                    None => {
                        format!("not sent, or other states; of all packets {:?}", kernel.excluded)
                    }
                },
            )),
            packets => confirmation.packets_of_confirmed_tests.push(packets),
        }
    }
    confirmation
}

/// How many packets of a test had the stated verdict, and one that had another.
fn count_packets_of_test<'k>(
    test: &PolicyTest,
    decided: &PolicyTestReport,
    kernel: &'k VerifyReport,
    is_conntrack_used: bool,
) -> (usize, Option<&'k ComparedPacket>) {
    let journeys: Vec<JourneyKind> =
        decided.paths.iter().map(|path| journey_of_path(path.path)).collect();
    let sent = kernel
        .compared_packets
        .iter()
        .filter(|sent| journeys.contains(&sent.journey_kind))
        .filter(|sent| is_packet_of_test(test, sent, is_conntrack_used));
    let (stated, other): (Vec<&ComparedPacket>, Vec<&ComparedPacket>) =
        sent.partition(|sent| is_expected_verdict(&test.expected, sent.verdict));
    (stated.len(), other.first().copied())
}

/// Sends few packets of one test: no other packet has used up a limit or is in a list of recent
/// addresses, their addresses are the host's own or not, and they have one source or several.
fn confirm_test_alone(
    test: &PolicyTest,
    decided: &PolicyTestReport,
    firewall: &Firewall,
    (sampler, is_conntrack_used): (&mut RegionSampler, bool),
) -> usize {
    for (own, is_one_source) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut packets = Vec::new();
        for path in &decided.paths {
            let journey = journey_of_path(path.path);
            let sampled =
                sampler.sample_test(test, journey).into_iter().take(PACKETS_PER_SEPARATE_TEST);
            packets.extend(sampled.map(|packet| (journey, packet)));
        }
        if let (true, Some(source)) = (is_one_source, packets.first().map(|(_, p)| p.saddr)) {
            packets.iter_mut().for_each(|(_, packet)| packet.saddr = source);
        }
        let kernel = send_packets_through_kernel(firewall, packets, own);
        let (stated, _) = count_packets_of_test(test, decided, &kernel, is_conntrack_used);
        if stated > 0 && kernel.has_no_unintended_difference() {
            return stated;
        }
    }
    0
}

/// Sends packets through the kernel with the ruleset loaded in a namespace.
pub fn send_packets_through_kernel(
    firewall: &Firewall,
    packets: Vec<(JourneyKind, Packet)>,
    own: bool,
) -> VerifyReport {
    let options = VerifyOptions {
        exact_packets: Some(packets),
        exact_packets_have_own_addresses: own,
        ..VerifyOptions::default()
    };
    verify(firewall, &[], &options, &mut |_, _| {}).expect("namespaces")
}

/// Whether a test is about a packet, with the state that conntrack gave it, if it is in use
/// (`tracks`).
fn is_packet_of_test(test: &PolicyTest, sent: &ComparedPacket, is_conntrack_used: bool) -> bool {
    let mut packet = sent.packet.clone();
    if !is_conntrack_used {
        packet.ct = ConntrackInfo::from_state(CtState::New);
    }
    match &test.subject {
        PolicyTestPackets::Region { region, .. } => {
            is_in_region(region, &packet, sent.journey_kind)
        }
        PolicyTestPackets::Packet { packet: stated, .. } => {
            let key = |p: &Packet| {
                (p.iif.clone(), p.oif.clone(), p.saddr, p.daddr, p.proto, p.ports(), p.ct.state)
            };
            key(stated) == key(&packet)
        }
    }
}
