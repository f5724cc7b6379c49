//! `weir status`: which firewalls run in a network namespace, and which generation weir applied.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use weir_apply::firewall_status::{FirewallStatus, read_firewall_status};
use weir_apply::generation_listing::{GenerationListing, list_generations};
use weir_kernel::call_inside_named_namespace;

use super::YesNoExitStatus;
use crate::cli::StatusArgs;
use crate::{json_output, terminal};

#[derive(Serialize)]
struct StatusJson {
    #[serde(flatten)]
    firewalls: FirewallStatus,
    /// What weir applied here.
    generations: GenerationListing,
}

/// Reads the status and prints it. No where something could not be seen.
pub fn read_and_print_firewall_status(args: &StatusArgs) -> Result<YesNoExitStatus> {
    let status = match &args.netns {
        Some(name) => {
            call_inside_named_namespace(name, || read_firewalls_and_generations(&args.state))?
        }
        None => read_firewalls_and_generations(&args.state),
    };
    match args.json {
        true => terminal::print_escaped_if_terminal(&json_output::render_json_object(
            "status", &status,
        )?)?,
        false => {
            let text = status.generations.render_summary() + &status.firewalls.render_text();
            terminal::print_escaped_to_stdout(&text)?
        }
    };
    let is_complete = status.firewalls.not_seen.is_empty();
    Ok(if is_complete { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

fn read_firewalls_and_generations(state: &Path) -> StatusJson {
    let mut firewalls = read_firewall_status();
    let generations = list_generations(state).unwrap_or_else(|error| {
        firewalls.not_seen.push(format!("generations of weir apply: {error}"));
        GenerationListing::default()
    });
    StatusJson { firewalls, generations }
}
