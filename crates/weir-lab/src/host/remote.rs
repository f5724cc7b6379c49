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
use weir_stats::RemoteHostRecord;
use weir_study::LabHostsFile;

use crate::LabError;
use crate::host::agent_protocol::{
    AgentReply, AgentRequest, AgentWelcome, CommandRequest, NamespaceNumberAndName,
};
use crate::host::host_trait::{
    ExecTarget, Host, SinkMacAndReturnRoute, TargetCommand, TimedCommandOutput,
};
use crate::host::ssh::SshConnection;
use crate::observe::conntrack_sampling::ConntrackSamples;
use crate::observe::drop_reasons::DropReasonCounts;
use crate::observe::proc_net_file::{ProcNetFile, ProcNetOpener};

/// Requests for the time; the one with the shortest round trip is the most accurate.
const CLOCK_REQUEST_COUNT: u32 = 8;

/// The firewall's host; copies of it are the same connection.
#[derive(Clone, Debug)]
pub(crate) struct RemoteHost {
    connection: Arc<Mutex<SshConnection>>,
    welcome: Arc<AgentWelcome>,
}

/// A namespace on that host.
#[derive(Clone, Debug)]
pub(crate) struct RemoteNamespace {
    host: RemoteHost,
    namespace_number: u32,
    name: Arc<str>,
}

/// A file under `/proc/net` of such a namespace.
#[derive(Debug)]
struct RemoteProcNetFile {
    namespace: RemoteNamespace,
    name: &'static str,
}

impl RemoteHost {
    /// Starts an agent there, of the same version as this weir.
    pub(crate) fn start_agent_of_same_version(
        hosts: &LabHostsFile,
        session: &Session,
        weir: &Path,
        version: &str,
    ) -> Result<RemoteHost, LabError> {
        let (connection, welcome) =
            SshConnection::start_agent_checking_version(hosts, session, weir, version)?;
        let connection = Arc::new(Mutex::new(connection));
        Ok(RemoteHost { connection, welcome: Arc::new(welcome) })
    }

    /// Takes an interface, the one towards the source first; its MAC address.
    pub(crate) fn take_interface_and_get_mac(
        &self,
        interface: &str,
        name: &str,
    ) -> Result<Mac, LabError> {
        self.send_request(&AgentRequest::TakeInterface {
            interface: interface.to_owned(),
            name: name.to_owned(),
        })
    }

    /// A firewall there that forwards.
    pub(crate) fn create_uncabled_firewall(
        &self,
        ipv6: bool,
    ) -> Result<Rc<RemoteNamespace>, LabError> {
        self.request_namespace(&AgentRequest::CreateFirewall { ipv6 })
    }

    /// A namespace there without links.
    pub(crate) fn create_detached_namespace(&self) -> Result<Rc<RemoteNamespace>, LabError> {
        self.request_namespace(&AgentRequest::CreateDetachedNamespace)
    }

    fn request_namespace(&self, ask: &AgentRequest) -> Result<Rc<RemoteNamespace>, LabError> {
        let NamespaceNumberAndName { namespace_number: room, name } = self.send_request(ask)?;
        Ok(Rc::new(RemoteNamespace {
            host: self.clone(),
            namespace_number: room,
            name: name.into(),
        }))
    }

    fn send_request<T: DeserializeOwned>(&self, ask: &AgentRequest) -> Result<T, LabError> {
        self.send_request_with_payload(ask, &[])
    }

