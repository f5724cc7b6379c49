//! Session files: what a session creates, recorded before it is created.
//!
//! This is the form in which a session outlives its process: the journal of a session writes it,
//! and the reaper reads it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::KernelError;
use crate::device_name::check_batch_safe_device_name;
use crate::paths::{BPF_PIN_DIRECTORY, BPFFS_MOUNT, SESSION_FILES_DIRECTORY, SYSCTL_DIRECTORY};
use crate::process::PidWithStartTime;
use crate::recorded_process_liveness::{PidNamespace, RecordedProcess};
use crate::symlink_safe_paths::is_plain_path_below;

/// A session file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// Name of the session; the names of its namespaces are `weir-<run>-<role>`.
    pub run: String,
    /// The process that owns it.
    pub owner: PidWithStartTime,
    /// Inode of the owner's PID namespace, to which all process IDs here belong; `None` if the
    /// owner is known only from a name, or if an earlier weir wrote the file.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// Identifier of the boot, likewise.
    #[serde(default)]
    pub boot: Option<String>,
    /// Names of its namespaces.
    pub namespaces: Vec<String>,
    /// Pinned objects outside of the session's own pin folder.
    #[serde(rename = "pins")]
    pub pins_outside_own_directory: Vec<PathBuf>,
    /// Processes that it started outside of its namespaces.
    pub children: Vec<PidWithStartTime>,
    /// Global sysctls that it changed, with the value before.
    pub sysctls: Vec<SavedSysctl>,
    /// Devices of the user's that are in its namespaces.
    #[serde(default)]
    pub borrowed: Vec<BorrowedDevice>,
}

/// The previous value of a global sysctl.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedSysctl {
    /// File under `/proc/sys`.
    pub path: PathBuf,
    /// Value before.
    pub value: String,
}

/// The previous state of a device of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BorrowedDevice {
    /// Its name in the user's namespace.
    pub device: String,
    /// Its name in ours.
    pub name: String,
    /// Whether it was up.
    pub is_up: bool,
    /// Whether it put received segments together.
    pub has_gro: bool,
}

impl BorrowedDevice {
    /// Whether its names are names of devices: they become arguments of `ip`.
    fn check_device_names(&self) -> Result<(), KernelError> {
        check_batch_safe_device_name(&self.device)?;
        check_batch_safe_device_name(&self.name)
    }
}

/// The owner of a session, as the session's name encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionOwner {
    /// Its id in its own PID namespace.
    pub id: PidWithStartTime,
    /// Inode of that namespace; names of earlier weirs have none.
    pub pid_namespace_inode: Option<u64>,
}

/// The run's name contains its owner, so that a namespace identifies its owner even if the session
/// file is lost. PID, start time, PID namespace, and a count for several sessions of one process.
pub(crate) fn encode_run_name(owner: PidWithStartTime, here: &PidNamespace, count: u32) -> String {
    format!("{:x}.{:x}.{:x}.{count:x}", owner.pid, owner.start, here.inode())
}

/// The owner that a run's name encodes.
pub(crate) fn parse_run_owner(run: &str) -> Option<SessionOwner> {
    let parts: Option<Vec<u64>> =
        run.split('.').map(|part| u64::from_str_radix(part, 16).ok()).collect();
    let (pid, start, pid_namespace) = match *parts? {
        [pid, start, _] => (pid, start, None),
        [pid, start, namespace, _] => (pid, start, Some(namespace)),
        _ => return None,
    };
    let id = PidWithStartTime { pid: u32::try_from(pid).ok()?, start };
    Some(SessionOwner { id, pid_namespace_inode: pid_namespace })
}

/// The run that a namespace's name encodes.
pub(crate) fn parse_namespace_run(namespace: &str) -> Option<&str> {
    let (run, _role) = namespace.strip_prefix("weir-")?.split_once('-')?;
    parse_run_owner(run).map(|_| run)
}

impl SessionRecord {
    /// Of a session that has made nothing.
    pub fn new(run: String, owner: SessionOwner, boot: Option<&str>) -> SessionRecord {
        SessionRecord {
            run,
            owner: owner.id,
            pid_namespace: owner.pid_namespace_inode,
            boot: boot.map(str::to_owned),
            namespaces: Vec::new(),
            pins_outside_own_directory: Vec::new(),
            children: Vec::new(),
            sysctls: Vec::new(),
            borrowed: Vec::new(),
        }
    }

