//! The half of a session that ends with its process: whose process ids it uses, and the namespaces
//! that it holds open.
//!
//! The kernel takes all of it back when the process ends, however it ends, so none of it is written
//! down. What has to be removed afterwards is in the journal ([`crate::session_journal`]).

use std::sync::{Mutex, MutexGuard};

use crate::Namespace;
use crate::recorded_process_liveness::PidNamespace;

/// What a session has while its process runs.
#[derive(Debug)]
pub(crate) struct LiveSession {
    run_name: String,
    pid_namespace: PidNamespace,
    namespaces: Mutex<Vec<Namespace>>,
}

impl LiveSession {
    /// Of a session that has no namespace yet.
    pub(crate) fn new(run: String, pids: PidNamespace) -> LiveSession {
        LiveSession { run_name: run, pid_namespace: pids, namespaces: Mutex::default() }
    }

    /// The run's name.
    pub(crate) fn run_name(&self) -> &str {
        &self.run_name
    }

    /// What the process ids of this process mean.
    pub(crate) fn owner_pid_namespace(&self) -> &PidNamespace {
        &self.pid_namespace
    }

    /// Keeps a namespace open.
    pub(crate) fn keep_namespace_open(&self, namespace: Namespace) {
        self.lock_namespaces().push(namespace);
    }

    /// Names of the namespaces that are held open.
    pub(crate) fn namespace_names(&self) -> Vec<String> {
        self.lock_namespaces().iter().map(|namespace| namespace.name().to_owned()).collect()
    }

    /// Closes a namespace; the kernel destroys it when nobody else has it open.
    pub(crate) fn release_namespace(&self, name: &str) {
        self.lock_namespaces().retain(|namespace| namespace.name() != name);
    }

    /// Closes all namespaces.
    pub(crate) fn release_all_namespaces(&self) {
        self.lock_namespaces().clear();
    }

    fn lock_namespaces(&self) -> MutexGuard<'_, Vec<Namespace>> {
        self.namespaces.lock().unwrap_or_else(|e| e.into_inner())
    }
}
