//! `weir boot`: the ruleset of before the boot.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use weir_apply::change_supervisor::start_change_supervisor;
use weir_apply::generation_changes::{BootRestoration, LockedGenerations};

use super::YesNoExitStatus;
use super::generations::{print_change_ignoring_output_errors, print_recovery_messages};
use crate::cli::BootArgs;

/// How long another command may hold the lock.
const LOCK_WAIT: Duration = Duration::from_secs(60);

#[derive(Serialize)]
struct BootJson {
    /// The generation that was in force before the boot; none if there was none.
    before_boot: Option<u32>,
    /// The generation that is in force now.
    in_force: Option<u32>,
}

/// Applies the generation that was in force before the boot.
pub fn restore_generation_after_boot(args: &BootArgs) -> Result<YesNoExitStatus> {
    let mut generations = LockedGenerations::lock_and_recover(&args.state, LOCK_WAIT)?;
    print_recovery_messages(&generations);
    let supervise = || start_change_supervisor(&args.state);
    let restored = generations.restore_after_boot(std::env::args().collect(), &supervise)?;
    let (members, text) = match restored {
        BootRestoration::AlreadyInForce(generation) => (
            BootJson { before_boot: None, in_force: Some(generation) },
            format!("generation {generation} is in force since the boot: nothing changed\n"),
        ),
        BootRestoration::NothingToRestore => (
            BootJson { before_boot: None, in_force: None },
            "no ruleset of weir was in force before the boot: nothing changed\n".to_owned(),
        ),
        BootRestoration::Restored { generation, applied } => (
            BootJson { before_boot: Some(generation), in_force: Some(applied.generation) },
            format!(
                "generation {} is in force, with the ruleset of generation {generation}\n",
                applied.generation
            ),
        ),
    };
    print_change_ignoring_output_errors("boot", &members, args.json, &text)
}
