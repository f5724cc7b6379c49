//! One item of a paper's claims: its kind, its status and the numbers that decided it.

use std::fmt;

use super::objection::Objection;
use serde::{Deserialize, Serialize};
use weir_stats::{ClaimOutcome, Estimate, EvidenceShortcoming};

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
    /// What a referee would object to.
    pub objections: Vec<Objection>,
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

/// The outcome of an item. Of several claims, the first one in this order is that of the statement:
/// a refuted part refutes it, whatever else is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementStatus {
    /// No study can measure it yet.
    NotBuilt,
    /// A study can, and no run of it is kept.
    NotRun,
    /// Measured, and the whole interval contradicts it.
    Refuted,
    /// No kept run holds what the test needs.
    NotMeasured,
    /// The interval reaches over a bound, or no kept run is good enough to decide.
    Undecided,
    /// The same direction, not the same size.
    InDirectionOnly,
    /// Seen here too.
    Reproduced,
    /// It takes hardware that this machine has not.
    NeedsHardware,
    /// It takes a kernel or a program of that time.
    NeedsOldSoftware,
    /// The paper's text does not hold it.
    NotPreserved,
}

impl StatementStatus {
    /// Whether a measurement decided it, in whichever direction.
    pub fn is_decided_by_measurement(self) -> bool {
        matches!(
            self,
            StatementStatus::Refuted
                | StatementStatus::InDirectionOnly
                | StatementStatus::Reproduced
        )
    }
}

impl fmt::Display for StatementStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StatementStatus::NotBuilt => "not built yet",
            StatementStatus::NotRun => "not run yet",
            StatementStatus::Refuted => "refuted",
            StatementStatus::NotMeasured => "not measured",
            StatementStatus::Undecided => "undecided",
            StatementStatus::InDirectionOnly => "in direction only",
            StatementStatus::Reproduced => "reproduced",
            StatementStatus::NeedsHardware => "needs hardware",
            StatementStatus::NeedsOldSoftware => "needs old software",
            StatementStatus::NotPreserved => "not preserved in the text",
        })
    }
}

impl From<ClaimOutcome> for StatementStatus {
    fn from(outcome: ClaimOutcome) -> StatementStatus {
        match outcome {
            ClaimOutcome::Reproduced => StatementStatus::Reproduced,
            ClaimOutcome::InDirectionOnly => StatementStatus::InDirectionOnly,
            ClaimOutcome::Undecided => StatementStatus::Undecided,
            ClaimOutcome::Refuted => StatementStatus::Refuted,
            ClaimOutcome::NeedsHardware => StatementStatus::NeedsHardware,
            ClaimOutcome::NeedsOldSoftware => StatementStatus::NeedsOldSoftware,
            ClaimOutcome::NotMeasured => StatementStatus::NotMeasured,
        }
    }
}

/// What the kept runs say of one claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimEvidence {
    /// The claim in `study.toml`.
    pub claim: String,
    /// The outcome of it.
    pub status: StatementStatus,
    /// Its number with the interval, where it was measured.
    pub estimate: Option<Estimate>,
    /// The run that decides, e.g. `runs/2026-11-21-amd-epyc-2cpu`.
    pub run: Option<String>,
    /// The processor of that run.
    pub cpu: Option<String>,
    /// Why it is undecided.
    pub shortcomings: Vec<EvidenceShortcoming>,
    /// What the other kept runs say of it.
    pub other_runs: Vec<OtherRunEvidence>,
}

/// What a kept run says of a claim that another run decides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherRunEvidence {
    /// The run.
    pub run: String,
    /// Its processor.
    pub cpu: String,
    /// The outcome there.
    pub status: StatementStatus,
    /// The number there.
    pub estimate: Estimate,
}
