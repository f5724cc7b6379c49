//! What a trial of connections counted.

use serde::{Deserialize, Serialize};

use crate::spectrum::Spectrum;

/// How connections end, and so what is called complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// Request, reply, then FIN by the client: seven packets.
    Fin,
    /// Request, reply, then RST by the client: five packets. Not what RFC 9411 calls a connection.
    Reset,
    /// Opened by three packets and left open.
    Never,
}

/// Connections that did not get over one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The packet that did not arrive as it had to be: `SYN`, `SYN+ACK`, `request`, `reply`,
    /// `FIN`, `FIN+ACK`, `last ACK`, `RST`, `ACK`.
    pub at: String,
    /// Connections.
    pub connections: i64,
}

/// What both ends counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// How they end.
    pub close: Close,
    /// Connections that the client began.
    pub offered: u64,
    /// Connections whose every packet arrived as it had to be, at both ends.
    pub completed: u64,
    /// The others, by the step that they did not get over. Less than 0: packets came twice.
    pub failed: Vec<Failure>,
    /// Packets of the trial that arrived with wrong numbers or contents.
    pub invalid: u64,
    /// RST segments of strangers: what `REJECT --reject-with tcp-reset` sends.
    pub resets: u64,
    /// ICMP messages.
    pub icmp: u64,
    /// Connections of the rate that the client could not open in time.
    pub given_up: u64,
    /// From the first packet until SYN+ACK is back.
    pub establish: Spectrum,
    /// From the first packet until FIN+ACK is back; empty where none is sent.
    pub whole: Spectrum,
}

impl Connections {
    /// Connections that are neither complete nor failed: never anything but 0.
    pub fn missing(&self) -> i64 {
        let failed: i64 = self.failed.iter().map(|failure| failure.connections).sum();
        self.offered as i64 - self.completed as i64 - failed
    }
}
