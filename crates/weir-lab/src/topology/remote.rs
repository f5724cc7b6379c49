//! Firewalls on another host, between two interfaces of this one.
//!
//! There is one pair of interfaces at each end, and a namespace per firewall as on one machine. So
//! before a trial the interfaces of the firewall's host are moved into the namespace of the
//! firewall to be measured, and get new addresses and routes. Rulesets stay loaded. Configuration
//! of an interface rather than of a namespace (tc, XDP, chains of the family netdev, flowtables) is
//! lost by the move.

use std::path::Path;
use std::rc::Rc;

use weir_packet::Mac;
use weir_study::{Endpoints, FirewallDevices, LabHostsFile};

use crate::LabError;
use crate::bpf_program::sink::Sink;
use crate::bpf_program::stateless_tcp::StatelessTcpEndpoints;
use crate::host::host_trait::{RcExecTarget, ReturnRoute, SinkMacAndReturnRoute};
use crate::host::remote::{RemoteHost, RemoteNamespace};
use crate::host::router_config::{SOURCE_MAC, wait_for_carrier};
use crate::observe::kernel_counters::{
    ConntrackStatReader, DeviceDropCounterReader, IpStackCounterReader, RxPacketCounterReader,
};
use crate::topology::firewall_under_test::FirewallWithCounters;
use crate::topology::local::LocalTestbed;
use crate::topology::probe_routes::{ProbeLinks, add_probe_routes};

/// Names of the interfaces of this host, in the source's and in the sink's namespace.
const SOURCE_DEVICE_NAME: &str = "f0";
const SINK_DEVICE_NAME: &str = "k0";

/// The other host, and the cables to it.
pub(super) struct RemoteTestbed {
    pub(super) host: RemoteHost,
    pub(super) firewall_in_mac: Mac,
    /// Of the firewall's device towards the sink.
    firewall_out_mac: Mac,
    pub(super) source_mac: Mac,
    /// What the cables lead to.
    sink_mac_and_return_route: SinkMacAndReturnRoute,
    /// Programs are on the interfaces of this host.
    has_bpf_programs_attached: bool,
    /// Name of the firewall that the interfaces belong to.
    cabled_firewall_name: Option<String>,
}

impl RemoteTestbed {
    /// Starts an agent on the host of the file, and takes the interfaces at both ends.
    pub(super) fn new(
        local: &LocalTestbed,
        hosts: &LabHostsFile,
        weir: &Path,
        version: &str,
    ) -> Result<RemoteTestbed, LabError> {
        let (session, ends) = (&local.session, &hosts.tester);
        for name in [&ends.input, &ends.output] {
            session
                .read_unaddressed_unbridged_device(name.get_ref())
                .map_err(|error| hosts.error_at_value(name, error))?;
        }
        let host = RemoteHost::start_agent_of_same_version(hosts, session, weir, version)?;
        let FirewallDevices { input, output } = &local.firewall_devices;
        let take = |interface: &toml::Spanned<String>, name: &str| {
            host.take_interface_and_get_mac(interface.get_ref(), name)
                .map_err(|error| LabError::from(hosts.error_at_value(interface, error)))
        };
        let firewall_in_mac = take(&hosts.firewall.input, input)?;
        let firewall_out_mac = take(&hosts.firewall.output, output)?;
        let mut macs = [SOURCE_MAC; 2];
        let pairs = [
            (&ends.input, &local.source_namespace, SOURCE_DEVICE_NAME),
            (&ends.output, &local.sink_namespace, SINK_DEVICE_NAME),
        ];
        for (mac, (interface, namespace, name)) in macs.iter_mut().zip(pairs) {
            session
                .borrow_device(interface.get_ref(), namespace, name)
                .map_err(|error| hosts.error_at_value(interface, error))?;
            namespace.set_device_up(name)?;
            *mac = namespace.read_device_mac_carrier_and_use(name)?.mac;
        }
        let [source_mac, sink_mac] = macs;
        Ok(RemoteTestbed {
            host,
            firewall_in_mac,
            firewall_out_mac,
            source_mac,
            sink_mac_and_return_route: SinkMacAndReturnRoute { sink_mac, return_route: None },
            has_bpf_programs_attached: false,
            cabled_firewall_name: None,
        })
    }

    /// A namespace there that rulesets are loaded in to be timed.
    pub(super) fn create_load_timing_namespace(&self) -> Result<RcExecTarget, LabError> {
        Ok(self.host.create_detached_namespace()?)
    }

