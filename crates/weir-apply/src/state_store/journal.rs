//! What is in progress: `journal.json`, written before the first change and removed after the last.
//!
//! It says where a change leads and where it came from. Which steps were done it does not say: that
//! is seen in the kernel.

use serde::{Deserialize, Serialize};
use weir_kernel::process::PidWithStartTime;

use super::state_version::STATE_VERSION;
use crate::apply_steps::ApplyStep;

/// A change, or a generation that waits for its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub(super) version: u32,
    /// What is done.
    pub operation: JournalOperation,
    /// How far it is.
    pub stage: JournalStage,
    /// The generation that was in force when it began.
    pub from: u32,
    /// The generation that it puts in force.
    pub to: u32,
    /// The snapshot of what was in force before weir.
    pub baseline: u32,
    /// Why, of a rollback.
    pub reason: String,
    /// The steps, as planned when it began.
    pub steps: Vec<ApplyStep>,
    /// The boot.
    pub boot_id: String,
    /// The process that does it.
    pub owner: PidWithStartTime,
    /// The process that ends the change if its owner is killed or hangs, and waits for the
    /// confirmation.
    #[serde(default)]
    pub supervisor: Option<PidWithStartTime>,
    /// Seconds for the confirmation, if one is required.
    pub confirm_seconds: Option<u64>,
    /// Until when it must be confirmed, from the first change on.
    pub deadline: Option<ConfirmationDeadline>,
}

/// What a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalOperation {
    /// A new generation is put in force: interrupted, it is undone.
    Apply,
    /// An earlier generation is restored: interrupted, it is completed.
    Rollback,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalStage {
    /// Steps are carried out.
    Changing,
    /// The generation is in force as a whole; what remains is its record, or its confirmation.
    InForce,
}

/// Until when a generation must be confirmed, and what cannot confirm it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationDeadline {
    /// The time since the boot, in nanoseconds (`CLOCK_BOOTTIME`).
    pub boottime_nanoseconds: u64,
    /// Cookies of the TCP sockets that were there when the generation was in force: connections
    /// that were made before it say nothing about it.
    pub tcp_cookies_before: Vec<u64>,
}

impl Journal {
    /// A change that begins now, by this process.
    pub fn begin(
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

    /// Seconds until it must be confirmed, rounded up; none if it waits for no confirmation.
    pub fn seconds_left(&self) -> Option<u64> {
        let deadline = self.deadline.as_ref()?.boottime_nanoseconds;
        let now = weir_kernel::boot_clock::time_since_boot().as_nanos() as u64;
        Some(deadline.saturating_sub(now).div_ceil(1_000_000_000))
    }

    /// Whether it waited for a confirmation that did not come.
    pub fn is_overdue(&self) -> bool {
        self.seconds_left() == Some(0)
    }
}
