//! The firewall's end of a run over hosts: executes requests from standard input until it ends,
//! then removes everything that it created and returns the interfaces.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use weir_kernel::{Namespace, Session};
use weir_packet::Mac;
use weir_study::{Devices, ProgramPath};

use crate::LabError;
use crate::host::local::{LocalHost, LocalNamespace};
use crate::host::protocol::{
    AgentReply, AgentRequest, CommandRequest, NamespaceEntry, Welcome, receive, send,
};
use crate::host::router::{self, set_router_sysctls};
use crate::host::target::{CommandOutput, ExecTarget, Host, Neighbours, TargetCommand};
use crate::observe::cpu::last_core;
use crate::observe::environment;
use crate::observe::net_file::{NetFile, open_net_file};

/// Answers questions until there are no more.
///
/// # Errors
/// Not root, another agent on this machine, a connection that fails. What cannot be done is an
/// answer, not an error.
pub fn agent(version: &str, mut from: impl BufRead, mut to: impl Write) -> Result<(), LabError> {
    let failed = |source| LabError::System { action: "talk to the machine that measures", source };
    let mut agent = Agent::new()?;
    let environment = environment::capture(last_core()?, "kernel".to_owned());
    let knows_reasons = agent.host.knows_drop_reasons();
    let welcome = Welcome { version: version.to_owned(), environment, knows_reasons };
    send(&mut to, &welcome).map_err(failed)?;
    while let Some(ask) = receive::<AgentRequest>(&mut from).map_err(failed)? {
        let mut payload = Vec::new();
        if let AgentRequest::File { bytes, .. } = &ask {
            from.by_ref().take(*bytes).read_to_end(&mut payload).map_err(failed)?;
        }
        let reply = match agent.answer(ask, &payload) {
            Ok(value) => AgentReply::Done(value),
            Err(error) => AgentReply::Refused(error.to_string()),
        };
        send(&mut to, &reply).map_err(failed)?;
    }
    Ok(())
}

struct Agent {
    session: Rc<Session>,
    host: Rc<LocalHost>,
    /// The study's files.
    folder: PathBuf,
    rooms: BTreeMap<u32, Room>,
    made: u32,
    /// Names of the interfaces in every firewall, and where they are.
    names: Vec<String>,
    at: Namespace,
    weir: PathBuf,
    _alone: File,
}

struct Room {
    target: LocalNamespace,
    ipv6: bool,
    /// Requested files under its `/proc/net`.
    files: BTreeMap<String, File>,
}

impl Agent {
    fn new() -> Result<Agent, LabError> {
        let session = Rc::new(Session::new()?);
        let folder = session.directory().join("study");
        fs::create_dir_all(&folder).map_err(LabError::file("create", &folder))?;
        let weir = std::env::current_exe();
        let weir = weir.map_err(|source| LabError::System { action: "find weir", source })?;
        Ok(Agent {
            at: session.namespace("dock")?,
            host: Rc::new(LocalHost::new(Rc::clone(&session))),
            session,
            folder,
            rooms: BTreeMap::new(),
            made: 0,
            names: Vec::new(),
            weir,
            _alone: alone()?,
        })
    }