    /// Gives the cables to a firewall, where it has not got them.
    pub(super) fn switch_cables_to(
        &mut self,
        local: &LocalTestbed,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        if self.cabled_firewall_name.as_deref() == Some(firewall.namespace_name()) {
            return Ok(());
        }
        firewall.command_target.attach_cables(&self.sink_mac_and_return_route)?;
        self.cabled_firewall_name = Some(firewall.namespace_name().to_owned());
        wait_for_carrier(&local.source_namespace, SOURCE_DEVICE_NAME)?;
        wait_for_carrier(&local.sink_namespace, SINK_DEVICE_NAME)
    }

    /// A firewall there, between source and sink.
    pub(super) fn create_firewall(
        &mut self,
        local: &mut LocalTestbed,
        sink: &mut Sink,
        (ipv6, is_probed): (bool, bool),
    ) -> Result<FirewallWithCounters, LabError> {
        if !self.has_bpf_programs_attached {
            sink.attach(&local.sink_namespace, local.sink_namespace.ifindex(SINK_DEVICE_NAME)?)?;
            if is_probed {
                self.sink_mac_and_return_route.return_route =
                    Some(ReturnRoute { mac: self.source_mac, clients: None });
                self.enable_probe_routes(local)?;
            }
            self.has_bpf_programs_attached = true;
        }
        let devices = DeviceDropCounterReader::default()
            .add_devices_rx_and_tx_drops(&local.sink_namespace, &[SINK_DEVICE_NAME])?;
        assemble_remote_firewall(local, self.host.create_uncabled_firewall(ipv6)?, devices)
    }

    /// A firewall there, between clients and servers.
    pub(super) fn create_stateless_tcp_firewall(
        &mut self,
        local: &mut LocalTestbed,
        ends: &mut StatelessTcpEndpoints,
        endpoints: &Endpoints,
    ) -> Result<FirewallWithCounters, LabError> {
        if !self.has_bpf_programs_attached {
            ends.attach_client(
                &local.source_namespace,
                local.source_namespace.ifindex(SOURCE_DEVICE_NAME)?,
            )?;
            ends.attach_server(
                &local.sink_namespace,
                local.sink_namespace.ifindex(SINK_DEVICE_NAME)?,
            )?;
            let clients = Some(endpoints.client_prefix());
            self.sink_mac_and_return_route.return_route =
                Some(ReturnRoute { mac: self.source_mac, clients });
            self.has_bpf_programs_attached = true;
        }
        // The other end of a virtual link also counts what either of them could not send.
        let devices = DeviceDropCounterReader::default()
            .add_devices_rx_drops_only(&local.source_namespace, &[SOURCE_DEVICE_NAME])?
            .add_devices_rx_drops_only(&local.sink_namespace, &[SINK_DEVICE_NAME])?;
        assemble_remote_firewall(local, self.host.create_uncabled_firewall(false)?, devices)
    }

    /// The routes of streams between this host's two interfaces. A card segments their packets; its
    /// settings are not changed, because it is returned.
    fn enable_probe_routes(&self, local: &LocalTestbed) -> Result<(), LabError> {
        let (source, sink) = (&local.source_namespace, &local.sink_namespace);
        for (namespace, device) in [(source, SOURCE_DEVICE_NAME), (sink, SINK_DEVICE_NAME)] {
            namespace.set_sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        }
        let links = ProbeLinks {
            source,
            source_device: SOURCE_DEVICE_NAME,
            sink,
            sink_device: SINK_DEVICE_NAME,
        };
        add_probe_routes(&links, [self.firewall_in_mac, self.firewall_out_mac], 0)
    }
}

/// A firewall in a namespace of the other host; `here` are counters of this host's interfaces.
fn assemble_remote_firewall(
    local: &mut LocalTestbed,
    there: Rc<RemoteNamespace>,
    here: DeviceDropCounterReader,
) -> Result<FirewallWithCounters, LabError> {
    let FirewallDevices { input, output } = local.firewall_devices.clone();
    let files = &*there;
    Ok(FirewallWithCounters {
        send_ifindex: local.source_namespace.ifindex(SOURCE_DEVICE_NAME)?,
        device_drops: here.add_devices_rx_and_tx_drops(files, &[&input, &output])?,
        stack_counters: IpStackCounterReader::open(files)?,
        conntrack_counters: ConntrackStatReader::open(files)?,
        received_from_source: RxPacketCounterReader::open(files, &input)?,
        received_after_firewall: RxPacketCounterReader::open(
            &local.sink_namespace,
            SINK_DEVICE_NAME,
        )?,
        source_and_sink_devices: (SOURCE_DEVICE_NAME.to_owned(), SINK_DEVICE_NAME.to_owned()),
        is_end_host: false,
        // What forgets that the firewall is elsewhere finds nothing here, rather than another
        // firewall.
        namespace: local.create_isolated_namespace_with_firewall_devices()?,
        command_target: there,
    })
}
