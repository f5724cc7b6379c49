//! A gateway between clients and servers.

use weir_study::Endpoints;
use weir_study::FirewallDevices;
use weir_study::traffic::FIRST_KERNEL_SOCKET_CLIENT_PORT;

use crate::LabError;
use crate::bpf_program::stateless_tcp::StatelessTcpEndpoints;
use crate::host::router_config::{
    FIREWALL_IN_GATEWAY_IP, FIREWALL_IN_MAC, FIREWALL_OUT_GATEWAY_IP, FIREWALL_OUT_MAC, SOURCE_MAC,
    format_mac, neighbour_and_client_route_commands,
};
use crate::observe::kernel_counters::DeviceDropCounterReader;
use crate::topology::firewall_under_test::FirewallWithCounters;
use crate::topology::local::{GatewayWithEndDevices, LocalTestbed};

/// Makes a firewall between clients and servers that forwards everything in both directions.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn create_stateless_tcp_gateway(
    testbed: &mut LocalTestbed,
    ends: &mut StatelessTcpEndpoints,
    endpoints: &Endpoints,
) -> Result<FirewallWithCounters, LabError> {
    let GatewayWithEndDevices { namespace, source_device: near, sink_device: far } =
        testbed.create_two_link_gateway(false)?;
    let FirewallDevices { input, output } = &testbed.firewall_devices;
    namespace.run_ip_batch(&neighbour_and_client_route_commands(
        &endpoints.client_prefix(),
        SOURCE_MAC,
        input,
    ))?;
    // Replies are redirected into this device, which accepts them only with a NAPI context.
    namespace.set_gro(output, true)?;
    let ifindex = testbed.source_namespace.ifindex(&near)?;
    ends.attach_client(&testbed.source_namespace, ifindex)?;
    ends.attach_server(&testbed.sink_namespace, testbed.sink_namespace.ifindex(&far)?)?;
    // Both devices receive redirected packets: only they count those that they lose.
    let devices = DeviceDropCounterReader::default()
        .add_devices_rx_and_tx_drops(&namespace, &[input, output])?;
    testbed.assemble_firewall(namespace, ifindex, devices, (near, far))
}

/// Creates a firewall between clients and servers that are kernel sockets: every address is one of
/// source or sink, and a socket that is bound to a device selects the path by it. `ports` are those
/// of one client address.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn create_kernel_socket_gateway(
    testbed: &mut LocalTestbed,
    endpoints: &Endpoints,
    ports: u16,
) -> Result<FirewallWithCounters, LabError> {
    let GatewayWithEndDevices { namespace, source_device: near, sink_device: far } =
        testbed.create_two_link_gateway(false)?;
    let FirewallDevices { input, output } = &testbed.firewall_devices;
    let (clients, servers) = (endpoints.client_prefix(), endpoints.server_prefix());
    namespace.run_ip_batch(&neighbour_and_client_route_commands(&clients, SOURCE_MAC, input))?;
    for (side, own, other, gateway, mac, device) in [
        (
            &testbed.source_namespace,
            &clients,
            &servers,
            FIREWALL_IN_GATEWAY_IP,
            FIREWALL_IN_MAC,
            &near,
        ),
        (
            &testbed.sink_namespace,
            &servers,
            &clients,
            FIREWALL_OUT_GATEWAY_IP,
            FIREWALL_OUT_MAC,
            &far,
        ),
    ] {
        for part in ["all", "default"] {
            side.set_sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
        }
        side.set_sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        let (mac, metric) = (format_mac(mac), testbed.testbed_object_count());
        side.run_ip_batch(&[
            "link set dev lo up".to_owned(),
            format!("route replace local {own} dev lo"),
            format!("neigh replace {gateway} lladdr {mac} nud permanent dev {device}"),
            format!("route add {other} via {gateway} dev {device} onlink metric {metric}"),
        ])?;
    }
    let first = FIRST_KERNEL_SOCKET_CLIENT_PORT;
    let range = format!("{first} {}", u32::from(first) + u32::from(ports) - 1);
    testbed.source_namespace.set_sysctl("net.ipv4.ip_local_port_range", &range)?;
    // SYNs after 1 and 3 seconds, and no more: every client gives up before 7.
    testbed.source_namespace.set_sysctl("net.ipv4.tcp_syn_retries", "2")?;
    testbed.sink_namespace.set_sysctl("net.core.somaxconn", "65535")?;
    // Beyond it the kernel forgets connections at once rather than after a minute, and their
    // ports are free (tcp_time_wait in net/ipv4/tcp_minisocks.c): later trials would find more.
    testbed.source_namespace.set_sysctl("net.ipv4.tcp_max_tw_buckets", "4194304")?;
    let devices = DeviceDropCounterReader::default()
        .add_devices_rx_and_tx_drops(&namespace, &[input, output])?;
    let ifindex = testbed.source_namespace.ifindex(&near)?;
    testbed.assemble_firewall(namespace, ifindex, devices, (near, far))
}
