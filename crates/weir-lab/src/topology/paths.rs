//! The path between clients and servers: through a gateway, through a one-armed gateway, or direct.
//!
//! ```text
//! gateway     clients ── eth0  routing  eth1 ── servers
//! one-armed   clients ─┐
//!             servers ─┴─ eth0  routing
//! direct      clients ── servers
//! ```
//!
//! A one-armed gateway is on the network of both ends, which is when the kernel sends redirects.
//! Both ends then share one device, because a switch between them would cost more than the gateway.

use std::net::Ipv4Addr;

use weir_study::Endpoints;

use crate::LabError;
use crate::host::router::{SINK_MAC, SOURCE_MAC, mac_text};
use crate::observe::counters::DeviceReader;
use crate::program::tcp::TcpEnds;
use crate::topology::firewall::TestFirewall;
use crate::topology::local::LocalTestbed;

/// A gateway with one arm.
pub(super) fn one_armed(
    testbed: &mut LocalTestbed,
    ends: &mut TcpEnds,
    endpoints: &Endpoints,
) -> Result<TestFirewall, LabError> {
    let (namespace, near) = testbed.gateway(false)?;
    let arm = testbed.devices.input.clone();
    namespace.ip(&on_link(endpoints, &arm))?;
    let ifindex = testbed.source.ifindex(&near)?;
    ends.attach_both(&testbed.source, ifindex)?;
    let devices = DeviceReader::default().with(&namespace, &[arm.as_str()])?;
    testbed.firewall_of(namespace, ifindex, devices, (near.clone(), near))
}

/// One link and nothing between its ends; the namespace of the answer is an empty one.
pub(super) fn direct(
    testbed: &mut LocalTestbed,
    ends: &mut TcpEnds,
) -> Result<TestFirewall, LabError> {
    let nothing = testbed.bare()?;
    let (near, far) = testbed.one_link()?;
    let ifindex = testbed.source.ifindex(&near)?;
    ends.attach_client(&testbed.source, ifindex)?;
    ends.attach_server(&testbed.sink_side, testbed.sink_side.ifindex(&far)?)?;
    // Either end of a veth reports the losses of both.
    let devices = DeviceReader::default().with(&testbed.sink_side, &[far.as_str()])?;
    testbed.firewall_of(nothing, ifindex, devices, (near, far))
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
