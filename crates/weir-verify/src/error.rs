//! Reasons why a comparison fails.

use std::path::PathBuf;

use weir_kernel::KernelError;

/// Why a comparison could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Namespaces, links, tools.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An artefact that cannot be read.
    #[error("read artefact {path}: {source}")]
    ReadArtefact {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        source: weir_artefact::ReadError,
    },
    /// An artefact whose files do not say what weir writes.
    #[error("read artefact {path}: {what}")]
    MalformedArtefact {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A ruleset that could not be loaded.
    #[error("load {way}: {source}")]
    LoadRuleset {
        /// Which form.
        way: String,
        /// The tool's output.
        source: KernelError,
    },
    /// The manifest says nothing about an original rule.
    #[error("{way}: the manifest names no counters for {key}")]
    NoCounterInManifest {
        /// Which form.
        way: String,
        /// The rule.
        key: String,
    },
    /// The manifest names a counter that is not there.
    #[error("{way}: the manifest names a counter that the kernel does not have: {counter}")]
    CounterNotInKernel {
        /// Which form.
        way: String,
        /// The counter.
        counter: String,
    },
    /// A set that is counted by has another number of elements than when it was loaded.
    #[error("set {set} was changed while packets were compared")]
    SetChanged {
        /// Its name.
        set: String,
    },
    /// The kernel refused connections that packets belong to.
    #[error("create connections: {refused} refused, the first: {reason}")]
    CreateConnections {
        /// How many.
        refused: usize,
        /// What the kernel says of the first one.
        reason: String,
    },
    /// A packet could not be sent.
    #[error("send packets: {0}")]
    SendPacket(std::io::Error),
    /// Packets went in and were never through.
    #[error("packets sent through {way} did not arrive in time")]
    BatchTimeout {
        /// Which firewall.
        way: String,
    },
    /// Packets were lost before the first hook, twice.
    #[error("{lost} packets were lost before they reached {way}")]
    PacketsLost {
        /// Which firewall.
        way: String,
        /// How many.
        lost: usize,
    },
    /// A file could not be written.
    #[error("write {path}: {source}")]
    WriteFile {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl VerifyError {
    pub(crate) fn from_send_error(source: std::io::Error) -> Self {
        VerifyError::SendPacket(source)
    }
}
