//! Kind `connections`: new connections of the small TCP.

use std::net::Ipv4Addr;

use serde::Deserialize;
use weir_stats::ConnectionClose;

use crate::supported_workload_features::{SENDS_NO_FRAMES, WorkloadFeatures};
use crate::traffic::connection_load::{ConnectionLoad, EndpointFields};
use crate::traffic::traffic_kind::TrafficKind;

/// New connections of the small TCP.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ConnectionsDefinition")]
pub struct NewConnections(pub ConnectionLoad);

static CONNECTIONS_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `connections`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Ok(()),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Ok(()),
    conntrack_table_size: Ok(()),
};

impl TrafficKind for NewConnections {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        &CONNECTIONS_WORKLOAD_FEATURES
    }

    fn connection_load(&self) -> Option<&ConnectionLoad> {
        Some(&self.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectionsDefinition {
    close: Option<ConnectionClose>,
    #[serde(rename = "rate_axis")]
    preset_rate_override_axis: Option<String>,
    flood_axis: Option<String>,
    verify: Option<bool>,
    client: Option<Ipv4Addr>,
    clients: Option<u32>,
    clients_axis: Option<String>,
    server: Option<Ipv4Addr>,
    servers: Option<u32>,
    servers_axis: Option<String>,
    port: Option<u16>,
}

impl TryFrom<ConnectionsDefinition> for NewConnections {
    type Error = String;

    fn try_from(text: ConnectionsDefinition) -> Result<NewConnections, String> {
        let ConnectionsDefinition { client, clients, server, servers, port, .. } = text;
        let endpoints = EndpointFields { client, clients, server, servers, port };
        Ok(NewConnections(ConnectionLoad {
            endpoints: endpoints.into_checked_endpoints()?,
            close: text.close.unwrap_or(ConnectionClose::Fin),
            preset_rate_override_axis: text.preset_rate_override_axis,
            flood_axis: text.flood_axis,
            clients_axis: text.clients_axis,
            servers_axis: text.servers_axis,
            verify_checksums: text.verify.unwrap_or(false),
            concurrency: None,
            kernel_socket_clients: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn connections_have_defaults() {
        let traffic = read("kind = \"connections\"").unwrap();
        let load = traffic.connection_load().expect("connections are connections");
        assert_eq!(load.close, ConnectionClose::Fin);
        assert_eq!((load.endpoints.server_port, load.endpoints.client_count), (80, 4096));
    }

    #[test]
    fn invalid_connections_traffic_is_refused() {
        let cases = [
            ("at_once = 9", "takes no `at_once`"),
            ("ports = 9", "takes no `ports`"),
            ("drop_axis = \"x\"", "takes no `drop_axis`"),
            ("limit_axis = \"x\"", "takes no `limit_axis`"),
            ("command = \"true\"", "no `command`"),
            ("bytes = 100", "takes no `bytes`"),
            ("connections = 9", "takes no `connections`"),
            ("servers = 0", "takes 1 to 4294967295"),
            ("close = \"slam\"", "slam"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"connections\"\n{text}"), message);
        }
    }
}
