//! The PID namespace to which a process ID belongs.
//!
//! Several PID namespaces may share `/run`, for example a container and its host, and a process ID
//! has no meaning without its namespace. A session file records the namespace of its owner and the
//! boot; sessions that cannot be judged from here are left alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::process::{self, ProcessId};

/// Inode of the initial PID namespace (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const INITIAL: u64 = 0xEFFF_FFFC;

/// What the process ids of this process mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PidNamespace {
    /// Identifier of the boot.
    boot: String,
    /// Inode of the namespace.
    inode: u64,
}

/// The outcome of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessFate {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It cannot be seen from here, with the reason.
    Unknown(String),
}

/// A process as another process wrote it down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted<'a> {
    /// Its id in its own namespace.
    pub id: ProcessId,
    /// The boot, where it is known.
    pub boot: Option<&'a str>,
    /// The inode of its PID namespace, where it is known.
    pub namespace: Option<u64>,
}

impl PidNamespace {
    /// That of this process.
    ///
    /// # Errors
    /// Where `/proc` is not mounted, or is that of another PID namespace: ids that are read there
    /// are not those that a process can be killed by.
    pub(crate) fn own() -> Result<PidNamespace, String> {
        let other = || {
            "/proc does not belong to this PID namespace: mount it \
             (`mount -t proc proc /proc`, or `unshare --mount-proc`)"
                .to_owned()
        };
        let status = fs::read_to_string("/proc/self/status").map_err(|_| other())?;
        if ids_of(&status) != [std::process::id()] {
            return Err(other());
        }
        let failed = |what: &str, error: io::Error| format!("read {what}: {error}");
        let boot_id = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(boot_id).map_err(|error| failed(boot_id, error))?;
        let own = "/proc/self/ns/pid";
        let inode = fs::metadata(own).map_err(|error| failed(own, error))?.ino();
        Ok(PidNamespace { boot: boot.trim().to_owned(), inode })
    }

    /// The boot.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// The inode.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// The outcome of a process that another process wrote down.
    pub(crate) fn fate(&self, noted: Noted<'_>) -> ProcessFate {
        if noted.boot.is_some_and(|boot| boot != self.boot) {
            // A boot id can be mounted over, and a process that runs proves that it was.
            let is_here = noted.namespace == Some(self.inode);
            return if is_here && noted.id.is_alive() {
                ProcessFate::Alive
            } else {
                ProcessFate::Dead
            };
        }
        let namespace = match noted.namespace {
            Some(inode) if inode == self.inode => return fate_here(noted.id),
            other => other,
        };
        let seen = Candidates::of(noted.id.pid, namespace, self.inode);
        if seen.candidates.iter().any(|id| id.start == noted.id.start || !is_our_time(id.pid)) {
            return ProcessFate::Alive;
        }
        // A namespace of which one process is seen lies below this one: all of it is seen.
        if !seen.is_partial && (self.inode == INITIAL || seen.has_namespace) {
            return ProcessFate::Dead;
        }
        let of = match namespace {
            Some(inode) => format!("of the PID namespace {inode}"),
            None => "of an unrecorded PID namespace".to_owned(),
        };
        ProcessFate::Unknown(format!("its owner is process {} {of}", noted.id.pid))
    }

    /// The id that a process has here; `None` if it has ended or cannot be seen.
    pub(crate) fn here(&self, noted: Noted<'_>) -> Option<ProcessId> {
        if noted.boot.is_some_and(|boot| boot != self.boot) {
            return None;
        }
        if noted.namespace == Some(self.inode) {
            return Some(noted.id).filter(|id| id.is_alive());
        }
        let seen = Candidates::of(noted.id.pid, Some(noted.namespace?), self.inode);
        seen.candidates.into_iter().find(|id| id.start == noted.id.start)
    }
}

/// The outcome of a process of this PID namespace.
fn fate_here(id: ProcessId) -> ProcessFate {
    match ProcessId::of(id.pid) {
        None => ProcessFate::Dead,
        Some(other) if other == id => ProcessFate::Alive,
        // A time namespace moves the start times that are read in it.
        Some(_) if is_our_time(id.pid) => ProcessFate::Dead,
        Some(_) => ProcessFate::Unknown(format!("process {} is in another time namespace", id.pid)),
    }
}

