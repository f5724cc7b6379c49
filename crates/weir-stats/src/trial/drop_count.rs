//! Packets that were dropped in a trial, by counter.

use serde::{Deserialize, Serialize};

/// Packets that one counter says were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCount {
    /// Which counter: `rules` (the subject's own), `device`, `stack`, `conntrack` (a full table);
    /// `link` (never entered the firewall's device), `sink` (left it and reached no program); or
    /// one that gives a reason and is part of another one: `softnet` (full backlogs of the whole
    /// machine), `skb: REASON` (the kernel's reason for freeing a packet, read only in validation
    /// trials).
    pub counter: String,
    /// Packets.
    pub packets: u64,
}

impl DropCount {
    /// Whether these packets are in another counter already.
    pub fn is_counted_elsewhere(&self) -> bool {
        self.counter == "softnet" || self.counter.starts_with("skb: ")
    }
}
