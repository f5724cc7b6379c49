//! One objection of a referee.

use serde::Serialize;

/// What a referee would say of a statement, or of a claim of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Objection {
    /// What it is about.
    pub kind: ObjectionKind,
    /// The claim in `study.toml`; `None` if it is about the statement or the whole study.
    pub claim: Option<String>,
    /// One sentence, without a full stop.
    pub text: String,
}

/// What an objection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectionKind {
    /// The run's noise floor is wide, or unknown.
    NoiseFloor,
    /// Too many trials count although they were disturbed.
    GivenUpTrials,
    /// Too few samples.
    FewSamples,
    /// The interval reaches over a bound.
    StraddledBound,
    /// The study defines what was measured otherwise than it did then.
    ChangedDefinition,
    /// The test of the claim is newer than the run that decides it.
    TestNewerThanRun,
    /// Another run contradicts the number by more than both intervals.
    ContradictingRun,
    /// The claims of one statement rest on several processors.
    SeveralProcessors,
    /// No kept run has what the test needs.
    NotMeasured,
    /// Nothing in the record proves which rules the packets hit.
    UnrecordedTraffic,
    /// Nothing in the record shows that a subject evaluates its rules.
    SubjectWithoutObservedEffect,
    /// The test holds whatever is measured.
    TrueByConstruction,
    /// The bound is so far from the number that the test could not fail.
    TrivialBound,
    /// Nothing ties the direction of the test to the paper.
    UnstatedExpectation,
    /// The A/A comparison is missing, in doubt, or decided by another statistic.
    AaComparison,
}
