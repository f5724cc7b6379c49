//! `cargo xtask hooks`: makes git run the house rules.

use std::process::Command;

use anyhow::{Context, Result};

use crate::tree;

/// Points git at `.githooks`; says so.
///
/// # Errors
/// Where git cannot be run.
pub fn install() -> Result<bool> {
    let done = Command::new("git")
        .args(["config", "core.hooksPath", ".githooks"])
        .current_dir(tree::root())
        .status()
        .context("run git config")?;
    if done.success() {
        println!(
            "git runs .githooks/pre-commit (fmt, tidy) and .githooks/pre-push (ci) from now on"
        );
        println!("to undo: git config --unset core.hooksPath");
    }
    Ok(done.success())
}
