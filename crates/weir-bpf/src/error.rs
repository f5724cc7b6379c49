//! Errors of BPF programs.

use weir_kernel::KernelError;

/// Why something with a BPF program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// It could not be loaded, attached or run, or a map of it not be read or written.
    #[error("{action}: {source}")]
    Libbpf {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: libbpf_rs::Error,
    },
    /// The system refused something else.
    #[error("{action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The namespace could not be entered.
    #[error(transparent)]
    EnterNamespace(#[from] KernelError),
}

impl BpfError {
    /// For `map_err`: something with a BPF program that failed.
    pub fn from_libbpf(action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| BpfError::Libbpf { action, source }
    }
}
