//! Configures a namespace as a router between source and sink: addresses, routes, neighbours,
//! sysctls.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use weir_kernel::{KernelError, Namespace};
use weir_packet::Mac;
use weir_study::FirewallDevices;

use crate::LabError;
use crate::host::host_trait::{ReturnRoute, SinkMacAndReturnRoute};

/// MAC address of the firewall's device towards the source.
pub const FIREWALL_IN_MAC: Mac = [0x02, 0, 0, 0, 0, 0x01];
/// MAC address of the source.
pub const SOURCE_MAC: Mac = [0x02, 0, 0, 0, 0, 0x02];
/// MAC address of the firewall's device towards the sink.
pub(crate) const FIREWALL_OUT_MAC: Mac = [0x02, 0, 0, 0, 0, 0x03];
/// MAC address of the sink.
pub(crate) const SINK_MAC: Mac = [0x02, 0, 0, 0, 0, 0x04];

/// Address of the firewall, where the source reaches it.
pub(crate) const FIREWALL_IN_GATEWAY_IP: &str = "198.18.0.1";
/// Address of the firewall, where the sink reaches it.
pub(crate) const FIREWALL_OUT_GATEWAY_IP: &str = "198.18.1.1";
/// Address of the source, for requests through a firewall.
pub const SOURCE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Address of the sink, for replies after it.
pub const SINK_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);

/// How long a cable may take to come up: some copper links need several seconds.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(20);
const CARRIER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Sets the interfaces of a firewall up that have just come into its namespace.
pub(crate) fn configure_router_links_and_await_carrier(
    namespace: &Namespace,
    devices: &FirewallDevices,
    neighbours: &SinkMacAndReturnRoute,
    ipv6: bool,
) -> Result<(), LabError> {
    let FirewallDevices { input, output } = devices;
    let inside = select_addresses_of_enabled_families("198.18.0.1/24", "2001:2:0:1::1/64", ipv6);
    let outside = select_addresses_of_enabled_families("198.18.1.1/24", "2001:2:0:2::1/64", ipv6);
    let mut lines = Vec::new();
    for (device, addresses) in [(input, inside), (output, outside)] {
        lines.push(format!("link set dev {device} up"));
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            lines.push(format!("addr add {address} dev {device}{nodad}"));
        }
    }
    namespace.run_ip_batch(&lines)?;
    add_sink_neighbours_and_default_routes(namespace, output, neighbours.sink_mac, ipv6)?;
    let mut redirected_into = vec![input];
    if let Some(ReturnRoute { mac, clients }) = &neighbours.return_route {
        let mut lines = vec![source_neighbour_command(*mac, input)];
        lines.extend(clients.iter().map(|network| client_route_command(network, input)));
        namespace.run_ip_batch(&lines)?;
        // Servers, and the sink, redirect their answers.
        redirected_into.push(output);
    }
    // A virtual link takes redirected frames when this changes while it is up.
    for device in redirected_into {
        for on in [false, true] {
            namespace.set_gro(device, on)?;
        }
    }
    wait_for_carrier(namespace, input)?;
    wait_for_carrier(namespace, output)
}

/// Waits until a cable is up at both of its ends.
pub(crate) fn wait_for_carrier(namespace: &Namespace, device: &str) -> Result<(), LabError> {
    let begun = Instant::now();
    while !namespace.read_device_mac_carrier_and_use(device)?.has_carrier {
        if begun.elapsed() > CARRIER_TIMEOUT {
            let why = format!(
                "no carrier within {} s: is the cable connected?",
                CARRIER_TIMEOUT.as_secs()
            );
            return Err(KernelError::UnusableDevice { name: device.to_owned(), why }.into());
        }
        std::thread::sleep(CARRIER_POLL_INTERVAL);
    }
    Ok(())
}

/// The neighbour and the route from the firewall to the clients.
pub(crate) fn neighbour_and_client_route_commands(
    network: &str,
    source: Mac,
    device: &str,
) -> [String; 2] {
    [source_neighbour_command(source, device), client_route_command(network, device)]
}

/// Who answers are for, on the firewall's device towards the source.
pub(crate) fn source_neighbour_command(source: Mac, device: &str) -> String {
    let mac = format_mac(source);
    format!("neigh replace {SOURCE_ADDRESS} lladdr {mac} nud permanent dev {device}")
}

pub(crate) fn client_route_command(network: &str, device: &str) -> String {
    format!("route replace {network} via {SOURCE_ADDRESS} dev {device}")
}

pub(crate) fn format_mac(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

pub(crate) fn select_addresses_of_enabled_families(v4: &str, v6: &str, ipv6: bool) -> Vec<String> {
    let both = [(v4, true), (v6, ipv6)];
    both.iter().filter(|(_, wanted)| *wanted).map(|(addr, _)| (*addr).to_owned()).collect()
}

/// Enables forwarding, and disables everything that sends packets itself or checks sources.
pub(crate) fn set_router_sysctls(namespace: &Namespace, ipv6: bool) -> Result<(), LabError> {
    let common = [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.conf.all.send_redirects", "0"),
        ("net.ipv4.conf.default.send_redirects", "0"),
        // A router has no sockets for early demultiplexing (ip-sysctl.rst).
        ("net.ipv4.ip_early_demux", "0"),
    ];
    let with_ipv6 = [
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.addr_gen_mode", "1"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
    ];
    let without = [("net.ipv6.conf.default.disable_ipv6", "1")];
    let more = if ipv6 { &with_ipv6[..] } else { &without[..] };
    for (key, value) in common.iter().chain(more) {
        namespace.set_sysctl(key, value)?;
    }
    Ok(())
}

pub(crate) fn add_sink_neighbours_and_default_routes(
    namespace: &Namespace,
    device: &str,
    sink: Mac,
    ipv6: bool,
) -> Result<(), LabError> {
    let mac = format_mac(sink);
    let hops = [("198.18.1.2", "default", true), ("2001:2:0:2::2", "::/0", ipv6)];
    for (hop, destination, _) in hops.iter().filter(|(.., wanted)| *wanted) {
        namespace.run_ip_batch(&[
            format!("neigh replace {hop} lladdr {mac} nud permanent dev {device}"),
            format!("route replace {destination} via {hop} dev {device}"),
        ])?;
    }
    Ok(())
}
