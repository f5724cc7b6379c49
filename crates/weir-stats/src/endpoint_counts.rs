//! Shares of each client and each server in a trial of connections.

use serde::{Deserialize, Serialize};

/// Packets that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivedTraffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, Ethernet headers included.
    #[serde(rename = "bytes")]
    pub frame_bytes: u64,
}

/// One client, or one server. What it sent is counted at the other end, so all of this arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCounts {
    /// Connections of its that were completed.
    pub connections: u64,
    /// Connections, packets and bytes from it.
    #[serde(rename = "from")]
    pub arrived_from_endpoint: ArrivedTraffic,
    /// Connections, packets and bytes to it.
    #[serde(rename = "to")]
    pub arrived_at_endpoint: ArrivedTraffic,
}

impl ArrivedTraffic {
    pub(crate) fn is_zero(&self) -> bool {
        *self == ArrivedTraffic::default()
    }

    /// Adds what another core counted.
    pub fn add(&mut self, other: ArrivedTraffic) {
        self.packets += other.packets;
        self.frame_bytes += other.frame_bytes;
    }
}

/// Share of all connections of the endpoint with the fewest completed; `None` if endpoints were not
/// distinguished, or none was completed.
pub fn min_endpoint_share_of_all_connections(endpoints: &[EndpointCounts]) -> Option<f64> {
    let all: u64 = endpoints.iter().map(|endpoint| endpoint.connections).sum();
    let fewest = endpoints.iter().map(|endpoint| endpoint.connections).min()?;
    (all > 0).then(|| fewest as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_share_is_that_of_one_endpoint() {
        let of = |connections| EndpointCounts { connections, ..EndpointCounts::default() };
        assert_eq!(min_endpoint_share_of_all_connections(&[of(7), of(3), of(2)]), Some(2.0 / 12.0));
        assert_eq!(min_endpoint_share_of_all_connections(&[of(7), of(0)]), Some(0.0));
        assert_eq!(min_endpoint_share_of_all_connections(&[of(0)]), None);
        assert_eq!(min_endpoint_share_of_all_connections(&[]), None);
    }
}
