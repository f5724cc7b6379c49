//! Source — firewall — sink, in network namespaces over veth.
//!
//! One source and one sink serve all firewalls of a run; each firewall has a namespace of its own
//! and a pair of links of its own, so that all subjects are in force at once and a trial begins
//! by choosing the link that is played into. Nothing is reloaded between trials.
//!
//! Every firewall sees the same addresses: its two devices, their MAC addresses, and a default
//! route behind it, so that one table of frames serves all.

mod paths;
pub(crate) mod remote;

use std::net::Ipv4Addr;

use weir_kernel::{LinkEnd, Namespace, Session, VethOptions};
use weir_packet::Mac;

use crate::LabError;
use crate::host::remote::Room;
use crate::observe::counters::{ConntrackReader, DeviceReader, ReceivedReader, StackReader};
use crate::program::sink::Sink;
use crate::program::tcp::TcpEnds;
use crate::workload::probe::stream::{self, Ends};
use weir_study::Devices;
use weir_study::Endpoints;

/// MAC address of the firewall's device towards the source.
pub const FIREWALL_MAC: Mac = [0x02, 0, 0, 0, 0, 0x01];
/// MAC address of the source.
pub const SOURCE_MAC: Mac = [0x02, 0, 0, 0, 0, 0x02];
const OUT_MAC: Mac = [0x02, 0, 0, 0, 0, 0x03];
const SINK_MAC: Mac = [0x02, 0, 0, 0, 0, 0x04];

/// Address of the firewall, where the source reaches it.
pub(crate) const GATEWAY_ADDRESS: &str = "198.18.0.1";
/// Address of the firewall, where the sink reaches it.
pub(crate) const OUTER_ADDRESS: &str = "198.18.1.1";
/// Address of the source, for those who ask through a firewall.
pub const SOURCE_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Address of the sink, for those who answer behind it.
pub const SINK_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);

/// The source and the sink of a run.
pub struct Topology {
    session: Session,
    devices: Devices,
    source: Namespace,
    sink_side: Namespace,
    sink: Sink,
    links: u32,
    is_probed: bool,
    /// Firewalls are on another host.
    elsewhere: Option<remote::Elsewhere>,
}

/// One firewall between them.
pub struct Firewall {
    /// Where its ruleset is loaded; empty where that is on another host.
    pub namespace: Namespace,
    /// Index of the device that frames are played into.
    pub ifindex: u32,
    /// Drop counters of its devices, and of the sink's.
    pub devices: DeviceReader,
    /// Its IP stack's counters.
    pub stack: StackReader,
    /// Its connection table's counters.
    pub conntrack: ConntrackReader,
    /// What its device towards the source received.
    pub entered: ReceivedReader,
    /// What the device behind it received.
    pub left: ReceivedReader,
    /// Name of the source's device, and of the sink's.
    pub ends: (String, String),
    /// It forwards nothing: what it gets is for itself.
    pub is_host: bool,
    /// Its namespace on another host, where it is there.
    pub(crate) elsewhere: Option<Room>,
}

impl Topology {
    /// Makes the source and the sink; every firewall will have `devices`.
    ///
    /// # Errors
    /// Where the kernel refuses (not root).
    pub fn new(session: Session, devices: Devices) -> Result<Topology, LabError> {
        let source = session.namespace("source")?;
        let sink_side = session.namespace("sink")?;
        for namespace in [&source, &sink_side] {
            // No neighbour discovery among the frames that are counted.
            namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        Ok(Topology {
            session,
            devices,
            source,
            sink_side,
            sink: Sink::new()?,
            links: 0,
            is_probed: false,
            elsewhere: None,
        })
    }

    /// Where frames come from.
    pub fn source(&self) -> &Namespace {
        &self.source
    }

    /// The sink's namespace.
    pub(crate) fn sink_side(&self) -> &Namespace {
        &self.sink_side
    }

    /// Firewalls that are made from now on can be asked through: there is a way back.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn let_probe(&mut self) -> Result<(), LabError> {
        for namespace in [&self.source, &self.sink_side] {
            for part in ["all", "default"] {
                namespace.sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
            }
        }
        self.sink.pass_streams_to(SINK_ADDRESS);
        self.is_probed = true;
        Ok(())
    }

    /// The ways of answers: echoes turn at the sink's program, streams end at its sockets.
    fn open_to_probes(&self, link: &Link) -> Result<(), LabError> {
        let Link { namespace, near, far } = link;
        let Devices { input, output } = &self.devices;
        namespace.ip(&[neighbour(SOURCE_MAC, input)])?;
        // Answers are redirected into this device, which takes them by its NAPI context only.
        namespace.set_gro(output, true)?;
        for (side, device) in [(&self.source, near), (&self.sink_side, far)] {
            side.ip(&[stream::single_segments(device)])?;
        }
        let ends = Ends {
            source: &self.source,
            source_device: near,
            sink: &self.sink_side,
            sink_device: far,
        };
        stream::open(&ends, [FIREWALL_MAC, OUT_MAC], self.links)
    }