/// Whether a process reads the same start times as this one.
fn is_our_time(pid: u32) -> bool {
    let inode = |of: &str| fs::metadata(format!("/proc/{of}/ns/time")).map(|m| m.ino()).ok();
    inode(&pid.to_string()) == inode("self")
}

/// Processes that have an id in their own namespace.
#[derive(Default)]
struct Candidates {
    candidates: Vec<ProcessId>,
    /// Whether any process of the namespace is there.
    has_namespace: bool,
    /// Whether a process has that id in a namespace that could not be read.
    is_partial: bool,
}

impl Candidates {
    /// Those with the id `pid` in `namespace`, or in any; `own` is the namespace of this process.
    fn of(pid: u32, namespace: Option<u64>, own: u64) -> Candidates {
        let mut seen = Candidates::default();
        for local in process::all() {
            let status = fs::read_to_string(format!("/proc/{local}/status")).unwrap_or_default();
            let ids = ids_of(&status);
            let is_candidate = ids.last() == Some(&pid);
            let inode = match fs::metadata(format!("/proc/{local}/ns/pid")) {
                // A process with one id is in the namespace of `/proc`.
                _ if ids.len() == 1 => own,
                Ok(link) => link.ino(),
                Err(error) => {
                    let is_hidden = error.kind() == io::ErrorKind::PermissionDenied;
                    seen.is_partial |= is_hidden && is_candidate;
                    continue;
                }
            };
            if namespace.is_some_and(|wanted| wanted != inode) {
                continue;
            }
            seen.has_namespace |= namespace.is_some();
            if is_candidate {
                seen.candidates.extend(ProcessId::of(local));
            }
        }
        seen
    }
}

/// The ids of a process by its `status`, from the namespace of `/proc` to its own.
fn ids_of(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(id: ProcessId, here: &PidNamespace) -> Noted<'_> {
        Noted { id, boot: Some(here.boot()), namespace: Some(here.inode()) }
    }

    #[test]
    fn a_process_of_this_namespace_is_judged_by_its_start() {
        let (here, own) = (PidNamespace::own().unwrap(), ProcessId::own());
        assert_eq!(here.fate(noted(own, &here)), ProcessFate::Alive);
        let other = ProcessId { start: own.start + 1, ..own };
        assert_eq!(here.fate(noted(other, &here)), ProcessFate::Dead);
        assert_eq!(here.here(noted(own, &here)), Some(own));
        assert_eq!(here.here(noted(other, &here)), None);
    }

    #[test]
    fn of_an_earlier_boot_only_a_process_that_runs_is_alive() {
        let (here, own) = (PidNamespace::own().unwrap(), ProcessId::own());
        let earlier = |id| Noted { boot: Some("earlier"), ..noted(id, &here) };
        assert_eq!(here.fate(earlier(own)), ProcessFate::Alive, "a boot id that was mounted over");
        let other = ProcessId { start: own.start + 1, ..own };
        assert_eq!(here.fate(earlier(other)), ProcessFate::Dead);
        assert_eq!(here.here(earlier(own)), None);
    }

    #[test]
    fn a_namespace_that_is_not_seen_is_judged_from_the_initial_one_only() {
        let (own, boot) = (ProcessId::own(), PidNamespace::own().unwrap().boot);
        let elsewhere = |inode| PidNamespace { boot: boot.clone(), inode };
        let gone = Noted { id: own, boot: None, namespace: Some(7) };
        assert_eq!(elsewhere(INITIAL).fate(gone), ProcessFate::Dead);
        let ProcessFate::Unknown(why) = elsewhere(8).fate(gone) else {
            panic!("it cannot be seen")
        };
        assert!(why.ends_with("of the PID namespace 7"), "{why}");
        // Without a namespace the process itself is found, from any namespace.
        let nowhere = Noted { namespace: None, ..gone };
        assert_eq!(elsewhere(8).fate(nowhere), ProcessFate::Alive);
    }

    #[test]
    fn the_last_id_of_a_status_is_that_of_its_own_namespace() {
        assert_eq!(ids_of("Name:\tx\nNSpid:\t26715\t2\nVmPeak:\t1 kB\n"), [26_715, 2]);
        assert!(ids_of("Name:\tx\n").is_empty());
    }
}
