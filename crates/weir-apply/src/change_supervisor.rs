//! The supervisor: a process that recovers a change whose process was killed, and rolls back a
//! generation that was not confirmed in time.
//!
//! It has its own session, no terminal and no open files of its parent, so that it survives both.
//! It polls the journal, and exits when nothing is pending. If a change is still incomplete at the
//! deadline of its confirmation, its processes are killed and it is undone. If the supervisor is
//! killed, the journal still contains the deadline, and the next command of weir rolls back.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_kernel::process::PidWithStartTime;

use crate::ApplyOperationError;
use crate::generation_changes::LockedGenerations;
use crate::state_store::{Journal, JournalStage, StateStore};

/// Interval between reads of the journal.
const JOURNAL_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long another command may still run after the deadline.
const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(600);
/// Longest interval between retries of a failed change.
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(30);
/// How long a killed process may take to exit.
const KILL_WAIT_LIMIT: Duration = Duration::from_secs(10);
const READY_LINE: &str = "ready";

/// Starts `weir supervise` in the network namespace of this thread and waits until it is ready.
///
/// # Errors
/// If it cannot be started.
pub fn start_change_supervisor(state: &Path) -> Result<PidWithStartTime, ApplyOperationError> {
    let program = "/proc/self/exe";
    let error = || ApplyOperationError::file("start the supervisor", program);
    let owner = PidWithStartTime::of_this_process();
    let mut child = Command::new(program)
        .arg0("weir")
        .arg("supervise")
        .arg("--state")
        .arg(state)
        .arg("--owner-pid")
        .arg(owner.pid.to_string())
        .arg("--owner-start-ticks")
        .arg(owner.start.to_string())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(error())?;
    let mut line = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).map_err(error())?;
    match (line.trim(), PidWithStartTime::from_pid(child.id())) {
        (READY_LINE, Some(supervisor)) => Ok(supervisor),
        _ => Err(ApplyOperationError::Refused(
            "the supervisor, which would roll back, did not start: nothing was changed".to_owned(),
        )),
    }
}

/// Supervises the changes of a process until it has exited and its changes are confirmed or rolled
/// back.
///
/// # Errors
/// If the state cannot be read.
pub fn supervise_changes(state: &Path, owner: PidWithStartTime) -> Result<(), ApplyOperationError> {
    // A process started by another one is not a group leader, so this succeeds.
    let detached = rustix::process::setsid().map_err(std::io::Error::from);
    detached.map_err(ApplyOperationError::file("detach", "the supervisor"))?;
    let store = StateStore::find(state)?;
    let mut stdout = std::io::stdout();
    let written = writeln!(stdout, "{READY_LINE}").and_then(|()| stdout.flush());
    written.map_err(ApplyOperationError::file("write", "standard output"))?;
    let mut retry_interval = JOURNAL_POLL_INTERVAL;
    loop {
        // An unreadable journal is read again, because a deadline may depend on it.
        let Ok(journal) = store.read_journal() else {
            std::thread::sleep(JOURNAL_POLL_INTERVAL);
            continue;
        };
        match journal {
            // The supervisor is started before the journal is written.
            None if owner.is_alive() => std::thread::sleep(JOURNAL_POLL_INTERVAL),
            None => return Ok(()),
            Some(journal) if is_supervised_by_another_process(&journal) => {
                // The supervisor was started while the journal of the previous change existed.
                if !owner.is_alive() {
                    return Ok(());
                }
                std::thread::sleep(JOURNAL_POLL_INTERVAL);
            }
            Some(journal) if is_overdue_or_interrupted(&journal) => {
                // Opening recovers what is overdue or interrupted. A failure, for example because
                // of a full disk, is retried with increasing intervals.
                kill_overdue_change_and_tools(&store, &journal);
                match LockedGenerations::lock_and_recover_at_deadline(state, LOCK_WAIT_LIMIT) {
                    Ok(_) => retry_interval = JOURNAL_POLL_INTERVAL,
                    Err(_) => {
                        std::thread::sleep(retry_interval);
                        retry_interval = (retry_interval * 2).min(RETRY_INTERVAL_MAX);
                    }
                }
            }
            Some(_) => std::thread::sleep(JOURNAL_POLL_INTERVAL),
        }
    }
}

/// Whether another command has begun a change and started its own supervisor.
fn is_supervised_by_another_process(journal: &Journal) -> bool {
    let own = PidWithStartTime::of_this_process();
    journal.supervisor.is_some_and(|supervisor| supervisor != own && supervisor.is_alive())
}

fn is_overdue_or_interrupted(journal: &Journal) -> bool {
    // If the supervisor's own change failed, it is in the journal and is tried again.
    let is_at_work =
        journal.owner.is_alive() && journal.owner != PidWithStartTime::of_this_process();
    match journal.stage {
        JournalStage::Changing => !is_at_work || journal.is_overdue(),
        JournalStage::InForce if journal.deadline.is_some() => journal.is_overdue(),
        JournalStage::InForce => !is_at_work,
    }
}

/// Kills the process that makes an overdue change, and the tools that it started: the lock file of
/// the state is their standard output.
fn kill_overdue_change_and_tools(store: &StateStore, journal: &Journal) {
    let own = PidWithStartTime::of_this_process();
    if journal.stage != JournalStage::Changing || !journal.is_overdue() || journal.owner == own {
        return;
    }
    let _ = journal.owner.kill_and_wait(KILL_WAIT_LIMIT);
    let Ok(lock) = fs::metadata(store.lock_path()) else { return };
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Read first, so that the output below belongs to the process with this start time, or to
        // none.
        let Some(tool) = PidWithStartTime::from_pid(pid) else { continue };
        let Ok(output) = fs::metadata(process.path().join("fd/1")) else { continue };
        if (output.dev(), output.ino()) == (lock.dev(), lock.ino()) && tool != own {
            let _ = tool.kill_and_wait(KILL_WAIT_LIMIT);
        }
    }
}
