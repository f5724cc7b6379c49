//! Rulesets in namespaces of another machine: each operation is a request to the agent there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use weir_kernel::Session;
use weir_packet::Mac;
use weir_stats::HostRecord;
use weir_study::Hosts;

use crate::LabError;
use crate::host::protocol::{AgentReply, AgentRequest, CommandRequest, NamespaceEntry, Welcome};
use crate::host::ssh::Connection;
use crate::host::target::{CommandOutput, ExecTarget, Host, Neighbours, TargetCommand};
use crate::observe::drops::Reasons;
use crate::observe::net_file::{NetFile, NetFiles};
use crate::observe::sampling::TableSamples;

/// Requests for the time; the one with the shortest round trip is the most accurate.
const CLOCK_QUESTIONS: u32 = 8;

/// The firewall's host; copies of it are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct RemoteHost {
    connection: Arc<Mutex<Connection>>,
    welcome: Arc<Welcome>,
}

/// A namespace on that host.
#[derive(Clone, Debug)]
pub(crate) struct RemoteNamespace {
    host: RemoteHost,
    number: u32,
    name: Arc<str>,
}

/// A file under `/proc/net` of such a namespace.
#[derive(Debug)]
struct RemoteFile {
    namespace: RemoteNamespace,
    name: &'static str,
}

impl RemoteHost {
    /// Starts an agent there, of the same version as this weir.
    pub(crate) fn connect(
        hosts: &Hosts,
        session: &Session,
        weir: &Path,
        version: &str,
    ) -> Result<RemoteHost, LabError> {
        let (connection, welcome) = Connection::open(hosts, session, weir, version)?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(RemoteHost { connection, welcome: Arc::new(welcome) })
    }

    /// Takes an interface, the one towards the source first; its MAC address.
    pub(crate) fn take(&self, interface: &str, name: &str) -> Result<Mac, LabError> {
        self.ask(&AgentRequest::Take { interface: interface.to_owned(), name: name.to_owned() })
    }

    /// A firewall there that forwards.
    pub(crate) fn firewall(&self, ipv6: bool) -> Result<Rc<RemoteNamespace>, LabError> {
        self.namespace(&AgentRequest::Firewall { ipv6 })
    }

    /// A namespace there without links.
    pub(crate) fn bare(&self) -> Result<Rc<RemoteNamespace>, LabError> {
        self.namespace(&AgentRequest::Bare)
    }

    fn namespace(&self, ask: &AgentRequest) -> Result<Rc<RemoteNamespace>, LabError> {
        let NamespaceEntry { room, name } = self.ask(ask)?;
        Ok(Rc::new(RemoteNamespace { host: self.clone(), number: room, name: name.into() }))
    }

    fn ask<T: DeserializeOwned>(&self, ask: &AgentRequest) -> Result<T, LabError> {
        self.ask_with(ask, &[])
    }

    fn ask_with<T: DeserializeOwned>(
        &self,
        ask: &AgentRequest,
        payload: &[u8],
    ) -> Result<T, LabError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match connection.talk(ask, payload) {
            Ok(Some(AgentReply::Done(answer))) => Ok(answer),
            Ok(Some(AgentReply::Refused(why))) => {
                Err(LabError::Host(format!("on the firewall's host: {why}")))
            }
            Ok(None) => Err(LabError::Host(connection.end().to_string())),
            Err(error) => Err(LabError::Host(format!("{error}; {}", connection.end()))),
        }
    }

    fn send_folder(&self, root: &Path, folder: &Path) -> Result<(), LabError> {
        let entries = fs::read_dir(folder).map_err(LabError::file("read", folder))?;
        for entry in entries {
            let path = entry.map_err(LabError::file("read", folder))?.path();
            let metadata = fs::metadata(&path).map_err(LabError::file("read", &path))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if metadata.is_dir() {
                self.send_folder(root, &path)?;
            } else if !name.starts_with("frames-") {
                let payload = fs::read(&path).map_err(LabError::file("read", &path))?;
                let is_executable = metadata.permissions().mode() & 0o100 != 0;
                let bytes = payload.len() as u64;
                self.ask_with::<()>(
                    &AgentRequest::File { path: name, bytes, is_executable },
                    &payload,
                )?;
            }
        }
        Ok(())
    }
}

impl Host for RemoteHost {
    fn is_remote(&self) -> bool {
        true
    }