    fn send_request_with_payload<T: DeserializeOwned>(
        &self,
        ask: &AgentRequest,
        payload: &[u8],
    ) -> Result<T, LabError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match connection.send_request_and_await_reply(ask, payload) {
            Ok(Some(AgentReply::Completed(answer))) => Ok(answer),
            Ok(Some(AgentReply::Refused(why))) => {
                Err(LabError::FirewallHostFailure(format!("on the firewall's host: {why}")))
            }
            Ok(None) => Err(LabError::FirewallHostFailure(connection.close().to_string())),
            Err(error) => {
                Err(LabError::FirewallHostFailure(format!("{error}; {}", connection.close())))
            }
        }
    }

    fn send_folder_without_frames(&self, root: &Path, folder: &Path) -> Result<(), LabError> {
        let entries = fs::read_dir(folder).map_err(LabError::file_error("read", folder))?;
        for entry in entries {
            let path = entry.map_err(LabError::file_error("read", folder))?.path();
            let metadata = fs::metadata(&path).map_err(LabError::file_error("read", &path))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if metadata.is_dir() {
                self.send_folder_without_frames(root, &path)?;
            } else if !name.starts_with("frames-") {
                let payload = fs::read(&path).map_err(LabError::file_error("read", &path))?;
                let is_executable = metadata.permissions().mode() & 0o100 != 0;
                let bytes = payload.len() as u64;
                self.send_request_with_payload::<()>(
                    &AgentRequest::WriteStudyFile { path: name, bytes, is_executable },
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

    fn remote_host_record_with_clock_offset(&self) -> Result<Option<RemoteHostRecord>, LabError> {
        let mut nearest = (f64::MAX, 0.0);
        for _ in 0..CLOCK_REQUEST_COUNT {
            let (asked, begun) = (unix_time_seconds(), Instant::now());
            let there: f64 = self.send_request(&AgentRequest::ReadClock)?;
            let way = begun.elapsed().as_secs_f64();
            if way < nearest.0 {
                nearest = (way, there - (asked + way / 2.0));
            }
        }
        Ok(Some(RemoteHostRecord {
            role: "firewall".to_owned(),
            weir: self.welcome.version.clone(),
            environment: self.welcome.environment.clone(),
            clock_offset_seconds: nearest.1,
            clock_round_trip_seconds: nearest.0,
        }))
    }

    fn missing_subject_requirement(
        &self,
        needs: &[String],
        is_on_device: bool,
    ) -> Result<Option<String>, LabError> {
        let missing: Vec<String> =
            self.send_request(&AgentRequest::FindMissingPrograms(needs.to_vec()))?;
        if is_on_device {
            return Ok(Some("it belongs to a device, and with --hosts devices move".to_owned()));
        }
        let first = missing.into_iter().next();
        Ok(first.map(|program| format!("{program} is not installed on the firewall's host")))
    }

    fn can_report_drop_reasons(&self) -> bool {
        self.welcome.reports_drop_reasons
    }

    fn take_drop_reasons(&self) -> Result<DropReasonCounts, LabError> {
        self.send_request(&AgentRequest::TakeDropReasons)
    }

    fn take_conntrack_samples(&self) -> Result<ConntrackSamples, LabError> {
        self.send_request(&AgentRequest::TakeConntrackSamples)
    }

    fn read_proc_file(&self, name: &str) -> Result<String, LabError> {
        self.send_request(&AgentRequest::ReadProcFile { name: name.to_owned() })
    }

    fn drain_kernel_log_keeping_first_lines(&self, most: usize) -> Result<Vec<String>, LabError> {
        self.send_request(&AgentRequest::ReadKernelLog { most })
    }

    fn read_ruleset_kernel_memory(&self, settled: bool) -> Result<i64, LabError> {
        self.send_request(&AgentRequest::ReadKernelMemory { settled })
    }

    fn set_machine_sysctl_for_session(&self, key: &str, to: u64) -> Result<(), LabError> {
        self.send_request(&AgentRequest::RaiseSysctl { key: key.to_owned(), to })
    }

    fn send_study_files_except_frames(&self, folder: &Path) -> Result<(), LabError> {
        self.send_folder_without_frames(folder, folder)
    }
}

impl ProcNetFile for RemoteProcNetFile {
    fn read_text(&self) -> Result<String, LabError> {
        let RemoteNamespace { host, namespace_number: number, .. } = &self.namespace;
        host.send_request(&AgentRequest::ReadProcNet { room: *number, name: self.name.to_owned() })
    }
}

impl ProcNetOpener for RemoteNamespace {
    fn open_proc_net(&self, name: &'static str) -> Result<Box<dyn ProcNetFile>, LabError> {
        Ok(Box::new(RemoteProcNetFile { namespace: self.clone(), name }))
    }

    fn open_proc_net_if_present(
        &self,
        name: &'static str,
    ) -> Result<Option<Box<dyn ProcNetFile>>, LabError> {
        let file = self.open_proc_net(name)?;
        Ok(file.read_text().is_ok().then_some(file))
    }
}

impl ExecTarget for RemoteNamespace {
    fn name(&self) -> &str {
        &self.name
    }

    fn host(&self) -> &dyn Host {
        &self.host
    }

    fn run_command(&self, command: &TargetCommand<'_>) -> Result<TimedCommandOutput, LabError> {
        let files_folder = command.files_folder;
        let inside =
            |path: &Path| path.strip_prefix(files_folder).unwrap_or(path).display().to_string();
        let files =
            command.file_variables.iter().map(|(name, path)| ((*name).to_owned(), inside(path)));
        self.host.send_request(&AgentRequest::RunCommand(Box::new(CommandRequest {
            namespace_number: self.namespace_number,
            command: command.script.to_owned(),
            variables: command.variables.clone(),
            files: files.collect(),
            is_timed: command.is_timed,
        })))
    }

    fn flush_conntrack(&self, settled: bool) -> Result<(), LabError> {
        self.host
            .send_request(&AgentRequest::FlushConntrack { room: self.namespace_number, settled })
    }

    fn start_conntrack_sampling(&self, period: Duration) -> Result<bool, LabError> {
        let period_seconds = period.as_secs_f64();
        self.host.send_request(&AgentRequest::StartConntrackSampling {
            room: self.namespace_number,
            period_seconds,
        })
    }

    fn start_drop_watch(&self) -> Result<bool, LabError> {
        self.host.send_request(&AgentRequest::StartDropWatch { room: self.namespace_number })
    }

    fn attach_cables(&self, neighbours: &SinkMacAndReturnRoute) -> Result<(), LabError> {
        self.host.send_request(&AgentRequest::MoveInterfacesTo {
            room: self.namespace_number,
            neighbours: neighbours.clone(),
        })
    }

    fn remove_namespace(&self) -> Result<(), LabError> {
        self.host.send_request(&AgentRequest::RemoveNamespace { room: self.namespace_number })
    }
}

fn unix_time_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
