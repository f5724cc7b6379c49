//! The connection to the firewall's host: one `ssh` process, which carries weir itself, then
//! requests, replies and files. There is a single connection, so nothing is multiplexed, and when
//! it ends, everything that it created there is removed.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::thread::JoinHandle;

use serde::de::DeserializeOwned;
use weir_kernel::Session;
use weir_study::Hosts;

use crate::LabError;
use crate::host::protocol::{AgentReply, AgentRequest, Welcome, receive, send};

/// Runs on the host: takes the program from its standard input, and the rest of that is for it.
const WITH_COPY: &str = "set -e; size=$1; shift; umask 077; dir=$(mktemp -d /tmp/weir.XXXXXXXX); \
    trap \"rm -rf $dir\" EXIT; head -c \"$size\" > \"$dir/weir\"; chmod +x \"$dir/weir\"; \
    \"$@\" \"$dir/weir\" lab agent";
/// Runs on a host that has a weir.
const INSTALLED: &str = "exec \"$@\" lab agent";
/// Lines of what `ssh` and the host say that are kept for a message.
const SAID_LINES: usize = 4;

/// A connection to an agent.
#[derive(Debug)]
pub(crate) struct Connection {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    said: Option<JoinHandle<Vec<String>>>,
}

impl Connection {
    /// Starts an agent there, of the same version as this weir; returns its welcome.
    pub(crate) fn open(
        hosts: &Hosts,
        session: &Session,
        weir: &Path,
        version: &str,
    ) -> Result<(Connection, Welcome), LabError> {
        let firewall = &hosts.firewall;
        let installed = firewall.weir.as_ref().map(|path| path.get_ref().clone());
        let copy = match &installed {
            Some(_) => Vec::new(),
            None => std::fs::read(weir).map_err(LabError::file("read", weir))?,
        };
        let mut words = vec!["sh".to_owned(), "-c".to_owned()];
        match &installed {
            Some(path) => {
                words.extend([INSTALLED.to_owned(), "weir".to_owned()]);
                words.extend(firewall.as_root.iter().cloned());
                words.push(path.clone());
            }
            None => {
                words.extend([WITH_COPY.to_owned(), "weir".to_owned(), copy.len().to_string()]);
                words.extend(firewall.as_root.iter().cloned());
            }
        }
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let mut ssh = session.command("ssh");
        ssh.args(firewall.ssh_arguments()).arg(line.join(" "));
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = ssh.spawn().and_then(Connection::of);
        let mut line = started
            .map_err(|error| hosts.refused(&firewall.host, format!("start `ssh`: {error}")))?;
        // A host that ends in the middle says why in another place.
        let _ = line.to.as_mut().expect("open").write_all(&copy);
        let welcome = receive::<Welcome>(&mut line.from).ok().flatten();
        let Some(welcome) = welcome else {
            let why = line.end();
            let error = match &firewall.weir {
                Some(weir) if !why.is_unreached() => hosts.refused(weir, why),
                _ => hosts.refused(&firewall.host, why),
            };
            return Err(error.into());
        };
        if welcome.version != version {
            let message =
                format!("the version of weir there is {}, here {version}", welcome.version);
            let error = match &firewall.weir {
                Some(weir) => hosts.refused(weir, message),
                None => hosts.refused(&firewall.host, message),
            };
            return Err(error.into());
        }
        Ok((line, welcome))
    }

    fn of(mut child: Child) -> io::Result<Connection> {
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let last_lines = move || {
            let mut said: Vec<String> = Vec::new();
            for line in errors.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                if said.len() == SAID_LINES {
                    said.remove(0);
                }
                said.push(line);
            }
            said
        };
        let said = std::thread::Builder::new().name("ssh".to_owned()).spawn(last_lines)?;
        Ok(Connection { child, to, from, said: Some(said) })
    }

    /// Asks, with the bytes that belong to the question.
    pub(crate) fn talk<T: DeserializeOwned>(
        &mut self,
        ask: &AgentRequest,
        payload: &[u8],
    ) -> io::Result<Option<AgentReply<T>>> {
        let Some(to) = &mut self.to else { return Ok(None) };
        send(to, ask)?;
        to.write_all(payload)?;
        to.flush()?;
        receive(&mut self.from)
    }

    /// Closes the connection, and says how it ended.
    pub(crate) fn end(&mut self) -> Ended {
        self.to = None;
        let status = self.child.wait();
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Ended { status, said: said.join("; ") }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The agent gives back what it took, and then its end of the line closes.
        self.end();
    }
}

/// How a connection ended.
pub(crate) struct Ended {
    status: io::Result<ExitStatus>,
    said: String,
}

impl Ended {
    fn code(&self) -> Option<i32> {
        self.status.as_ref().ok().and_then(ExitStatus::code)
    }

    /// `ssh` itself failed (ssh(1), EXIT STATUS).
    fn is_unreached(&self) -> bool {
        self.code() == Some(255)
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lacks_library = ["shared librar", "GLIBC"].iter().any(|word| self.said.contains(word));
        if self.is_unreached() {
            write!(f, "`ssh` cannot reach the firewall's host: {}", self.said)
        } else if lacks_library || matches!(self.code(), Some(126 | 127)) {
            write!(
                f,
                "weir cannot run on the firewall's host: {}; it needs libelf, zlib and a C library \
                 at least as new as here, or a weir that is installed there and named by `weir`",
                self.said
            )
        } else {
            let status = self.status.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            write!(f, "the agent on the firewall's host ended with {status}: {}", self.said)
        }
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_of_a_shell() {
        for word in ["", "a b", "it's", "$HOME `id` \"x\" \\"] {
            let line = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn the_program_is_taken_from_the_line_and_the_rest_left_to_it() {
        // In place of weir a script that prints what is left of its input.
        let program = b"#!/bin/sh\necho \"$@\"; exec cat\n";
        let size = program.len().to_string();
        let mut child = std::process::Command::new("sh")
            .args(["-c", WITH_COPY, "weir", &size, "env"])
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
