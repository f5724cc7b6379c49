//! Source, firewalls and sink in namespaces of this machine, joined by veth.
//!
//! Each firewall has its own pair of links, so all subjects are in force at once, and a trial
//! selects a firewall by its link.

use std::rc::Rc;

use weir_kernel::{Namespace, Session, VethEndAddresses, VethOptions};
use weir_packet::Mac;
use weir_study::FirewallDevices;

use crate::LabError;
use crate::host::host_trait::RcExecTarget;
use crate::host::local::{LocalHost, LocalNamespace};
use crate::host::router_config::{
    FIREWALL_IN_MAC, FIREWALL_OUT_MAC, SINK_MAC, SOURCE_MAC,
    add_sink_neighbours_and_default_routes, select_addresses_of_enabled_families,
    set_router_sysctls, source_neighbour_command,
};
use crate::observe::kernel_counters::{
    ConntrackStatReader, DeviceDropCounterReader, IpStackCounterReader, RxPacketCounterReader,
};
use crate::topology::firewall_under_test::FirewallWithCounters;
use crate::topology::probe_routes::{ProbeLinks, add_probe_routes, disable_gso_ip_batch_line};

/// Source and sink on this machine, and the links to its namespaces.
pub(super) struct LocalTestbed {
    pub(super) session: Rc<Session>,
    pub(super) host: Rc<LocalHost>,
    pub(super) firewall_devices: FirewallDevices,
    pub(super) source_namespace: Namespace,
    pub(super) sink_namespace: Namespace,
    testbed_object_count: u32,
}

/// A firewall's namespace, and the other ends of its links.
pub(super) struct GatewayWithEndDevices {
    pub(super) namespace: Namespace,
    pub(super) source_device: String,
    pub(super) sink_device: String,
}

impl LocalTestbed {
    /// Makes source and sink; every firewall will have `devices`.
    pub(super) fn new(
        session: Session,
        firewall_devices: FirewallDevices,
    ) -> Result<LocalTestbed, LabError> {
        let source = session.create_namespace("source")?;
        let sink_side = session.create_namespace("sink")?;
        for namespace in [&source, &sink_side] {
            // No neighbour discovery among the frames that are counted.
            namespace.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        let session = Rc::new(session);
        let host = Rc::new(LocalHost::new(Rc::clone(&session)));
        Ok(LocalTestbed {
            session,
            host,
            firewall_devices,
            source_namespace: source,
            sink_namespace: sink_side,
            testbed_object_count: 0,
        })
    }

    /// A namespace as a target of commands.
    pub(super) fn exec_target(&self, namespace: &Namespace) -> RcExecTarget {
        Rc::new(LocalNamespace::new(Rc::clone(&self.host), namespace.clone()))
    }

    /// Links that were made so far.
    pub(super) fn testbed_object_count(&self) -> u32 {
        self.testbed_object_count
    }

    /// A namespace with the firewall's devices, connected to each other: loaded rules find the
    /// devices, and no packets arrive.
    pub(super) fn create_isolated_namespace_with_firewall_devices(
        &mut self,
    ) -> Result<Namespace, LabError> {
        self.testbed_object_count += 1;
        let namespace =
            self.session.create_namespace(&format!("load{}", self.testbed_object_count))?;
        let FirewallDevices { input, output } = &self.firewall_devices;
        if input != output {
            set_router_sysctls(&namespace, false)?;
            let options = VethOptions {
                end_a: veth_end_with_mac_only(FIREWALL_IN_MAC),
                end_b: veth_end_with_mac_only(FIREWALL_OUT_MAC),
                gro: true,
                ..VethOptions::default()
            };
            self.session.create_veth_pair(&namespace, input, &namespace, output, &options)?;
        }
        Ok(namespace)
    }

    /// One link between source and sink, nothing attached to its ends.
    pub(super) fn create_direct_link(&mut self) -> Result<(String, String), LabError> {
        let number = self.testbed_object_count;
        self.testbed_object_count += 1;
        let (near, far) = (format!("f{number}"), format!("k{number}"));
        let options = VethOptions {
            end_a: veth_end_with_mac_only(SOURCE_MAC),
            end_b: veth_end_with_mac_only(FIREWALL_IN_MAC),
            gro: true,
            ..VethOptions::default()
        };
        self.session.create_veth_pair(
            &self.source_namespace,
            &near,
            &self.sink_namespace,
            &far,
            &options,
        )?;
        Ok((near, far))
    }

    /// A forwarding namespace with its link to the source, and that link's other end.
    pub(super) fn create_one_link_gateway(
        &mut self,
        ipv6: bool,
    ) -> Result<(Namespace, String), LabError> {
        let number = self.testbed_object_count;
        self.testbed_object_count += 1;
        let namespace = self.session.create_namespace(&format!("fw{number}"))?;
        set_router_sysctls(&namespace, ipv6)?;
        let near = format!("f{number}");
        let addrs = select_addresses_of_enabled_families("198.18.0.1/24", "2001:2:0:1::1/64", ipv6);
        let options = VethOptions {
            end_a: veth_end_with_mac_only(SOURCE_MAC),
            end_b: VethEndAddresses { addrs, ..veth_end_with_mac_only(FIREWALL_IN_MAC) },
            gro: true,
            ..VethOptions::default()
        };
        self.session.create_veth_pair(
            &self.source_namespace,
            &near,
            &namespace,
            &self.firewall_devices.input,
            &options,
        )?;
        Ok((namespace, near))
    }

    /// A forwarding namespace between two links, nothing attached to their other ends.
    pub(super) fn create_two_link_gateway(
        &mut self,
        ipv6: bool,
    ) -> Result<GatewayWithEndDevices, LabError> {
        let (namespace, near) = self.create_one_link_gateway(ipv6)?;
        let far = near.replacen('f', "k", 1);
        let output = self.firewall_devices.output.clone();
        let addrs = select_addresses_of_enabled_families("198.18.1.1/24", "2001:2:0:2::1/64", ipv6);
        let outside = VethOptions {
            end_a: VethEndAddresses { addrs, ..veth_end_with_mac_only(FIREWALL_OUT_MAC) },
            end_b: veth_end_with_mac_only(SINK_MAC),
            ..VethOptions::default()
        };
        self.session.create_veth_pair(&namespace, &output, &self.sink_namespace, &far, &outside)?;
        add_sink_neighbours_and_default_routes(&namespace, &output, SINK_MAC, ipv6)?;
        Ok(GatewayWithEndDevices { namespace, source_device: near, sink_device: far })
    }

    /// Makes a host that is alone, with nothing but its loopback device.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn create_loopback_host(&mut self) -> Result<FirewallWithCounters, LabError> {
        let number = self.testbed_object_count;
        self.testbed_object_count += 1;
        let namespace = self.session.create_namespace(&format!("fw{number}"))?;
        let lo = || "lo".to_owned();
        Ok(FirewallWithCounters {
            send_ifindex: namespace.ifindex("lo")?,
            device_drops: DeviceDropCounterReader::default()
                .add_devices_rx_and_tx_drops(&namespace, &["lo"])?,
            stack_counters: IpStackCounterReader::open_without_out_discards(&namespace)?,
            conntrack_counters: ConntrackStatReader::open(&namespace)?,
            received_from_source: RxPacketCounterReader::open(&namespace, "lo")?,
            received_after_firewall: RxPacketCounterReader::open(&namespace, "lo")?,
            source_and_sink_devices: (lo(), lo()),
            is_end_host: true,
            command_target: self.exec_target(&namespace),
            namespace,
        })
    }

