//! Kind `concurrent`: connections of the small TCP that are left open.

use std::net::Ipv4Addr;

use serde::Deserialize;
use weir_stats::ConnectionClose;

use crate::traffic::connection_load::{ConcurrencyTarget, ConnectionLoad, EndpointFields};
use crate::traffic::traffic_kind::TrafficKind;
use crate::workload::{SENDS_NO_FRAMES, WorkloadRow};

/// Connections of the small TCP that are left open: its `concurrency` says how many.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ConcurrentDefinition")]
pub struct ConcurrentConnections(pub ConnectionLoad);

static CONCURRENT: WorkloadRow = WorkloadRow {
    name: "kind `concurrent`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Ok(()),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Ok(()),
    conntrack_table_size: Ok(()),
};

impl TrafficKind for ConcurrentConnections {
    fn workload_row(&self) -> &'static WorkloadRow {
        &CONCURRENT
    }

    fn connection_load(&self) -> Option<&ConnectionLoad> {
        Some(&self.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConcurrentDefinition {
    connections: Option<u64>,
    connections_axis: Option<String>,
    limit_axis: Option<String>,
    rate_axis: Option<String>,
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

impl TryFrom<ConcurrentDefinition> for ConcurrentConnections {
    type Error = String;

    fn try_from(text: ConcurrentDefinition) -> Result<ConcurrentConnections, String> {
        let target = match (text.connections, text.connections_axis, text.limit_axis) {
            (Some(count), None, None) if count > 0 => ConcurrencyTarget::Count(count),
            (None, Some(axis), None) => ConcurrencyTarget::CountAxis(axis),
            (None, None, Some(axis)) => ConcurrencyTarget::TableLimitPercentAxis(axis),
            _ => return Err("kind `concurrent` needs `connections` or an axis of them".into()),
        };
        let ConcurrentDefinition { client, clients, server, servers, port, .. } = text;
        let endpoints = EndpointFields { client, clients, server, servers, port };
        Ok(ConcurrentConnections(ConnectionLoad {
            endpoints: endpoints.parse_endpoints()?,
            close: ConnectionClose::Never,
            rate_axis: text.rate_axis,
            flood_axis: text.flood_axis,
            clients_axis: text.clients_axis,
            servers_axis: text.servers_axis,
            verify_checksums: text.verify.unwrap_or(false),
            concurrency: Some(target),
            sockets: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn concurrent_connections_stay_open() {
        let traffic = read("kind = \"concurrent\"\nlimit_axis = \"filled\"").unwrap();
        let load = traffic.connection_load().expect("they are connections");
        assert_eq!(load.close, ConnectionClose::Never);
        let target = ConcurrencyTarget::TableLimitPercentAxis("filled".to_owned());
        assert_eq!(load.concurrency, Some(target));
    }

    #[test]
    fn what_is_no_number_of_open_connections_is_refused() {
        let cases = [
            ("", "needs `connections`"),
            ("connections = 0", "needs `connections`"),
            ("limit_axis = \"x\"\nconnections = 9", "needs `connections`"),
            ("connections = 9\nclose = \"fin\"", "no `close`"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"concurrent\"\n{text}"), message);
        }
    }
}
