//! `weir doctor` and `weir reap`: the machine, and what dead runs left on it.

use anyhow::Result;

use super::Answer;
use crate::terminal;

/// Removes what a killed weir left behind, and says what that was.
pub fn reap() -> Result<Answer> {
    let removed = weir_kernel::reaper::reap();
    let text: String = removed.iter().map(|what| format!("removed {what}\n")).collect();
    terminal::print(&text)
}
