//! Rulesets in namespaces of this machine.

use std::cell::{OnceCell, RefCell};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_kernel::conntrack::KernelConntrackTable;
use weir_kernel::{Namespace, Session};
use weir_stats::RemoteHostRecord;

use crate::LabError;
use crate::host::host_trait::{
    ExecTarget, Host, SinkMacAndReturnRoute, TargetCommand, TimedCommandOutput,
};
use crate::host::namespace_command::{HighPriorityGuard, time_shell_command_in_namespace};
use crate::observe::conntrack_sampling::{ConntrackSampler, ConntrackSamples};
use crate::observe::drop_reasons::{self, DropReasonCounter, DropReasonCounts, DropWatchGuard};
use crate::observe::kernel_counters::ConntrackStatReader;
use crate::observe::kernel_log::KernelLog;
use crate::observe::kernel_memory;
use crate::observe::proc_net_file::{ProcNetFile, ProcNetOpener};

/// This machine.
pub(crate) struct LocalHost {
    session: Rc<Session>,
    /// Loaded at the first request; `None` if the kernel does not report reasons.
    drop_reason_counter_cell: OnceCell<Option<RefCell<DropReasonCounter>>>,
    drop_watch: RefCell<Option<(DropReasonCounts, DropWatchGuard)>>,
    conntrack_sampler: RefCell<Option<ConntrackSampler>>,
    kernel_log: RefCell<KernelLog>,
}

/// A namespace of this machine.
pub(crate) struct LocalNamespace {
    host: Rc<LocalHost>,
    namespace: Namespace,
}

impl LocalHost {
    /// Namespaces belong to `session`.
    pub(crate) fn new(session: Rc<Session>) -> LocalHost {
        LocalHost {
            session,
            drop_reason_counter_cell: OnceCell::new(),
            drop_watch: RefCell::default(),
            conntrack_sampler: RefCell::default(),
            kernel_log: RefCell::new(KernelLog::open_at_end()),
        }
    }

    /// Without the program, validation relies on the subjects' own counters.
    fn drop_reason_counter(&self) -> Option<&RefCell<DropReasonCounter>> {
        self.drop_reason_counter_cell
            .get_or_init(|| DropReasonCounter::new().ok().map(RefCell::new))
            .as_ref()
    }
}

impl Host for LocalHost {
    fn is_remote(&self) -> bool {
        false
    }

    fn remote_host_record_with_clock_offset(&self) -> Result<Option<RemoteHostRecord>, LabError> {
        Ok(None)
    }

    fn missing_subject_requirement(
        &self,
        _needs: &[String],
        _is_on_device: bool,
    ) -> Result<Option<String>, LabError> {
        // The clients' machine is this one, and has been observed.
        Ok(None)
    }

    fn can_report_drop_reasons(&self) -> bool {
        self.drop_reason_counter().is_some()
    }

    fn take_drop_reasons(&self) -> Result<DropReasonCounts, LabError> {
        let (Some((before, watch)), Some(program)) =
            (self.drop_watch.take(), self.drop_reason_counter())
        else {
            return Ok(DropReasonCounts::new());
        };
        drop(watch);
        Ok(drop_reasons::subtract_drop_counts(&program.borrow().read_counts()?, &before))
    }

    fn take_conntrack_samples(&self) -> Result<ConntrackSamples, LabError> {
        Ok(self.conntrack_sampler.take().map_or_else(Vec::new, ConntrackSampler::stop))
    }

    fn read_proc_file(&self, name: &str) -> Result<String, LabError> {
        Ok(fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default())
    }

    fn drain_kernel_log_keeping_first_lines(&self, most: usize) -> Result<Vec<String>, LabError> {
        Ok(self.kernel_log.borrow_mut().drain_log_keeping_first_lines(most))
    }

    fn read_ruleset_kernel_memory(&self, wait_to_settle: bool) -> Result<i64, LabError> {
        Ok(kernel_memory::read_ruleset_kernel_memory_maybe_settled(wait_to_settle))
    }

    fn set_machine_sysctl_for_session(&self, key: &str, to: u64) -> Result<(), LabError> {
        Ok(self.session.set_global_sysctl(key, &to.to_string())?)
    }

    fn send_study_files_except_frames(&self, _folder: &Path) -> Result<(), LabError> {
        Ok(())
    }
}

impl LocalNamespace {
    /// A namespace of the host's session.
    pub(crate) fn new(host: Rc<LocalHost>, namespace: Namespace) -> LocalNamespace {
        LocalNamespace { host, namespace }
    }

    /// The namespace itself.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl ProcNetOpener for LocalNamespace {
    fn open_proc_net(&self, name: &'static str) -> Result<Box<dyn ProcNetFile>, LabError> {
        self.namespace.open_proc_net(name)
    }

    fn open_proc_net_if_present(
        &self,
        name: &'static str,
    ) -> Result<Option<Box<dyn ProcNetFile>>, LabError> {
        self.namespace.open_proc_net_if_present(name)
    }
}

impl ExecTarget for LocalNamespace {
    fn name(&self) -> &str {
        self.namespace.name()
    }

    fn host(&self) -> &dyn Host {
        &*self.host
    }

    fn run_command(&self, command: &TargetCommand<'_>) -> Result<TimedCommandOutput, LabError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut variables = command.variables.clone();
        variables.insert("WEIR".to_owned(), text(command.weir_program));
        let files = command.file_variables.iter();
        variables.extend(files.map(|(name, path)| ((*name).to_owned(), text(path))));
        let _nice = command.is_timed.then(HighPriorityGuard::raise_priority);
        let failed = |source| LabError::SystemCall { action: "start `sh`", source };
        let (taken, output) =
            time_shell_command_in_namespace(&self.namespace, command.script, &variables)
                .map_err(failed)?;
        Ok(TimedCommandOutput {
            seconds: taken.as_secs_f64(),
            failed: (!output.status.success()).then(|| output.status.to_string()),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn flush_conntrack(&self, wait_to_settle: bool) -> Result<(), LabError> {
        let count = self.namespace.read_sysctl("net.netfilter.nf_conntrack_count");
        if count.is_ok_and(|count| count.trim() != "0") {
            KernelConntrackTable::open(&self.namespace)?.flush()?;
            if wait_to_settle {
                kernel_memory::wait_for_slabs_to_settle();
            }
        }
        Ok(())
    }

    fn start_conntrack_sampling(&self, period: Duration) -> Result<bool, LabError> {
        // One at a time: the one before ends.
        self.host.take_conntrack_samples()?;
        let conntrack_sampler = ConntrackSampler::start(ConntrackStatReader::open(self)?, period);
        let is_begun = conntrack_sampler.is_some();
        *self.host.conntrack_sampler.borrow_mut() = conntrack_sampler;
        Ok(is_begun)
    }

    fn start_drop_watch(&self) -> Result<bool, LabError> {
        let Some(reasons) = self.host.drop_reason_counter() else { return Ok(false) };
        let mut reasons = reasons.borrow_mut();
        let before = reasons.read_counts()?;
        *self.host.drop_watch.borrow_mut() =
            Some((before, reasons.watch_namespace(&self.namespace)?));
        Ok(true)
    }

    fn attach_cables(&self, _neighbours: &SinkMacAndReturnRoute) -> Result<(), LabError> {
        // Each namespace has its own links.
        Ok(())
    }

    fn remove_namespace(&self) -> Result<(), LabError> {
        Ok(self.host.session.remove_namespace(self.namespace.clone())?)
    }
}
