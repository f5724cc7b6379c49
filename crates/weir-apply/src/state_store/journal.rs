//! The change in progress: `journal.json`, written before the first step and removed after the
//! last.
//!
//! It records the generations between which a change leads. It does not record which steps were
//! done: these follow from the ruleset in the kernel.

use serde::{Deserialize, Serialize};
use weir_kernel::process::PidWithStartTime;

use super::state_version::STATE_VERSION;
use crate::apply_steps::ApplyStep;

/// A change, or a generation that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub(super) version: u32,
    /// The kind of change.
    pub operation: JournalOperation,
    /// Its progress.
    pub stage: JournalStage,
    /// The generation that was in force when it began.
    pub from: u32,
    /// The generation that it puts in force.
    pub to: u32,
    /// The snapshot of what was in force before weir.
    pub baseline: u32,
    /// The reason of a rollback.
    pub reason: String,
    /// The steps, as planned when it began.
    pub steps: Vec<ApplyStep>,
    /// The boot ID.
    pub boot_id: String,
    /// The process that makes the change.
    pub owner: PidWithStartTime,
    /// The process that recovers the change if its owner is killed or hangs, and waits for the
    /// confirmation.
    #[serde(default)]
    pub supervisor: Option<PidWithStartTime>,
    /// Time limit of the confirmation in seconds, if one is required.
    pub confirm_seconds: Option<u64>,
    /// Deadline of the confirmation, set before the first step.
    pub deadline: Option<ConfirmationDeadline>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalOperation {
    /// A new generation is put in force; if interrupted, this is undone.
    Apply,
    /// An earlier generation is restored; if interrupted, this is completed.
    Rollback,
}

/// The progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalStage {
    /// Steps are being executed.
    Changing,
    /// The generation is completely in force; its record or its confirmation is missing.
    InForce,
}

/// The deadline of a confirmation, and the connections that cannot confirm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationDeadline {
    /// The time since the boot, in nanoseconds (`CLOCK_BOOTTIME`).
    pub boottime_nanoseconds: u64,
    /// Cookies of the TCP sockets that existed when the generation came into force: connections
    /// opened before prove nothing about it.
    pub tcp_cookies_before: Vec<u64>,
}

impl Journal {
    /// A change that begins now, by this process.
    pub fn new_change(
        operation: JournalOperation,
        [from, to, baseline]: [u32; 3],
        boot_id: String,
    ) -> Journal {
        Journal {
            version: STATE_VERSION,
            operation,
            stage: JournalStage::Changing,
            from,
            to,
            baseline,
            reason: String::new(),
            steps: Vec::new(),
            boot_id,
            owner: PidWithStartTime::of_this_process(),
            supervisor: None,
            confirm_seconds: None,
            deadline: None,
        }
    }

    /// Seconds until the deadline, rounded up; `None` without a deadline.
    pub fn seconds_left(&self) -> Option<u64> {
        let deadline = self.deadline.as_ref()?.boottime_nanoseconds;
        let now = weir_kernel::boot_clock::time_since_boot().as_nanos() as u64;
        Some(deadline.saturating_sub(now).div_ceil(1_000_000_000))
    }

    /// Whether the deadline has passed.
    pub fn is_overdue(&self) -> bool {
        self.seconds_left() == Some(0)
    }
}
