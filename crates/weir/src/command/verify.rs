//! `weir verify`: compares forms with the kernel.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use weir_kernel::stop_signal::is_stop_requested;
use weir_verify::{VerifyOptions, verify};

use super::YesNoExitStatus;
use crate::cli::VerifyArgs;
use crate::forced_stop::{ForcedStop, INTERRUPTED_MESSAGE};
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
    refuse_swapped_operands(file, artefacts)?;
    let loaded = operand::load_ruleset_operand(file, &args.sources_besides_file, color)?;
    let forced_stop = ForcedStop::arm()?;
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
    });
    drop(progress);
    drop(forced_stop);
    // The tool that loads a ruleset may have been ended, too.
    if report.is_err() && is_stop_requested() {
        bail!(INTERRUPTED_MESSAGE);
    }
    let report = report?;
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

/// Refuses an artefact in the place of the ruleset, and files in the place of artefacts.
fn refuse_swapped_operands(file: Option<&Path>, artefacts: &[PathBuf]) -> Result<()> {
    let other = artefacts.iter().find(|path| path.is_file());
    match (file.filter(|path| is_directory(path)), other) {
        (Some(directory), Some(other)) => bail!(
            "{} is a directory and {} is a file: the ruleset is the first argument, directories \
             that weir compile wrote follow",
            directory.display(),
            other.display()
        ),
        (None, Some(other)) => bail!(
            "{} is a file, and not a directory that weir compile wrote: options such as --ip6 and \
             --ipset take other files of the ruleset",
            other.display()
        ),
        _ => Ok(()),
    }
}

/// Whether a path is a folder, as artefacts are and rulesets are not.
fn is_directory(path: &Path) -> bool {
    path.is_dir()
}
