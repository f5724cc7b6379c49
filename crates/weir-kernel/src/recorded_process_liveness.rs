//! Whether a process that a session file names still runs.
//!
//! Several PID namespaces may share `/run`, for example a container and its host, and a process ID
//! has no meaning without its namespace. A session file records the namespace of its owner and the
//! boot; sessions that cannot be judged from here are left alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use crate::process::{self, PidWithStartTime};

/// Inode of the initial PID namespace (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const INITIAL_PID_NS_INODE: u64 = 0xEFFF_FFFC;

/// What the process ids of this process mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PidNamespace {
    /// Identifier of the boot.
    boot_id: String,
    /// Inode of the namespace.
    inode: u64,
}

/// The outcome of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessLiveness {
    /// It runs.
    Alive,
    /// It has ended.
    Dead,
    /// It cannot be seen from here, with the reason.
    NotVisible(String),
}

/// A process as another process wrote it down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedProcess<'a> {
    /// Its id in its own namespace.
    pub id: PidWithStartTime,
    /// The boot, where it is known.
    pub boot_id: Option<&'a str>,
    /// The inode of its PID namespace, where it is known.
    pub pid_namespace: Option<u64>,
}

impl PidNamespace {
    /// That of this process.
    ///
    /// # Errors
    /// If `/proc` is not mounted, or is that of another PID namespace: ids that are read there
    /// are not those that a process can be killed by.
    pub(crate) fn of_this_process() -> Result<PidNamespace, String> {
        let other = || {
            "/proc does not belong to this PID namespace: mount it \
             (`mount -t proc proc /proc`, or `unshare --mount-proc`)"
                .to_owned()
        };
        let status = fs::read_to_string("/proc/self/status").map_err(|_| other())?;
        if parse_nspid(&status) != [std::process::id()] {
            return Err(other());
        }
        let failed = |what: &str, error: io::Error| format!("read {what}: {error}");
        let boot_id = "/proc/sys/kernel/random/boot_id";
        let boot = fs::read_to_string(boot_id).map_err(|error| failed(boot_id, error))?;
        let own = "/proc/self/ns/pid";
        let inode = fs::metadata(own).map_err(|error| failed(own, error))?.ino();
        Ok(PidNamespace { boot_id: boot.trim().to_owned(), inode })
    }

    /// The boot.
    pub(crate) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// The inode.
    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// The outcome of a process that another process wrote down.
    pub(crate) fn process_liveness(&self, noted: RecordedProcess<'_>) -> ProcessLiveness {
        if noted.boot_id.is_some_and(|boot| boot != self.boot_id) {
            // A boot id can be mounted over, and a process that runs proves that it was.
            let is_here = noted.pid_namespace == Some(self.inode);
            return if is_here && noted.id.is_alive() {
                ProcessLiveness::Alive
            } else {
                ProcessLiveness::Dead
            };
        }
        let namespace = match noted.pid_namespace {
            Some(inode) if inode == self.inode => return local_process_liveness(noted.id),
            other => other,
        };
        let seen = ProcessesWithPid::scan_proc(noted.id.pid, namespace, self.inode);
        if seen
            .processes
            .iter()
            .any(|id| id.start == noted.id.start || !shares_time_namespace(id.pid))
        {
            return ProcessLiveness::Alive;
        }
        // A namespace of which one process is seen lies below this one: all of it is seen.
        if !seen.saw_unreadable_candidate
            && (self.inode == INITIAL_PID_NS_INODE || seen.saw_namespace_member)
        {
            return ProcessLiveness::Dead;
        }
        let of = match namespace {
            Some(inode) => format!("of the PID namespace {inode}"),
            None => "of an unrecorded PID namespace".to_owned(),
        };
        ProcessLiveness::NotVisible(format!("its owner is process {} {of}", noted.id.pid))
    }

    /// The id that a process has here; `None` if it has ended or cannot be seen.
    pub(crate) fn local_process_id(&self, noted: RecordedProcess<'_>) -> Option<PidWithStartTime> {
        if noted.boot_id.is_some_and(|boot| boot != self.boot_id) {
            return None;
        }
        if noted.pid_namespace == Some(self.inode) {
            return Some(noted.id).filter(|id| id.is_alive());
        }
        let seen =
            ProcessesWithPid::scan_proc(noted.id.pid, Some(noted.pid_namespace?), self.inode);
        seen.processes.into_iter().find(|id| id.start == noted.id.start)
    }
}

/// The outcome of a process of this PID namespace.
fn local_process_liveness(id: PidWithStartTime) -> ProcessLiveness {
    match PidWithStartTime::from_pid(id.pid) {
        None => ProcessLiveness::Dead,
        Some(other) if other == id => ProcessLiveness::Alive,
        // A time namespace moves the start times that are read in it.
        Some(_) if shares_time_namespace(id.pid) => ProcessLiveness::Dead,
        Some(_) => {
            ProcessLiveness::NotVisible(format!("process {} is in another time namespace", id.pid))
        }
    }
}

