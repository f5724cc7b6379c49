//! Source — firewall — sink, in network namespaces over veth.
//!
//! One source and one sink serve all firewalls of a run. Each firewall has its own namespace and
//! its own pair of links, so all subjects are in force at once, and a trial selects a firewall by
//! its link. Nothing is reloaded between trials.
//!
//! Every firewall sees the same addresses: its two devices, their MAC addresses, and a default
//! route, so one table of frames serves all.

mod connection_paths;
pub(crate) mod firewall_under_test;
mod gateway;
mod local;
pub(crate) mod probe_routes;
mod remote;

use std::path::Path;

use weir_kernel::{Namespace, Session};
use weir_packet::Mac;
use weir_study::{ConnectionPath, Endpoints, FirewallDevices, LabHostsFile};

use crate::LabError;
use crate::bpf_program::sink::Sink;
use crate::bpf_program::stateless_tcp::StatelessTcpEndpoints;
use crate::host::host_trait::{Host, RcExecTarget};
use crate::host::router_config::{FIREWALL_IN_MAC, SINK_ADDRESS, SOURCE_MAC};
use crate::observe::kernel_counters::DeviceDropCounterReader;
use crate::topology::local::{GatewayWithEndDevices, LocalTestbed};
use crate::topology::remote::RemoteTestbed;

pub use crate::topology::firewall_under_test::FirewallWithCounters;

/// The source and the sink of a run, and the machine that its firewalls are on.
pub struct Topology {
    local_testbed: LocalTestbed,
    /// Firewalls are on another host.
    remote_testbed: Option<RemoteTestbed>,
    sink: Sink,
    has_probe_routes: bool,
}

impl Topology {
    /// Makes the source and the sink; every firewall will have `devices`.
    ///
    /// # Errors
    /// If the kernel refuses (not root).
    pub fn new(session: Session, devices: FirewallDevices) -> Result<Topology, LabError> {
        let local_testbed = LocalTestbed::new(session, devices)?;
        Ok(Topology {
            local_testbed,
            remote_testbed: None,
            sink: Sink::new()?,
            has_probe_routes: false,
        })
    }

    /// Lets all firewalls be on the host of the file from now on.
    ///
    /// # Errors
    /// With the file's line: a host that cannot be reached or has no weir that runs, interfaces
    /// that are not there or in use.
    pub(crate) fn use_remote_host(
        &mut self,
        hosts: &LabHostsFile,
        weir: &Path,
        version: &str,
    ) -> Result<(), LabError> {
        self.remote_testbed = Some(RemoteTestbed::new(&self.local_testbed, hosts, weir, version)?);
        Ok(())
    }

    /// The machine that firewalls are on.
    pub(crate) fn firewall_host(&self) -> &dyn Host {
        match &self.remote_testbed {
            Some(remote_testbed) => &remote_testbed.host,
            None => &*self.local_testbed.host,
        }
    }

    /// Where frames come from.
    pub fn source_namespace(&self) -> &Namespace {
        &self.local_testbed.source_namespace
    }

    /// The sink's namespace.
    pub(crate) fn sink_namespace(&self) -> &Namespace {
        &self.local_testbed.sink_namespace
    }

    /// What counts arrivals.
    pub fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Names of every firewall's devices.
    pub(crate) fn firewall_devices(&self) -> &FirewallDevices {
        &self.local_testbed.firewall_devices
    }

    /// The session that everything belongs to.
    pub fn session(&self) -> &Session {
        &self.local_testbed.session
    }

    /// MAC addresses of the firewall's device towards the source, and of the source.
    pub(crate) fn firewall_and_source_macs(&self) -> (Mac, Mac) {
        let there = self
            .remote_testbed
            .as_ref()
            .map(|remote_testbed| (remote_testbed.firewall_in_mac, remote_testbed.source_mac));
        there.unwrap_or((FIREWALL_IN_MAC, SOURCE_MAC))
    }

    /// Entries that the firewalls' machine lets a connection table have. The limit is one number
    /// for all network namespaces, and each table is measured against it on its own
    /// (nf_conntrack_core.c); 0 where there is no connection tracking.
    pub(crate) fn conntrack_limit(&self) -> Result<u64, LabError> {
        let text = self.firewall_host().read_proc_file("sys/net/netfilter/nf_conntrack_max")?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    /// A sysctl of the firewalls' machine that is a number.
    pub(crate) fn read_firewall_host_sysctl(&self, key: &str) -> Result<u64, LabError> {
        let text =
            self.firewall_host().read_proc_file(&format!("sys/{}", key.replace('.', "/")))?;
        text.trim().parse().map_err(|_| {
            let host = if self.firewall_host().is_remote() {
                "the firewall's host"
            } else {
                "this machine"
            };
            LabError::FirewallHostFailure(format!("{host} has no sysctl {key}"))
        })
    }

    /// Firewalls that are created from now on have return routes for probes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn route_probes_through_new_firewalls(&mut self) -> Result<(), LabError> {
        for namespace in [&self.local_testbed.source_namespace, &self.local_testbed.sink_namespace]
        {
            for part in ["all", "default"] {
                namespace.set_sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
            }
        }
        self.sink.pass_tcp_of_address_to_kernel(SINK_ADDRESS);
        self.has_probe_routes = true;
        Ok(())
    }

