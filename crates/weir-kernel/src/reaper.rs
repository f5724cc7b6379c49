//! Removes leftovers of dead sessions.
//!
//! A session is dead if no process has its owner's ID and start time in the owner's PID namespace.
//! The owner is recorded in the session file and in the name of each namespace, so that a namespace
//! is found even if the file was lost. Sessions that cannot be judged are left alone and reported:
//! an owner in a PID namespace that is not visible from here, a file that weir did not write.
//!
//! The order of all steps allows an interrupted cleanup to be repeated: processes, pins, borrowed
//! devices, namespaces (with their links, rules and routes), sysctls, and the session file last.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::mount::{UnmountFlags, unmount};

use crate::borrowed_device_return::return_borrowed_devices_listing_returned;
use crate::paths::{
    BPF_PIN_DIRECTORY, BPFFS_MOUNT, NETNS_DIRECTORY, SESSION_FILES_DIRECTORY, SYSCTL_DIRECTORY,
};
use crate::process::{self, PidWithStartTime};
use crate::recorded_process_liveness::{PidNamespace, ProcessLiveness};
use crate::session_changes::forbid_session_changes;
use crate::session_record::{self, SessionRecord};
use crate::symlink_safe_paths;

/// How long a killed process may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the processes of a namespace are searched for.
const KILL_ROUNDS_MAX: usize = 10;

/// The result of reaping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// A line for each removed object.
    pub removed: Vec<String>,
    /// A line for each session that was left alone although its owner may be dead, with the reason
    /// and the cure.
    pub skipped: Vec<String>,
}

/// Removes what dead sessions left.
///
/// Sessions whose owner lives are not touched, and neither are those that cannot be judged.
pub fn reap_dead_sessions() -> ReapReport {
    let mut reaped = ReapReport::default();
    let Some(_lock) = wait_for_reaper_lock() else { return reaped };
    let here = match PidNamespace::of_this_process() {
        Ok(here) => here,
        Err(why) => {
            reaped.skipped = find_sessions_by_file_or_name()
                .keys()
                .map(|run| format!("session {run}: {why}"))
                .collect();
            return reaped;
        }
    };
    for (run, record) in find_sessions_by_file_or_name() {
        let record = match record {
            Ok(record) => record,
            Err(why) => {
                reaped.skipped.push(format!("session {run}: {why}; {UNUSABLE_SESSION_FILE_CURE}"));
                continue;
            }
        };
        match here.process_liveness(record.qualify_process_id(record.owner)) {
            ProcessLiveness::Alive => (),
            ProcessLiveness::Dead => reaped.removed.append(&mut remove_session(&record, &here)),
            ProcessLiveness::NotVisible(why) => {
                let cure = "run `weir reap` there or on the host";
                reaped
                    .skipped
                    .push(format!("session {run}: {why}, which is not visible from here; {cure}"));
            }
        }
    }
    reaped
}

/// Removes the sessions of this process while its threads still use them, for an end that cannot wait
/// until they are dropped.
///
/// Threads that create or drop a session, or a namespace of one, afterwards wait forever: end the
/// process next. Other reapers leave its sessions alone, so that their lock is not needed.
pub fn remove_sessions_of_this_process() {
    forbid_session_changes();
    let Ok(here) = PidNamespace::of_this_process() else { return };
    let own = PidWithStartTime::of_this_process();
    for record in find_sessions_by_file_or_name().into_values().flatten() {
        if here.local_process_id(record.qualify_process_id(record.owner)) == Some(own) {
            remove_session(&record, &here);
        }
    }
}

/// What to do about a session file that is not used.
const UNUSABLE_SESSION_FILE_CURE: &str =
    "remove the file; the next `weir reap` finds the leftovers by name";

/// One reaper at a time; the lock is released with the descriptor.
fn wait_for_reaper_lock() -> Option<OwnedFd> {
    let path = "/run/weir/reaper.lock";
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    flock(&fd, FlockOperation::LockExclusive).ok()?;
    Some(fd)
}

