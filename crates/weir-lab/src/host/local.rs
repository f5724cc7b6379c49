//! Rulesets in namespaces of this machine.

use std::cell::{OnceCell, RefCell};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use weir_kernel::conntrack::ConnectionTable;
use weir_kernel::{Namespace, Session};
use weir_stats::HostRecord;

use crate::LabError;
use crate::host::shell::{NiceGuard, shell};
use crate::host::target::{CommandOutput, ExecTarget, Host, Neighbours, TargetCommand};
use crate::observe::counters::ConntrackReader;
use crate::observe::drops::{self, DropReasons, DropWatch, Reasons};
use crate::observe::kernel_log::KernelLog;
use crate::observe::memory;
use crate::observe::net_file::{NetFile, NetFiles};
use crate::observe::sampling::{Sampler, TableSamples};

/// This machine.
pub(crate) struct LocalHost {
    session: Rc<Session>,
    /// Loaded at the first request; `None` if the kernel does not report reasons.
    reasons: OnceCell<Option<RefCell<DropReasons>>>,
    watch: RefCell<Option<(Reasons, DropWatch)>>,
    sampler: RefCell<Option<Sampler>>,
    log: RefCell<KernelLog>,
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
            reasons: OnceCell::new(),
            watch: RefCell::default(),
            sampler: RefCell::default(),
            log: RefCell::new(KernelLog::new()),
        }
    }

    /// Without the program, validation relies on the subjects' own counters.
    fn reasons(&self) -> Option<&RefCell<DropReasons>> {
        self.reasons.get_or_init(|| DropReasons::new().ok().map(RefCell::new)).as_ref()
    }
}

impl Host for LocalHost {
    fn is_remote(&self) -> bool {
        false
    }

    fn record(&self) -> Result<Option<HostRecord>, LabError> {
        Ok(None)
    }

    fn lacks(&self, _needs: &[String], _is_on_device: bool) -> Result<Option<String>, LabError> {
        // The clients' machine is this one, and has been looked at.
        Ok(None)
    }

    fn knows_drop_reasons(&self) -> bool {
        self.reasons().is_some()
    }

    fn drop_reasons(&self) -> Result<Reasons, LabError> {
        let (Some((before, watch)), Some(program)) = (self.watch.take(), self.reasons()) else {
            return Ok(Reasons::new());
        };
        drop(watch);
        Ok(drops::since(&program.borrow().read()?, &before))
    }

    fn samples(&self) -> Result<TableSamples, LabError> {
        Ok(self.sampler.take().map_or_else(Vec::new, Sampler::stop))
    }

    fn proc_file(&self, name: &str) -> Result<String, LabError> {
        Ok(fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default())
    }

    fn kernel_log(&self, most: usize) -> Result<Vec<String>, LabError> {
        Ok(self.log.borrow_mut().lines(most))
    }

    fn ruleset_memory(&self, settled: bool) -> Result<i64, LabError> {
        Ok(memory::ruleset_memory(settled))
    }

    fn raise_sysctl(&self, key: &str, to: u64) -> Result<(), LabError> {
        Ok(self.session.global_sysctl(key, &to.to_string())?)
    }

    fn send_files(&self, _folder: &Path) -> Result<(), LabError> {
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

impl NetFiles for LocalNamespace {
    fn net_file(&self, name: &'static str) -> Result<Box<dyn NetFile>, LabError> {
        self.namespace.net_file(name)
    }

    fn find_net_file(&self, name: &'static str) -> Result<Option<Box<dyn NetFile>>, LabError> {
        self.namespace.find_net_file(name)
    }
}

impl ExecTarget for LocalNamespace {
    fn name(&self) -> &str {
        self.namespace.name()
    }

    fn host(&self) -> &dyn Host {
        &*self.host
    }

    fn run(&self, command: &TargetCommand<'_>) -> Result<CommandOutput, LabError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut variables = command.variables.clone();
        variables.insert("WEIR".to_owned(), text(command.weir));
        let files = command.files.iter();
        variables.extend(files.map(|(name, path)| ((*name).to_owned(), text(path))));
        let _nice = command.is_timed.then(NiceGuard::new);
        let failed = |source| LabError::System { action: "start `sh`", source };
        let (taken, output) = shell(&self.namespace, command.text, &variables).map_err(failed)?;
        Ok(CommandOutput {
            seconds: taken.as_secs_f64(),
            failed: (!output.status.success()).then(|| output.status.to_string()),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn flush_connections(&self, settled: bool) -> Result<(), LabError> {
        let count = self.namespace.read_sysctl("net.netfilter.nf_conntrack_count");
        if count.is_ok_and(|count| count.trim() != "0") {
            ConnectionTable::open(&self.namespace)?.flush()?;
            if settled {
                memory::settle_slabs();
            }
        }
        Ok(())
    }

    fn sample_connections(&self, period: Duration) -> Result<bool, LabError> {
        // One at a time: the one before ends.
        self.host.samples()?;
        let sampler = Sampler::start(ConntrackReader::open(self)?, period);
        let is_begun = sampler.is_some();
        *self.host.sampler.borrow_mut() = sampler;
        Ok(is_begun)
    }

    fn watch_drops(&self) -> Result<bool, LabError> {
        let Some(reasons) = self.host.reasons() else { return Ok(false) };
        let mut reasons = reasons.borrow_mut();
        let before = reasons.read()?;
        *self.host.watch.borrow_mut() = Some((before, reasons.watch(&self.namespace)?));
        Ok(true)
    }

    fn take_cables(&self, _neighbours: &Neighbours) -> Result<(), LabError> {
        // Each namespace has its own links.
        Ok(())
    }

    fn remove(&self) -> Result<(), LabError> {
        Ok(self.host.session.remove(self.namespace.clone())?)
    }
}
