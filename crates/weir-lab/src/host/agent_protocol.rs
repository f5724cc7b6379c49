//! Requests to the firewall's host, and their encoding.
//!
//! The agent begins with an [`AgentWelcome`]. Then requests and replies alternate, one line of JSON
//! each; the bytes of a file follow their request. The reply to each request is documented in
//! [`AgentRequest`]; an [`AgentReply`] is that value, or the reason why there is none.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_stats::HostEnvironment;

use crate::host::host_trait::SinkMacAndReturnRoute;

/// A question; what answers it is next to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AgentRequest {
    /// What time is it? Seconds since 1970.
    ReadClock,
    /// Which of these programs are not on the `PATH`? Their names.
    FindMissingPrograms(Vec<String>),
    /// Take an interface of the host, with this name in every firewall: the one towards the source
    /// first. Returns its MAC address.
    TakeInterface { interface: String, name: String },
    /// A firewall that forwards. [`NamespaceNumberAndName`].
    CreateFirewall { ipv6: bool },
    /// A namespace without links. [`NamespaceNumberAndName`].
    CreateDetachedNamespace,
    /// End a namespace. `()`.
    RemoveNamespace { room: u32 },
    /// The interfaces belong to this firewall from now on. `()`, once they are up.
    MoveInterfacesTo { room: u32, neighbours: SinkMacAndReturnRoute },
    /// A file of the study; its bytes follow this line. `()`.
    WriteStudyFile { path: String, bytes: u64, is_executable: bool },
    /// A command of a subject. [`TimedCommandOutput`](crate::host::host_trait::TimedCommandOutput).
    RunCommand(Box<CommandRequest>),
    /// A file under `/proc/net` of a firewall. Its text.
    ReadProcNet { room: u32, name: String },
    /// A file under `/proc`. Its text.
    ReadProcFile { name: String },
    /// Start counting the kernel's reasons for freeing packets of a firewall; `false` if it does
    /// not report them.
    StartDropWatch { room: u32 },
    /// The reasons since then, with their packets.
    TakeDropReasons,
    /// The first lines of the kernel's log since the last time.
    ReadKernelLog { most: usize },
    /// Empty a firewall's connection table, and where it is `settled` wait until the kernel has its
    /// memory back. `()`.
    FlushConntrack { room: u32, settled: bool },
    /// The entries of a firewall's connection table are sampled from now on, and again after each
    /// period; `false` if it has none.
    StartConntrackSampling { room: u32, period_seconds: f64 },
    /// The looks since then: seconds, and entries.
    TakeConntrackSamples,
    /// Bytes of kernel memory that may hold rulesets, `settled` once removed ones have been freed.
    ReadKernelMemory { settled: bool },
    /// Set a sysctl of the whole machine until the end. `()`.
    RaiseSysctl { key: String, to: u64 },
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AgentReply<T> {
    Completed(T),
    Refused(String),
}

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentWelcome {
    /// weir's version there.
    pub(crate) version: String,
    /// The machine.
    pub(crate) environment: HostEnvironment,
    /// Its kernel reports why it frees packets.
    pub(crate) reports_drop_reasons: bool,
}

/// A namespace there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NamespaceNumberAndName {
    pub(crate) namespace_number: u32,
    pub(crate) name: String,
}

/// A command with its variables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandRequest {
    pub(crate) namespace_number: u32,
    pub(crate) command: String,
    pub(crate) variables: BTreeMap<String, String>,
    /// Variables that name a file of the study; the empty path names none.
    pub(crate) files: BTreeMap<String, String>,
    /// It is timed: it has priority over the machine's other work.
    pub(crate) is_timed: bool,
}

/// Writes one line.
pub(crate) fn send_json_line(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one line; `None` at the end of the connection.
pub(crate) fn receive_json_line<T: DeserializeOwned>(
    from: &mut impl BufRead,
) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
