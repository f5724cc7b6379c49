//! Files under `/proc/net` of a namespace, for use outside of it.
//!
//! They are opened once, inside the namespace; an open file under `/proc/thread-self/net` keeps
//! showing that namespace wherever it is read.

use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use weir_kernel::Namespace;

use crate::LabError;

/// A file under `/proc/net` that is read again and again.
pub trait ProcNetFile: Debug + Send + Sync {
    /// Its text now.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read_text(&self) -> Result<String, LabError>;
}

/// A namespace with its files under `/proc/net`.
pub trait ProcNetOpener {
    /// The file of that name.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn open_proc_net(&self, name: &'static str) -> Result<Box<dyn ProcNetFile>, LabError>;

    /// The same; `None` if the kernel has no such file.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    fn open_proc_net_if_present(
        &self,
        name: &'static str,
    ) -> Result<Option<Box<dyn ProcNetFile>>, LabError>;
}

impl ProcNetOpener for Namespace {
    fn open_proc_net(&self, name: &'static str) -> Result<Box<dyn ProcNetFile>, LabError> {
        open_namespace_proc_net(self, name).map(|file| Box::new(file) as Box<dyn ProcNetFile>)
    }

    fn open_proc_net_if_present(
        &self,
        name: &'static str,
    ) -> Result<Option<Box<dyn ProcNetFile>>, LabError> {
        let path = Path::new("/proc/thread-self/net").join(name);
        let file = self.call_inside(|| File::open(path))?.ok();
        Ok(file.map(|file| Box::new(file) as Box<dyn ProcNetFile>))
    }
}

impl ProcNetFile for File {
    fn read_text(&self) -> Result<String, LabError> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 8192];
        loop {
            let failed = |source| LabError::SystemCall { action: "read a counter", source };
            match self.read_at(&mut chunk, bytes.len() as u64).map_err(failed)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                length => bytes.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

/// Opens a file of a namespace of this machine.
pub(crate) fn open_namespace_proc_net(namespace: &Namespace, name: &str) -> Result<File, LabError> {
    let path = Path::new("/proc/thread-self/net").join(name);
    namespace.call_inside(|| File::open(&path))?.map_err(LabError::file_error("open", &path))
}
