//! The firewall's host, as the machine that measures sees it: one connection of the system's `ssh`,
//! which carries weir itself, then questions, answers and files. There is one connection, so
//! there is nothing to multiplex, and its end is the end of all that it made there.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use weir_kernel::Session;
use weir_packet::Mac;
use weir_stats::HostRecord;

use super::protocol::{Around, Ask, Place, Ran, Reply, Welcome, Work, receive, send};
use crate::LabError;
use crate::observe::sampling::Samples;
use weir_study::Hosts;

/// Runs on the host: takes the program from its standard input, and the rest of that is for it.
const WITH_COPY: &str = "set -e; size=$1; shift; umask 077; dir=$(mktemp -d /tmp/weir.XXXXXXXX); \
    trap \"rm -rf $dir\" EXIT; head -c \"$size\" > \"$dir/weir\"; chmod +x \"$dir/weir\"; \
    \"$@\" \"$dir/weir\" lab agent";
/// Runs on a host that has a weir.
const INSTALLED: &str = "exec \"$@\" lab agent";
/// Questions for the time; the one with the shortest way tells most.
const CLOCK_QUESTIONS: u32 = 8;
/// Lines of what `ssh` and the host say that are kept for a message.
const SAID_LINES: usize = 4;

/// The firewall's host; copies of it are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    line: Arc<Mutex<Line>>,
    welcome: Arc<Welcome>,
}

#[derive(Debug)]
struct Line {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    said: Option<JoinHandle<Vec<String>>>,
}

/// A namespace on the host.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    host: Host,
    number: u32,
    name: Arc<str>,
}

