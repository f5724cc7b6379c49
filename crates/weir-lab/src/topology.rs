//! Source — firewall — sink, in network namespaces over veth.
//!
//! One source and one sink serve all firewalls of a run. Each firewall has its own namespace and
//! its own pair of links, so all subjects are in force at once, and a trial selects a firewall by
//! its link. Nothing is reloaded between trials.
//!
//! Every firewall sees the same addresses: its two devices, their MAC addresses, and a default
//! route, so one table of frames serves all.

pub(crate) mod firewall;
mod gateway;
mod local;
mod paths;
pub(crate) mod probe_routes;
mod remote;

use std::path::Path;

use weir_kernel::{Namespace, Session};
use weir_packet::Mac;
use weir_study::{ConnectionPath, Devices, Endpoints, Hosts};

use crate::LabError;
use crate::host::router::{FIREWALL_MAC, SINK_ADDRESS, SOURCE_MAC};
use crate::host::target::{Host, SharedTarget};
use crate::observe::counters::DeviceReader;
use crate::program::sink::Sink;
use crate::program::tcp::TcpEnds;
use crate::topology::local::{Link, LocalTestbed};
use crate::topology::remote::RemoteTestbed;

pub use crate::topology::firewall::TestFirewall;

/// The source and the sink of a run, and the machine that its firewalls are on.
pub struct Topology {
    local: LocalTestbed,
    /// Firewalls are on another host.
    remote: Option<RemoteTestbed>,
    sink: Sink,
    is_probed: bool,
}

impl Topology {
    /// Makes the source and the sink; every firewall will have `devices`.
    ///
    /// # Errors
    /// Where the kernel refuses (not root).
    pub fn new(session: Session, devices: Devices) -> Result<Topology, LabError> {
        let local = LocalTestbed::new(session, devices)?;
        Ok(Topology { local, remote: None, sink: Sink::new()?, is_probed: false })
    }

    /// Lets all firewalls be on the host of the file from now on.
    ///
    /// # Errors
    /// With the file's line: a host that cannot be reached or has no weir that runs, interfaces
    /// that are not there or in use.
    pub(crate) fn use_remote_host(
        &mut self,
        hosts: &Hosts,
        weir: &Path,
        version: &str,
    ) -> Result<(), LabError> {
        self.remote = Some(RemoteTestbed::new(&self.local, hosts, weir, version)?);
        Ok(())
    }

    /// The machine that firewalls are on.
    pub(crate) fn host(&self) -> &dyn Host {
        match &self.remote {
            Some(remote) => &remote.host,
            None => &*self.local.host,
        }
    }

    /// Where frames come from.
    pub fn source(&self) -> &Namespace {
        &self.local.source
    }

    /// The sink's namespace.
    pub(crate) fn sink_side(&self) -> &Namespace {
        &self.local.sink_side
    }

    /// What counts arrivals.
    pub fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Names of every firewall's devices.
    pub(crate) fn devices(&self) -> &Devices {
        &self.local.devices
    }

    /// The session that everything belongs to.
    pub fn session(&self) -> &Session {
        &self.local.session
    }

    /// MAC addresses of the firewall's device towards the source, and of the source.
    pub(crate) fn macs(&self) -> (Mac, Mac) {
        let there = self.remote.as_ref().map(|remote| (remote.firewall_mac, remote.source_mac));
        there.unwrap_or((FIREWALL_MAC, SOURCE_MAC))
    }

    /// Entries that the firewalls' machine lets a connection table have. The limit is one number
    /// for all network namespaces, and each table is measured against it on its own
    /// (nf_conntrack_core.c); 0 where there is no connection tracking.
    pub(crate) fn table_limit(&self) -> Result<u64, LabError> {
        let text = self.host().proc_file("sys/net/netfilter/nf_conntrack_max")?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    /// A sysctl of the firewalls' machine that is a number.
    pub(crate) fn machine_sysctl(&self, key: &str) -> Result<u64, LabError> {
        let text = self.host().proc_file(&format!("sys/{}", key.replace('.', "/")))?;
        text.trim().parse().map_err(|_| {
            let host = if self.host().is_remote() { "the firewall's host" } else { "this machine" };
            LabError::Host(format!("{host} has no sysctl {key}"))
        })
    }

    /// Firewalls that are created from now on have return routes for probes.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enable_probe_routes(&mut self) -> Result<(), LabError> {
        for namespace in [&self.local.source, &self.local.sink_side] {
            for part in ["all", "default"] {
                namespace.sysctl(&format!("net.ipv4.conf.{part}.rp_filter"), "0")?;
            }
        }
        self.sink.pass_streams_to(SINK_ADDRESS);
        self.is_probed = true;
        Ok(())
    }

