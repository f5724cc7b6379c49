//! The tools of rulesets: `iptables-legacy-restore`, `nft`, `ipset`. They are run in the network
//! namespace of the calling thread.
//!
//! A tool that changes something has the lock of the state as its standard output, to which it
//! writes nothing. If weir is killed, the lock is thus held until the tool has ended.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

use crate::ApplyOperationError;

/// Runs a tool that changes nothing and returns what it prints.
///
/// # Errors
/// Where it is not installed or fails.
pub(crate) fn read_from_tool(words: &[&str]) -> Result<String, ApplyOperationError> {
    let output = tool_command(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| start_error(words, source))?;
    if !output.status.success() {
        return Err(failure(words, &output.stderr));
    }
    String::from_utf8(output.stdout).map_err(|_| ApplyOperationError::ToolFailed {
        command: words.join(" "),
        message: "its output is not UTF-8".to_owned(),
    })
}

/// Runs a tool that changes the ruleset, with a text as its standard input.
///
/// # Errors
/// Where it is not installed or fails.
pub(crate) fn change_by_tool(
    words: &[&str],
    input: &str,
    lock: &File,
) -> Result<(), ApplyOperationError> {
    let lock = lock.try_clone().map_err(ApplyOperationError::file("keep", "the lock"))?;
    let mut child = tool_command(words)
        .stdin(Stdio::piped())
        .stdout(lock)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| start_error(words, source))?;
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let (written, output) = std::thread::scope(|scope| {
        // A tool that fails reads no further; what it says is worth more than the broken pipe.
        let writer = scope.spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output();
        (writer.join().unwrap_or(Ok(())), output)
    });
    let output = output.map_err(|source| start_error(words, source))?;
    if !output.status.success() {
        return Err(failure(words, &output.stderr));
    }
    written.map_err(|source| start_error(words, source))
}

fn tool_command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    // ipset looks for a new resolv.conf for each address unless told otherwise (resolv.conf(5)).
    command.args(&words[1..]).env("LC_ALL", "C").env("RES_OPTIONS", "no-reload");
    command
}

fn start_error(words: &[&str], source: std::io::Error) -> ApplyOperationError {
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

fn failure(words: &[&str], stderr: &[u8]) -> ApplyOperationError {
    const LINES_MAX: usize = 6;
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    ApplyOperationError::ToolFailed { command: words.join(" "), message: lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_or_fails_is_named() {
        assert_eq!(read_from_tool(&["echo", "a"]).expect("it runs"), "a\n");
        let failed = read_from_tool(&["sh", "-c", "echo why >&2; exit 3"]).expect_err("it fails");
        assert!(failed.to_string().ends_with("why"), "{failed}");
        let missing = read_from_tool(&["weir-no-such-tool"]).expect_err("it is missing");
        assert!(missing.to_string().contains("weir-no-such-tool is not installed"), "{missing}");
        let lock = File::open("/dev/null").expect("a file");
        change_by_tool(&["cat"], "", &lock).expect("it runs");
        let input = "x".repeat(1 << 20);
        let failed = change_by_tool(&["false"], &input, &lock).expect_err("it fails");
        assert!(failed.to_string().starts_with("false: "), "{failed}");
    }
}
