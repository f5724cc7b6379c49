//! `weir verify`: compares forms with the kernel.

use std::path::Path;

use anyhow::{Context as _, Result};
use weir_verify::{VerifyOptions, verify};

use super::Answer;
use crate::cli::Verify;
use crate::terminal::{self, Progress};
use crate::{json, operand};

/// Compares, and says the result of it.
pub fn run(args: &Verify, color: bool) -> Result<Answer> {
    let alone = args.operand.live || args.operand.ip6.is_some() && is_artefact(&args.paths[0]);
    let (file, artefacts) = match args.paths.split_first() {
        Some((first, rest)) if !alone => (Some(first.as_path()), rest),
        _ => (None, &args.paths[..]),
    };
    let loaded = operand::load(file, &args.operand, color)?;
    weir_kernel::interrupt::install().context("catch Ctrl-C")?;
    let options = VerifyOptions {
        packets: args.packets,
        seed: args.seed,
        pcap: args.pcap.clone(),
        ..VerifyOptions::default()
    };
    let dirs: Vec<&Path> = artefacts.iter().map(|p| p.as_path()).collect();
    let progress = Progress::new();
    let report = verify(&loaded.firewall, &dirs, &options, &mut |what, done| {
        progress.show(what, done);
    })?;
    drop(progress);
    if args.json {
        terminal::print(&json::object("verify", &report)?)?;
    } else {
        terminal::print(&report.to_string())?;
    }
    Ok(if report.agrees() { Answer::Yes } else { Answer::No })
}

/// Whether a path is a folder, as artefacts are and rulesets are not.
fn is_artefact(path: &Path) -> bool {
    path.is_dir()
}