    /// Gives the cables to a firewall, where one pair serves all of them.
    pub(crate) fn select(&mut self, firewall: &TestFirewall) -> Result<(), LabError> {
        match &mut self.remote {
            Some(remote) => remote.select(&self.local, firewall),
            None => Ok(()),
        }
    }

    /// A namespace that rulesets are loaded in to be timed, on the firewalls' machine.
    pub(crate) fn bare(&mut self) -> Result<SharedTarget, LabError> {
        if let Some(remote) = &self.remote {
            return remote.bare();
        }
        let namespace = self.local.bare()?;
        Ok(self.local.target(&namespace))
    }

    /// Creates a firewall between source and sink that forwards everything, IPv6 only on request,
    /// because it sends its own packets.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn firewall(&mut self, ipv6: bool) -> Result<TestFirewall, LabError> {
        if let Some(remote) = &mut self.remote {
            return remote.firewall(&mut self.local, &mut self.sink, (ipv6, self.is_probed));
        }
        let local = &mut self.local;
        let link = local.link(ipv6)?;
        if self.is_probed {
            local.enable_probe_routes(&link)?;
        }
        let Link { namespace, near, far } = link;
        let Devices { input, output } = &local.devices;
        let far_index = local.sink_side.ifindex(&far)?;
        self.sink.attach(&local.sink_side, far_index)?;
        // Packets that the ring behind the source's device cannot accept are counted by both of its
        // ends (veth_get_stats64 in drivers/net/veth.c), so only the firewall's end is read.
        let devices = DeviceReader::default()
            .with(&namespace, &[input, output])?
            .with(&local.sink_side, &[&far])?;
        let ifindex = local.source.ifindex(&near)?;
        local.firewall_of(namespace, ifindex, devices, (near, far))
    }

    /// Makes what is between clients and servers on their path. On the direct one that is nothing,
    /// and the namespace of the answer is an empty one.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn between(
        &mut self,
        path: ConnectionPath,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<TestFirewall, LabError> {
        let local = &mut self.local;
        match (path, &mut self.remote) {
            (ConnectionPath::Gateway, Some(remote)) => remote.between(local, ends, endpoints),
            (ConnectionPath::Gateway, None) => gateway::between(local, ends, endpoints),
            (_, Some(_)) => unreachable!("other paths over hosts are refused before a run"),
            (ConnectionPath::OneArmed, None) => paths::one_armed(local, ends, endpoints),
            (ConnectionPath::Direct, None) => paths::direct(local, ends),
        }
    }

    /// Makes a firewall between clients and servers that are sockets of the kernel; `ports` are
    /// those of one client address.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(crate) fn firewall_for_sockets(
        &mut self,
        endpoints: &Endpoints,
        ports: u16,
    ) -> Result<TestFirewall, LabError> {
        gateway::for_sockets(&mut self.local, endpoints, ports)
    }

    /// Makes a host that is alone, with nothing but its loopback device.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn lone_host(&mut self) -> Result<TestFirewall, LabError> {
        self.local.lone_host()
    }

    /// Joins source and sink by one link, with nothing between them; returns the index of the
    /// device into which frames are sent.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn direct(&mut self) -> Result<u32, LabError> {
        let (near, far) = self.local.one_link()?;
        let local = &self.local;
        self.sink.attach(&local.sink_side, local.sink_side.ifindex(&far)?)?;
        Ok(local.source.ifindex(&near)?)
    }
}
