//! What a test expects, assumes, and on which paths.

use weir_model::{Family, Field, Hook};
use weir_semantics::{JourneyKind, Verdict};
use weir_syntax::policy::{AssumedMatchResult, ExpectedVerdict, PolicyTest, PolicyTestPackets};

use super::policy_report::InvalidTestReason;

/// The journeys of a test: the one that it names, or those of packets with its devices. A packet
/// that has only an input device goes to this host; a region is then about forwarded packets, too.
pub(super) fn journeys_of_test(test: &PolicyTest) -> Vec<JourneyKind> {
    use JourneyKind::{Forward, Input, Output};
    match test.via {
        Some(Hook::Input) => return vec![Input],
        Some(Hook::Output) => return vec![Output],
        Some(_) => return vec![Forward],
        None => {}
    }
    let (given, is_region) = match &test.subject {
        PolicyTestPackets::Packet { given, .. } => (given, false),
        PolicyTestPackets::Region { given, .. } => (given, true),
    };
    match (given.contains(Field::Iif), given.contains(Field::Oif)) {
        (true, true) => vec![Forward],
        (true, false) if is_region => vec![Forward, Input],
        (false, true) if is_region => vec![Forward, Output],
        (true, false) => vec![Input],
        (false, true) => vec![Output],
        (false, false) => JourneyKind::ALL.to_vec(),
    }
}

/// Whether a test that expects the one holds for packets with the other.
pub fn is_expected_verdict(expected: &ExpectedVerdict, verdict: Verdict) -> bool {
    match (expected, verdict) {
        (ExpectedVerdict::Accept, Verdict::Accept)
        | (ExpectedVerdict::Drop, Verdict::Drop)
        | (ExpectedVerdict::Reject(None), Verdict::Reject(_))
        | (ExpectedVerdict::Deny, Verdict::Drop | Verdict::Reject(_))
        | (ExpectedVerdict::HandedOver, Verdict::Divert(_)) => true,
        (ExpectedVerdict::Reject(Some(wanted)), Verdict::Reject(with)) => *wanted == with,
        _ => false,
    }
}

/// The result that a test assumes of the matches of a module.
pub(super) fn assumed_result(assumed: &[AssumedMatchResult], module: &str) -> Option<bool> {
    assumed.iter().find(|assumed| assumed.module == module).map(|assumed| assumed.matches)
}

/// Whether a test assumes that a module or target drops no packet itself.
pub(super) fn is_assumed_not_to_drop(test: &PolicyTest, name: &str) -> bool {
    test.assumed_not_to_drop.iter().any(|assumed| assumed == name)
}

/// The ruleset has no rules of a family.
pub(super) fn missing_family_reason(family: Option<Family>) -> InvalidTestReason {
    let (rules, cure) = match family {
        Some(Family::V4) => ("IPv4 rules", "give the iptables-save text as FILE"),
        Some(Family::V6) => ("IPv6 rules", "give the ip6tables-save text with --ip6 FILE"),
        None => ("rules", "give the iptables-save text as FILE"),
    };
    InvalidTestReason { message: format!("the ruleset has no {rules}"), cure: cure.to_owned() }
}
