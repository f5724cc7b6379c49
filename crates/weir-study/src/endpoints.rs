//! Addresses of clients and servers.

use std::net::Ipv4Addr;

/// Who opens connections to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Address of the first client.
    pub client: Ipv4Addr,
    /// How many clients: addresses that follow one another.
    pub clients: u32,
    /// Address of the first server.
    pub server: Ipv4Addr,
    /// How many servers.
    pub servers: u32,
    /// The servers' port.
    pub port: u16,
}

impl Endpoints {
    /// The shortest prefix that contains all clients.
    pub fn client_network(&self) -> String {
        network(self.client, self.clients)
    }

    /// The shortest prefix that contains all servers.
    pub fn server_network(&self) -> String {
        network(self.server, self.servers)
    }
}

fn network(first: Ipv4Addr, count: u32) -> String {
    let first = u32::from(first);
    let last = first.saturating_add(count.saturating_sub(1));
    let length = (first ^ last).leading_zeros();
    let network = Ipv4Addr::from(first & u32::MAX.checked_shl(32 - length).unwrap_or(0));
    format!("{network}/{length}")
}
