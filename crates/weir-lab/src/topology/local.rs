//! Source, firewalls and sink in namespaces of this machine, joined by veth.
//!
//! Each firewall has its own pair of links, so all subjects are in force at once, and a trial
//! selects a firewall by its link.

use std::rc::Rc;

use weir_kernel::{LinkEnd, Namespace, Session, VethOptions};
use weir_packet::Mac;
use weir_study::Devices;

use crate::LabError;
use crate::host::local::{LocalHost, LocalNamespace};
use crate::host::router::{
    FIREWALL_MAC, OUT_MAC, SINK_MAC, SOURCE_MAC, addresses, route, set_router_sysctls,
    source_neighbour,
};
use crate::host::target::SharedTarget;
use crate::observe::counters::{ConntrackReader, DeviceReader, ReceivedReader, StackReader};
use crate::topology::firewall::TestFirewall;
use crate::topology::probe_routes::{ProbeLinks, add_probe_routes, single_segments};

/// Source and sink on this machine, and the links to its namespaces.
pub(super) struct LocalTestbed {
    pub(super) session: Rc<Session>,
    pub(super) host: Rc<LocalHost>,
    pub(super) devices: Devices,
    pub(super) source: Namespace,
    pub(super) sink_side: Namespace,
    links: u32,
}

/// A firewall's namespace, and the other ends of its links.
pub(super) struct Link {
    pub(super) namespace: Namespace,
    pub(super) near: String,
    pub(super) far: String,
}

impl LocalTestbed {
    /// Makes source and sink; every firewall will have `devices`.
    pub(super) fn new(session: Session, devices: Devices) -> Result<LocalTestbed, LabError> {
        let source = session.namespace("source")?;
        let sink_side = session.namespace("sink")?;
        for namespace in [&source, &sink_side] {
            // No neighbour discovery among the frames that are counted.
            namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        let session = Rc::new(session);
        let host = Rc::new(LocalHost::new(Rc::clone(&session)));
        Ok(LocalTestbed { session, host, devices, source, sink_side, links: 0 })
    }

    /// A namespace as a target of commands.
    pub(super) fn target(&self, namespace: &Namespace) -> SharedTarget {
        Rc::new(LocalNamespace::new(Rc::clone(&self.host), namespace.clone()))
    }

    /// Links that were made so far.
    pub(super) fn links(&self) -> u32 {
        self.links
    }

    /// A namespace with the firewall's devices, connected to each other: loaded rules find the
    /// devices, and no packets arrive.
    pub(super) fn bare(&mut self) -> Result<Namespace, LabError> {
        self.links += 1;
        let namespace = self.session.namespace(&format!("load{}", self.links))?;
        let Devices { input, output } = &self.devices;
        if input != output {
            set_router_sysctls(&namespace, false)?;
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
        set_router_sysctls(&namespace, ipv6)?;
        let near = format!("f{number}");
        let addrs = addresses("198.18.0.1/24", "2001:2:0:1::1/64", ipv6);
        let options = VethOptions {
            a: end(SOURCE_MAC),
            b: LinkEnd { addrs, ..end(FIREWALL_MAC) },
            gro: true,
            ..VethOptions::default()
        };
        self.session.veth(&self.source, &near, &namespace, &self.devices.input, &options)?;
        Ok((namespace, near))
    }

    /// A forwarding namespace between two links, nothing attached to their other ends.
    pub(super) fn link(&mut self, ipv6: bool) -> Result<Link, LabError> {
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

    /// Makes a host that is alone, with nothing but its loopback device.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(super) fn lone_host(&mut self) -> Result<TestFirewall, LabError> {
        let number = self.links;
        self.links += 1;
        let namespace = self.session.namespace(&format!("fw{number}"))?;
        let lo = || "lo".to_owned();
        Ok(TestFirewall {
            ifindex: namespace.ifindex("lo")?,
            devices: DeviceReader::default().with(&namespace, &["lo"])?,
            stack: StackReader::of_host(&namespace)?,
            conntrack: ConntrackReader::open(&namespace)?,
            entered: ReceivedReader::open(&namespace, "lo")?,
            left: ReceivedReader::open(&namespace, "lo")?,
            ends: (lo(), lo()),
            is_host: true,
            target: self.target(&namespace),
            namespace,
        })
    }

    /// The return routes: the sink's program returns echoes, streams end at its sockets.
    pub(super) fn enable_probe_routes(&self, link: &Link) -> Result<(), LabError> {
        let Link { namespace, near, far } = link;
        let Devices { input, output } = &self.devices;
        namespace.ip(&[source_neighbour(SOURCE_MAC, input)])?;
        // Replies are redirected into this device, which accepts them only with a NAPI context.
        namespace.set_gro(output, true)?;
        for (side, device) in [(&self.source, near), (&self.sink_side, far)] {
            side.ip(&[single_segments(device)])?;
        }
        let links = ProbeLinks {
            source: &self.source,
            source_device: near,
            sink: &self.sink_side,
            sink_device: far,
        };
        add_probe_routes(&links, [FIREWALL_MAC, OUT_MAC], self.links)
    }

    pub(super) fn firewall_of(
        &self,
        namespace: Namespace,
        ifindex: u32,
        devices: DeviceReader,
        ends: (String, String),
    ) -> Result<TestFirewall, LabError> {
        let stack = StackReader::open(&namespace)?;
        let entered = ReceivedReader::open(&namespace, &self.devices.input)?;
        let left = ReceivedReader::open(&self.sink_side, &ends.1)?;
        Ok(TestFirewall {
            conntrack: ConntrackReader::open(&namespace)?,
            target: self.target(&namespace),
            namespace,
            ifindex,
            devices,
            stack,
            entered,
            left,
            ends,
            is_host: false,
        })
    }
}

fn end(mac: Mac) -> LinkEnd {
    LinkEnd { mac: Some(mac), addrs: Vec::new() }
}
