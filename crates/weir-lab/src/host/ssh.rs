//! The connection to the firewall's host: one `ssh` process, which carries weir itself, then
//! requests, replies and files. There is a single connection, so nothing is multiplexed, and when
//! it ends, everything that it created there is removed.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde::de::DeserializeOwned;
use weir_kernel::Session;
use weir_study::LabHostsFile;

use crate::LabError;
use crate::host::agent_protocol::{
    AgentReply, AgentRequest, AgentWelcome, receive_json_line, send_json_line,
};

/// Runs on the host: takes the program from its standard input, and the rest of that is for it.
const COPIED_AGENT_SCRIPT: &str = "set -e; size=$1; shift; umask 077; dir=$(mktemp -d /tmp/weir.XXXXXXXX); \
    trap \"rm -rf $dir\" EXIT; head -c \"$size\" > \"$dir/weir\"; chmod +x \"$dir/weir\"; \
    \"$@\" \"$dir/weir\" lab agent";
/// Runs on a host that has a weir.
const INSTALLED_AGENT_SCRIPT: &str = "exec \"$@\" lab agent";
/// Lines of what `ssh` and the host say that are kept for a message.
const STDERR_LINES_KEPT: usize = 4;

/// A connection to an agent.
#[derive(Debug)]
pub(crate) struct SshConnection {
    child: Child,
    agent_stdin: Option<ChildStdin>,
    agent_stdout: BufReader<ChildStdout>,
    stderr_lines_thread: Option<JoinHandle<Vec<String>>>,
}

impl SshConnection {
    /// Starts an agent there, of the same version as this weir; returns its welcome.
    pub(crate) fn start_agent_checking_version(
        hosts: &LabHostsFile,
        session: &Session,
        weir: &Path,
        version: &str,
    ) -> Result<(SshConnection, AgentWelcome), LabError> {
        let firewall = &hosts.firewall;
        let installed = firewall.weir.as_ref().map(|path| path.get_ref().clone());
        let copy = match &installed {
            Some(_) => Vec::new(),
            None => std::fs::read(weir).map_err(LabError::file_error("read", weir))?,
        };
        let mut words = vec!["sh".to_owned(), "-c".to_owned()];
        match &installed {
            Some(path) => {
                words.extend([INSTALLED_AGENT_SCRIPT.to_owned(), "weir".to_owned()]);
                words.extend(firewall.as_root.iter().cloned());
                words.push(path.clone());
            }
            None => {
                words.extend([
                    COPIED_AGENT_SCRIPT.to_owned(),
                    "weir".to_owned(),
                    copy.len().to_string(),
                ]);
                words.extend(firewall.as_root.iter().cloned());
            }
        }
        let line: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
        let mut ssh = session.host_command("ssh");
        ssh.args(firewall.ssh_arguments()).arg(line.join(" "));
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = ssh.spawn().and_then(SshConnection::from_child);
        let mut line = started.map_err(|error| {
            hosts.error_at_value(&firewall.host, format!("start `ssh`: {error}"))
        })?;
        // A host that ends in the middle says why in another place.
        let _ = line.agent_stdin.as_mut().expect("open").write_all(&copy);
        let welcome = receive_json_line::<AgentWelcome>(&mut line.agent_stdout).ok().flatten();
        let Some(welcome) = welcome else {
            let why = line.close();
            let error = match &firewall.weir {
                Some(weir) if !why.has_ssh_itself_failed() => hosts.error_at_value(weir, why),
                _ => hosts.error_at_value(&firewall.host, why),
            };
            return Err(error.into());
        };
        if welcome.version != version {
            let message =
                format!("the version of weir there is {}, here {version}", welcome.version);
            let error = match &firewall.weir {
                Some(weir) => hosts.error_at_value(weir, message),
                None => hosts.error_at_value(&firewall.host, message),
            };
            return Err(error.into());
        }
        Ok((line, welcome))
    }

    fn from_child(mut child: Child) -> io::Result<SshConnection> {
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let last_lines = move || {
            let mut said: Vec<String> = Vec::new();
            for line in errors.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                if said.len() == STDERR_LINES_KEPT {
                    said.remove(0);
                }
                said.push(line);
            }
            said
        };
        let said = std::thread::Builder::new().name("ssh".to_owned()).spawn(last_lines)?;
        Ok(SshConnection {
            child,
            agent_stdin: to,
            agent_stdout: from,
            stderr_lines_thread: Some(said),
        })
    }

    /// Asks, with the bytes that belong to the question.
    pub(crate) fn send_request_and_await_reply<T: DeserializeOwned>(
        &mut self,
        ask: &AgentRequest,
        payload: &[u8],
    ) -> io::Result<Option<AgentReply<T>>> {
        let Some(to) = &mut self.agent_stdin else { return Ok(None) };
        send_json_line(to, ask)?;
        to.write_all(payload)?;
        to.flush()?;
        receive_json_line(&mut self.agent_stdout)
    }

    /// Closes the connection, and says how it ended.
    pub(crate) fn close(&mut self) -> SshExit {
        self.agent_stdin = None;
        let status = self.child.wait();
        let said = self
            .stderr_lines_thread
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        SshExit { status, stderr: said.join("; ") }
    }
}

impl Drop for SshConnection {
    fn drop(&mut self) {
        // The agent gives back what it took, and then its end of the line closes.
        self.close();
    }
}

/// How a connection ended.
pub(crate) struct SshExit {
    status: io::Result<ExitStatus>,
    stderr: String,
}

impl SshExit {
    fn exit_code(&self) -> Option<i32> {
        self.status.as_ref().ok().and_then(ExitStatus::code)
    }

    /// `ssh` itself failed (ssh(1), EXIT STATUS).
    fn has_ssh_itself_failed(&self) -> bool {
        self.exit_code() == Some(255)
    }
}

impl std::fmt::Display for SshExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lacks_library =
            ["shared librar", "GLIBC"].iter().any(|word| self.stderr.contains(word));
        if self.has_ssh_itself_failed() {
            write!(f, "`ssh` cannot reach the firewall's host: {}", self.stderr)
        } else if lacks_library || matches!(self.exit_code(), Some(126 | 127)) {
            write!(
                f,
                "weir cannot run on the firewall's host: {}; it needs libelf, zlib and a C library \
                 at least as new as here, or a weir that is installed there and named by `weir`",
                self.stderr
            )
        } else {
            let status = self.status.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            write!(f, "the agent on the firewall's host ended with {status}: {}", self.stderr)
        }
    }
}

/// A word for a shell.
pub(crate) fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_of_a_shell() {
        for word in ["", "a b", "it's", "$HOME `id` \"x\" \\"] {
            let line = format!("printf %s {}", shell_quote(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn the_copied_agent_reads_only_its_program_from_stdin() {
        // A script in place of weir that prints the rest of its input.
        let program = b"#!/bin/sh\necho \"$@\"; exec cat\n";
        let size = program.len().to_string();
        let mut child = std::process::Command::new("sh")
            .args(["-c", COPIED_AGENT_SCRIPT, "weir", &size, "env"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        to.write_all(program).unwrap();
        to.write_all(b"the rest\n").unwrap();
        drop(to);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "lab agent\nthe rest\n");
    }
}