    /// What counts arrivals.
    pub fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// A namespace with the firewall's devices, which are each other's ends: what is loaded is
    /// bound to them where it is, and nothing comes by.
    fn bare_here(&mut self) -> Result<Namespace, LabError> {
        self.links += 1;
        let namespace = self.session.namespace(&format!("load{}", self.links))?;
        let Devices { input, output } = &self.devices;
        if input != output {
            quieten(&namespace, false)?;
            let options = VethOptions {
                a: end(FIREWALL_MAC),
                b: end(OUT_MAC),
                gro: true,
                ..VethOptions::default()
            };
            self.session.veth(&namespace, input, &namespace, output, &options)?;
        }
        Ok(namespace)
    }

    /// Joins source and sink by one link, with nothing between them; the index of the device that
    /// frames are played into.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn direct(&mut self) -> Result<u32, LabError> {
        let (near, far) = self.one_link()?;
        self.sink.attach(&self.sink_side, self.sink_side.ifindex(&far)?)?;
        Ok(self.source.ifindex(&near)?)
    }

    /// Names of every firewall's devices.
    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The session that everything belongs to.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Makes a firewall between clients and servers that forwards everything in both directions.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn firewall_between(
        &mut self,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<Firewall, LabError> {
        if let Some(host) = self.other_host().cloned() {
            return self.firewall_between_elsewhere(&host, ends, endpoints);
        }
        let Link { namespace, near, far } = self.link(false)?;
        let Devices { input, output } = &self.devices;
        namespace.ip(&back_to_clients(&endpoints.client_network(), SOURCE_MAC, input))?;
        // Answers are redirected into this device, which takes them by its NAPI context only.
        namespace.set_gro(output, true)?;
        let ifindex = self.source.ifindex(&near)?;
        ends.attach_client(&self.source, ifindex)?;
        ends.attach_server(&self.sink_side, self.sink_side.ifindex(&far)?)?;
        // Both devices take redirected packets: what they lose is told by them alone.
        let devices =
            DeviceReader::open(&[(&namespace, input.as_str()), (&namespace, output.as_str())])?;
        self.firewall_of(namespace, ifindex, devices, (near, far))
    }

    /// Makes a firewall between clients and servers that are sockets of the kernel: every address
    /// of theirs is one of source or sink, and a socket that is bound to a device finds the way by
    /// it. `ports` are those of one client address.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(crate) fn firewall_for_sockets(
        &mut self,
        endpoints: &Endpoints,
        ports: u16,
    ) -> Result<Firewall, LabError> {
        let Link { namespace, near, far } = self.link(false)?;
        let Devices { input, output } = &self.devices;
        let (clients, servers) = (endpoints.client_network(), endpoints.server_network());
        namespace.ip(&back_to_clients(&clients, SOURCE_MAC, input))?;
        for (side, own, other, gateway, mac, device) in [
            (&self.source, &clients, &servers, GATEWAY_ADDRESS, FIREWALL_MAC, &near),
            (&self.sink_side, &servers, &clients, OUTER_ADDRESS, OUT_MAC, &far),
        ] {
            for part in ["all", "default"] {
                side.sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
            }
            side.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
            let (mac, metric) = (mac_text(mac), self.links);
            side.ip(&[
                "link set dev lo up".to_owned(),
                format!("route replace local {own} dev lo"),
                format!("neigh replace {gateway} lladdr {mac} nud permanent dev {device}"),
                format!("route add {other} via {gateway} dev {device} onlink metric {metric}"),
            ])?;
        }
        let first = weir_study::traffic::FIRST_PORT;
        let range = format!("{first} {}", u32::from(first) + u32::from(ports) - 1);
        self.source.sysctl("net.ipv4.ip_local_port_range", &range)?;
        // SYNs after 1 and 3 seconds, and no more: every client gives up before 7.
        self.source.sysctl("net.ipv4.tcp_syn_retries", "2")?;
        self.sink_side.sysctl("net.core.somaxconn", "65535")?;
        // Beyond it the kernel forgets connections at once rather than after a minute, and their
        // ports are free (tcp_time_wait in net/ipv4/tcp_minisocks.c): later trials would find more.
        self.source.sysctl("net.ipv4.tcp_max_tw_buckets", "4194304")?;
        let devices =
            DeviceReader::open(&[(&namespace, input.as_str()), (&namespace, output.as_str())])?;
        let ifindex = self.source.ifindex(&near)?;
        self.firewall_of(namespace, ifindex, devices, (near, far))
    }

    /// Makes a firewall between source and sink that forwards everything, IPv6 only where it is
    /// asked for: it sends packets of its own.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn firewall(&mut self, ipv6: bool) -> Result<Firewall, LabError> {
        if let Some(host) = self.other_host().cloned() {
            return self.firewall_elsewhere(&host, ipv6);
        }
        let link = self.link(ipv6)?;
        if self.is_probed {
            self.open_to_probes(&link)?;
        }
        let Link { namespace, near, far } = link;
        let Devices { input, output } = &self.devices;
        let far_index = self.sink_side.ifindex(&far)?;
        self.sink.attach(&self.sink_side, far_index)?;
        // What the ring behind the source's device cannot take is told by both of its ends
        // (veth_get_stats64 in drivers/net/veth.c), so only the firewall's end is asked.
        let devices = DeviceReader::open(&[
            (&namespace, input.as_str()),
            (&namespace, output.as_str()),
            (&self.sink_side, far.as_str()),
        ])?;
        let ifindex = self.source.ifindex(&near)?;
        self.firewall_of(namespace, ifindex, devices, (near, far))
    }

    fn firewall_of(
        &self,
        namespace: Namespace,
        ifindex: u32,
        devices: DeviceReader,
        ends: (String, String),
    ) -> Result<Firewall, LabError> {
        let stack = StackReader::open(&namespace)?;
        let entered = ReceivedReader::open(&namespace, &self.devices.input)?;
        let left = ReceivedReader::open(&self.sink_side, &ends.1)?;
        Ok(Firewall {
            conntrack: ConntrackReader::open(&namespace)?,
            namespace,
            ifindex,
            devices,
            stack,
            entered,
            left,
            ends,
            is_host: false,
            elsewhere: None,
        })
    }

    /// Makes a host that is alone, with nothing but its loopback device.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn host(&mut self) -> Result<Firewall, LabError> {
        let number = self.links;
        self.links += 1;
        let namespace = self.session.namespace(&format!("fw{number}"))?;
        namespace.ip(&["link set dev lo up"])?;
        let lo = || "lo".to_owned();
        Ok(Firewall {
            ifindex: namespace.ifindex("lo")?,
            devices: DeviceReader::open(&[(&namespace, "lo")])?,
            stack: StackReader::of_host(&namespace)?,
            conntrack: ConntrackReader::open(&namespace)?,
            entered: ReceivedReader::open(&namespace, "lo")?,
            left: ReceivedReader::open(&namespace, "lo")?,
            ends: (lo(), lo()),
            is_host: true,
            elsewhere: None,
            namespace,
        })
    }

    /// A forwarding namespace between two links, nothing attached to their other ends.
    fn link(&mut self, ipv6: bool) -> Result<Link, LabError> {
        let (namespace, near) = self.gateway(ipv6)?;
        let far = near.replacen('f', "k", 1);
        let output = self.devices.output.clone();
        let addrs = addresses("198.18.1.1/24", "2001:2:0:2::1/64", ipv6);
        let outside = VethOptions {
            a: LinkEnd { addrs, ..end(OUT_MAC) },
            b: end(SINK_MAC),
            ..VethOptions::default()
        };
        self.session.veth(&namespace, &output, &self.sink_side, &far, &outside)?;
        route(&namespace, &output, SINK_MAC, ipv6)?;
        Ok(Link { namespace, near, far })
    }
}

