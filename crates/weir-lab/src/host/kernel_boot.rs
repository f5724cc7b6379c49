//! Boots the firewall's host into a kernel, by a command of the user.
//!
//! The boot is complete when the host answers with a new boot ID, the random one that the kernel
//! generates at each boot (`/proc/sys/kernel/random/boot_id`, random(4)). A reachable address or
//! the expected release would not distinguish a host that has not shut down yet from one that is
//! back.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_kernel::stop_signal;

use crate::LabError;
use crate::host::ssh::shell_quote;
use weir_study::LabHostsFile;
use weir_study::lab_hosts_file::BootKernel;

/// How long a boot may take where the file does not say.
const DEFAULT_BOOT_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of a request: a host that shuts down may not reply.
const SSH_REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two requests, and between two checks for a reply.
const BOOT_POLL_INTERVAL: Duration = Duration::from_millis(500);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Which boot this is, and of which kernel.
const BOOT_ID_AND_RELEASE_COMMAND: &str = "cat /proc/sys/kernel/random/boot_id && uname -r";

/// Boots a kernel, waits until the host is back, and says its release.
pub(crate) fn boot_firewall_host_and_read_release(
    hosts: &LabHostsFile,
    kernel: &BootKernel,
) -> Result<String, LabError> {
    let firewall = &hosts.firewall;
    let limit = firewall.boot_limit_seconds.as_ref().map(|seconds| *seconds.get_ref());
    let limit = limit.map_or(DEFAULT_BOOT_TIMEOUT, Duration::from_secs);
    let before = read_boot_identity(hosts)?.map_err(|why| {
        let why = format!("`ssh` cannot read the boot ID of the firewall's host: {why}");
        hosts.error_at_value(&firewall.host, why)
    })?;
    let until = Instant::now() + limit;
    let mut why = run_boot_command_describing_status(hosts, kernel, until)?;
    while Instant::now() < until {
        match read_boot_identity(hosts)? {
            Ok(now) if now.boot_id != before.boot_id => return Ok(now.release),
            Ok(_) => why = "it is still running, and was not rebooted".to_owned(),
            Err(said) => why = format!("it does not answer: {said}"),
        }
        thread::sleep(BOOT_POLL_INTERVAL);
    }
    let limit = limit.as_secs();
    let message = format!(
        "`boot` did not boot the firewall's host within {limit} s: {why}; \
         `boot_limit_seconds` allows more"
    );
    Err(hosts.error_at_value(&kernel.boot, message).into())
}

/// Runs `boot`, and reports its result. It may close the connection (255 is a status of `ssh`
/// itself, ssh(1)); any other status but 0 is from the command, and nothing is booting.
fn run_boot_command_describing_status(
    hosts: &LabHostsFile,
    kernel: &BootKernel,
    until: Instant,
) -> Result<String, LabError> {
    let firewall = &hosts.firewall;
    let words = firewall.as_root.iter().map(String::as_str);
    let words = words.chain(["sh", "-c", kernel.boot.get_ref().as_str()]).map(shell_quote);
    let SshCommandResult { status, stderr: said, .. } =
        run_over_ssh_until(hosts, &words.collect::<Vec<_>>().join(" "), until)?;
    match status {
        Some(status) if !matches!(status.code(), Some(0 | 255)) => Err(hosts
            .error_at_value(&kernel.boot, format!("`boot` ended with {status}: {said}"))
            .into()),
        Some(status) => Ok(format!("`boot` ended with {status}: {said}")),
        None => Ok("`boot` has not ended".to_owned()),
    }
}

/// Which boot the host is in, or why it does not say.
fn read_boot_identity(hosts: &LabHostsFile) -> Result<Result<BootIdentity, String>, LabError> {
    let SshCommandResult { status, stdout: text, stderr: said } =
        run_over_ssh_until(hosts, BOOT_ID_AND_RELEASE_COMMAND, Instant::now() + SSH_REPLY_TIMEOUT)?;
    let mut lines = text.lines().map(str::to_owned);
    Ok(match (status.filter(ExitStatus::success), lines.next(), lines.next()) {
        (Some(_), Some(boot_id), Some(release)) => Ok(BootIdentity { boot_id, release }),
        _ if status.is_none() => Err("no answer in time".to_owned()),
        _ => Err(said),
    })
}

/// Has a command run there, until it ends or the time is over.
fn run_over_ssh_until(
    hosts: &LabHostsFile,
    command: &str,
    until: Instant,
) -> Result<SshCommandResult, LabError> {
    let failed = |source| LabError::SystemCall { action: "start `ssh`", source };
    let mut ssh = Command::new("ssh");
    // A connection that the user's ssh keeps for others does not end with the host's boot.
    ssh.args(["-o", "ControlPath=none"]).args(hosts.firewall.ssh_arguments());
    ssh.arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ssh.spawn().map_err(failed)?;
    let text = spawn_pipe_reader(child.stdout.take().expect("piped"));
    let said = spawn_pipe_reader(child.stderr.take().expect("piped"));
    let status = poll_exit_status_without_killing(&mut child, until);
    // Where it has not ended it is of no use any more; the readers end with it.
    let _ = child.kill();
    let _ = child.wait();
    let (text, said) = (join_pipe_reader(text), join_pipe_reader(said));
    let status = status.map_err(failed)?;
    if stop_signal::is_stop_requested() {
        return Err(LabError::Interrupted);
    }
    Ok(SshCommandResult { status, stdout: text, stderr: said.trim().replace('\n', "; ") })
}

/// A boot of the host.
struct BootIdentity {
    boot_id: String,
    release: String,
}

/// How a command on the host ended; no status where it did not in time.
struct SshCommandResult {
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
}

/// How a process ended; `None` if it did not in time, or if the user interrupted.
fn poll_exit_status_without_killing(
    child: &mut Child,
    until: Instant,
) -> io::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= until || stop_signal::is_stop_requested() {
            return Ok(status);
        }
        thread::sleep(EXIT_POLL_INTERVAL);
    }
}

/// Reads all of a pipe, so that the writer never blocks.
fn spawn_pipe_reader(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is what there is to say.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

fn join_pipe_reader(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_process_stops_at_its_deadline() {
        let start = |program: &str, argument: &str| Command::new(program).arg(argument).spawn();
        let mut quick = start("true", "").unwrap();
        let far = Instant::now() + Duration::from_secs(60);
        assert!(
            poll_exit_status_without_killing(&mut quick, far).unwrap().expect("it ends").success()
        );
        let mut slow = start("sleep", "60").unwrap();
        assert!(poll_exit_status_without_killing(&mut slow, Instant::now()).unwrap().is_none());
        slow.kill().unwrap();
        slow.wait().unwrap();
    }
}
