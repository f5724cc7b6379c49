//! TCP connections between clients and servers: what the kinds of them have in common.

use std::net::Ipv4Addr;

use weir_stats::{ConnectionClose, Scenario};

use crate::endpoints::Endpoints;

/// The first port of a client that is a socket of the kernel.
pub const FIRST_KERNEL_SOCKET_CLIENT_PORT: u16 = 1024;

/// Connections as a study says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLoad {
    /// Who to whom.
    pub endpoints: Endpoints,
    /// How they end.
    pub close: ConnectionClose,
    /// The axis whose values are connections per second; without it, the preset's `rate_pps`.
    pub rate_axis: Option<String>,
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
    pub sockets: Option<KernelSocketClients>,
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
    pub max_concurrent_connections: Option<u16>,
}

impl KernelSocketClients {
    /// Ports of one client address.
    pub fn ports_per_client(&self) -> u16 {
        self.ports_per_client.unwrap_or(u16::MAX - FIRST_KERNEL_SOCKET_CLIENT_PORT + 1)
    }
}

impl ConcurrencyTarget {
    /// The axis that it depends on.
    pub fn axis_name(&self) -> Option<&String> {
        match self {
            ConcurrencyTarget::Count(_) => None,
            ConcurrencyTarget::CountAxis(axis) | ConcurrencyTarget::TableLimitPercentAxis(axis) => {
                Some(axis)
            }
        }
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
    pub fn axis_names(&self) -> impl Iterator<Item = &String> {
        let held = self.concurrency.as_ref().and_then(ConcurrencyTarget::axis_name);
        let ConnectionLoad { rate_axis, flood_axis, clients_axis, servers_axis, .. } = self;
        let all = [rate_axis, flood_axis, clients_axis, servers_axis].map(Option::as_ref);
        all.into_iter().flatten().chain(held)
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
    /// What a study gets that says nothing else. 198.18.0.0/15 is for measurements of devices (RFC
    /// 2544, appendix C.2.2); its first half is for the links.
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
            rate_axis: None,
            flood_axis: None,
            clients_axis: None,
            servers_axis: None,
            verify_checksums: false,
            concurrency: None,
            sockets: None,
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
    pub(super) fn parse_endpoints(self) -> Result<Endpoints, String> {
        let usual = ConnectionLoad::default().endpoints;
        let endpoints = Endpoints {
            first_client: self.client.unwrap_or(usual.first_client),
            client_count: self.clients.unwrap_or(usual.client_count),
            first_server: self.server.unwrap_or(usual.first_server),
            server_count: self.servers.unwrap_or(usual.server_count),
            server_port: self.port.unwrap_or(usual.server_port),
        };
        if endpoints.client_count == 0 || endpoints.server_count == 0 || endpoints.server_port == 0
        {
            return Err("connections need clients, servers and a port, all above 0".to_owned());
        }
        let range = |first: Ipv4Addr, count: u32| {
            let first = u64::from(u32::from(first));
            first..first + u64::from(count)
        };
        let clients = range(endpoints.first_client, endpoints.client_count);
        let servers = range(endpoints.first_server, endpoints.server_count);
        if clients.end > 1 << 32 || servers.end > 1 << 32 {
            return Err("addresses end at 255.255.255.255".to_owned());
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
    fn addresses_that_no_one_can_have_are_refused() {
        let cases = [
            (EndpointFields { servers: Some(0), ..EndpointFields::default() }, "above 0"),
            (
                EndpointFields { clients: Some(4_000_000_000), ..EndpointFields::default() },
                "255.255.255.255",
            ),
            (
                EndpointFields {
                    server: Some(Ipv4Addr::new(198, 19, 1, 0)),
                    ..EndpointFields::default()
                },
                "in common",
            ),
        ];
        for (fields, message) in cases {
            let error = fields.parse_endpoints().unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
