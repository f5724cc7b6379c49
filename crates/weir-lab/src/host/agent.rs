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
use weir_study::{FirewallDevices, ProgramSearchPath};

use crate::LabError;
use crate::host::agent_protocol::{
    AgentReply, AgentRequest, AgentWelcome, CommandRequest, NamespaceNumberAndName,
    receive_json_line, send_json_line,
};
use crate::host::host_trait::{
    ExecTarget, Host, SinkMacAndReturnRoute, TargetCommand, TimedCommandOutput,
};
use crate::host::local::{LocalHost, LocalNamespace};
use crate::host::router_config::{self, set_router_sysctls};
use crate::observe::core_pinning::last_allowed_core;
use crate::observe::environment;
use crate::observe::proc_net_file::{ProcNetFile, open_namespace_proc_net};

/// Answers questions until there are no more.
///
/// # Errors
/// Not root, another agent on this machine, a connection that fails. What cannot be done is an
/// answer, not an error.
pub fn run_agent(
    version: &str,
    mut from: impl BufRead,
    mut to: impl Write,
) -> Result<(), LabError> {
    let failed =
        |source| LabError::SystemCall { action: "talk to the machine that measures", source };
    let mut agent = Agent::new()?;
    let environment = environment::capture_environment(last_allowed_core()?, "kernel".to_owned());
    let knows_reasons = agent.host.can_report_drop_reasons();
    let welcome = AgentWelcome {
        version: version.to_owned(),
        environment,
        reports_drop_reasons: knows_reasons,
    };
    send_json_line(&mut to, &welcome).map_err(failed)?;
    while let Some(ask) = receive_json_line::<AgentRequest>(&mut from).map_err(failed)? {
        let mut payload = Vec::new();
        if let AgentRequest::WriteStudyFile { bytes, .. } = &ask {
            from.by_ref().take(*bytes).read_to_end(&mut payload).map_err(failed)?;
        }
        let reply = match agent.handle_request(ask, &payload) {
            Ok(value) => AgentReply::Completed(value),
            Err(error) => AgentReply::Refused(error.to_string()),
        };
        send_json_line(&mut to, &reply).map_err(failed)?;
    }
    Ok(())
}

struct Agent {
    session: Rc<Session>,
    host: Rc<LocalHost>,
    /// The study's files.
    study_folder: PathBuf,
    namespaces: BTreeMap<u32, AgentOwnedNamespace>,
    last_namespace_number: u32,
    /// Names of the interfaces in every firewall, and where they are.
    interface_names: Vec<String>,
    interface_namespace: Namespace,
    weir_program: PathBuf,
    _host_lock: File,
}

struct AgentOwnedNamespace {
    local_namespace: LocalNamespace,
    ipv6: bool,
    /// Requested files under its `/proc/net`.
    proc_net_files: BTreeMap<String, File>,
}

impl Agent {
    fn new() -> Result<Agent, LabError> {
        let session = Rc::new(Session::new()?);
        let folder = session.session_directory().join("study");
        fs::create_dir_all(&folder).map_err(LabError::file_error("create", &folder))?;
        let weir_program = std::env::current_exe();
        let weir_program =
            weir_program.map_err(|source| LabError::SystemCall { action: "find weir", source })?;
        Ok(Agent {
            interface_namespace: session.create_namespace("dock")?,
            host: Rc::new(LocalHost::new(Rc::clone(&session))),
            session,
            study_folder: folder,
            namespaces: BTreeMap::new(),
            last_namespace_number: 0,
            interface_names: Vec::new(),
            weir_program,
            _host_lock: lock_host()?,
        })
    }

