//! One item of a paper's claims: its kind, its status and the numbers that decided it.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_stats::{ClaimOutcome, Estimate};

/// One figure, table, observation or conclusion.
#[derive(Clone, Debug, Serialize)]
pub struct PaperStatement {
    /// Its number: the paper's letter and a count, e.g. `K12`; of weir's own claims the name.
    pub number: String,
    /// What it is.
    pub kind: PaperStatementKind,
    /// Where the paper has it.
    pub place: String,
    /// What it says, in our words.
    pub text: String,
    /// The value that the paper's text states for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<String>,
    /// The outcome of it.
    pub status: PaperStatementStatus,
    /// Why, where the status has a reason: what is needed, lost or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The numbers that decided, one a claim.
    pub evidence: Vec<ClaimEvidence>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaperStatementKind {
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

impl fmt::Display for PaperStatementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PaperStatementKind::Figure => "figure",
            PaperStatementKind::Table => "table",
            PaperStatementKind::Observation => "observation",
            PaperStatementKind::Conclusion => "conclusion",
            PaperStatementKind::Own => "weir",
        })
    }
}

/// The outcome of an item; the worse ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PaperStatementStatus {
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

impl fmt::Display for PaperStatementStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PaperStatementStatus::NotBuilt => "not built yet",
            PaperStatementStatus::NotRun => "not run yet",
            PaperStatementStatus::NotMeasured => "not measured",
            PaperStatementStatus::NotReproduced => "not reproduced",
            PaperStatementStatus::ReproducedInShape => "qualitatively reproduced",
            PaperStatementStatus::Reproduced => "reproduced",
            PaperStatementStatus::NeedsHardware => "needs hardware",
            PaperStatementStatus::NotPreserved => "not preserved in the text",
        })
    }
}

impl From<ClaimOutcome> for PaperStatementStatus {
    fn from(outcome: ClaimOutcome) -> PaperStatementStatus {
        match outcome {
            ClaimOutcome::Reproduced => PaperStatementStatus::Reproduced,
            ClaimOutcome::ReproducedInShape => PaperStatementStatus::ReproducedInShape,
            ClaimOutcome::NotReproduced => PaperStatementStatus::NotReproduced,
            ClaimOutcome::NeedsHardware => PaperStatementStatus::NeedsHardware,
            ClaimOutcome::NotMeasured => PaperStatementStatus::NotMeasured,
        }
    }
}

/// A claim's number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimEvidence {
    /// The claim in `study.toml`.
    pub claim: String,
    /// The outcome of it.
    pub status: PaperStatementStatus,
    /// Its number with the interval, where it was measured.
    pub estimate: Option<Estimate>,
}
