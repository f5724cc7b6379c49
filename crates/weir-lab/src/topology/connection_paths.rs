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
use crate::bpf_program::stateless_tcp::StatelessTcpEndpoints;
use crate::host::router_config::{SINK_MAC, SOURCE_MAC, format_mac};
use crate::observe::kernel_counters::DeviceDropCounterReader;
use crate::topology::firewall_under_test::FirewallWithCounters;
use crate::topology::local::LocalTestbed;

/// A gateway with one arm.
pub(super) fn create_one_armed_gateway(
    testbed: &mut LocalTestbed,
    ends: &mut StatelessTcpEndpoints,
    endpoints: &Endpoints,
) -> Result<FirewallWithCounters, LabError> {
    let (namespace, near) = testbed.create_one_link_gateway(false)?;
    let arm = testbed.firewall_devices.input.clone();
    namespace.run_ip_batch(&on_link_neighbour_route_commands(endpoints, &arm))?;
    let ifindex = testbed.source_namespace.ifindex(&near)?;
    ends.attach_both_ends_to_device(&testbed.source_namespace, ifindex)?;
    let devices = DeviceDropCounterReader::default()
        .add_devices_rx_and_tx_drops(&namespace, &[arm.as_str()])?;
    testbed.assemble_firewall(namespace, ifindex, devices, (near.clone(), near))
}

/// One link and nothing between its ends; the namespace of the answer is an empty one.
pub(super) fn create_direct_path(
    testbed: &mut LocalTestbed,
    ends: &mut StatelessTcpEndpoints,
) -> Result<FirewallWithCounters, LabError> {
    let nothing = testbed.create_isolated_namespace_with_firewall_devices()?;
    let (near, far) = testbed.create_direct_link()?;
    let ifindex = testbed.source_namespace.ifindex(&near)?;
    ends.attach_client(&testbed.source_namespace, ifindex)?;
    ends.attach_server(&testbed.sink_namespace, testbed.sink_namespace.ifindex(&far)?)?;
    // Either end of a veth reports the losses of both.
    let devices = DeviceDropCounterReader::default()
        .add_devices_rx_and_tx_drops(&testbed.sink_namespace, &[far.as_str()])?;
    testbed.assemble_firewall(nothing, ifindex, devices, (near, far))
}

/// Every client and every server is a neighbour on the device's own network.
fn on_link_neighbour_route_commands(endpoints: &Endpoints, device: &str) -> Vec<String> {
    let sides = [
        (endpoints.first_client, endpoints.client_count, format_mac(SOURCE_MAC)),
        (endpoints.first_server, endpoints.server_count, format_mac(SINK_MAC)),
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
            first_client: Ipv4Addr::new(198, 19, 0, 255),
            client_count: 2,
            first_server: Ipv4Addr::new(198, 19, 128, 0),
            server_count: 1,
            server_port: 80,
        };
        let lines = on_link_neighbour_route_commands(&endpoints, "eth0");
        assert_eq!(lines.len(), 6, "a neighbour and a route for each");
        assert!(lines[3].starts_with("route replace 198.19.1.0/32 dev eth0"), "{lines:?}");
        assert!(lines[4].contains("198.19.128.0 lladdr 02:00:00:00:00:04"), "{lines:?}");
    }
}
