//! `weir doctor` and `weir reap`: features of the machine, and leftovers of dead runs.

use anyhow::Result;
use weir_kernel::doctor::{DoctorProbe, probes};
use weir_kernel::reaper::Reaped;

use super::Answer;
use crate::cli::Doctor;
use crate::{json, terminal};

/// What was tried and found, as lines or as JSON. No where something is lacking.
pub fn run(args: &Doctor) -> Result<Answer> {
    let probes = probes();
    let text = if args.json {
        json::member("doctor", "probes", &probes)?
    } else {
        probes.iter().map(line).collect()
    };
    terminal::print(&text)?;
    Ok(if probes.iter().all(|p| p.ok) { Answer::Yes } else { Answer::No })
}

fn line(probe: &DoctorProbe) -> String {
    let DoctorProbe { name, ok, detail, lacking, cure } = probe;
    if *ok {
        return format!("has    {name:<28} {detail}\n");
    }
    let cure = if cure.is_empty() { String::new() } else { format!("; cure: {cure}") };
    format!("lacks  {name:<28} {detail}: {lacking}{cure}\n")
}

/// Removes what a killed weir left behind, and says what that was, and what it left alone.
pub fn reap() -> Result<Answer> {
    let Reaped { removed, left } = weir_kernel::reaper::reap();
    for what in left {
        eprintln!("weir: left alone: {what}");
    }
    let text: String = removed.iter().map(|what| format!("removed {what}\n")).collect();
    terminal::print(&text)
}
