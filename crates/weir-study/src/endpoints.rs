//! Addresses of clients and servers.

use std::net::Ipv4Addr;

/// Who opens connections to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Address of the first client.
    pub first_client: Ipv4Addr,
    /// How many clients: addresses that follow one another.
    pub client_count: u32,
    /// Address of the first server.
    pub first_server: Ipv4Addr,
    /// How many servers.
    pub server_count: u32,
    /// The servers' port.
    pub server_port: u16,
}

impl Endpoints {
    /// The shortest prefix that contains all clients.
    pub fn client_prefix(&self) -> String {
        common_prefix(self.first_client, self.client_count)
    }

    /// The shortest prefix that contains all servers.
    pub fn server_prefix(&self) -> String {
        common_prefix(self.first_server, self.server_count)
    }
}

fn common_prefix(first: Ipv4Addr, count: u32) -> String {
    let first = u32::from(first);
    let last = first.saturating_add(count.saturating_sub(1));
    let length = (first ^ last).leading_zeros();
    let network = Ipv4Addr::from(first & u32::MAX.checked_shl(32 - length).unwrap_or(0));
    format!("{network}/{length}")
}
