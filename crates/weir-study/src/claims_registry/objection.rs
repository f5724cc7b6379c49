//! One objection of a referee.

use serde::Serialize;

/// An objection to a statement or to one of its claims.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Objection {
    /// Its kind.
    pub kind: ObjectionKind,
    /// The claim in `study.toml`; `None` if it is about the statement or the whole study.
    pub claim: Option<String>,
    /// One sentence, without a full stop.
    pub text: String,
}

/// The kind of an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectionKind {
    /// The run's noise floor is wide, or unknown.
    NoiseFloor,
    /// Too many trials count although they were disturbed.
    GivenUpTrials,
    /// Too few samples.
    FewSamples,
    /// The interval contains a bound.
    StraddledBound,
    /// The study now defines the measured parts differently than at the time of the run.
    ChangedDefinition,
    /// The test of the claim is newer than the run that decides it.
    TestNewerThanRun,
    /// Another run contradicts the number by more than both intervals.
    ContradictingRun,
    /// The claims of one statement rest on several processors.
    SeveralProcessors,
    /// No kept run measured what the test needs.
    NotMeasured,
    /// The record does not contain which rules the packets hit.
    UnrecordedTraffic,
    /// The record does not show that a subject evaluates its rules.
    SubjectWithoutObservedEffect,
    /// The test holds for any measurement.
    TrueByConstruction,
    /// The bound is so far from the number that the test could not fail.
    TrivialBound,
    /// The study does not state the number or direction that the paper reports.
    UnstatedExpectation,
    /// The A/A comparison is missing, in doubt, or decided by another statistic.
    AaComparison,
}
