//! TCP connections between clients and servers: what the kinds of them have in common.

use std::net::Ipv4Addr;

use weir_stats::{ConnectionClose, Scenario};

use crate::endpoints::Endpoints;
use crate::traffic::traffic_axis::TrafficAxis;
use crate::value_limits::{MAX_CONNTRACK_TABLE_ENTRIES, MAX_RATE_PER_SECOND};

/// The first port of a client that is a socket of the kernel.
pub const FIRST_KERNEL_SOCKET_CLIENT_PORT: u16 = 1024;

/// Most SYNs of a flood for each connection.
const MAX_FLOOD_SYNS_PER_CONNECTION: u64 = 1_000_000;
/// Most concurrent connections, as a percentage of what the machine allows.
const MAX_TABLE_LIMIT_PERCENT: u64 = 1000;

/// Addresses that no client or server can have: the reason, the first one and the last one.
const UNUSABLE_ADDRESS_RANGES: [(&str, Ipv4Addr, Ipv4Addr); 5] = [
    ("of this network (RFC 1122)", Ipv4Addr::new(0, 0, 0, 0), Ipv4Addr::new(0, 255, 255, 255)),
    ("loopback addresses", Ipv4Addr::new(127, 0, 0, 0), Ipv4Addr::new(127, 255, 255, 255)),
    ("of the laboratory's links", Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(198, 18, 255, 255)),
    ("multicast addresses", Ipv4Addr::new(224, 0, 0, 0), Ipv4Addr::new(239, 255, 255, 255)),
    ("reserved or broadcast", Ipv4Addr::new(240, 0, 0, 0), Ipv4Addr::new(255, 255, 255, 255)),
];

/// Connections as a study says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLoad {
    /// Who to whom.
    pub endpoints: Endpoints,
    /// How they end.
    pub close: ConnectionClose,
    /// The axis whose values are connections per second; without it, the preset's `rate_pps`.
    pub preset_rate_override_axis: Option<String>,
    /// The axis whose values are how many of the clients take part; all without it.
    pub clients_axis: Option<String>,
    /// The same of the servers.
    pub servers_axis: Option<String>,
    /// The axis whose values are SYNs of a flood for each connection; no flood without it.
    pub flood_axis: Option<String>,
    /// Both ends verify the checksums of every packet.
    pub verify_checksums: bool,
    /// The number of concurrent connections, if they are left open.
    pub concurrency: Option<ConcurrencyTarget>,
    /// The ends are sockets of the kernel rather than the small TCP.
    pub kernel_socket_clients: Option<KernelSocketClients>,
}

/// The number of concurrent connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcurrencyTarget {
    /// So many.
    Count(u64),
    /// The value on this axis.
    CountAxis(String),
    /// The percentage, given by the value on this axis, of the entries that the machine allows in a
    /// connection table.
    TableLimitPercentAxis(String),
}

/// Sockets of the kernel as clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSocketClients {
    /// How many ports a client address has; all above 1023 without it.
    pub ports_per_client: Option<u16>,
    /// Concurrent connections of a client that sends the next request after each reply; 64 by
    /// default.
    pub closed_loop_client_connections: Option<u16>,
}

impl KernelSocketClients {
    /// Ports of one client address.
    pub fn ports_per_client(&self) -> u16 {
        self.ports_per_client.unwrap_or(u16::MAX - FIRST_KERNEL_SOCKET_CLIENT_PORT + 1)
    }
}

impl ConnectionLoad {
    /// Clients and servers that take part at a point.
    pub fn active_endpoint_counts_at(&self, point: &Scenario) -> (u32, u32) {
        let on = |axis: &Option<String>, all: u32| {
            let value = point.coordinate(axis.as_ref()?)?.as_number()?;
            Some(u32::try_from(value).unwrap_or(all).clamp(1, all))
        };
        let Endpoints { client_count: clients, server_count: servers, .. } = self.endpoints;
        (
            on(&self.clients_axis, clients).unwrap_or(clients),
            on(&self.servers_axis, servers).unwrap_or(servers),
        )
    }

    /// Every axis that they depend on.
    pub(super) fn axes(&self) -> Vec<TrafficAxis<'_>> {
        let Endpoints { client_count, server_count, .. } = self.endpoints;
        let (held, filled) = match &self.concurrency {
            Some(ConcurrencyTarget::CountAxis(axis)) => (Some(axis), None),
            Some(ConcurrencyTarget::TableLimitPercentAxis(axis)) => (None, Some(axis)),
            Some(ConcurrencyTarget::Count(_)) | None => (None, None),
        };
        let fields = [
            ("rate_axis", self.preset_rate_override_axis.as_ref(), 1..=MAX_RATE_PER_SECOND),
            ("flood_axis", self.flood_axis.as_ref(), 0..=MAX_FLOOD_SYNS_PER_CONNECTION),
            ("clients_axis", self.clients_axis.as_ref(), 1..=u64::from(client_count)),
            ("servers_axis", self.servers_axis.as_ref(), 1..=u64::from(server_count)),
            ("connections_axis", held, 1..=MAX_CONNTRACK_TABLE_ENTRIES),
            ("limit_axis", filled, 1..=MAX_TABLE_LIMIT_PERCENT),
        ];
        let named = fields.into_iter().filter_map(|(traffic_field, axis, allowed_numbers)| {
            let allowed_numbers = Some(allowed_numbers);
            axis.map(|name| TrafficAxis { name, traffic_field, offset: None, allowed_numbers })
        });
        named.collect()
    }

    /// The number of concurrent connections at a point, on a machine that allows this number of
    /// entries in a connection table.
    pub fn concurrent_connections_at(&self, point: &Scenario, table_limit: u64) -> Option<u64> {
        match self.concurrency.as_ref()? {
            ConcurrencyTarget::Count(count) => Some(*count),
            ConcurrencyTarget::CountAxis(axis) => point.coordinate(axis)?.as_number(),
            ConcurrencyTarget::TableLimitPercentAxis(axis) => {
                Some(point.coordinate(axis)?.as_number()? * table_limit / 100)
            }
        }
    }
}

