//! One item of a paper's claims: its kind, its status and the numbers that decided it.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_stats::{ClaimOutcome, Estimate};

/// One figure, table, observation or conclusion.
#[derive(Clone, Debug, Serialize)]
pub struct StatementWithStatus {
    /// Its number: the paper's letter and a count, e.g. `K12`; of weir's own claims the name.
    pub number: String,
    /// What it is.
    pub kind: StatementKind,
    /// Where the paper has it.
    pub place: String,
    /// What it says, in our words.
    pub text: String,
    /// The value that the paper's text states for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<String>,
    /// The outcome of it.
    pub status: StatementStatus,
    /// Why, where the status has a reason: what is needed, lost or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The numbers that decided, one a claim.
    pub evidence: Vec<ClaimEvidence>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementKind {
    /// A drawing.
    Figure,
    /// A table, or a row of one.
    Table,
    /// Something that was seen.
    Observation,
    /// Something that was concluded, or advised.
    Conclusion,
    /// A claim of weir, of no paper.
    Own,
}

impl fmt::Display for StatementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatementKind::Figure => "figure",
            StatementKind::Table => "table",
            StatementKind::Observation => "observation",
            StatementKind::Conclusion => "conclusion",
            StatementKind::Own => "weir",
        })
    }
}

/// The outcome of an item; the worse ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementStatus {
    /// No study can measure it yet.
    NotBuilt,
    /// A study can, and no run of it is kept.
    NotRun,
    /// The kept run does not hold what the test needs.
    NotMeasured,
    /// Measured, and not seen here.
    NotReproduced,
    /// The same direction, not the same size.
    ReproducedInShape,
    /// Seen here too.
    Reproduced,
    /// It takes what this machine is not.
    NeedsHardware,
    /// The paper's text does not hold it.
    NotPreserved,
}

impl fmt::Display for StatementStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StatementStatus::NotBuilt => "not built yet",
            StatementStatus::NotRun => "not run yet",
            StatementStatus::NotMeasured => "not measured",
            StatementStatus::NotReproduced => "not reproduced",
            StatementStatus::ReproducedInShape => "qualitatively reproduced",
            StatementStatus::Reproduced => "reproduced",
            StatementStatus::NeedsHardware => "needs hardware",
            StatementStatus::NotPreserved => "not preserved in the text",
        })
    }
}

impl From<ClaimOutcome> for StatementStatus {
    fn from(outcome: ClaimOutcome) -> StatementStatus {
        match outcome {
            ClaimOutcome::Reproduced => StatementStatus::Reproduced,
            ClaimOutcome::ReproducedInShape => StatementStatus::ReproducedInShape,
            ClaimOutcome::NotReproducedOrUndecided => StatementStatus::NotReproduced,
            ClaimOutcome::NeedsHardware => StatementStatus::NeedsHardware,
            ClaimOutcome::NotMeasured => StatementStatus::NotMeasured,
        }
    }
}

/// A claim's number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimEvidence {
    /// The claim in `study.toml`.
    pub claim: String,
    /// The outcome of it.
    pub status: StatementStatus,
    /// Its number with the interval, where it was measured.
    pub estimate: Option<Estimate>,
}
