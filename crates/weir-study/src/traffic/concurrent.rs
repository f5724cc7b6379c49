//! Kind `concurrent`: connections of the small TCP that are left open.

use std::net::Ipv4Addr;

use serde::Deserialize;
use weir_stats::ConnectionClose;

use crate::supported_workload_features::{SENDS_NO_FRAMES, WorkloadFeatures};
use crate::traffic::connection_load::{ConcurrencyTarget, ConnectionLoad, EndpointFields};
use crate::traffic::traffic_kind::TrafficKind;

/// Connections of the small TCP that are left open: its `concurrency` says how many.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ConcurrentDefinition")]
pub struct ConcurrentConnections(pub ConnectionLoad);

static CONCURRENT_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `concurrent`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Ok(()),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Ok(()),
    conntrack_table_size: Ok(()),
};

impl TrafficKind for ConcurrentConnections {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        &CONCURRENT_WORKLOAD_FEATURES
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

impl TryFrom<ConcurrentDefinition> for ConcurrentConnections {
    type Error = String;

    fn try_from(text: ConcurrentDefinition) -> Result<ConcurrentConnections, String> {
        let target = match (text.connections, text.connections_axis, text.limit_axis) {
            (Some(count), None, None) => ConcurrencyTarget::Count(count),
            (None, Some(axis), None) => ConcurrencyTarget::CountAxis(axis),
            (None, None, Some(axis)) => ConcurrencyTarget::TableLimitPercentAxis(axis),
            (count, count_axis, limit_axis) => {
                let given = [count.is_some(), count_axis.is_some(), limit_axis.is_some()];
                return Err(explain_wrong_target_field_count(given));
            }
        };
        let ConcurrentDefinition { client, clients, server, servers, port, .. } = text;
        let endpoints = EndpointFields { client, clients, server, servers, port };
        Ok(ConcurrentConnections(ConnectionLoad {
            endpoints: endpoints.into_checked_endpoints()?,
            close: ConnectionClose::Never,
            preset_rate_override_axis: text.preset_rate_override_axis,
            flood_axis: text.flood_axis,
            clients_axis: text.clients_axis,
            servers_axis: text.servers_axis,
            verify_checksums: text.verify.unwrap_or(false),
            concurrency: Some(target),
            kernel_socket_clients: None,
        }))
    }
}

/// Fields that say how many connections are left open.
const CONCURRENCY_TARGET_FIELDS: [&str; 3] =
    ["`connections`", "`connections_axis`", "`limit_axis`"];

/// What is wrong if not exactly one of the target fields is given.
fn explain_wrong_target_field_count(is_given: [bool; 3]) -> String {
    let given = CONCURRENCY_TARGET_FIELDS.iter().zip(is_given).filter(|(_, is_given)| *is_given);
    let given: Vec<&str> = given.map(|(field, _)| *field).collect();
    let fields = CONCURRENCY_TARGET_FIELDS.join(", ");
    if given.is_empty() {
        return format!("kind `concurrent` has none of {fields}: it needs one");
    }
    let given = given.join(" and ");
    format!("kind `concurrent` has {given}: they exclude each other, keep one")
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
    fn invalid_concurrent_traffic_is_refused() {
        let cases = [
            (
                "",
                ":1: kind `concurrent` has none of `connections`, `connections_axis`, `limit_axis`",
            ),
            ("connections = 0", ":3: `connections` is 0: it takes 1 to 2147483647"),
            (
                "limit_axis = \"x\"\nconnections = 9",
                "has `connections` and `limit_axis`: they exclude each other, keep one",
            ),
            (
                "limit_axis = \"x\"\nconnections_axis = \"y\"",
                "has `connections_axis` and `limit_axis`: they exclude each other",
            ),
            ("connections = 9\nclose = \"fin\"", "no `close`"),
        ];
        for (text, message) in cases {
            assert_refused(&format!("kind = \"concurrent\"\n{text}"), message);
        }
    }
}
