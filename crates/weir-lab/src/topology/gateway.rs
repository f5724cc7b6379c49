//! A gateway between clients and servers.

use weir_study::Devices;
use weir_study::Endpoints;
use weir_study::traffic::FIRST_PORT;

use crate::LabError;
use crate::host::router::{
    FIREWALL_MAC, GATEWAY_ADDRESS, OUT_MAC, OUTER_ADDRESS, SOURCE_MAC, mac_text, return_route,
};
use crate::observe::counters::DeviceReader;
use crate::program::tcp::TcpEnds;
use crate::topology::firewall::TestFirewall;
use crate::topology::local::{Link, LocalTestbed};

/// Makes a firewall between clients and servers that forwards everything in both directions.
///
/// # Errors
/// Where the kernel refuses.
pub(super) fn between(
    testbed: &mut LocalTestbed,
    ends: &mut TcpEnds,
    endpoints: &Endpoints,
) -> Result<TestFirewall, LabError> {
    let Link { namespace, near, far } = testbed.link(false)?;
    let Devices { input, output } = &testbed.devices;
    namespace.ip(&return_route(&endpoints.client_network(), SOURCE_MAC, input))?;
    // Replies are redirected into this device, which accepts them only with a NAPI context.
    namespace.set_gro(output, true)?;
    let ifindex = testbed.source.ifindex(&near)?;
    ends.attach_client(&testbed.source, ifindex)?;
    ends.attach_server(&testbed.sink_side, testbed.sink_side.ifindex(&far)?)?;
    // Both devices receive redirected packets: only they count those that they lose.
    let devices = DeviceReader::default().with(&namespace, &[input, output])?;
    testbed.firewall_of(namespace, ifindex, devices, (near, far))
}

/// Creates a firewall between clients and servers that are kernel sockets: every address is one of
/// source or sink, and a socket that is bound to a device selects the path by it. `ports` are those
/// of one client address.
///
/// # Errors
/// Where the kernel refuses.
pub(super) fn for_sockets(
    testbed: &mut LocalTestbed,
    endpoints: &Endpoints,
    ports: u16,
) -> Result<TestFirewall, LabError> {
    let Link { namespace, near, far } = testbed.link(false)?;
    let Devices { input, output } = &testbed.devices;
    let (clients, servers) = (endpoints.client_network(), endpoints.server_network());
    namespace.ip(&return_route(&clients, SOURCE_MAC, input))?;
    for (side, own, other, gateway, mac, device) in [
        (&testbed.source, &clients, &servers, GATEWAY_ADDRESS, FIREWALL_MAC, &near),
        (&testbed.sink_side, &servers, &clients, OUTER_ADDRESS, OUT_MAC, &far),
    ] {
        for part in ["all", "default"] {
            side.sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
        }
        side.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        let (mac, metric) = (mac_text(mac), testbed.links());
        side.ip(&[
            "link set dev lo up".to_owned(),
            format!("route replace local {own} dev lo"),
            format!("neigh replace {gateway} lladdr {mac} nud permanent dev {device}"),
            format!("route add {other} via {gateway} dev {device} onlink metric {metric}"),
        ])?;
    }
    let first = FIRST_PORT;
    let range = format!("{first} {}", u32::from(first) + u32::from(ports) - 1);
    testbed.source.sysctl("net.ipv4.ip_local_port_range", &range)?;
    // SYNs after 1 and 3 seconds, and no more: every client gives up before 7.
    testbed.source.sysctl("net.ipv4.tcp_syn_retries", "2")?;
    testbed.sink_side.sysctl("net.core.somaxconn", "65535")?;
    // Beyond it the kernel forgets connections at once rather than after a minute, and their
    // ports are free (tcp_time_wait in net/ipv4/tcp_minisocks.c): later trials would find more.
    testbed.source.sysctl("net.ipv4.tcp_max_tw_buckets", "4194304")?;
    let devices = DeviceReader::default().with(&namespace, &[input, output])?;
    let ifindex = testbed.source.ifindex(&near)?;
    testbed.firewall_of(namespace, ifindex, devices, (near, far))
}
