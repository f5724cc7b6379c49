//! Kind `loopback`: UDP that a host sends to itself.

use serde::Deserialize;

use crate::firewall_devices::FirewallDevices;
use crate::traffic::traffic_kind::TrafficKind;
use crate::traffic::udp_packet::parse_udp_length_and_port;
use crate::workload::{
    NEEDS_NO_CONNTRACK_ENTRIES, NOT_IMPLEMENTED_OVER_HOSTS, SENDS_NO_FRAMES, WorkloadRow,
};

/// UDP that a host sends to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "LoopbackDefinition")]
pub struct LoopbackUdpToClosedPort {
    /// Length of a packet, its headers included, bytes.
    pub packet_bytes: u16,
    /// The port on which nobody listens.
    pub closed_port: u16,
}

static LOOPBACK: WorkloadRow = WorkloadRow {
    name: "kind `loopback`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Err(NOT_IMPLEMENTED_OVER_HOSTS),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Err("sends as fast as the host accepts it"),
    conntrack_table_size: Err(NEEDS_NO_CONNTRACK_ENTRIES),
};

impl TrafficKind for LoopbackUdpToClosedPort {
    fn workload_row(&self) -> &'static WorkloadRow {
        &LOOPBACK
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

impl TryFrom<LoopbackDefinition> for LoopbackUdpToClosedPort {
    type Error = String;

    /// A host of today leaves the port that discards (RFC 863) alone.
    fn try_from(text: LoopbackDefinition) -> Result<LoopbackUdpToClosedPort, String> {
        let (packet_bytes, closed_port) = parse_udp_length_and_port(text.bytes, text.port)?;
        Ok(LoopbackUdpToClosedPort { packet_bytes, closed_port })
    }
}

#[cfg(test)]
mod tests {
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn loopback_has_its_own_devices() {
        let devices = read("kind = \"loopback\"").unwrap().required_devices().unwrap();
        assert_eq!((devices.input.as_str(), devices.output.as_str()), ("lo", "lo"));
    }

    #[test]
    fn what_is_no_datagram_is_refused() {
        let cases = [
            ("flood_axis = \"x\"", "no `flood_axis`; it takes `bytes`, `port`"),
            ("verify = true", "takes no `verify`"),
            ("command = \"\"", "takes no `command`"),
            ("bytes = 20", "28 to 1500"),
            ("port = 0", "above 0"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"loopback\"\n{text}"), message);
        }
    }
}
