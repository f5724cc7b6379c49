//! Packets of the regions that policies of the examples are about, sent through the kernel: they
//! have the verdict that `weir test` decided for all of them. Needs root.

use std::fs;
use std::path::Path;

use weir_model::{Family, Firewall, Packet};
use weir_packet::Transport;
use weir_review::policy_check::{PolicyCheckLimits, check_policy, is_expected_verdict};
use weir_semantics::{AlwaysFalseOracle, Interpreter, JourneyKind, Verdict};
use weir_syntax::ipset;
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::policy::{PolicyTest, PolicyTestPackets, parse_policy};
use weir_testkit::skip_without_root;
use weir_traffic::{TrafficOptions, generate_boundary_and_random_packets};
use weir_verify::{VerifyOptions, verify};

/// Packets of one region and path.
const PACKETS_PER_REGION: usize = 40;

fn example(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn load_firewall(rules: &str, sets: &str) -> Firewall {
    let sets = ipset::parse(sets).expect("sets");
    let settings = ParserSettings { known_sets: Some(&sets), ..ParserSettings::default() };
    let ruleset = parse(rules, &settings).expect("rules");
    let (v4, v6) = match ruleset.family {
        Family::V4 => (Some(ruleset), None),
        Family::V6 => (None, Some(ruleset)),
    };
    Firewall { v4, v6, sets }
}

/// Packets of a region on a journey that the interpreter decides without an assumption.
fn sample_region(
    test: &PolicyTest,
    journey: JourneyKind,
    firewall: &Firewall,
) -> Vec<(Packet, Verdict)> {
    let PolicyTestPackets::Region { region, .. } = &test.subject else { return Vec::new() };
    let interpreter = Interpreter::new(firewall);
    let ruleset = firewall.rulesets().next().expect("rules");
    let options = TrafficOptions {
        seed: 11,
        max_packets: 4_000,
        journey_kind: journey,
        ..TrafficOptions::default()
    };
    let packets = generate_boundary_and_random_packets(ruleset, &firewall.sets, &options);
    let whole = packets.into_iter().filter(|packet| {
        packet.fragment.offset == 0
            && !packet.fragment.more_fragments
            && packet.transport != Transport::Truncated
            && packet.ttl >= 2
            && region.contains(packet)
    });
    let decided = whole.map(|packet| {
        let outcome = interpreter.evaluate_journey(&packet, journey, &mut AlwaysFalseOracle);
        let verdict = outcome.verdict;
        (packet, verdict)
    });
    decided.take(PACKETS_PER_REGION).collect()
}

/// How many packets of the policy's regions the kernel and the policy agree on.
fn count_confirmed_packets(policy: &str, rules: &str, sets: &str) -> (u64, usize) {
    let firewall = load_firewall(rules, sets);
    let policy = parse_policy(&example(policy)).expect("a policy");
    let limits = PolicyCheckLimits { memory_bytes: 1 << 30, steps_max: 100_000_000 };
    let report = check_policy(&policy, &firewall, limits, &mut |_, _| {});
    let mut packets = Vec::new();
    let mut regions = 0;
    for (test, decided) in policy.tests.iter().zip(&report.tests) {
        for path in &decided.paths {
            let journey = match path.path {
                "forward" => JourneyKind::Forward,
                "input" => JourneyKind::Input,
                _ => JourneyKind::Output,
            };
            let sample = sample_region(test, journey, &firewall);
            regions += usize::from(!sample.is_empty());
            for (packet, verdict) in sample {
                let holds = path.result == weir_review::policy_check::PolicyTestResult::Holds;
                if holds && test.assumed_results.is_empty() {
                    assert!(
                        is_expected_verdict(&test.expected, verdict),
                        "{}: {packet:?}",
                        test.words
                    );
                }
                packets.push((journey, packet));
            }
        }
    }
    let options = VerifyOptions { exact_packets: Some(packets), ..VerifyOptions::default() };
    let report = verify(&firewall, &[], &options, &mut |_, _| {}).expect("namespaces");
    assert!(report.has_no_unintended_difference(), "{report}");
    (report.compared, regions)
}

#[test]
fn the_kernel_confirms_policy_results_for_kept_and_broken_policies() {
    if skip_without_root() {
        return;
    }
    let office = example("office.rules");
    let broken = office.replace("--dports 22,80,443,993", "--dports 22,80,443,993,8080");
    assert_ne!(office, broken);
    for (policy, rules, sets, least) in [
        ("office.policy", office, String::new(), 100),
        ("office.policy", broken, String::new(), 100),
        ("host6.policy", example("host6.rules6"), String::new(), 40),
        ("blocklist.policy", example("blocklist.rules"), example("blocklist.ipset"), 60),
    ] {
        let (confirmed, regions) = count_confirmed_packets(policy, &rules, &sets);
        assert!(confirmed >= least, "{policy}: {confirmed} packets of {regions} regions");
        assert!(regions >= 4, "{policy}: {regions}");
    }
}