    /// A process of the session, with what its id means.
    pub fn qualify_process_id(&self, id: PidWithStartTime) -> RecordedProcess<'_> {
        RecordedProcess { id, boot_id: self.boot.as_deref(), pid_namespace: self.pid_namespace }
    }

    /// Its file.
    pub fn file_path(run: &str) -> PathBuf {
        Path::new(SESSION_FILES_DIRECTORY).join(format!("{run}.json"))
    }

    /// The session's own folder, removed with it.
    pub fn session_directory(run: &str) -> PathBuf {
        Path::new(SESSION_FILES_DIRECTORY).join(format!("{run}.d"))
    }

    /// The session's own pin folder, removed with it.
    pub fn pin_directory_path(run: &str) -> PathBuf {
        Path::new(BPF_PIN_DIRECTORY).join(run)
    }

    /// Writes the file: whole, or not at all.
    pub fn write(&self) -> Result<(), KernelError> {
        let path = SessionRecord::file_path(&self.run);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).expect("a record is plain data");
        let write = || -> io::Result<()> {
            fs::File::create(&new)?.write_all(text.as_bytes())?;
            fs::rename(&new, &path)
        };
        write().map_err(KernelError::io_at_path("write", &path))
    }

    /// Reads the file of a run.
    ///
    /// # Errors
    /// Files that are links, or that hold anything that weir does not write: what is named here is
    /// killed, removed and written to.
    pub fn read(run: &str) -> Result<SessionRecord, KernelError> {
        let path = SessionRecord::file_path(run);
        let failed = |message: String| KernelError::InvalidSessionFile {
            path: path.display().to_string(),
            message,
        };
        let kind = fs::symlink_metadata(&path).map_err(KernelError::io_at_path("read", &path))?;
        if !kind.is_file() {
            return Err(failed("it is not a regular file".to_owned()));
        }
        let text = fs::read_to_string(&path).map_err(KernelError::io_at_path("read", &path))?;
        let record: SessionRecord =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        record.validate(run).map_err(failed)?;
        Ok(record)
    }

    /// What it names has to be what a session of this name can have.
    fn validate(&self, run: &str) -> Result<(), String> {
        let told = parse_run_owner(run).filter(|told| {
            let namespace = told.pid_namespace_inode.or(self.pid_namespace);
            self.run == run && told.id == self.owner && namespace == self.pid_namespace
        });
        if told.is_none() {
            return Err(format!("it belongs to run `{}`, not to the run of its name", self.run));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let is_own = |name: &str| parse_namespace_run(name) == Some(run) && name.bytes().all(plain);
        if let Some(name) = self.namespaces.iter().find(|name| !is_own(name)) {
            return Err(format!("`{name}` is not a namespace of this run"));
        }
        let sysctls = self.sysctls.iter().map(|sysctl| &sysctl.path);
        let paths = self.pins_outside_own_directory.iter().map(|pin| (BPFFS_MOUNT, pin));
        for (root, path) in paths.chain(sysctls.map(|path| (SYSCTL_DIRECTORY, path))) {
            if !is_plain_path_below(Path::new(root), path) {
                return Err(format!("`{}` is not a plain path below {root}", path.display()));
            }
        }
        self.borrowed
            .iter()
            .try_for_each(BorrowedDevice::check_device_names)
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_name_identifies_its_session_owner() {
        let owner = PidWithStartTime { pid: 4711, start: 99_000_000 };
        let here = PidNamespace::of_this_process().unwrap();
        let run = encode_run_name(owner, &here, 3);
        let name = format!("weir-{run}-wan-0");
        assert_eq!(parse_namespace_run(&name), Some(&*run));
        let told = SessionOwner { id: owner, pid_namespace_inode: Some(here.inode()) };
        assert_eq!(parse_run_owner(&run), Some(told));
        let earlier = SessionOwner { pid_namespace_inode: None, ..told };
        assert_eq!(
            parse_run_owner("1267.5e69ec0.3"),
            Some(earlier),
            "a name without a PID namespace"
        );
    }

    #[test]
    fn a_session_file_with_foreign_names_is_refused() {
        let owner = SessionOwner {
            id: PidWithStartTime { pid: 7, start: 9 },
            pid_namespace_inode: Some(5),
        };
        let run = "7.9.5.0";
        let whole = SessionRecord {
            namespaces: vec![format!("weir-{run}-fw_1")],
            pins_outside_own_directory: vec!["/sys/fs/bpf/weir/x".into()],
            sysctls: vec![saved("/proc/sys/net/core/message_burst")],
            ..SessionRecord::new(run.to_owned(), owner, Some("boot"))
        };
        assert_eq!(whole.validate(run), Ok(()));
        let wrong = [
            SessionRecord { run: "../../..".to_owned(), ..whole.clone() },
            SessionRecord { run: "7.9.5.1".to_owned(), ..whole.clone() },
            SessionRecord { owner: PidWithStartTime { pid: 1, start: 9 }, ..whole.clone() },
            SessionRecord { pid_namespace: None, ..whole.clone() },
            SessionRecord { namespaces: vec!["weir-7.9.5.1-fw".to_owned()], ..whole.clone() },
            SessionRecord { namespaces: vec![format!("weir-{run}-../../x")], ..whole.clone() },
            SessionRecord {
                pins_outside_own_directory: vec!["/sys/fs/bpf/../../../srv".into()],
                ..whole.clone()
            },
            SessionRecord {
                pins_outside_own_directory: vec!["/sys/fs/bpf".into()],
                ..whole.clone()
            },
            SessionRecord { sysctls: vec![saved("/proc/sys/../sysrq-trigger")], ..whole.clone() },
            SessionRecord { sysctls: vec![saved("/etc/passwd")], ..whole.clone() },
        ];
        for record in wrong {
            assert!(record.validate(run).is_err(), "{record:?}");
        }
    }

    fn saved(path: &str) -> SavedSysctl {
        SavedSysctl { path: path.into(), value: "10".to_owned() }
    }

    #[test]
    fn names_of_other_programs_have_no_session_run() {
        for name in ["weir-lab", "weir-x.y.z-a", "blue", "weir-1.2-a", "weir-1.2.3.4.5-a"] {
            assert_eq!(parse_namespace_run(name), None, "{name}");
        }
    }
}