    /// The return routes: the sink's program returns echoes, streams end at its sockets.
    pub(super) fn add_probe_routes_and_set_offloads(
        &self,
        link: &GatewayWithEndDevices,
    ) -> Result<(), LabError> {
        let GatewayWithEndDevices { namespace, source_device: near, sink_device: far } = link;
        let FirewallDevices { input, output } = &self.firewall_devices;
        namespace.run_ip_batch(&[source_neighbour_command(SOURCE_MAC, input)])?;
        // Replies are redirected into this device, which accepts them only with a NAPI context.
        namespace.set_gro(output, true)?;
        for (side, device) in [(&self.source_namespace, near), (&self.sink_namespace, far)] {
            side.run_ip_batch(&[disable_gso_ip_batch_line(device)])?;
        }
        let links = ProbeLinks {
            source: &self.source_namespace,
            source_device: near,
            sink: &self.sink_namespace,
            sink_device: far,
        };
        add_probe_routes(&links, [FIREWALL_IN_MAC, FIREWALL_OUT_MAC], self.testbed_object_count)
    }

    pub(super) fn assemble_firewall(
        &self,
        namespace: Namespace,
        ifindex: u32,
        devices: DeviceDropCounterReader,
        ends: (String, String),
    ) -> Result<FirewallWithCounters, LabError> {
        let stack = IpStackCounterReader::open(&namespace)?;
        let entered = RxPacketCounterReader::open(&namespace, &self.firewall_devices.input)?;
        let left = RxPacketCounterReader::open(&self.sink_namespace, &ends.1)?;
        Ok(FirewallWithCounters {
            conntrack_counters: ConntrackStatReader::open(&namespace)?,
            command_target: self.exec_target(&namespace),
            namespace,
            send_ifindex: ifindex,
            device_drops: devices,
            stack_counters: stack,
            received_from_source: entered,
            received_after_firewall: left,
            source_and_sink_devices: ends,
            is_end_host: false,
        })
    }
}

fn veth_end_with_mac_only(mac: Mac) -> VethEndAddresses {
    VethEndAddresses { mac: Some(mac), addrs: Vec::new() }
}