    /// Gives the cables to a firewall, where one pair serves all of them.
    pub(crate) fn switch_cables_to(
        &mut self,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        match &mut self.remote_testbed {
            Some(remote_testbed) => remote_testbed.switch_cables_to(&self.local_testbed, firewall),
            None => Ok(()),
        }
    }

    /// A namespace that rulesets are loaded in to be timed, on the firewalls' machine.
    pub(crate) fn create_load_timing_namespace(&mut self) -> Result<RcExecTarget, LabError> {
        if let Some(remote_testbed) = &self.remote_testbed {
            return remote_testbed.create_load_timing_namespace();
        }
        let namespace = self.local_testbed.create_isolated_namespace_with_firewall_devices()?;
        Ok(self.local_testbed.exec_target(&namespace))
    }

    /// Creates a firewall between source and sink that forwards everything, IPv6 only on request,
    /// because it sends its own packets.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create_firewall(&mut self, ipv6: bool) -> Result<FirewallWithCounters, LabError> {
        if let Some(remote_testbed) = &mut self.remote_testbed {
            return remote_testbed.create_firewall(
                &mut self.local_testbed,
                &mut self.sink,
                (ipv6, self.has_probe_routes),
            );
        }
        let local_testbed = &mut self.local_testbed;
        let link = local_testbed.create_two_link_gateway(ipv6)?;
        if self.has_probe_routes {
            local_testbed.add_probe_routes_and_set_offloads(&link)?;
        }
        let GatewayWithEndDevices { namespace, source_device: near, sink_device: far } = link;
        let FirewallDevices { input, output } = &local_testbed.firewall_devices;
        let far_index = local_testbed.sink_namespace.ifindex(&far)?;
        self.sink.attach(&local_testbed.sink_namespace, far_index)?;
        // Packets that the ring behind the source's device cannot accept are counted by both of its
        // ends (veth_get_stats64 in drivers/net/veth.c), so only the firewall's end is read.
        let devices = DeviceDropCounterReader::default()
            .add_devices_rx_and_tx_drops(&namespace, &[input, output])?
            .add_devices_rx_and_tx_drops(&local_testbed.sink_namespace, &[&far])?;
        let ifindex = local_testbed.source_namespace.ifindex(&near)?;
        local_testbed.assemble_firewall(namespace, ifindex, devices, (near, far))
    }

    /// Creates what the path has between clients and servers. The direct path has nothing there:
    /// the namespace that is returned is empty.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create_path_between_endpoints(
        &mut self,
        path: ConnectionPath,
        ends: &mut StatelessTcpEndpoints,
        endpoints: &Endpoints,
    ) -> Result<FirewallWithCounters, LabError> {
        let local_testbed = &mut self.local_testbed;
        match (path, &mut self.remote_testbed) {
            (ConnectionPath::Gateway, Some(remote_testbed)) => {
                remote_testbed.create_stateless_tcp_firewall(local_testbed, ends, endpoints)
            }
            (ConnectionPath::Gateway, None) => {
                gateway::create_stateless_tcp_gateway(local_testbed, ends, endpoints)
            }
            (_, Some(_)) => unreachable!("other paths over hosts are refused before a run"),
            (ConnectionPath::OneArmed, None) => {
                connection_paths::create_one_armed_gateway(local_testbed, ends, endpoints)
            }
            (ConnectionPath::Direct, None) => {
                connection_paths::create_direct_path(local_testbed, ends)
            }
        }
    }

    /// Makes a firewall between clients and servers that are sockets of the kernel; `ports` are
    /// those of one client address.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn create_kernel_socket_firewall(
        &mut self,
        endpoints: &Endpoints,
        ports: u16,
    ) -> Result<FirewallWithCounters, LabError> {
        gateway::create_kernel_socket_gateway(&mut self.local_testbed, endpoints, ports)
    }

    /// Makes a host that is alone, with nothing but its loopback device.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create_loopback_host(&mut self) -> Result<FirewallWithCounters, LabError> {
        self.local_testbed.create_loopback_host()
    }

    /// Joins source and sink by one link, with nothing between them; returns the index of the
    /// device into which frames are sent.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn create_direct_link(&mut self) -> Result<u32, LabError> {
        let (near, far) = self.local_testbed.create_direct_link()?;
        let local_testbed = &self.local_testbed;
        self.sink
            .attach(&local_testbed.sink_namespace, local_testbed.sink_namespace.ifindex(&far)?)?;
        Ok(local_testbed.source_namespace.ifindex(&near)?)
    }
}
