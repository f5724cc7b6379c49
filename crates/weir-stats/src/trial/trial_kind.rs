//! What trials measure.

use serde::{Deserialize, Serialize};

/// What a trial measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
    /// Packets forwarded while more are offered than the firewall can take.
    Rate,
    /// Packets forwarded at an offered rate that the study sets.
    Paced,
    /// A ruleset loaded at once into a fresh network namespace.
    Load,
    /// Single rules added, one command each, to a ruleset that is in force.
    Add,
    /// TCP connections from SYN to the last ACK: request, reply, FIN.
    Connections,
    /// TCP connections with request and reply that the client ends by RST.
    ConnectionsReset,
    /// TCP connections that are opened and left open.
    Handshakes,
    /// As many TCP connections as the study requests, opened and left open.
    Concurrent,
    /// TCP connections between sockets of the kernel, opened at planned times, or those of the
    /// client that a subject names in their place.
    Sockets,
    /// Echoes through the firewall and back, sent at planned times.
    RoundTrip,
    /// Responses of an ordinary process on the firewall, requested at planned times.
    #[serde(rename = "response")]
    FirewallProcessResponse,
    /// One bulk TCP stream between sockets of the kernel.
    Stream,
    /// Packets that a program looked up in its own classifier, in user space.
    Lookups,
}
