//! What a program used: processor time, and memory at its peak.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Clock ticks per second of `/proc/PID/stat`: USER_HZ, the same on all machines that run weir.
const USER_HZ: u64 = 100;

/// What a program used.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    /// Time that it took.
    pub wall: Duration,
    /// Processor time of the program's own code.
    pub user: Duration,
    /// Processor time of the kernel for the program: most of it is for memory.
    pub system: Duration,
    /// The most memory that was seen, in KiB: it is read while the program runs.
    pub memory_kib: u64,
    /// Its exit status, if it ended by itself.
    pub exit_status: Option<i32>,
}

impl ProcessUsage {
    /// Processor time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Runs a program to its end. Its output is discarded.
pub fn run_and_read_usage(command: &mut Command) -> ProcessUsage {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let pid = Pid::from_child(&child);
    let proc = format!("/proc/{}", child.id());
    let read = |file: &str| std::fs::read_to_string(format!("{proc}/{file}")).unwrap_or_default();
    let mut memory_kib = 0;
    // Until it has ended; it stays there, so that its times can be read.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid), options).is_ok_and(|ended| ended.is_none()) {
        memory_kib = parse_peak_memory_kib(&read("status")).unwrap_or(memory_kib);
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let wall = start.elapsed();
    let (user, system) = parse_cpu_times(&read("stat")).unwrap_or_default();
    let status = child.wait().expect("it has ended");
    ProcessUsage { wall, user, system, memory_kib, exit_status: status.code() }
}

fn parse_peak_memory_kib(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// `utime` and `stime`: the fourteenth and fifteenth field. The second is a name in parentheses.
fn parse_cpu_times(stat: &str) -> Option<(Duration, Duration)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut time = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(Duration::from_millis(ticks * 1000 / USER_HZ))
    };
    Some((time()?, time()?))
}
