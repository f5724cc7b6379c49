//! Processes identified by ID and start time, which together are never reused.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process: ids are used again, ids with a start time are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PidWithStartTime {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start: u64,
}

impl PidWithStartTime {
    /// The running process with that id; `None` if there is none, or only its zombie.
    pub fn from_pid(pid: u32) -> Option<PidWithStartTime> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the command in parentheses and may hold anything, spaces included.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        Some(PidWithStartTime { pid, start: fields.nth(18)?.parse().ok()? })
    }

    /// This process.
    pub fn of_this_process() -> PidWithStartTime {
        PidWithStartTime::from_pid(std::process::id()).expect("this process is running")
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        PidWithStartTime::from_pid(self.pid) == Some(self)
    }

    /// Kills it (SIGKILL) and waits until it has ended, at most `limit`.
    ///
    /// # Errors
    /// If it may not be killed, or does not end in time. A process that has ended is not an
    /// error.
    pub fn kill_and_wait(self, limit: Duration) -> io::Result<()> {
        let Some(fd) = self.open_pidfd()? else { return Ok(()) };
        match pidfd_send_signal(&fd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(e) => return Err(e.into()),
        }
        wait_for_exit(&fd, limit)
    }

    /// A descriptor of the process, checked after opening: it cannot be another one.
    fn open_pidfd(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) if self.is_alive() => Ok(Some(fd)),
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn wait_for_exit(fd: &OwnedFd, limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// All process ids of the machine that this process sees.
pub(crate) fn list_process_ids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_killed_process_is_not_alive_even_as_a_zombie() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let id = PidWithStartTime::from_pid(child.id()).unwrap();
        assert!(id.is_alive());
        id.kill_and_wait(Duration::from_secs(10)).unwrap();
        assert!(!id.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = PidWithStartTime::of_this_process();
        let other = PidWithStartTime { start: own.start + 1, ..own };
        assert!(own.is_alive() && !other.is_alive());
        other.kill_and_wait(Duration::from_secs(1)).unwrap();
    }
}