    fn answer(&mut self, ask: AgentRequest, payload: &[u8]) -> Result<Value, LabError> {
        match ask {
            AgentRequest::Clock => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                value(since.as_secs_f64())
            }
            AgentRequest::Lacking(programs) => {
                let commands = ProgramPath::new(&std::env::var_os("PATH").unwrap_or_default());
                let is_missing = |name: &String| !commands.finds(name);
                value(programs.into_iter().filter(is_missing).collect::<Vec<_>>())
            }
            AgentRequest::Take { interface, name } => value(self.take(&interface, name)?),
            AgentRequest::Firewall { ipv6 } => value(self.room("fw", Some(ipv6))?),
            AgentRequest::Bare => value(self.room("load", None)?),
            AgentRequest::Remove { room } => value(self.remove(room)?),
            AgentRequest::TurnTo { room, neighbours } => value(self.turn_to(room, &neighbours)?),
            AgentRequest::File { path, is_executable, .. } => {
                value(self.write(&path, payload, is_executable)?)
            }
            AgentRequest::Run(work) => value(self.run(&work)?),
            AgentRequest::Net { room, name } => value(self.net(room, &name)?),
            AgentRequest::Proc { name } => {
                value(self.host.proc_file(&plain(&name)?.to_string_lossy())?)
            }
            AgentRequest::Watch { room } => value(self.found(room)?.target.watch_drops()?),
            AgentRequest::Reasons => value(self.host.drop_reasons()?),
            AgentRequest::Log { most } => value(self.host.kernel_log(most)?),
            AgentRequest::Forget { room, settled } => {
                value(self.found(room)?.target.flush_connections(settled)?)
            }
            AgentRequest::Follow { room, period_seconds } => {
                let period = Duration::from_secs_f64(period_seconds.clamp(0.0, 1.0));
                value(self.found(room)?.target.sample_connections(period)?)
            }
            AgentRequest::Followed => value(self.host.samples()?),
            AgentRequest::Memory { settled } => value(self.host.ruleset_memory(settled)?),
            AgentRequest::Raise { key, to } => value(self.host.raise_sysctl(&key, to)?),
        }
    }

    fn take(&mut self, interface: &str, name: String) -> Result<Mac, LabError> {
        self.session.borrow_device(interface, &self.at, &name)?;
        let mac = self.at.device(&name)?.mac;
        self.names.push(name);
        Ok(mac)
    }

    /// Creates a namespace; one that forwards if IPv6 is specified.
    fn room(&mut self, role: &str, forwards: Option<bool>) -> Result<NamespaceEntry, LabError> {
        self.made += 1;
        let namespace = self.session.namespace(&format!("{role}{}", self.made))?;
        if let Some(ipv6) = forwards {
            set_router_sysctls(&namespace, ipv6)?;
        }
        let place = NamespaceEntry { room: self.made, name: namespace.name().to_owned() };
        let ipv6 = forwards.unwrap_or(false);
        let target = LocalNamespace::new(Rc::clone(&self.host), namespace);
        self.rooms.insert(self.made, Room { target, ipv6, files: BTreeMap::new() });
        Ok(place)
    }

    fn found(&self, room: u32) -> Result<&Room, LabError> {
        self.rooms.get(&room).ok_or_else(|| LabError::Host(format!("no namespace {room}")))
    }

    fn remove(&mut self, room: u32) -> Result<(), LabError> {
        let namespace = self.found(room)?.target.namespace().clone();
        if namespace.name() == self.at.name() {
            return Err(LabError::Host("the interfaces are in that namespace".to_owned()));
        }
        self.rooms.remove(&room);
        Ok(self.session.remove(namespace)?)
    }

    fn turn_to(&mut self, room: u32, neighbours: &Neighbours) -> Result<(), LabError> {
        let Room { target, ipv6, .. } = self.found(room)?;
        let (namespace, ipv6) = (target.namespace().clone(), *ipv6);
        let [input, output] = self.names.as_slice() else {
            return Err(LabError::Host("two interfaces are taken first".to_owned()));
        };
        if namespace.name() == self.at.name() {
            return Ok(());
        }
        for name in [input, output] {
            self.session.hand_over(name, &self.at, &namespace)?;
        }
        let devices = Devices { input: input.clone(), output: output.clone() };
        self.at = namespace;
        router::set_up(&self.at, &devices, neighbours, ipv6)
    }

    fn write(&self, path: &str, bytes: &[u8], is_executable: bool) -> Result<(), LabError> {
        let path = self.folder.join(plain(path)?);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(LabError::file("create", folder))?;
        fs::write(&path, bytes).map_err(LabError::file("write", &path))?;
        if is_executable {
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, mode).map_err(LabError::file("make executable", &path))?;
        }
        Ok(())
    }

    fn run(&self, work: &CommandRequest) -> Result<CommandOutput, LabError> {
        let mut paths = Vec::new();
        for (name, path) in &work.files {
            let path =
                if path.is_empty() { PathBuf::new() } else { self.folder.join(plain(path)?) };
            paths.push((name.as_str(), path));
        }
        let files: Vec<_> = paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        self.found(work.room)?.target.run(&TargetCommand {
            text: &work.command,
            variables: work.variables.clone(),
            files: &files,
            folder: &self.folder,
            weir: &self.weir,
            is_timed: work.is_timed,
        })
    }

    fn net(&mut self, room: u32, name: &str) -> Result<String, LabError> {
        let name = plain(name)?.to_string_lossy().into_owned();
        let unknown = || LabError::Host(format!("no namespace {room}"));
        let Room { target, files, .. } = self.rooms.get_mut(&room).ok_or_else(unknown)?;
        if !files.contains_key(&name) {
            files.insert(name.clone(), open_net_file(target.namespace(), &name)?);
        }
        NetFile::read(&files[&name])
    }
}

/// One agent at a time: two would measure each other.
fn alone() -> Result<File, LabError> {
    let path = Path::new("/run/weir/agent.lock");
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(LabError::file("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(LabError::Host("another run is measuring this host".to_owned())),
    }
}

/// A path that stays inside of the folder that it is joined to.
fn plain(path: &str) -> Result<&Path, LabError> {
    let path = Path::new(path);
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(path);
    }
    Err(LabError::Host(format!("{}: not a path inside of a folder", path.display())))
}

fn value(answer: impl serde::Serialize) -> Result<Value, LabError> {
    serde_json::to_value(answer).map_err(|error| LabError::Host(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_their_folder_are_refused() {
        assert!(plain("tree-rules=8/load.sh").is_ok());
        for bad in ["/etc/passwd", "../x", "a/../../x"] {
            assert!(plain(bad).is_err(), "{bad}");
        }
    }
}
