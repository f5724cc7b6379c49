//! `weir verify`: compares forms with the kernel.

use std::path::Path;

use anyhow::{Context as _, Result};
use weir_verify::{VerifyOptions, verify};

use super::YesNoExitStatus;
use crate::cli::VerifyArgs;
use crate::terminal::{self, TerminalProgress};
use crate::{json_output, operand};

/// Compares, and says the result of it.
pub fn compare_forms_with_kernel(args: &VerifyArgs, color: bool) -> Result<YesNoExitStatus> {
    let alone = args.sources_besides_file.live
        || args.sources_besides_file.ip6.is_some() && is_directory(&args.paths[0]);
    let (file, artefacts) = match args.paths.split_first() {
        Some((first, rest)) if !alone => (Some(first.as_path()), rest),
        _ => (None, &args.paths[..]),
    };
    let loaded = operand::load_ruleset_operand(file, &args.sources_besides_file, color)?;
    weir_kernel::stop_signal::install_stop_signal_handlers().context("catch Ctrl-C")?;
    let options = VerifyOptions {
        packet_count: args.packets,
        seed: args.seed,
        pcap_path: args.pcap.clone(),
        ..VerifyOptions::default()
    };
    let dirs: Vec<&Path> = artefacts.iter().map(|p| p.as_path()).collect();
    let progress = TerminalProgress::new();
    let report = verify(&loaded.firewall, &dirs, &options, &mut |what, done| {
        progress.show_done_fraction(what, done);
    })?;
    drop(progress);
    if args.json {
        terminal::print_escaped_if_terminal(&json_output::render_json_object("verify", &report)?)?;
    } else {
        terminal::print_escaped_if_terminal(&report.to_string())?;
    }
    Ok(if report.has_no_unintended_difference() {
        YesNoExitStatus::Yes
    } else {
        YesNoExitStatus::No
    })
}

/// Whether a path is a folder, as artefacts are and rulesets are not.
fn is_directory(path: &Path) -> bool {
    path.is_dir()
}
