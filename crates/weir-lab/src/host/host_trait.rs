//! What a run needs of the machine on which rulesets are loaded, local or remote.
//!
//! [`LocalHost`](crate::host::local::LocalHost) does it on this machine;
//! [`RemoteHost`](crate::host::remote::RemoteHost) sends requests to an agent on another one, which
//! in turn uses its own [`LocalHost`](crate::host::local::LocalHost).

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_packet::Mac;
use weir_stats::RemoteHostRecord;

use crate::LabError;
use crate::observe::conntrack_sampling::ConntrackSamples;
use crate::observe::drop_reasons::DropReasonCounts;
use crate::observe::proc_net_file::ProcNetOpener;

/// A machine that rulesets are loaded on.
pub(crate) trait Host {
    /// Whether it is another machine than the one that measures.
    fn is_remote(&self) -> bool;

    /// What the record contains about it; nothing about the measuring machine.
    fn remote_host_record_with_clock_offset(&self) -> Result<Option<RemoteHostRecord>, LabError>;

    /// Why a subject that needs these programs there, and may belong to a device, cannot be
    /// measured there.
    fn missing_subject_requirement(
        &self,
        needs: &[String],
        is_on_device: bool,
    ) -> Result<Option<String>, LabError>;

    /// Whether its kernel reports why it frees packets.
    fn can_report_drop_reasons(&self) -> bool;

    /// Why its kernel freed packets since [`ExecTarget::start_drop_watch`].
    fn take_drop_reasons(&self) -> Result<DropReasonCounts, LabError>;

    /// The samples of a connection table since [`ExecTarget::start_conntrack_sampling`].
    fn take_conntrack_samples(&self) -> Result<ConntrackSamples, LabError>;

    /// A file under `/proc`; empty where there is none.
    fn read_proc_file(&self, name: &str) -> Result<String, LabError>;

    /// The first lines that its kernel logged since the last call.
    fn drain_kernel_log_keeping_first_lines(&self, most: usize) -> Result<Vec<String>, LabError>;

    /// Bytes of its kernel memory that may hold rulesets; `wait_to_settle` waits first until
    /// removed ones have been freed.
    fn read_ruleset_kernel_memory(&self, wait_to_settle: bool) -> Result<i64, LabError>;

    /// Sets a sysctl of the whole machine until the session there ends.
    fn set_machine_sysctl_for_session(&self, key: &str, to: u64) -> Result<(), LabError>;

    /// Transfers the files that commands there read, except frames, which are sent from here.
    fn send_study_files_except_frames(&self, folder: &Path) -> Result<(), LabError>;
}

/// A namespace of a host that rulesets are loaded into.
pub(crate) trait ExecTarget: ProcNetOpener {
    /// Its name there.
    fn name(&self) -> &str;

    /// Its host.
    fn host(&self) -> &dyn Host;

    /// Runs a command in it to its end.
    fn run_command(&self, command: &TargetCommand<'_>) -> Result<TimedCommandOutput, LabError>;

    /// Empties its connection table: an entry of an earlier trial would make a packet cheaper or
    /// more expensive than that of a new connection. `wait_to_settle` waits until the kernel has
    /// the memory back.
    fn flush_conntrack(&self, wait_to_settle: bool) -> Result<(), LabError>;

    /// Starts sampling its connection table; false if it has none.
    fn start_conntrack_sampling(&self, period: Duration) -> Result<bool, LabError>;

    /// Starts counting the reasons for which the kernel frees its packets; false if it does not
    /// report them.
    fn start_drop_watch(&self) -> Result<bool, LabError>;

    /// Gives it the cables of a host that has one pair of them for all of its firewalls.
    fn attach_cables(&self, neighbours: &SinkMacAndReturnRoute) -> Result<(), LabError>;

    /// Ends it.
    fn remove_namespace(&self) -> Result<(), LabError>;
}

/// An [`ExecTarget`] that is shared.
pub(crate) type RcExecTarget = Rc<dyn ExecTarget>;

/// A command with its variables.
#[derive(Clone, Debug)]
pub(crate) struct TargetCommand<'a> {
    /// For `sh -ec`.
    pub(crate) script: &'a str,
    /// Variables that are the same on every machine.
    pub(crate) variables: BTreeMap<String, String>,
    /// Variables that name a file of the study; an empty path names none.
    pub(crate) file_variables: &'a [(&'a str, &'a Path)],
    /// The folder of these files.
    pub(crate) files_folder: &'a Path,
    /// What `WEIR` names on the machine that measures; another host runs its own.
    pub(crate) weir_program: &'a Path,
    /// It is timed: it has priority over the machine's other work.
    pub(crate) is_timed: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TimedCommandOutput {
    pub(crate) seconds: f64,
    /// `exit status: 77`; absent where it was 0.
    pub(crate) failed: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What a firewall's interfaces lead to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SinkMacAndReturnRoute {
    /// Behind it is the sink.
    pub(crate) sink_mac: Mac,
    /// Where answers go back to, where there are any.
    pub(crate) return_route: Option<ReturnRoute>,
}

/// Where answers go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReturnRoute {
    /// Of the source.
    pub(crate) mac: Mac,
    /// The prefix with the addresses of clients; absent if the source's own address is used.
    pub(crate) clients: Option<String>,
}
