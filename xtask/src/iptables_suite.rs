//! Locates iptables' own test suite: the folder `extensions` of its sources, which are not part of
//! this repository.
//!
//! `WEIR_IPTABLES_SUITE` names it. Otherwise it is taken from Debian's source package, which
//! `apt-get source` unpacks once below `target`; that needs a `deb-src` line in apt's sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository_files;

/// The variable that names the folder, for this program and for the test.
pub const SUITE_PATH_VARIABLE: &str = "WEIR_IPTABLES_SUITE";

/// The folder of the suite, or why it is not there.
///
/// # Errors
/// If the variable names no folder of such files.
pub fn find_or_fetch_suite() -> Result<Result<PathBuf, String>> {
    if let Some(named) = std::env::var_os(SUITE_PATH_VARIABLE) {
        let folder = PathBuf::from(named);
        ensure!(
            has_test_cases(&folder),
            "{SUITE_PATH_VARIABLE}: no *.t files in {}",
            folder.display()
        );
        let found = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
        return Ok(Ok(found));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let place = target
        .unwrap_or_else(|| repository_files::repository_root().join("target"))
        .join("iptables-source");
    if let Some(folder) = find_unpacked_suite(&place) {
        return Ok(Ok(folder));
    }
    std::fs::create_dir_all(&place).with_context(|| format!("make {}", place.display()))?;
    let fetched = fetch_iptables_source(&place);
    Ok(find_unpacked_suite(&place).ok_or_else(|| match fetched {
        Ok(()) => format!("no extensions/*.t in what apt-get unpacked into {}", place.display()),
        Err(why) => format!(
            "apt-get source iptables: {why}; add `deb-src` to apt's sources and install dpkg-dev, \
             or name the folder extensions of iptables' sources in {SUITE_PATH_VARIABLE}"
        ),
    }))
}

fn fetch_iptables_source(place: &Path) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["source", "--quiet", "iptables"]).current_dir(place);
    let out = command.output().map_err(|error| error.to_string())?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    Err(said.lines().find(|l| l.starts_with("E:")).unwrap_or("it failed").to_owned())
}

/// `iptables-VERSION/extensions` below a folder.
fn find_unpacked_suite(place: &Path) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(place).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    folders.sort();
    folders.into_iter().map(|f| f.join("extensions")).find(|f| has_test_cases(f))
}

fn has_test_cases(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(Result::ok).any(|e| e.path().extension().is_some_and(|e| e == "t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_cases_is_no_suite() {
        let folder = std::env::temp_dir().join(format!("weir-suite-{}", std::process::id()));
        let extensions = folder.join("iptables-9").join("extensions");
        std::fs::create_dir_all(&extensions).expect("a folder");
        assert_eq!(find_unpacked_suite(&folder), None);
        std::fs::write(extensions.join("libxt_x.t"), "").expect("a file");
        assert_eq!(find_unpacked_suite(&folder), Some(extensions));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
