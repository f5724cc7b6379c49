//! The results of a policy. They serialise to JSON directly: docs/guide/json.md documents these
//! members.

use serde::Serialize;
use weir_model::Family;
use weir_semantics::JourneyKind;
use weir_syntax::policy::{ExpectedVerdict, PolicyTest, PolicyTestPackets};

use crate::explain::TraceStepRow;

/// The results of all tests of a policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// Tests that hold.
    pub holding_tests: usize,
    /// Tests that fail.
    pub failing_tests: usize,
    /// Tests that could not be decided.
    pub undecided_tests: usize,
    /// Tests that make no sense for this ruleset.
    pub invalid_tests: usize,
    /// In the order of the policy.
    pub tests: Vec<PolicyTestReport>,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyTestResult {
    /// Every packet has an expected verdict.
    Holds,
    /// It could not be decided.
    Undecided,
    /// Some packet has another verdict.
    Fails,
    /// No packet is in the region, or the ruleset cannot have the packet.
    Invalid,
}

/// A test and its result.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyTestReport {
    /// The group that it is in.
    pub group: Option<String>,
    /// Its name; its words if it has none.
    pub name: String,
    /// Its words.
    pub test: String,
    /// Its line in the policy, from 1.
    pub line: usize,
    /// `packet` or `region`.
    pub kind: &'static str,
    /// The expected verdict in words.
    pub expected: String,
    /// The worst result of its paths.
    pub result: PolicyTestResult,
    /// Why it is invalid, and the cure.
    pub invalid: Option<InvalidTestReason>,
    /// The result for each family and path.
    pub paths: Vec<PolicyPathReport>,
}

/// Why a test makes no sense for a ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidTestReason {
    /// The reason.
    pub message: String,
    /// What to do about it.
    pub cure: String,
}

/// The result of a test for one family and path.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyPathReport {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// `forward`, `input` or `output`.
    pub path: &'static str,
    /// The result.
    pub result: PolicyTestResult,
    /// Which part of the region fails, from 0 to 1; only of a region that fails.
    pub failing_share: Option<f64>,
    /// Where the failing packets lie, the largest region first.
    pub failing_regions: Vec<String>,
    /// Why it could not be decided.
    pub why: Option<String>,
    /// A packet that fails, or whose verdict is not known.
    pub packet: Option<TracedPacket>,
}

/// A packet and its path through the ruleset.
#[derive(Clone, Debug, Serialize)]
pub struct TracedPacket {
    /// Its words, as `--packet` reads them.
    pub packet: String,
    /// Devices in it that stand for others.
    pub stands_for: Vec<String>,
    /// Its verdict.
    pub verdict: String,
    /// Every rule that was tried, every verdict of a table.
    pub steps: Vec<TraceStepRow>,
    /// The same for people, in lines.
    #[serde(skip)]
    pub trace_text: String,
}

impl PolicyPathReport {
    pub(super) fn new(
        family: Family,
        journey: JourneyKind,
        result: PolicyTestResult,
    ) -> PolicyPathReport {
        PolicyPathReport {
            family: family_name(family),
            path: journey_name(journey),
            result,
            failing_share: None,
            failing_regions: Vec::new(),
            why: None,
            packet: None,
        }
    }
}

impl PolicyTestReport {
    pub(super) fn new(test: &PolicyTest) -> PolicyTestReport {
        PolicyTestReport {
            group: test.group.clone(),
            name: test.name.clone(),
            test: test.words.clone(),
            line: test.line,
            kind: match test.subject {
                PolicyTestPackets::Packet { .. } => "packet",
                PolicyTestPackets::Region { .. } => "region",
            },
            expected: expected_verdict_words(&test.expected),
            result: PolicyTestResult::Invalid,
            invalid: None,
            paths: Vec::new(),
        }
    }

    pub(super) fn set_worst_result_of_paths(&mut self) {
        self.result = match self.invalid {
            Some(_) => PolicyTestResult::Invalid,
            None => {
                let worst = self.paths.iter().map(|path| path.result).max();
                worst.unwrap_or(PolicyTestResult::Invalid)
            }
        };
    }
}

impl PolicyReport {
    pub(super) fn from_tests(tests: Vec<PolicyTestReport>) -> PolicyReport {
        let count = |result| tests.iter().filter(|test| test.result == result).count();
        PolicyReport {
            holding_tests: count(PolicyTestResult::Holds),
            failing_tests: count(PolicyTestResult::Fails),
            undecided_tests: count(PolicyTestResult::Undecided),
            invalid_tests: count(PolicyTestResult::Invalid),
            tests,
        }
    }
}

fn expected_verdict_words(expected: &ExpectedVerdict) -> String {
    match expected {
        ExpectedVerdict::Accept => "accept".to_owned(),
        ExpectedVerdict::Drop => "drop".to_owned(),
        ExpectedVerdict::Reject(None) => "reject".to_owned(),
        ExpectedVerdict::Reject(Some(with)) => format!("reject with {with}"),
        ExpectedVerdict::Deny => "drop or reject".to_owned(),
        ExpectedVerdict::HandedOver => "handed over".to_owned(),
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn journey_name(journey: JourneyKind) -> &'static str {
    match journey {
        JourneyKind::Forward => "forward",
        JourneyKind::Input => "input",
        JourneyKind::Output => "output",
    }
}
