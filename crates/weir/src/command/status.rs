//! `weir status`: which firewalls run in a network namespace.

use anyhow::Result;
use weir_apply::firewall_status::read_firewall_status;
use weir_kernel::call_inside_named_namespace;

use super::YesNoExitStatus;
use crate::cli::StatusArgs;
use crate::{json_output, terminal};

/// Reads the status and prints it. No where something could not be seen.
pub fn read_and_print_firewall_status(args: &StatusArgs) -> Result<YesNoExitStatus> {
    let status = match &args.netns {
        Some(name) => call_inside_named_namespace(name, read_firewall_status)?,
        None => read_firewall_status(),
    };
    match args.json {
        true => terminal::print_escaped_if_terminal(&json_output::render_json_object(
            "status", &status,
        )?)?,
        false => terminal::print_escaped_to_stdout(&status.render_text())?,
    };
    Ok(if status.not_seen.is_empty() { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}
