//! `cargo xtask hooks`: makes git run the house rules.

use std::process::Command;

use anyhow::{Context, Result};

use crate::repository_files;

/// Points git at `.githooks`; says so.
///
/// # Errors
/// If git cannot be run.
pub fn install_git_hooks() -> Result<bool> {
    let done = Command::new("git")
        .args(["config", "core.hooksPath", ".githooks"])
        .current_dir(repository_files::repository_root())
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