/// A firewall's namespace, and the other ends of its links.
struct Link {
    namespace: Namespace,
    near: String,
    far: String,
}

/// The way from the firewall to the clients.
fn back_to_clients(network: &str, source: Mac, device: &str) -> [String; 2] {
    [neighbour(source, device), way_to_clients(network, device)]
}

/// Who answers are for, on the firewall's device towards the source.
fn neighbour(source: Mac, device: &str) -> String {
    let mac = mac_text(source);
    format!("neigh replace {SOURCE_ADDRESS} lladdr {mac} nud permanent dev {device}")
}

fn way_to_clients(network: &str, device: &str) -> String {
    format!("route replace {network} via {SOURCE_ADDRESS} dev {device}")
}

pub(crate) fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn end(mac: Mac) -> LinkEnd {
    LinkEnd { mac: Some(mac), addrs: Vec::new() }
}

fn addresses(v4: &str, v6: &str, ipv6: bool) -> Vec<String> {
    let both = [(v4, true), (v6, ipv6)];
    both.iter().filter(|(_, wanted)| *wanted).map(|(addr, _)| (*addr).to_owned()).collect()
}

/// Forwarding on, and everything off that sends packets of its own or judges sources.
pub(crate) fn quieten(namespace: &Namespace, ipv6: bool) -> Result<(), LabError> {
    let common = [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.conf.all.send_redirects", "0"),
        ("net.ipv4.conf.default.send_redirects", "0"),
        // A router has no sockets that the first look at a packet could find (ip-sysctl.rst).
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
        namespace.sysctl(key, value)?;
    }
    Ok(())
}

fn route(namespace: &Namespace, device: &str, sink: Mac, ipv6: bool) -> Result<(), LabError> {
    let mac = mac_text(sink);
    let hops = [("198.18.1.2", "default", true), ("2001:2:0:2::2", "::/0", ipv6)];
    for (hop, destination, _) in hops.iter().filter(|(.., wanted)| *wanted) {
        namespace.ip(&[
            format!("neigh replace {hop} lladdr {mac} nud permanent dev {device}"),
            format!("route replace {destination} via {hop} dev {device}"),
        ])?;
    }
    Ok(())
}
