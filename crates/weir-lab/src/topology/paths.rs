//! The way between clients and servers: through a gateway, through its one arm, or straight.
//!
//! ```text
//! gateway     clients ── eth0  routing  eth1 ── servers
//! one-armed   clients ─┐
//!             servers ─┴─ eth0  routing
//! direct      clients ── servers
//! ```
//!
//! A gateway with one arm is on the network of both ends, which is when the kernel tells senders
//! of a shorter way. Both ends stand behind one device then, for a switch between them would cost
//! more than the gateway.

use std::net::Ipv4Addr;

use weir_kernel::{LinkEnd, Namespace, VethOptions};

use super::{FIREWALL_MAC, Firewall, SINK_MAC, SOURCE_MAC, Topology, end, mac_text};
use crate::LabError;
use crate::observe::counters::DeviceReader;
use crate::program::tcp::TcpEnds;
use weir_study::ConnectionPath;
use weir_study::Endpoints;

impl Topology {
    /// Makes what is between clients and servers on their way. On the direct one that is nothing,
    /// and the namespace of the answer is an empty one.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn between(
        &mut self,
        way: ConnectionPath,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<Firewall, LabError> {
        let is_there = way == ConnectionPath::Gateway || self.other_host().is_none();
        assert!(is_there, "other ways over hosts are refused before a run");
        match way {
            ConnectionPath::Gateway => self.firewall_between(ends, endpoints),
            ConnectionPath::OneArmed => self.one_armed(ends, endpoints),
            ConnectionPath::Direct => self.straight(ends),
        }
    }

    fn one_armed(
        &mut self,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<Firewall, LabError> {
        let (namespace, near) = self.gateway(false)?;
        let arm = self.devices.input.clone();
        namespace.ip(&on_link(endpoints, &arm))?;
        let ifindex = self.source.ifindex(&near)?;
        ends.attach_both(&self.source, ifindex)?;
        let devices = DeviceReader::open(&[(&namespace, arm.as_str())])?;
        self.firewall_of(namespace, ifindex, devices, (near.clone(), near))
    }

    fn straight(&mut self, ends: &mut TcpEnds) -> Result<Firewall, LabError> {
        let nothing = self.bare_here()?;
        let (near, far) = self.one_link()?;
        let ifindex = self.source.ifindex(&near)?;
        ends.attach_client(&self.source, ifindex)?;
        ends.attach_server(&self.sink_side, self.sink_side.ifindex(&far)?)?;
        // Either end of a veth tells what both of them lost.
        let devices = DeviceReader::open(&[(&self.sink_side, far.as_str())])?;
        self.firewall_of(nothing, ifindex, devices, (near, far))
    }

    /// One link between source and sink, nothing attached to its ends.
    pub(super) fn one_link(&mut self) -> Result<(String, String), LabError> {
        let number = self.links;
        self.links += 1;
        let (near, far) = (format!("f{number}"), format!("k{number}"));
        let options = VethOptions {
            a: end(SOURCE_MAC),
            b: end(FIREWALL_MAC),
            gro: true,
            ..VethOptions::default()
        };
        self.session.veth(&self.source, &near, &self.sink_side, &far, &options)?;
        Ok((near, far))
    }

    /// A forwarding namespace with its link to the source, and that link's other end.
    pub(super) fn gateway(&mut self, ipv6: bool) -> Result<(Namespace, String), LabError> {
        let number = self.links;
        self.links += 1;
        let namespace = self.session.namespace(&format!("fw{number}"))?;
        super::quieten(&namespace, ipv6)?;
        let near = format!("f{number}");
        let addrs = super::addresses("198.18.0.1/24", "2001:2:0:1::1/64", ipv6);
        let options = VethOptions {
            a: end(SOURCE_MAC),
            b: LinkEnd { addrs, ..end(FIREWALL_MAC) },
            gro: true,
            ..VethOptions::default()
        };
        self.session.veth(&self.source, &near, &namespace, &self.devices.input, &options)?;
        Ok((namespace, near))
    }
}

/// Every client and every server is a neighbour on the device's own network.
fn on_link(endpoints: &Endpoints, device: &str) -> Vec<String> {
    let sides = [
        (endpoints.client, endpoints.clients, mac_text(SOURCE_MAC)),
        (endpoints.server, endpoints.servers, mac_text(SINK_MAC)),
    ];
    let neighbours = sides.iter().flat_map(|(first, count, mac)| {
        (0..*count).flat_map(move |at| {
            let address = Ipv4Addr::from(u32::from(*first).saturating_add(at));
            [
                format!("neigh replace {address} lladdr {mac} nud permanent dev {device}"),
                format!("route replace {address}/32 dev {device} scope link"),
            ]
        })
    });
    neighbours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_and_server_is_on_link() {
        let endpoints = Endpoints {
            client: Ipv4Addr::new(198, 19, 0, 255),
            clients: 2,
            server: Ipv4Addr::new(198, 19, 128, 0),
            servers: 1,
            port: 80,
        };
        let lines = on_link(&endpoints, "eth0");
        assert_eq!(lines.len(), 6, "a neighbour and a route for each");
        assert!(lines[3].starts_with("route replace 198.19.1.0/32 dev eth0"), "{lines:?}");
        assert!(lines[4].contains("198.19.128.0 lladdr 02:00:00:00:00:04"), "{lines:?}");
    }
}
