//! `weir doctor` and `weir reap`: features of the machine, and leftovers of dead runs.

use anyhow::Result;
use serde::Serialize;
use weir_apply::firewall_status::{FirewallStatus, read_firewall_status};
use weir_kernel::doctor::{DoctorProbeResult, run_probes};
use weir_kernel::reaper::ReapReport;

use super::YesNoExitStatus;
use crate::cli::DoctorArgs;
use crate::{json_output, terminal};

/// What `--json` prints.
#[derive(Serialize)]
struct DoctorJson {
    probes: Vec<DoctorProbeResult>,
    /// As `weir status`.
    firewall: FirewallStatus,
}

/// What was tried and found, as lines or as JSON. No where something is lacking.
pub fn probe_machine_and_print(args: &DoctorArgs) -> Result<YesNoExitStatus> {
    let probes = run_probes();
    let firewall = read_firewall_status();
    let is_complete = probes.iter().all(|probe| probe.ok);
    let text = if args.json {
        json_output::render_json_object("doctor", &DoctorJson { probes, firewall })?
    } else {
        let probes: String = probes.iter().map(format_probe_line).collect();
        let firewalls = firewall.render_firewalls_by_family();
        let firewalls = firewalls.lines().map(|line| format!("runs   {line}\n"));
        format!("{probes}{}", firewalls.collect::<String>())
    };
    terminal::print_escaped_if_terminal(&text)?;
    Ok(if is_complete { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
}

fn format_probe_line(probe: &DoctorProbeResult) -> String {
    let DoctorProbeResult { name, ok, detail, lacking, cure } = probe;
    if *ok {
        return format!("has    {name:<28} {detail}\n");
    }
    let cure = if cure.is_empty() { String::new() } else { format!("; cure: {cure}") };
    format!("lacks  {name:<28} {detail}: {lacking}{cure}\n")
}

/// Removes leftovers of crashed runs, and prints what they were and what was left alone.
pub fn reap_leftovers() -> Result<YesNoExitStatus> {
    let ReapReport { removed, skipped: left } = weir_kernel::reaper::reap_dead_sessions();
    for what in left {
        terminal::print_escaped_to_stderr(&format!("weir: left alone: {what}\n"));
    }
    let text: String = removed.iter().map(|what| format!("removed {what}\n")).collect();
    terminal::print_escaped_if_terminal(&text)
}
