//! The systemd unit that starts `weir boot`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::atomic_file_replacement::replace_file_atomically_if_possible;
use crate::terminal;

/// The unit as the package installs it.
const UNIT: &str = include_str!("../../../../packaging/weir.service");
const UNIT_NAME: &str = "weir.service";
/// The program in the unit.
const PACKAGED_PROGRAM: &str = "/usr/bin/weir";
/// Where an administrator's units are.
const UNIT_FOLDER: &str = "/etc/systemd/system";
/// Where those of packages are.
const PACKAGE_UNIT_FOLDERS: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];

/// Refuses where systemd does not run, before anything is changed.
pub fn require_systemd() -> Result<()> {
    if !Path::new("/run/systemd/system").is_dir() {
        bail!(
            "--boot: systemd does not run here: let the system start `weir boot` before it \
             configures the network, and leave out --boot"
        );
    }
    Ok(())
}

/// Writes the unit, unless a package did, and enables it.
pub fn install_and_enable_unit() -> Result<()> {
    let is_packaged =
        PACKAGE_UNIT_FOLDERS.iter().any(|folder| Path::new(folder).join(UNIT_NAME).is_file());
    if !is_packaged {
        let program = std::env::current_exe().context("find the path of weir")?;
        let unit = unit_for_program(&program.display().to_string());
        let path = Path::new(UNIT_FOLDER).join(UNIT_NAME);
        replace_file_atomically_if_possible(&path, unit.as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
        run_systemctl(&["daemon-reload"])?;
    }
    run_systemctl(&["enable", UNIT_NAME])?;
    terminal::print_escaped_to_stderr(&format!("weir: {UNIT_NAME} starts weir boot\n"));
    Ok(())
}

fn unit_for_program(program: &str) -> String {
    UNIT.replace(PACKAGED_PROGRAM, program)
}

fn run_systemctl(words: &[&str]) -> Result<()> {
    let status = Command::new("systemctl").args(words).status().context("start systemctl")?;
    if !status.success() {
        bail!("the ruleset is in force, but `systemctl {}` failed: {status}", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_the_given_program() {
        assert!(UNIT.contains("\nExecStart=/usr/bin/weir boot\n"));
        let unit = unit_for_program("/usr/local/bin/weir");
        assert!(
            unit.contains("\nExecStart=/usr/local/bin/weir boot\n")
                && !unit.contains("/usr/bin/weir")
        );
    }
}
