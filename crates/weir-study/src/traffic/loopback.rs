//! Kind `loopback`: UDP that a host sends to itself.

use serde::Deserialize;

use crate::firewall_devices::FirewallDevices;
use crate::supported_workload_features::{
    NEEDS_NO_CONNTRACK_ENTRIES, NOT_IMPLEMENTED_OVER_HOSTS, SENDS_NO_FRAMES, WorkloadFeatures,
};
use crate::traffic::traffic_kind::TrafficKind;

/// UDP that a host sends to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "LoopbackDefinition")]
pub struct LoopbackUdpToClosedPort {
    /// Length of a packet, its headers included, bytes.
    pub packet_bytes: u16,
    /// The port on which nobody listens.
    pub closed_port: u16,
}

static LOOPBACK_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `loopback`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Err(NOT_IMPLEMENTED_OVER_HOSTS),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Err("sends as fast as the host accepts it"),
    conntrack_table_size: Err(NEEDS_NO_CONNTRACK_ENTRIES),
};

impl TrafficKind for LoopbackUdpToClosedPort {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        &LOOPBACK_WORKLOAD_FEATURES
    }

    fn required_devices(&self) -> Option<FirewallDevices> {
        Some(FirewallDevices { input: "lo".to_owned(), output: "lo".to_owned() })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopbackDefinition {
    bytes: Option<u16>,
    port: Option<u16>,
}

impl From<LoopbackDefinition> for LoopbackUdpToClosedPort {
    /// Defaults: 128 bytes, and the port of the discard service (RFC 863), on which hosts no longer
    /// listen.
    fn from(text: LoopbackDefinition) -> LoopbackUdpToClosedPort {
        let LoopbackDefinition { bytes, port } = text;
        LoopbackUdpToClosedPort {
            packet_bytes: bytes.unwrap_or(128),
            closed_port: port.unwrap_or(9),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn loopback_traffic_uses_device_lo() {
        let devices = read("kind = \"loopback\"").unwrap().required_devices().unwrap();
        assert_eq!((devices.input.as_str(), devices.output.as_str()), ("lo", "lo"));
    }

    #[test]
    fn invalid_loopback_traffic_is_refused() {
        let cases = [
            ("flood_axis = \"x\"", "no `flood_axis`; it takes `bytes`, `port`"),
            ("verify = true", "takes no `verify`"),
            ("command = \"true\"", "takes no `command`"),
            ("bytes = 20", "takes 28 to 1500"),
            ("port = 0", "takes 1 to 65535"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"loopback\"\n{text}"), message);
        }
    }
}
