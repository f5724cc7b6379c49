//! Errors of the laboratory.

use std::path::{Path, PathBuf};

use weir_bpf::BpfError;
use weir_kernel::KernelError;
use weir_stats::{RecordError, Scenario};
use weir_study::StudyError;

/// Why a study was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A study, its subjects or its hosts cannot be read, or cannot be run as requested.
    #[error(transparent)]
    UnusableStudy(#[from] StudyError),
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    FileIo {
        /// `read`, `write`, …
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder for the records is not empty.
    #[error("{}: the folder is not empty; records are never overwritten", .0.display())]
    RecordFolderNotEmpty(PathBuf),
    /// What is in the folder is not part of this run.
    #[error("{}: cannot resume this run: {what}", path.display())]
    CannotResumeRun {
        /// The folder of the records.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// A command of the study or of a subject failed.
    #[error("{what} at {scenario}: `{command}` ended with {status}: {message}")]
    CommandFailed {
        /// Which: `ruleset`, `load of tree`, …
        what: String,
        /// Where.
        scenario: Scenario,
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// The last lines of what it wrote to standard error.
        message: String,
    },
    /// A program that replaces weir's own clients.
    #[error("`{command}`: {message}")]
    ExternalClientFailed {
        /// Its command line.
        command: String,
        /// What went wrong, or what of its output is not understood.
        message: String,
    },
    /// Frames that the generator cannot send.
    #[error("{}: {message}", path.display())]
    UnsendableFrames {
        /// The pcap file, or its verdicts.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Frames that are not what the study requires.
    #[error("{}: {message}", path.display())]
    UnexpectedFrames {
        /// What the command reports of its frames.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A BPF program could not be loaded, attached or run.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Something did not arrive after an empty firewall.
    #[error("{arrived} of {offered} {unit} after {namespace}: {why}")]
    EmptyFirewallLoss {
        /// What arrived.
        arrived: u64,
        /// What was sent.
        offered: u64,
        /// What is counted.
        unit: ArrivalUnit,
        /// Where.
        namespace: String,
        /// What the counters say.
        why: String,
    },
    /// The study needs a limit of the whole machine raised.
    #[error(
        "{what}: {key}{place} is {now}, {need} are needed, and the limit is global; \
         `--allow-global` raises it for the run and restores it"
    )]
    GlobalSysctlTooLow {
        /// What needs it.
        what: String,
        /// The sysctl.
        key: &'static str,
        /// On which machine: ` on the firewall's host`, or nothing.
        place: &'static str,
        /// Its value.
        now: u64,
        /// The value that is needed.
        need: u64,
    },
    /// The firewall's host refused a request, or is unreachable.
    #[error("{0}")]
    FirewallHostFailure(String),
    /// The kernel refused something else.
    #[error("{action}: {source}")]
    SystemCall {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A namespace, a link, a sysctl.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Ctrl-C or similar.
    #[error("interrupted; the trials so far are recorded")]
    Interrupted,
}

/// What is counted after a firewall without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalUnit {
    /// Single packets.
    Packets,
    /// Connections, from their first packet to the last one.
    Connections,
}

impl std::fmt::Display for ArrivalUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ArrivalUnit::Packets => "packets arrived",
            ArrivalUnit::Connections => "connections were completed",
        })
    }
}

impl LabError {
    /// Whether a command reported that there is nothing to measure (status 77).
    pub(crate) fn is_nothing_to_measure_exit_status(&self) -> bool {
        matches!(self, LabError::CommandFailed { status, .. } if status == "exit status: 77")
    }

    /// For `map_err`: an operation on a file that failed.
    pub(crate) fn file_error(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| LabError::FileIo { action, path, source }
    }

    /// For `map_err`: something with a BPF program that failed.
    pub(crate) fn bpf_error(action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| BpfError::from_libbpf(action)(source).into()
    }
}