/// Whether a process reads the same start times as this one.
fn shares_time_namespace(pid: u32) -> bool {
    let inode = |of: &str| fs::metadata(format!("/proc/{of}/ns/time")).map(|m| m.ino()).ok();
    inode(&pid.to_string()) == inode("self")
}

/// Processes that have an id in their own namespace.
#[derive(Default)]
struct ProcessesWithPid {
    processes: Vec<PidWithStartTime>,
    /// Whether any process of the namespace is there.
    saw_namespace_member: bool,
    /// Whether a process has that id in a namespace that could not be read.
    saw_unreadable_candidate: bool,
}

impl ProcessesWithPid {
    /// Those with the id `pid` in `namespace`, or in any; `own` is the namespace of this process.
    fn scan_proc(pid: u32, namespace: Option<u64>, own: u64) -> ProcessesWithPid {
        let mut seen = ProcessesWithPid::default();
        for local in process::list_process_ids() {
            let status = fs::read_to_string(format!("/proc/{local}/status")).unwrap_or_default();
            let ids = parse_nspid(&status);
            let is_candidate = ids.last() == Some(&pid);
            let inode = match fs::metadata(format!("/proc/{local}/ns/pid")) {
                // A process with one id is in the namespace of `/proc`.
                _ if ids.len() == 1 => own,
                Ok(link) => link.ino(),
                Err(error) => {
                    let is_hidden = error.kind() == io::ErrorKind::PermissionDenied;
                    seen.saw_unreadable_candidate |= is_hidden && is_candidate;
                    continue;
                }
            };
            if namespace.is_some_and(|wanted| wanted != inode) {
                continue;
            }
            seen.saw_namespace_member |= namespace.is_some();
            if is_candidate {
                seen.processes.extend(PidWithStartTime::from_pid(local));
            }
        }
        seen
    }
}

/// The ids of a process by its `status`, from the namespace of `/proc` to its own.
fn parse_nspid(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(id: PidWithStartTime, here: &PidNamespace) -> RecordedProcess<'_> {
        RecordedProcess { id, boot_id: Some(here.boot_id()), pid_namespace: Some(here.inode()) }
    }

    #[test]
    fn a_process_in_this_namespace_is_identified_by_start_time() {
        let (here, own) =
            (PidNamespace::of_this_process().unwrap(), PidWithStartTime::of_this_process());
        assert_eq!(here.process_liveness(noted(own, &here)), ProcessLiveness::Alive);
        let other = PidWithStartTime { start: own.start + 1, ..own };
        assert_eq!(here.process_liveness(noted(other, &here)), ProcessLiveness::Dead);
        assert_eq!(here.local_process_id(noted(own, &here)), Some(own));
        assert_eq!(here.local_process_id(noted(other, &here)), None);
    }

    #[test]
    fn a_running_process_is_alive_despite_another_boot_id() {
        let (here, own) =
            (PidNamespace::of_this_process().unwrap(), PidWithStartTime::of_this_process());
        let earlier = |id| RecordedProcess { boot_id: Some("earlier"), ..noted(id, &here) };
        assert_eq!(
            here.process_liveness(earlier(own)),
            ProcessLiveness::Alive,
            "a boot id that was mounted over"
        );
        let other = PidWithStartTime { start: own.start + 1, ..own };
        assert_eq!(here.process_liveness(earlier(other)), ProcessLiveness::Dead);
        assert_eq!(here.local_process_id(earlier(own)), None);
    }

    #[test]
    fn only_the_initial_pid_namespace_declares_invisible_processes_dead() {
        let (own, boot) =
            (PidWithStartTime::of_this_process(), PidNamespace::of_this_process().unwrap().boot_id);
        let elsewhere = |inode| PidNamespace { boot_id: boot.clone(), inode };
        let gone = RecordedProcess { id: own, boot_id: None, pid_namespace: Some(7) };
        assert_eq!(elsewhere(INITIAL_PID_NS_INODE).process_liveness(gone), ProcessLiveness::Dead);
        let ProcessLiveness::NotVisible(why) = elsewhere(8).process_liveness(gone) else {
            panic!("it cannot be seen")
        };
        assert!(why.ends_with("of the PID namespace 7"), "{why}");
        // Without a namespace the process itself is found, from any namespace.
        let nowhere = RecordedProcess { pid_namespace: None, ..gone };
        assert_eq!(elsewhere(8).process_liveness(nowhere), ProcessLiveness::Alive);
    }

    #[test]
    fn nspid_lists_process_ids_from_outer_to_inner_namespace() {
        assert_eq!(parse_nspid("Name:\tx\nNSpid:\t26715\t2\nVmPeak:\t1 kB\n"), [26_715, 2]);
        assert!(parse_nspid("Name:\tx\n").is_empty());
    }
}