    fn record(&self) -> Result<Option<HostRecord>, LabError> {
        let mut nearest = (f64::MAX, 0.0);
        for _ in 0..CLOCK_QUESTIONS {
            let (asked, begun) = (seconds_now(), Instant::now());
            let there: f64 = self.ask(&AgentRequest::Clock)?;
            let way = begun.elapsed().as_secs_f64();
            if way < nearest.0 {
                nearest = (way, there - (asked + way / 2.0));
            }
        }
        Ok(Some(HostRecord {
            role: "firewall".to_owned(),
            weir: self.welcome.version.clone(),
            environment: self.welcome.environment.clone(),
            clock_offset_seconds: nearest.1,
            clock_round_trip_seconds: nearest.0,
        }))
    }

    fn lacks(&self, needs: &[String], is_on_device: bool) -> Result<Option<String>, LabError> {
        let missing: Vec<String> = self.ask(&AgentRequest::Lacking(needs.to_vec()))?;
        if is_on_device {
            return Ok(Some("it belongs to a device, and with --hosts devices move".to_owned()));
        }
        let first = missing.into_iter().next();
        Ok(first.map(|program| format!("{program} is not installed on the firewall's host")))
    }

    fn knows_drop_reasons(&self) -> bool {
        self.welcome.knows_reasons
    }

    fn drop_reasons(&self) -> Result<Reasons, LabError> {
        self.ask(&AgentRequest::Reasons)
    }

    fn samples(&self) -> Result<TableSamples, LabError> {
        self.ask(&AgentRequest::Followed)
    }

    fn proc_file(&self, name: &str) -> Result<String, LabError> {
        self.ask(&AgentRequest::Proc { name: name.to_owned() })
    }

    fn kernel_log(&self, most: usize) -> Result<Vec<String>, LabError> {
        self.ask(&AgentRequest::Log { most })
    }

    fn ruleset_memory(&self, settled: bool) -> Result<i64, LabError> {
        self.ask(&AgentRequest::Memory { settled })
    }

    fn raise_sysctl(&self, key: &str, to: u64) -> Result<(), LabError> {
        self.ask(&AgentRequest::Raise { key: key.to_owned(), to })
    }

    fn send_files(&self, folder: &Path) -> Result<(), LabError> {
        self.send_folder(folder, folder)
    }
}

impl NetFile for RemoteFile {
    fn read(&self) -> Result<String, LabError> {
        let RemoteNamespace { host, number, .. } = &self.namespace;
        host.ask(&AgentRequest::Net { room: *number, name: self.name.to_owned() })
    }
}

impl NetFiles for RemoteNamespace {
    fn net_file(&self, name: &'static str) -> Result<Box<dyn NetFile>, LabError> {
        Ok(Box::new(RemoteFile { namespace: self.clone(), name }))
    }

    fn find_net_file(&self, name: &'static str) -> Result<Option<Box<dyn NetFile>>, LabError> {
        let file = self.net_file(name)?;
        Ok(file.read().is_ok().then_some(file))
    }
}

impl ExecTarget for RemoteNamespace {
    fn name(&self) -> &str {
        &self.name
    }

    fn host(&self) -> &dyn Host {
        &self.host
    }

    fn run(&self, command: &TargetCommand<'_>) -> Result<CommandOutput, LabError> {
        let folder = command.folder;
        let inside = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let files = command.files.iter().map(|(name, path)| ((*name).to_owned(), inside(path)));
        self.host.ask(&AgentRequest::Run(Box::new(CommandRequest {
            room: self.number,
            command: command.text.to_owned(),
            variables: command.variables.clone(),
            files: files.collect(),
            is_timed: command.is_timed,
        })))
    }

    fn flush_connections(&self, settled: bool) -> Result<(), LabError> {
        self.host.ask(&AgentRequest::Forget { room: self.number, settled })
    }

    fn sample_connections(&self, period: Duration) -> Result<bool, LabError> {
        let period_seconds = period.as_secs_f64();
        self.host.ask(&AgentRequest::Follow { room: self.number, period_seconds })
    }

    fn watch_drops(&self) -> Result<bool, LabError> {
        self.host.ask(&AgentRequest::Watch { room: self.number })
    }

    fn take_cables(&self, neighbours: &Neighbours) -> Result<(), LabError> {
        self.host.ask(&AgentRequest::TurnTo { room: self.number, neighbours: neighbours.clone() })
    }

    fn remove(&self) -> Result<(), LabError> {
        self.host.ask(&AgentRequest::Remove { room: self.number })
    }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
