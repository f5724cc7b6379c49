//! Running the tools `iptables-legacy-restore`, `nft` and `ipset`, in the network namespace of the
//! calling thread.
//!
//! A tool that changes something gets the lock file of the state as its standard output, to which
//! it writes nothing. If weir is killed, the lock is therefore held until the tool has exited. A
//! tool that exceeds its time limit is killed, with all processes that it started.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;

use crate::ApplyOperationError;

/// Time limit of a tool: a multiple of what the largest rulesets need.
const TOOL_TIME_LIMIT: Duration = Duration::from_secs(300);

/// Runs a tool that changes nothing and returns what it prints.
///
/// # Errors
/// If it is not installed or fails.
pub(crate) fn read_tool_output(words: &[&str]) -> Result<String, ApplyOperationError> {
    let output = run_tool(words, "", Stdio::piped(), TOOL_TIME_LIMIT)?;
    String::from_utf8(output.stdout).map_err(|_| ApplyOperationError::ToolFailed {
        command: words.join(" "),
        message: "its output is not UTF-8: change the comment or name in the rule that is not"
            .to_owned(),
    })
}

/// Runs a tool that changes the ruleset, with a text as its standard input.
///
/// # Errors
/// If it is not installed or fails.
pub(crate) fn run_changing_tool(
    words: &[&str],
    input: &str,
    lock: &File,
) -> Result<(), ApplyOperationError> {
    let lock = lock.try_clone().map_err(ApplyOperationError::file("keep", "the lock"))?;
    run_tool(words, input, Stdio::from(lock), TOOL_TIME_LIMIT).map(drop)
}

/// Runs a tool in a process group of its own, which is killed if the tool does not end in time.
fn run_tool(
    words: &[&str],
    input: &str,
    stdout: Stdio,
    limit: Duration,
) -> Result<Output, ApplyOperationError> {
    let mut child = tool_command(words)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| tool_io_error(words, source))?;
    let group = rustix::process::Pid::from_child(&child);
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let (ended, end) = mpsc::channel();
    let (written, output, in_time) = std::thread::scope(|scope| {
        // A tool that fails stops reading; its error message matters more than the broken pipe.
        let writer = scope.spawn(move || stdin.write_all(input.as_bytes()));
        // The group ID cannot be reused before the tool is waited for, which happens after its last
        // process has closed standard error.
        let watch = scope.spawn(move || {
            let in_time = end.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout);
            if !in_time {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            in_time
        });
        let output = child.wait_with_output();
        let _ = ended.send(());
        let written = writer.join().unwrap_or(Ok(()));
        (written, output, watch.join().unwrap_or(true))
    });
    if !in_time {
        return Err(ApplyOperationError::ToolFailed {
            command: words.join(" "),
            message: format!("it did not end within {} s, and was killed", limit.as_secs()),
        });
    }
    let output = output.map_err(|source| tool_io_error(words, source))?;
    if !output.status.success() {
        return Err(tool_failure(words, &output.stderr));
    }
    match written {
        Err(error) if !input.is_empty() => Err(tool_io_error(words, error)),
        _ => Ok(output),
    }
}

fn tool_command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    // Without this option, ipset checks resolv.conf for changes for each address (resolv.conf(5)).
    command.args(&words[1..]).env("LC_ALL", "C").env("RES_OPTIONS", "no-reload");
    command
}

fn tool_io_error(words: &[&str], source: std::io::Error) -> ApplyOperationError {
    let tool = words[0].to_owned();
    match source.kind() {
        ErrorKind::NotFound => {
            let package = match words[0] {
                "nft" => "nftables",
                "ipset" => "ipset",
                _ => "iptables",
            };
            ApplyOperationError::MissingTool { tool, package }
        }
        _ => ApplyOperationError::ToolFailed {
            command: words.join(" "),
            message: source.to_string(),
        },
    }
}

fn tool_failure(words: &[&str], stderr: &[u8]) -> ApplyOperationError {
    const STDERR_LINES_MAX: usize = 6;
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().take(STDERR_LINES_MAX).collect();
    ApplyOperationError::ToolFailed { command: words.join(" "), message: lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_or_fails_is_named() {
        assert_eq!(read_tool_output(&["echo", "a"]).expect("it runs"), "a\n");
        let failed = read_tool_output(&["sh", "-c", "echo why >&2; exit 3"]).expect_err("it fails");
        assert!(failed.to_string().ends_with("why"), "{failed}");
        let missing = read_tool_output(&["weir-no-such-tool"]).expect_err("it is missing");
        assert!(missing.to_string().contains("weir-no-such-tool is not installed"), "{missing}");
        let lock = File::open("/dev/null").expect("a file");
        run_changing_tool(&["cat"], "", &lock).expect("it runs");
        let input = "x".repeat(1 << 20);
        let failed = run_changing_tool(&["false"], &input, &lock).expect_err("it fails");
        assert!(failed.to_string().starts_with("false: "), "{failed}");
    }

    #[test]
    fn a_tool_that_hangs_is_killed_with_what_it_started() {
        let words = ["sh", "-c", "sleep 9999 & echo $! >&2; exec sleep 9998"];
        let run = |limit| run_tool(&words, "", Stdio::null(), limit);
        let said = run(Duration::from_millis(300)).expect_err("it hangs").to_string();
        assert!(said.ends_with("it did not end within 0 s, and was killed"), "{said}");
        let ends = run_tool(&["true"], "", Stdio::null(), TOOL_TIME_LIMIT);
        assert!(ends.expect("it ends in time").status.success());
    }
}