/// All sessions by run: from their files, and from names that contain an owner; or why a file is
/// not used.
fn find_sessions_by_file_or_name() -> BTreeMap<String, Result<SessionRecord, String>> {
    let files = list_directory(SESSION_FILES_DIRECTORY);
    let mut sessions: BTreeMap<String, Result<SessionRecord, String>> = files
        .iter()
        .filter_map(|name| name.strip_suffix(".json"))
        .map(|run| (run.to_owned(), SessionRecord::read(run).map_err(|error| error.to_string())))
        .collect();
    let named = list_directory(NETNS_DIRECTORY)
        .into_iter()
        .filter_map(|name| session_record::parse_namespace_run(&name).map(str::to_owned))
        .chain(list_directory(BPF_PIN_DIRECTORY))
        .chain(files.iter().filter_map(|n| n.strip_suffix(".d")).map(str::to_owned));
    for run in named {
        let Some(owner) = session_record::parse_run_owner(&run) else { continue };
        sessions.entry(run.clone()).or_insert_with(|| Ok(SessionRecord::new(run, owner, None)));
    }
    sessions
}

fn list_directory(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
}

/// Removes everything of one session. Paths of its record are reached without following links.
pub(crate) fn remove_session(record: &SessionRecord, here: &PidNamespace) -> Vec<String> {
    let mut removed = Vec::new();
    for child in &record.children {
        let Some(child) = here.local_process_id(record.qualify_process_id(*child)) else {
            continue;
        };
        if child.kill_and_wait(KILL_TIMEOUT).is_ok() {
            removed.push(format!("process {}", child.pid));
        }
    }
    let mut namespaces = list_directory(NETNS_DIRECTORY);
    namespaces.retain(|name| session_record::parse_namespace_run(name) == Some(&record.run));
    // They may still be loading programs and pinning them.
    for name in &namespaces {
        removed.append(&mut kill_processes_in_namespace(name));
    }
    let pins = SessionRecord::pin_directory_path(&record.run);
    for pin in record.pins_outside_own_directory.iter().chain([&pins]) {
        if symlink_safe_paths::remove_below(Path::new(BPFFS_MOUNT), pin).is_ok() {
            removed.push(format!("pins {}", pin.display()));
        }
    }
    removed.append(&mut return_borrowed_devices_listing_returned(record, &namespaces));
    for name in namespaces {
        removed.append(&mut remove_namespace_listing_removed(&name));
    }
    for sysctl in &record.sysctls {
        let file = symlink_safe_paths::open_below(
            Path::new(SYSCTL_DIRECTORY),
            &sysctl.path,
            OFlags::WRONLY,
        );
        let written = file.and_then(|f| fs::File::from(f).write_all(sysctl.value.as_bytes()));
        if written.is_ok() {
            removed.push(format!("sysctl {}", sysctl.path.display()));
        }
    }
    let _ = fs::remove_dir_all(SessionRecord::session_directory(&record.run));
    let _ = fs::remove_file(SessionRecord::file_path(&record.run).with_extension("new"));
    let _ = fs::remove_file(SessionRecord::file_path(&record.run));
    removed
}

/// Kills what runs in a namespace, then removes its name; the kernel removes the rest.
pub(crate) fn remove_namespace_listing_removed(name: &str) -> Vec<String> {
    let mut removed = kill_processes_in_namespace(name);
    let path = Path::new(NETNS_DIRECTORY).join(name);
    // Not a mount point if the owner died between creating the file and mounting.
    let _ = unmount(&path, UnmountFlags::DETACH);
    if fs::remove_file(&path).is_ok() {
        removed.push(format!("namespace {name}"));
    }
    removed
}

/// Kills what runs in a namespace, until nothing does: a process may start another one before it is
/// killed. Returns a line for each.
fn kill_processes_in_namespace(name: &str) -> Vec<String> {
    let path = Path::new(NETNS_DIRECTORY).join(name);
    let mut killed = Vec::new();
    for _ in 0..KILL_ROUNDS_MAX {
        let killed_before = killed.len();
        for id in find_other_processes_in_namespace(&path) {
            if id.kill_and_wait(KILL_TIMEOUT).is_ok() {
                killed.push(format!("process {}", id.pid));
            }
        }
        if killed.len() == killed_before {
            break;
        }
    }
    killed
}

/// Processes whose network namespace is the one at `path`, this process omitted.
fn find_other_processes_in_namespace(path: &Path) -> Vec<PidWithStartTime> {
    let Ok(wanted) = fs::metadata(path) else { return Vec::new() };
    let is_inside = |pid: &u32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|m| (m.dev(), m.ino()) == (wanted.dev(), wanted.ino()))
    };
    let own = std::process::id();
    process::list_process_ids()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter(is_inside)
        .filter_map(PidWithStartTime::from_pid)
        .collect()
}