impl Host {
    /// Starts an agent there, of the same version as this weir.
    pub(crate) fn connect(
        hosts: &Hosts,
        session: &Session,
        weir: &Path,
        version: &str,
    ) -> Result<Host, LabError> {
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
        let started = ssh.spawn().and_then(Line::of);
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
            let message = format!("weir there is {}, this one is {version}", welcome.version);
            let error = match &firewall.weir {
                Some(weir) => hosts.refused(weir, message),
                None => hosts.refused(&firewall.host, message),
            };
            return Err(error.into());
        }
        Ok(Host { line: Arc::new(Mutex::new(line)), welcome: Arc::new(welcome) })
    }

    /// Its part of the record.
    pub(crate) fn record(&self) -> Result<HostRecord, LabError> {
        let mut nearest = (f64::MAX, 0.0);
        for _ in 0..CLOCK_QUESTIONS {
            let (asked, begun) = (seconds_now(), Instant::now());
            let there: f64 = self.ask(&Ask::Clock)?;
            let way = begun.elapsed().as_secs_f64();
            if way < nearest.0 {
                nearest = (way, there - (asked + way / 2.0));
            }
        }
        Ok(HostRecord {
            role: "firewall".to_owned(),
            weir: self.welcome.version.clone(),
            environment: self.welcome.environment.clone(),
            clock_offset_seconds: nearest.1,
            clock_round_trip_seconds: nearest.0,
        })
    }

    /// Its kernel tells why it frees packets.
    pub(crate) fn knows_reasons(&self) -> bool {
        self.welcome.knows_reasons
    }

    /// Programs of these that it has not.
    pub(crate) fn lacking(&self, programs: Vec<String>) -> Result<Vec<String>, LabError> {
        self.ask(&Ask::Lacking(programs))
    }

    /// Takes an interface, the one towards the source first; its MAC address.
    pub(crate) fn take(&self, interface: &str, name: &str) -> Result<Mac, LabError> {
        self.ask(&Ask::Take { interface: interface.to_owned(), name: name.to_owned() })
    }

    /// A firewall there that forwards.
    pub(crate) fn firewall(&self, ipv6: bool) -> Result<Room, LabError> {
        self.room(&Ask::Firewall { ipv6 })
    }

    /// A namespace there without links.
    pub(crate) fn bare(&self) -> Result<Room, LabError> {
        self.room(&Ask::Bare)
    }

    fn room(&self, ask: &Ask) -> Result<Room, LabError> {
        let Place { room, name } = self.ask(ask)?;
        Ok(Room { host: self.clone(), number: room, name: name.into() })
    }

    /// Writes a file of the study there.
    pub(crate) fn send_file(
        &self,
        path: String,
        bytes: &[u8],
        is_executable: bool,
    ) -> Result<(), LabError> {
        let ask = Ask::File { path, bytes: bytes.len() as u64, is_executable };
        self.ask_with(&ask, bytes)
    }

    /// A file under `/proc` there.
    pub(crate) fn proc(&self, name: &str) -> Result<String, LabError> {
        self.ask(&Ask::Proc { name: name.to_owned() })
    }

    /// The kernel's log there since the last time.
    pub(crate) fn log(&self, most: usize) -> Result<Vec<String>, LabError> {
        self.ask(&Ask::Log { most })
    }

    /// What [`Room::follow`] has looked at since.
    pub(crate) fn followed(&self) -> Result<Samples, LabError> {
        self.ask(&Ask::Followed)
    }

    /// Bytes of its kernel that rulesets may be kept in; see [`crate::trial::collect::ruleset_memory`].
    pub(crate) fn ruleset_memory(&self, settled: bool) -> Result<i64, LabError> {
        self.ask(&Ask::Memory { settled })
    }

    /// Sets a sysctl of the whole machine there until the agent ends.
    pub(crate) fn raise(&self, key: &str, to: u64) -> Result<(), LabError> {
        self.ask(&Ask::Raise { key: key.to_owned(), to })
    }

    /// What its kernel freed packets for since [`Room::watch`].
    pub(crate) fn reasons(&self) -> Result<BTreeMap<String, u64>, LabError> {
        self.ask(&Ask::Reasons)
    }

    fn ask<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T, LabError> {
        self.ask_with(ask, &[])
    }

    fn ask_with<T: DeserializeOwned>(&self, ask: &Ask, payload: &[u8]) -> Result<T, LabError> {
        let mut line = self.lock();
        match line.talk(ask, payload) {
            Ok(Some(Reply::Done(answer))) => Ok(answer),
            Ok(Some(Reply::Refused(why))) => {
                Err(LabError::Host(format!("on the firewall's host: {why}")))
            }
            Ok(None) => Err(LabError::Host(line.end().to_string())),
            Err(error) => Err(LabError::Host(format!("{error}; {}", line.end()))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Its number there.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its name there.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its host.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// A file under `/proc/net` of it.
    pub(crate) fn net(&self, name: &str) -> Result<String, LabError> {
        self.host.ask(&Ask::Net { room: self.number, name: name.to_owned() })
    }

    /// The interfaces are its own from now on.
    pub(crate) fn turn_to(&self, around: Around) -> Result<(), LabError> {
        self.host.ask(&Ask::TurnTo { room: self.number, around })
    }

    /// Empties its connection table; see [`crate::workload::tcp::forget_connections`].
    pub(crate) fn forget_connections(&self, settled: bool) -> Result<(), LabError> {
        self.host.ask(&Ask::Forget { room: self.number, settled })
    }

    /// Has the agent look at its connection table now and then; false where it has none.
    pub(crate) fn follow(&self, period: Duration) -> Result<bool, LabError> {
        let period_seconds = period.as_secs_f64();
        self.host.ask(&Ask::Follow { room: self.number, period_seconds })
    }

    /// Counts the reasons for which the kernel frees its packets; false where it tells none.
    pub(crate) fn watch(&self) -> Result<bool, LabError> {
        self.host.ask(&Ask::Watch { room: self.number })
    }

    /// Runs a command in it.
    pub(crate) fn run(&self, work: Work) -> Result<Ran, LabError> {
        self.host.ask(&Ask::Run(Box::new(work)))
    }

    /// Ends it.
    pub(crate) fn remove(&self) -> Result<(), LabError> {
        self.host.ask(&Ask::Remove { room: self.number })
    }
}

impl Line {
    fn of(mut child: Child) -> io::Result<Line> {
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
        Ok(Line { child, to, from, said: Some(said) })
    }

    fn talk<T: DeserializeOwned>(
        &mut self,
        ask: &Ask,
        payload: &[u8],
    ) -> io::Result<Option<Reply<T>>> {
        let Some(to) = &mut self.to else { return Ok(None) };
        send(to, ask)?;
        to.write_all(payload)?;
        to.flush()?;
        receive(&mut self.from)
    }

    /// Closes the connection, and says how it ended.
    fn end(&mut self) -> Ended {
        self.to = None;
        let status = self.child.wait();
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Ended { status, said: said.join("; ") }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The agent gives back what it took, and then its end of the line closes.
        self.end();
    }
}

/// How a connection ended.
struct Ended {
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

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A word for a shell.
pub(super) fn quoted(word: &str) -> String {
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
