//! Session files: what a session made, written down before it is made.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::KernelError;
use crate::borrow::Borrowed;
use crate::process::ProcessId;

/// Where session files are.
pub(crate) const SESSIONS: &str = "/run/weir/sessions";
/// Where named network namespaces are (iproute2's folder).
pub(crate) const NETNS: &str = "/run/netns";
/// Where pins are, one folder a session.
pub(crate) const PINS: &str = "/sys/fs/bpf/weir";

/// A session file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Name of the session; the names of its namespaces are `weir-<run>-<role>`.
    pub run: String,
    /// The process that owns it.
    pub owner: ProcessId,
    /// Names of its namespaces.
    pub namespaces: Vec<String>,
    /// Pinned objects outside of the session's own pin folder.
    pub pins: Vec<PathBuf>,
    /// Processes that it started outside of its namespaces.
    pub children: Vec<ProcessId>,
    /// Global sysctls that it changed, with the value before.
    pub sysctls: Vec<SavedSysctl>,
    /// Devices of the user's that are in its namespaces.
    #[serde(default)]
    pub borrowed: Vec<Borrowed>,
}

/// A global sysctl as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedSysctl {
    /// File under `/proc/sys`.
    pub path: PathBuf,
    /// Value before.
    pub value: String,
}

/// The run's name: its owner is in it, so that a namespace tells whose it is even where the
/// session file is lost. Pid, start time, and a count for several sessions of one process.
pub(crate) fn run_name(owner: ProcessId, count: u32) -> String {
    format!("{:x}.{:x}.{count:x}", owner.pid, owner.start)
}

/// The owner that a run's name tells.
pub(crate) fn owner_of(run: &str) -> Option<ProcessId> {
    let mut parts = run.split('.');
    let pid = u32::from_str_radix(parts.next()?, 16).ok()?;
    let start = u64::from_str_radix(parts.next()?, 16).ok()?;
    u32::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some(ProcessId { pid, start })
}

/// The run that a namespace's name tells.
pub(crate) fn run_of(namespace: &str) -> Option<&str> {
    let (run, _role) = namespace.strip_prefix("weir-")?.split_once('-')?;
    owner_of(run).map(|_| run)
}

impl Record {
    /// Its file.
    pub fn path(run: &str) -> PathBuf {
        Path::new(SESSIONS).join(format!("{run}.json"))
    }

    /// The session's own folder, removed with it.
    pub fn directory(run: &str) -> PathBuf {
        Path::new(SESSIONS).join(format!("{run}.d"))
    }

    /// The session's own pin folder, removed with it.
    pub fn pin_directory(run: &str) -> PathBuf {
        Path::new(PINS).join(run)
    }

    /// Writes the file: whole, or not at all.
    pub fn write(&self) -> Result<(), KernelError> {
        let path = Record::path(&self.run);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).expect("a record is plain data");
        let write = || -> io::Result<()> {
            fs::File::create(&new)?.write_all(text.as_bytes())?;
            fs::rename(&new, &path)
        };
        write().map_err(KernelError::path("write", &path))
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Record, KernelError> {
        let text = fs::read_to_string(path).map_err(KernelError::path("read", path))?;
        serde_json::from_str(&text).map_err(|e| KernelError::Record {
            path: path.display().to_string(),
            message: e.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_tells_its_owner() {
        let owner = ProcessId { pid: 4711, start: 99_000_000 };
        let run = run_name(owner, 3);
        let name = format!("weir-{run}-wan-0");
        assert_eq!(run_of(&name), Some(&*run));
        assert_eq!(owner_of(&run), Some(owner));
    }

    #[test]
    fn names_of_others_tell_none() {
        for name in ["weir-lab", "weir-x.y.z-a", "blue", "weir-1.2-a", "weir-1.2.3.4-a"] {
            assert_eq!(run_of(name), None, "{name}");
        }
    }
}