    fn handle_request(&mut self, ask: AgentRequest, payload: &[u8]) -> Result<Value, LabError> {
        match ask {
            AgentRequest::ReadClock => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                to_json(since.as_secs_f64())
            }
            AgentRequest::FindMissingPrograms(programs) => {
                let commands =
                    ProgramSearchPath::new(&std::env::var_os("PATH").unwrap_or_default());
                let is_missing = |name: &String| !commands.has_program(name);
                to_json(programs.into_iter().filter(is_missing).collect::<Vec<_>>())
            }
            AgentRequest::TakeInterface { interface, name } => {
                to_json(self.take_interface(&interface, name)?)
            }
            AgentRequest::CreateFirewall { ipv6 } => {
                to_json(self.create_router_or_plain_namespace("fw", Some(ipv6))?)
            }
            AgentRequest::CreateDetachedNamespace => {
                to_json(self.create_router_or_plain_namespace("load", None)?)
            }
            AgentRequest::RemoveNamespace { room } => {
                to_json(self.remove_uncabled_namespace(room)?)
            }
            AgentRequest::MoveInterfacesTo { room, neighbours } => {
                to_json(self.move_and_configure_interfaces(room, &neighbours)?)
            }
            AgentRequest::WriteStudyFile { path, is_executable, .. } => {
                to_json(self.write_study_file(&path, payload, is_executable)?)
            }
            AgentRequest::RunCommand(work) => to_json(self.run_command(&work)?),
            AgentRequest::ReadProcNet { room, name } => to_json(self.read_proc_net(room, &name)?),
            AgentRequest::ReadProcFile { name } => to_json(
                self.host.read_proc_file(&require_path_inside_folder(&name)?.to_string_lossy())?,
            ),
            AgentRequest::StartDropWatch { room } => {
                to_json(self.find_namespace_by_number(room)?.local_namespace.start_drop_watch()?)
            }
            AgentRequest::TakeDropReasons => to_json(self.host.take_drop_reasons()?),
            AgentRequest::ReadKernelLog { most } => {
                to_json(self.host.drain_kernel_log_keeping_first_lines(most)?)
            }
            AgentRequest::FlushConntrack { room, settled } => to_json(
                self.find_namespace_by_number(room)?.local_namespace.flush_conntrack(settled)?,
            ),
            AgentRequest::StartConntrackSampling { room, period_seconds } => {
                let period = Duration::from_secs_f64(period_seconds.clamp(0.0, 1.0));
                to_json(
                    self.find_namespace_by_number(room)?
                        .local_namespace
                        .start_conntrack_sampling(period)?,
                )
            }
            AgentRequest::TakeConntrackSamples => to_json(self.host.take_conntrack_samples()?),
            AgentRequest::ReadKernelMemory { settled } => {
                to_json(self.host.read_ruleset_kernel_memory(settled)?)
            }
            AgentRequest::RaiseSysctl { key, to } => {
                to_json(self.host.set_machine_sysctl_for_session(&key, to)?)
            }
        }
    }

    fn take_interface(&mut self, interface: &str, name: String) -> Result<Mac, LabError> {
        self.session.borrow_device(interface, &self.interface_namespace, &name)?;
        let mac = self.interface_namespace.read_device_mac_carrier_and_use(&name)?.mac;
        self.interface_names.push(name);
        Ok(mac)
    }

    /// Creates a namespace; one that forwards if IPv6 is specified.
    fn create_router_or_plain_namespace(
        &mut self,
        role: &str,
        forwards: Option<bool>,
    ) -> Result<NamespaceNumberAndName, LabError> {
        self.last_namespace_number += 1;
        let namespace =
            self.session.create_namespace(&format!("{role}{}", self.last_namespace_number))?;
        if let Some(ipv6) = forwards {
            set_router_sysctls(&namespace, ipv6)?;
        }
        let place = NamespaceNumberAndName {
            namespace_number: self.last_namespace_number,
            name: namespace.name().to_owned(),
        };
        let ipv6 = forwards.unwrap_or(false);
        let local_namespace = LocalNamespace::new(Rc::clone(&self.host), namespace);
        self.namespaces.insert(
            self.last_namespace_number,
            AgentOwnedNamespace { local_namespace, ipv6, proc_net_files: BTreeMap::new() },
        );
        Ok(place)
    }

    fn find_namespace_by_number(
        &self,
        namespace_number: u32,
    ) -> Result<&AgentOwnedNamespace, LabError> {
        self.namespaces.get(&namespace_number).ok_or_else(|| {
            LabError::FirewallHostFailure(format!("no namespace {namespace_number}"))
        })
    }

    fn remove_uncabled_namespace(&mut self, namespace_number: u32) -> Result<(), LabError> {
        let namespace =
            self.find_namespace_by_number(namespace_number)?.local_namespace.namespace().clone();
        if namespace.name() == self.interface_namespace.name() {
            return Err(LabError::FirewallHostFailure(
                "the interfaces are in that namespace".to_owned(),
            ));
        }
        self.namespaces.remove(&namespace_number);
        Ok(self.session.remove_namespace(namespace)?)
    }

    fn move_and_configure_interfaces(
        &mut self,
        namespace_number: u32,
        neighbours: &SinkMacAndReturnRoute,
    ) -> Result<(), LabError> {
        let AgentOwnedNamespace { local_namespace, ipv6, .. } =
            self.find_namespace_by_number(namespace_number)?;
        let (namespace, ipv6) = (local_namespace.namespace().clone(), *ipv6);
        let [input, output] = self.interface_names.as_slice() else {
            return Err(LabError::FirewallHostFailure("two interfaces are taken first".to_owned()));
        };
        if namespace.name() == self.interface_namespace.name() {
            return Ok(());
        }
        for name in [input, output] {
            self.session.move_device_between_own_namespaces(
                name,
                &self.interface_namespace,
                &namespace,
            )?;
        }
        let devices = FirewallDevices { input: input.clone(), output: output.clone() };
        self.interface_namespace = namespace;
        router_config::configure_router_links_and_await_carrier(
            &self.interface_namespace,
            &devices,
            neighbours,
            ipv6,
        )
    }

    fn write_study_file(
        &self,
        path: &str,
        bytes: &[u8],
        is_executable: bool,
    ) -> Result<(), LabError> {
        let path = self.study_folder.join(require_path_inside_folder(path)?);
        let folder = path.parent().unwrap_or(&self.study_folder);
        fs::create_dir_all(folder).map_err(LabError::file_error("create", folder))?;
        fs::write(&path, bytes).map_err(LabError::file_error("write", &path))?;
        if is_executable {
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, mode)
                .map_err(LabError::file_error("make executable", &path))?;
        }
        Ok(())
    }

    fn run_command(&self, work: &CommandRequest) -> Result<TimedCommandOutput, LabError> {
        let mut paths = Vec::new();
        for (name, path) in &work.files {
            let path = if path.is_empty() {
                PathBuf::new()
            } else {
                self.study_folder.join(require_path_inside_folder(path)?)
            };
            paths.push((name.as_str(), path));
        }
        let files: Vec<_> = paths.iter().map(|(name, path)| (*name, path.as_path())).collect();
        self.find_namespace_by_number(work.namespace_number)?.local_namespace.run_command(
            &TargetCommand {
                script: &work.command,
                variables: work.variables.clone(),
                file_variables: &files,
                files_folder: &self.study_folder,
                weir_program: &self.weir_program,
                is_timed: work.is_timed,
            },
        )
    }

    fn read_proc_net(&mut self, namespace_number: u32, name: &str) -> Result<String, LabError> {
        let name = require_path_inside_folder(name)?.to_string_lossy().into_owned();
        let unknown = || LabError::FirewallHostFailure(format!("no namespace {namespace_number}"));
        let AgentOwnedNamespace { local_namespace, proc_net_files: files, .. } =
            self.namespaces.get_mut(&namespace_number).ok_or_else(unknown)?;
        if !files.contains_key(&name) {
            files
                .insert(name.clone(), open_namespace_proc_net(local_namespace.namespace(), &name)?);
        }
        ProcNetFile::read_text(&files[&name])
    }
}

/// One agent at a time: two would measure each other.
fn lock_host() -> Result<File, LabError> {
    let path = Path::new("/run/weir/agent.lock");
    let file = File::options().create(true).append(true).open(path);
    let file = file.map_err(LabError::file_error("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => {
            Err(LabError::FirewallHostFailure("another run is measuring this host".to_owned()))
        }
    }
}

/// A path that stays inside of the folder that it is joined to.
fn require_path_inside_folder(path: &str) -> Result<&Path, LabError> {
    let path = Path::new(path);
    if path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(path);
    }
    Err(LabError::FirewallHostFailure(format!("{}: not a path inside of a folder", path.display())))
}

fn to_json(answer: impl serde::Serialize) -> Result<Value, LabError> {
    serde_json::to_value(answer).map_err(|error| LabError::FirewallHostFailure(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_their_folder_are_refused() {
        assert!(require_path_inside_folder("tree-rules=8/load.sh").is_ok());
        for bad in ["/etc/passwd", "../x", "a/../../x"] {
            assert!(require_path_inside_folder(bad).is_err(), "{bad}");
        }
    }
}
