//! Requests to the firewall's host, and their encoding.
//!
//! The agent begins with a [`Welcome`]. Then requests and replies alternate, one line of JSON each;
//! the bytes of a file follow their request. The reply to each request is documented in [`Ask`]; a
//! [`Reply`] is that value, or the reason why there is none.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_stats::Environment;

use crate::host::target::Neighbours;

/// A question; what answers it is next to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AgentRequest {
    /// What time is it? Seconds since 1970.
    Clock,
    /// Which of these programs are not on the `PATH`? Their names.
    Lacking(Vec<String>),
    /// Take an interface of the host, with this name in every firewall: the one towards the source
    /// first. Returns its MAC address.
    Take { interface: String, name: String },
    /// A firewall that forwards. [`RoomName`].
    Firewall { ipv6: bool },
    /// A namespace without links. [`RoomName`].
    Bare,
    /// End a namespace. `()`.
    Remove { room: u32 },
    /// The interfaces belong to this firewall from now on. `()`, once they are up.
    TurnTo { room: u32, neighbours: Neighbours },
    /// A file of the study; its bytes follow this line. `()`.
    File { path: String, bytes: u64, is_executable: bool },
    /// A command of a subject. [`CommandOutput`](crate::host::target::CommandOutput).
    Run(Box<CommandRequest>),
    /// A file under `/proc/net` of a firewall. Its text.
    Net { room: u32, name: String },
    /// A file under `/proc`. Its text.
    Proc { name: String },
    /// Start counting the kernel's reasons for freeing packets of a firewall; `false` if it does
    /// not report them.
    Watch { room: u32 },
    /// The reasons since then, with their packets.
    Reasons,
    /// The first lines of the kernel's log since the last time.
    Log { most: usize },
    /// Empty a firewall's connection table, and where it is `settled` wait until the kernel has its
    /// memory back. `()`.
    Forget { room: u32, settled: bool },
    /// The entries of a firewall's connection table are looked at from now on, and again after each
    /// period; `false` if it has none.
    Follow { room: u32, period_seconds: f64 },
    /// The looks since then: seconds, and entries.
    Followed,
    /// Bytes of kernel memory that may hold rulesets, `settled` once removed ones have been freed.
    Memory { settled: bool },
    /// Set a sysctl of the whole machine until the end. `()`.
    Raise { key: String, to: u64 },
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AgentReply<T> {
    Done(T),
    Refused(String),
}

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// weir's version there.
    pub(crate) version: String,
    /// The machine.
    pub(crate) environment: Environment,
    /// Its kernel reports why it frees packets.
    pub(crate) knows_reasons: bool,
}

/// A namespace there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NamespaceEntry {
    pub(crate) room: u32,
    pub(crate) name: String,
}

/// A command with its variables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandRequest {
    pub(crate) room: u32,
    pub(crate) command: String,
    pub(crate) variables: BTreeMap<String, String>,
    /// Variables that name a file of the study; the empty path names none.
    pub(crate) files: BTreeMap<String, String>,
    /// It is timed: it has priority over the machine's other work.
    pub(crate) is_timed: bool,
}

/// Writes one line.
pub(crate) fn send(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one line; `None` at the end of the connection.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}
