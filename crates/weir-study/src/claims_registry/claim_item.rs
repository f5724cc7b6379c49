//! One item of a paper's claims: its kind, its status and the numbers that decided it.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_stats::{ClaimOutcome, Estimate};

/// One figure, table, observation or conclusion.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimItem {
    /// Its number: the paper's letter and a count, e.g. `K12`; of weir's own claims the name.
    pub number: String,
    /// What it is.
    pub kind: ClaimItemKind,
    /// Where the paper has it.
    pub place: String,
    /// What it says, in our words.
    pub text: String,
    /// The value that the paper's text states for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated: Option<String>,
    /// The outcome of it.
    pub status: ClaimItemStatus,
    /// Why, where the status has a reason: what is needed, lost or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The numbers that decided, one a claim.
    pub evidence: Vec<ClaimEvidence>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimItemKind {
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

impl fmt::Display for ClaimItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimItemKind::Figure => "figure",
            ClaimItemKind::Table => "table",
            ClaimItemKind::Observation => "observation",
            ClaimItemKind::Conclusion => "conclusion",
            ClaimItemKind::Own => "weir",
        })
    }
}

/// The outcome of an item; the worse ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimItemStatus {
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

impl fmt::Display for ClaimItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ClaimItemStatus::NotBuilt => "not built yet",
            ClaimItemStatus::NotRun => "not run yet",
            ClaimItemStatus::NotMeasured => "not measured",
            ClaimItemStatus::NotReproduced => "not reproduced",
            ClaimItemStatus::ReproducedInShape => "qualitatively reproduced",
            ClaimItemStatus::Reproduced => "reproduced",
            ClaimItemStatus::NeedsHardware => "needs hardware",
            ClaimItemStatus::NotPreserved => "not preserved in the text",
        })
    }
}

impl From<ClaimOutcome> for ClaimItemStatus {
    fn from(outcome: ClaimOutcome) -> ClaimItemStatus {
        match outcome {
            ClaimOutcome::Reproduced => ClaimItemStatus::Reproduced,
            ClaimOutcome::ReproducedInShape => ClaimItemStatus::ReproducedInShape,
            ClaimOutcome::NotReproduced => ClaimItemStatus::NotReproduced,
            ClaimOutcome::NeedsHardware => ClaimItemStatus::NeedsHardware,
            ClaimOutcome::NotMeasured => ClaimItemStatus::NotMeasured,
        }
    }
}

/// A claim's number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimEvidence {
    /// The claim in `study.toml`.
    pub claim: String,
    /// The outcome of it.
    pub status: ClaimItemStatus,
    /// Its number with the interval, where it was measured.
    pub estimate: Option<Estimate>,
}
