//! Removes what dead sessions left behind.
//!
//! A session is dead where no process has its owner's id and start time. The owner stands in the
//! session file, and also in the name of each namespace, so that a namespace is found even where
//! the file was lost. Everything is done in an order that can be cut short and begun again:
//! processes, pins, borrowed devices, namespaces (their links, rules and routes go with them),
//! sysctls, and the session file last.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::mount::{UnmountFlags, unmount};

use crate::borrow::give_back;
use crate::namespace::write_sysctl;
use crate::process::{self, ProcessId};
use crate::record::{self, NETNS, PINS, Record, SESSIONS};

/// How long a killed process may take to end.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Removes what dead sessions left; returns one line for each thing that it removed.
///
/// Sessions whose owner lives are not touched.
pub fn reap() -> Vec<String> {
    let Some(_lock) = lock() else { return Vec::new() };
    let mut removed = Vec::new();
    for record in dead_sessions() {
        removed.append(&mut remove(&record));
    }
    removed
}

/// One reaper at a time; the lock goes with the descriptor.
fn lock() -> Option<OwnedFd> {
    let path = "/run/weir/reaper.lock";
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    flock(&fd, FlockOperation::LockExclusive).ok()?;
    Some(fd)
}

/// Records of the sessions without an owner: from their files, and from names that tell an owner.
fn dead_sessions() -> Vec<Record> {
    let mut records: Vec<Record> = entries(SESSIONS)
        .iter()
        .filter(|name| name.ends_with(".json"))
        .filter_map(|name| Record::read(&Path::new(SESSIONS).join(name)).ok())
        .collect();
    let directories = entries(SESSIONS);
    let named = entries(NETNS)
        .into_iter()
        .filter_map(|name| record::run_of(&name).map(str::to_owned))
        .chain(entries(PINS))
        .chain(directories.iter().filter_map(|n| n.strip_suffix(".d")).map(str::to_owned));
    for run in named {
        let Some(owner) = record::owner_of(&run) else { continue };
        if !records.iter().any(|r| r.run == run) {
            records.push(Record {
                run,
                owner,
                namespaces: Vec::new(),
                pins: Vec::new(),
                children: Vec::new(),
                sysctls: Vec::new(),
                borrowed: Vec::new(),
            });
        }
    }
    records.retain(|r| !r.owner.is_alive());
    records
}

fn entries(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
}

/// Removes everything of one session.
pub(crate) fn remove(record: &Record) -> Vec<String> {
    let mut removed = Vec::new();
    for child in &record.children {
        if child.is_alive() && child.kill(KILL_LIMIT).is_ok() {
            removed.push(format!("process {}", child.pid));
        }
    }
    let pins = Record::pin_directory(&record.run);
    for pin in record.pins.iter().chain([&pins]) {
        // Only what is on the BPF file system: a record is a file, and files can be wrong.
        if pin.starts_with("/sys/fs/bpf") && pin.exists() {
            let done = fs::remove_dir_all(pin).or_else(|_| fs::remove_file(pin));
            if done.is_ok() {
                removed.push(format!("pins {}", pin.display()));
            }
        }
    }
    let namespaces = entries(NETNS);
    removed.append(&mut give_back(record, &namespaces));
    for name in namespaces {
        if record::run_of(&name) == Some(&record.run) {
            removed.append(&mut remove_namespace(&name));
        }
    }
    for sysctl in &record.sysctls {
        if sysctl.path.starts_with("/proc/sys") && write_sysctl(&sysctl.path, &sysctl.value).is_ok()
        {
            removed.push(format!("sysctl {}", sysctl.path.display()));
        }
    }
    let _ = fs::remove_dir_all(Record::directory(&record.run));
    let _ = fs::remove_file(Record::path(&record.run).with_extension("new"));
    let _ = fs::remove_file(Record::path(&record.run));
    removed
}

/// Kills what runs in a namespace, then removes its name; the kernel removes the rest.
pub(crate) fn remove_namespace(name: &str) -> Vec<String> {
    let mut removed = Vec::new();
    let path = Path::new(NETNS).join(name);
    for id in processes_in(&path) {
        if id.kill(KILL_LIMIT).is_ok() {
            removed.push(format!("process {}", id.pid));
        }
    }
    // Not a mount point where the owner died between making the file and mounting.
    let _ = unmount(&path, UnmountFlags::DETACH);
    if fs::remove_file(&path).is_ok() {
        removed.push(format!("namespace {name}"));
    }
    removed
}

/// Processes whose network namespace is the one at `path`, this process left out.
fn processes_in(path: &Path) -> Vec<ProcessId> {
    let Ok(wanted) = fs::metadata(path) else { return Vec::new() };
    let is_inside = |pid: &u32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|m| (m.dev(), m.ino()) == (wanted.dev(), wanted.ino()))
    };
    let own = std::process::id();
    process::all()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter(is_inside)
        .filter_map(ProcessId::of)
        .collect()
}
