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
use weir_study::{Devices, Endpoints, Hosts};

use crate::LabError;
use crate::host::remote::{RemoteHost, RemoteNamespace};
use crate::host::router::{SOURCE_MAC, wait_for_carrier};
use crate::host::target::{BackRoute, Neighbours, SharedTarget};
use crate::observe::counters::{ConntrackReader, DeviceReader, ReceivedReader, StackReader};
use crate::program::sink::Sink;
use crate::program::tcp::TcpEnds;
use crate::topology::firewall::TestFirewall;
use crate::topology::local::LocalTestbed;
use crate::topology::probe_routes::{ProbeLinks, add_probe_routes};

/// Names of the interfaces of this host, in the source's and in the sink's namespace.
const NEAR: &str = "f0";
const FAR: &str = "k0";

/// The other host, and the cables to it.
pub(super) struct RemoteTestbed {
    pub(super) host: RemoteHost,
    pub(super) firewall_mac: Mac,
    /// Of the firewall's device towards the sink.
    outer_mac: Mac,
    pub(super) source_mac: Mac,
    /// What the cables lead to.
    neighbours: Neighbours,
    /// Programs are on the interfaces of this host.
    is_attached: bool,
    /// Name of the firewall that the interfaces belong to.
    current: Option<String>,
}

impl RemoteTestbed {
    /// Starts an agent on the host of the file, and takes the interfaces at both ends.
    pub(super) fn new(
        local: &LocalTestbed,
        hosts: &Hosts,
        weir: &Path,
        version: &str,
    ) -> Result<RemoteTestbed, LabError> {
        let (session, ends) = (&local.session, &hosts.ends);
        for name in [&ends.input, &ends.output] {
            session.check_unused(name.get_ref()).map_err(|error| hosts.refused(name, error))?;
        }
        let host = RemoteHost::connect(hosts, session, weir, version)?;
        let Devices { input, output } = &local.devices;
        let take = |interface: &toml::Spanned<String>, name: &str| {
            host.take(interface.get_ref(), name)
                .map_err(|error| LabError::from(hosts.refused(interface, error)))
        };
        let firewall_mac = take(&hosts.firewall.input, input)?;
        let outer_mac = take(&hosts.firewall.output, output)?;
        let mut macs = [SOURCE_MAC; 2];
        let pairs = [(&ends.input, &local.source, NEAR), (&ends.output, &local.sink_side, FAR)];
        for (mac, (interface, namespace, name)) in macs.iter_mut().zip(pairs) {
            session
                .borrow_device(interface.get_ref(), namespace, name)
                .map_err(|error| hosts.refused(interface, error))?;
            namespace.set_up(name)?;
            *mac = namespace.device(name)?.mac;
        }
        let [source_mac, sink_mac] = macs;
        Ok(RemoteTestbed {
            host,
            firewall_mac,
            outer_mac,
            source_mac,
            neighbours: Neighbours { sink_mac, back: None },
            is_attached: false,
            current: None,
        })
    }

    /// A namespace there that rulesets are loaded in to be timed.
    pub(super) fn bare(&self) -> Result<SharedTarget, LabError> {
        Ok(self.host.bare()?)
    }

    /// Gives the cables to a firewall, where it has not got them.
    pub(super) fn select(
        &mut self,
        local: &LocalTestbed,
        firewall: &TestFirewall,
    ) -> Result<(), LabError> {
        if self.current.as_deref() == Some(firewall.name()) {
            return Ok(());
        }
        firewall.target.take_cables(&self.neighbours)?;
        self.current = Some(firewall.name().to_owned());
        wait_for_carrier(&local.source, NEAR)?;
        wait_for_carrier(&local.sink_side, FAR)
    }

    /// A firewall there, between source and sink.
    pub(super) fn firewall(
        &mut self,
        local: &mut LocalTestbed,
        sink: &mut Sink,
        (ipv6, is_probed): (bool, bool),
    ) -> Result<TestFirewall, LabError> {
        if !self.is_attached {
            sink.attach(&local.sink_side, local.sink_side.ifindex(FAR)?)?;
            if is_probed {
                self.neighbours.back = Some(BackRoute { mac: self.source_mac, clients: None });
                self.enable_probe_routes(local)?;
            }
            self.is_attached = true;
        }
        let devices = DeviceReader::default().with(&local.sink_side, &[FAR])?;
        firewall_of(local, self.host.firewall(ipv6)?, devices)
    }

    /// A firewall there, between clients and servers.
    pub(super) fn between(
        &mut self,
        local: &mut LocalTestbed,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<TestFirewall, LabError> {
        if !self.is_attached {
            ends.attach_client(&local.source, local.source.ifindex(NEAR)?)?;
            ends.attach_server(&local.sink_side, local.sink_side.ifindex(FAR)?)?;
            let clients = Some(endpoints.client_network());
            self.neighbours.back = Some(BackRoute { mac: self.source_mac, clients });
            self.is_attached = true;
        }
        // The other end of a virtual link also counts what either of them could not send.
        let devices = DeviceReader::default()
            .with_received(&local.source, &[NEAR])?
            .with_received(&local.sink_side, &[FAR])?;
        firewall_of(local, self.host.firewall(false)?, devices)
    }

    /// The routes of streams between this host's two interfaces. A card segments their packets; its
    /// settings are not changed, because it is returned.
    fn enable_probe_routes(&self, local: &LocalTestbed) -> Result<(), LabError> {
        let (source, sink) = (&local.source, &local.sink_side);
        for (namespace, device) in [(source, NEAR), (sink, FAR)] {
            namespace.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        }
        let links = ProbeLinks { source, source_device: NEAR, sink, sink_device: FAR };
        add_probe_routes(&links, [self.firewall_mac, self.outer_mac], 0)
    }
}

/// A firewall in a namespace of the other host; `here` are counters of this host's interfaces.
fn firewall_of(
    local: &mut LocalTestbed,
    there: Rc<RemoteNamespace>,
    here: DeviceReader,
) -> Result<TestFirewall, LabError> {
    let Devices { input, output } = local.devices.clone();
    let files = &*there;
    Ok(TestFirewall {
        ifindex: local.source.ifindex(NEAR)?,
        devices: here.with(files, &[&input, &output])?,
        stack: StackReader::open(files)?,
        conntrack: ConntrackReader::open(files)?,
        entered: ReceivedReader::open(files, &input)?,
        left: ReceivedReader::open(&local.sink_side, FAR)?,
        ends: (NEAR.to_owned(), FAR.to_owned()),
        is_host: false,
        // What forgets that the firewall is elsewhere finds nothing here, rather than another
        // firewall.
        namespace: local.bare()?,
        target: there,
    })
}
