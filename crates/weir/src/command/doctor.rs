//! `weir doctor` and `weir reap`: features of the machine, and leftovers of dead runs.

use anyhow::Result;
use weir_kernel::doctor::{DoctorProbeResult, run_probes};
use weir_kernel::reaper::ReapReport;

use super::YesNoExitStatus;
use crate::cli::DoctorArgs;
use crate::{json_output, terminal};

/// What was tried and found, as lines or as JSON. No where something is lacking.
pub fn probe_machine_and_print(args: &DoctorArgs) -> Result<YesNoExitStatus> {
    let probes = run_probes();
    let text = if args.json {
        json_output::render_single_member_json("doctor", "probes", &probes)?
    } else {
        probes.iter().map(format_probe_line).collect()
    };
    terminal::print_escaped_if_terminal(&text)?;
    Ok(if probes.iter().all(|p| p.ok) { YesNoExitStatus::Yes } else { YesNoExitStatus::No })
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
