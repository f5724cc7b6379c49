//! Kind `sockets`: connections of kernel sockets, at rates that an axis sets: a client with planned
//! times cannot overload.

use std::net::Ipv4Addr;

use serde::Deserialize;
use weir_stats::ConnectionClose;

use crate::supported_workload_features::{
    NOT_IMPLEMENTED_OVER_HOSTS, SENDS_NO_FRAMES, WorkloadFeatures,
};
use crate::traffic::connection_load::{ConnectionLoad, EndpointFields, KernelSocketClients};
use crate::traffic::traffic_kind::TrafficKind;

/// Connections of kernel sockets, unless a subject names another client.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "SocketsDefinition")]
pub struct SocketConnections(pub ConnectionLoad);

static SOCKETS_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `sockets`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Err(NOT_IMPLEMENTED_OVER_HOSTS),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Err("has its rates on `rate_axis`"),
    conntrack_table_size: Ok(()),
};

impl TrafficKind for SocketConnections {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        &SOCKETS_WORKLOAD_FEATURES
    }

    fn connection_load(&self) -> Option<&ConnectionLoad> {
        Some(&self.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SocketsDefinition {
    rate_axis: Option<String>,
    client: Option<Ipv4Addr>,
    clients: Option<u32>,
    clients_axis: Option<String>,
    server: Option<Ipv4Addr>,
    servers: Option<u32>,
    port: Option<u16>,
    ports: Option<u16>,
    #[serde(rename = "at_once")]
    closed_loop_client_connections: Option<u16>,
}

impl TryFrom<SocketsDefinition> for SocketConnections {
    type Error = String;

    fn try_from(text: SocketsDefinition) -> Result<SocketConnections, String> {
        let SocketsDefinition {
            client,
            clients,
            server,
            servers,
            port,
            ports,
            closed_loop_client_connections: at_once,
            ..
        } = text;
        if text.rate_axis.is_none() {
            return Err("kind `sockets` needs `rate_axis`: connections have planned times".into());
        }
        let endpoints = EndpointFields { client, clients, server, servers, port };
        Ok(SocketConnections(ConnectionLoad {
            endpoints: endpoints.into_checked_endpoints()?,
            close: ConnectionClose::Fin,
            preset_rate_override_axis: text.rate_axis,
            flood_axis: None,
            clients_axis: text.clients_axis,
            servers_axis: None,
            verify_checksums: false,
            concurrency: None,
            kernel_socket_clients: Some(KernelSocketClients {
                ports_per_client: ports,
                closed_loop_client_connections: at_once,
            }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::traffic::tests::assert_refused;

    #[test]
    fn invalid_sockets_traffic_is_refused() {
        let own = "`rate_axis`, `client`, `clients`, `clients_axis`, `server`, `servers`, `port`, \
                   `ports`, `at_once`";
        let cases = [
            ("", "needs `rate_axis`"),
            ("rate_axis = \"x\"\nclose = \"fin\"", &format!("no `close`; it takes {own}")),
            ("rate_axis = \"x\"\nports = 65000", "1 to 64512"),
            ("rate_axis = \"x\"\nports = 0", "1 to 64512"),
            ("rate_axis = \"x\"\nat_once = 0", "takes 1 to 65535"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"sockets\"\n{text}"), message);
        }
    }
}