impl Default for ConnectionLoad {
    /// The load of a study that specifies nothing. 198.18.0.0/15 is reserved for benchmarks of
    /// devices (RFC 2544, appendix C.2.2); the links use its first half.
    fn default() -> ConnectionLoad {
        let endpoints = Endpoints {
            first_client: Ipv4Addr::new(198, 19, 0, 0),
            client_count: 4096,
            first_server: Ipv4Addr::new(198, 19, 128, 0),
            server_count: 16,
            server_port: 80,
        };
        ConnectionLoad {
            endpoints,
            close: ConnectionClose::Fin,
            preset_rate_override_axis: None,
            flood_axis: None,
            clients_axis: None,
            servers_axis: None,
            verify_checksums: false,
            concurrency: None,
            kernel_socket_clients: None,
        }
    }
}

/// The fields of a study that say who opens connections to whom.
#[derive(Default)]
pub(super) struct EndpointFields {
    pub(super) client: Option<Ipv4Addr>,
    pub(super) clients: Option<u32>,
    pub(super) server: Option<Ipv4Addr>,
    pub(super) servers: Option<u32>,
    pub(super) port: Option<u16>,
}

impl EndpointFields {
    /// The addresses, with the usual ones for those that are not given.
    pub(super) fn into_checked_endpoints(self) -> Result<Endpoints, String> {
        let usual = ConnectionLoad::default().endpoints;
        let endpoints = Endpoints {
            first_client: self.client.unwrap_or(usual.first_client),
            client_count: self.clients.unwrap_or(usual.client_count),
            first_server: self.server.unwrap_or(usual.first_server),
            server_count: self.servers.unwrap_or(usual.server_count),
            server_port: self.port.unwrap_or(usual.server_port),
        };
        let range = |first: Ipv4Addr, count: u32| {
            let first = u64::from(u32::from(first));
            first..first + u64::from(count)
        };
        let clients = range(endpoints.first_client, endpoints.client_count);
        let servers = range(endpoints.first_server, endpoints.server_count);
        if clients.end > 1 << 32 || servers.end > 1 << 32 {
            return Err("addresses end at 255.255.255.255".to_owned());
        }
        for (field, hosts) in [("client", &clients), ("server", &servers)] {
            let has_some = |(_, first, last): &&(&str, Ipv4Addr, Ipv4Addr)| {
                hosts.start <= u64::from(u32::from(*last))
                    && u64::from(u32::from(*first)) < hosts.end
            };
            if let Some((why, first, last)) = UNUSABLE_ADDRESS_RANGES.iter().find(has_some) {
                return Err(format!(
                    "`{field}` and the {} addresses from there include some of {first} to {last}, \
                     which are {why}: choose others",
                    hosts.end - hosts.start
                ));
            }
        }
        if clients.start < servers.end && servers.start < clients.end {
            return Err("clients and servers have addresses in common".to_owned());
        }
        Ok(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_endpoint_addresses_are_refused() {
        let fields = |client: [u8; 4], clients: u32| EndpointFields {
            client: Some(client.into()),
            clients: Some(clients),
            ..EndpointFields::default()
        };
        for (client, clients) in [([192, 0, 2, 1], 4), ([223, 255, 255, 255], 1), ([1, 0, 0, 0], 9)]
        {
            assert!(fields(client, clients).into_checked_endpoints().is_ok(), "{client:?}");
        }
        let cases = [
            (fields([198, 19, 0, 0], 4_000_000_000), "255.255.255.255"),
            (fields([198, 19, 127, 0], 300), "in common"),
            (fields([224, 0, 0, 1], 1), "`client` and the 1 addresses from there"),
            (fields([223, 255, 255, 255], 2), "multicast"),
            (fields([255, 255, 255, 255], 1), "broadcast"),
            (fields([0, 0, 0, 0], 1), "this network"),
            (fields([126, 255, 255, 255], 2), "loopback"),
            (fields([198, 18, 0, 1], 1), "links"),
            (
                EndpointFields { server: Some([239, 0, 0, 1].into()), ..EndpointFields::default() },
                "`server`",
            ),
        ];
        for (fields, message) in cases {
            let error = fields.into_checked_endpoints().unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
