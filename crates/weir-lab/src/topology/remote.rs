//! Firewalls on another host, between two interfaces of this one.
//!
//! There is one pair of interfaces at each end, and a namespace for each firewall as on one
//! machine. So before a trial the interfaces of the firewall's host are moved into the namespace of
//! the firewall that is measured, and addressed and routed anew. Rulesets stay loaded. What belongs
//! to an interface rather than to a namespace (tc, XDP, chains of the family netdev, flowtables) is
//! lost by the move.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_kernel::{KernelError, Namespace};
use weir_packet::Mac;
use weir_stats::HostRecord;

use super::{FIREWALL_MAC, Firewall, SOURCE_MAC, Topology};
use super::{addresses, neighbour, route, way_to_clients};
use crate::LabError;
use crate::command::Ground;
use crate::host::protocol::{Around, Back};
use crate::host::remote::{Host, Room};
use crate::observe::counters::{ConntrackReader, DeviceReader, ReceivedReader, StackReader};
use crate::program::tcp::TcpEnds;
use crate::workload::probe::stream::{self, Ends};
use weir_study::Devices;
use weir_study::Endpoints;
use weir_study::Hosts;

/// Names of the interfaces of this host, in the source's and in the sink's namespace.
const NEAR: &str = "f0";
const FAR: &str = "k0";
/// How long a cable may take to come up: some copper links need several seconds.
const CARRIER_LIMIT: Duration = Duration::from_secs(20);
const CARRIER_LOOK: Duration = Duration::from_millis(20);

/// The other host, and the cables to it.
pub(super) struct Elsewhere {
    host: Host,
    firewall_mac: Mac,
    /// Of the firewall's device towards the sink.
    outer_mac: Mac,
    source_mac: Mac,
    /// What the cables lead to.
    around: Around,
    /// Programs are on the interfaces of this host.
    is_attached: bool,
    /// The firewall that the interfaces belong to.
    at: Option<u32>,
}

impl Topology {
    /// Lets all firewalls be on the host of the file from now on.
    ///
    /// # Errors
    /// With the file's line: a host that cannot be reached or has no weir that runs, interfaces
    /// that are not there or in use.
    pub(crate) fn go_elsewhere(
        &mut self,
        hosts: &Hosts,
        weir: &Path,
        version: &str,
    ) -> Result<(), LabError> {
        let (session, ends) = (&self.session, &hosts.ends);
        for name in [&ends.input, &ends.output] {
            session.check_unused(name.get_ref()).map_err(|error| hosts.refused(name, error))?;
        }
        let host = Host::connect(hosts, session, weir, version)?;
        let Devices { input, output } = &self.devices;
        let take = |interface: &toml::Spanned<String>, name: &str| {
            host.take(interface.get_ref(), name)
                .map_err(|error| LabError::from(hosts.refused(interface, error)))
        };
        let firewall_mac = take(&hosts.firewall.input, input)?;
        let outer_mac = take(&hosts.firewall.output, output)?;
        let mut macs = [SOURCE_MAC; 2];
        let pairs = [(&ends.input, &self.source, NEAR), (&ends.output, &self.sink_side, FAR)];
        for (mac, (interface, namespace, name)) in macs.iter_mut().zip(pairs) {
            session
                .borrow_device(interface.get_ref(), namespace, name)
                .map_err(|error| hosts.refused(interface, error))?;
            namespace.ip(&[format!("link set dev {name} up")])?;
            *mac = namespace.device(name)?.mac;
        }
        let [source_mac, sink_mac] = macs;
        let around = Around { sink_mac, back: None };
        self.elsewhere = Some(Elsewhere {
            host,
            firewall_mac,
            outer_mac,
            source_mac,
            around,
            is_attached: false,
            at: None,
        });
        Ok(())
    }

    /// MAC addresses of the firewall's device towards the source, and of the source.
    pub(crate) fn macs(&self) -> (Mac, Mac) {
        let there = self.elsewhere.as_ref().map(|there| (there.firewall_mac, there.source_mac));
        there.unwrap_or((FIREWALL_MAC, SOURCE_MAC))
    }

    /// The firewalls' host, where it is another one.
    pub(crate) fn other_host(&self) -> Option<&Host> {
        self.elsewhere.as_ref().map(|there| &there.host)
    }

    /// What the record tells of other hosts.
    pub(crate) fn hosts_record(&self) -> Result<Vec<HostRecord>, LabError> {
        self.other_host().map(Host::record).into_iter().collect()
    }

    /// Entries that the firewalls' machine lets a connection table have. The limit is one number for
    /// all network namespaces, and each table is measured against it on its own
    /// (nf_conntrack_core.c); 0 where there is no connection tracking.
    pub(crate) fn table_limit(&self) -> Result<u64, LabError> {
        let text = proc_of(self.other_host(), "sys/net/netfilter/nf_conntrack_max")?;
        Ok(text.trim().parse().unwrap_or(0))
    }

    /// A sysctl of the firewalls' machine that is a number.
    pub(crate) fn machine_sysctl(&self, key: &str) -> Result<u64, LabError> {
        let name = format!("sys/{}", key.replace('.', "/"));
        let text = proc_of(self.other_host(), &name)?;
        text.trim().parse().map_err(|_| {
            let host = self.other_host().map_or("this machine", |_| "the firewall's host");
            LabError::Host(format!("{host} has no sysctl {key}"))
        })
    }

    /// Sets a sysctl of the firewalls' machine for the run; the session there puts it back.
    pub(crate) fn raise(&self, key: &str, to: u64) -> Result<(), LabError> {
        match self.other_host() {
            Some(host) => host.raise(key, to),
            None => Ok(self.session.global_sysctl(key, &to.to_string())?),
        }
    }

    /// Gives the cables to a firewall, where one pair serves all of them.
    pub(crate) fn turn_to(&mut self, firewall: &Firewall) -> Result<(), LabError> {
        let (Some(there), Some(room)) = (&mut self.elsewhere, &firewall.elsewhere) else {
            return Ok(());
        };
        if there.at == Some(room.number()) {
            return Ok(());
        }
        room.turn_to(there.around.clone())?;
        there.at = Some(room.number());
        wait_for_carrier(&self.source, NEAR)?;
        wait_for_carrier(&self.sink_side, FAR)
    }

    /// Copies a folder of the study to the firewalls' host, frames left out: they are played here.
    pub(crate) fn send_files(&self, folder: &Path) -> Result<(), LabError> {
        let Some(host) = self.other_host() else { return Ok(()) };
        send_folder(host, folder, folder)
    }

    /// A namespace that rulesets are loaded in to be timed, on the firewalls' machine.
    pub(crate) fn bare(&mut self) -> Result<Ground, LabError> {
        if let Some(host) = self.other_host() {
            return Ok(Ground::There(host.bare()?));
        }
        Ok(Ground::Here(self.bare_here()?))
    }

    /// Ends a namespace of [`bare`](Topology::bare).
    pub(crate) fn remove(&self, ground: Ground) -> Result<(), LabError> {
        match ground {
            Ground::Here(namespace) => Ok(self.session.remove(namespace)?),
            Ground::There(room) => room.remove(),
        }
    }

    /// A firewall on the other host, between source and sink.
    pub(super) fn firewall_elsewhere(
        &mut self,
        host: &Host,
        ipv6: bool,
    ) -> Result<Firewall, LabError> {
        if let Some(there) = self.elsewhere.as_mut().filter(|there| !there.is_attached) {
            self.sink.attach(&self.sink_side, self.sink_side.ifindex(FAR)?)?;
            if self.is_probed {
                there.around.back = Some(Back { mac: there.source_mac, clients: None });
                there.open_to_probes(&self.source, &self.sink_side)?;
            }
            there.is_attached = true;
        }
        let sink = DeviceReader::open(&[(&self.sink_side, FAR)])?;
        self.firewall_of_room(host.firewall(ipv6)?, sink)
    }

    /// A firewall on the other host, between clients and servers.
    pub(super) fn firewall_between_elsewhere(
        &mut self,
        host: &Host,
        ends: &mut TcpEnds,
        endpoints: &Endpoints,
    ) -> Result<Firewall, LabError> {
        if let Some(there) = self.elsewhere.as_mut().filter(|there| !there.is_attached) {
            ends.attach_client(&self.source, self.source.ifindex(NEAR)?)?;
            ends.attach_server(&self.sink_side, self.sink_side.ifindex(FAR)?)?;
            let clients = Some(endpoints.client_network());
            there.around.back = Some(Back { mac: there.source_mac, clients });
            there.is_attached = true;
        }
        // What either of them could not send is told by the other end of a virtual link, too.
        let received = [(&self.source, NEAR), (&self.sink_side, FAR)];
        self.firewall_of_room(host.firewall(false)?, DeviceReader::of_received(&received)?)
    }

    /// A firewall in a namespace of the other host; `here` are counters of this host's interfaces.
    fn firewall_of_room(&mut self, room: Room, here: DeviceReader) -> Result<Firewall, LabError> {
        let Devices { input, output } = &self.devices;
        Ok(Firewall {
            ifindex: self.source.ifindex(NEAR)?,
            devices: here.and_there(&room, &[input, output]),
            stack: StackReader::there(&room),
            conntrack: ConntrackReader::there(&room),
            entered: ReceivedReader::there(&room, input),
            left: ReceivedReader::open(&self.sink_side, FAR)?,
            ends: (NEAR.to_owned(), FAR.to_owned()),
            is_host: false,
            // What forgets that the firewall is elsewhere finds nothing here, rather than another
            // firewall.
            namespace: self.bare_here()?,
            elsewhere: Some(room),
        })
    }
}

impl Elsewhere {
    /// The ways of streams between this host's two interfaces. A card cuts their segments; its
    /// settings stay as they are, for it is given back.
    fn open_to_probes(&self, source: &Namespace, sink_side: &Namespace) -> Result<(), LabError> {
        for (namespace, device) in [(source, NEAR), (sink_side, FAR)] {
            namespace.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        }
        let ends = Ends { source, source_device: NEAR, sink: sink_side, sink_device: FAR };
        stream::open(&ends, [self.firewall_mac, self.outer_mac], 0)
    }
}

impl Firewall {
    /// Where its ruleset is loaded.
    pub(crate) fn ground(&self) -> Ground {
        let there = self.elsewhere.clone().map(Ground::There);
        there.unwrap_or_else(|| Ground::Here(self.namespace.clone()))
    }

    /// The name of its namespace.
    pub(crate) fn name(&self) -> &str {
        self.elsewhere.as_ref().map_or(self.namespace.name(), Room::name)
    }

    /// A file under `/proc` of its machine; empty where there is none.
    pub(crate) fn proc(&self, name: &str) -> Result<String, LabError> {
        proc_of(self.elsewhere.as_ref().map(Room::host), name)
    }
}

/// A file under `/proc` of a host, or of this one; empty where there is none.
fn proc_of(host: Option<&Host>, name: &str) -> Result<String, LabError> {
    match host {
        Some(host) => host.proc(name),
        None => Ok(fs::read_to_string(Path::new("/proc").join(name)).unwrap_or_default()),
    }
}

/// Sets the interfaces of a firewall up that have just come into its namespace.
pub(crate) fn join(
    namespace: &Namespace,
    devices: &Devices,
    around: &Around,
    ipv6: bool,
) -> Result<(), LabError> {
    let Devices { input, output } = devices;
    let inside = addresses("198.18.0.1/24", "2001:2:0:1::1/64", ipv6);
    let outside = addresses("198.18.1.1/24", "2001:2:0:2::1/64", ipv6);
    let mut lines = Vec::new();
    for (device, addresses) in [(input, inside), (output, outside)] {
        lines.push(format!("link set dev {device} up"));
        for address in addresses {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            lines.push(format!("addr add {address} dev {device}{nodad}"));
        }
    }
    namespace.ip(&lines)?;
    route(namespace, output, around.sink_mac, ipv6)?;
    let mut redirected_into = vec![input];
    if let Some(Back { mac, clients }) = &around.back {
        let mut lines = vec![neighbour(*mac, input)];
        lines.extend(clients.iter().map(|network| way_to_clients(network, input)));
        namespace.ip(&lines)?;
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
fn wait_for_carrier(namespace: &Namespace, device: &str) -> Result<(), LabError> {
    let begun = Instant::now();
    while !namespace.device(device)?.has_carrier {
        if begun.elapsed() > CARRIER_LIMIT {
            let why = format!("no carrier within {} s: is the cable in?", CARRIER_LIMIT.as_secs());
            return Err(KernelError::Device { name: device.to_owned(), why }.into());
        }
        std::thread::sleep(CARRIER_LOOK);
    }
    Ok(())
}

fn send_folder(host: &Host, root: &Path, folder: &Path) -> Result<(), LabError> {
    let entries = fs::read_dir(folder).map_err(LabError::file("read", folder))?;
    for entry in entries {
        let path = entry.map_err(LabError::file("read", folder))?.path();
        let metadata = fs::metadata(&path).map_err(LabError::file("read", &path))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if metadata.is_dir() {
            send_folder(host, root, &path)?;
        } else if !name.starts_with("frames-") {
            let bytes = fs::read(&path).map_err(LabError::file("read", &path))?;
            host.send_file(name, &bytes, metadata.permissions().mode() & 0o100 != 0)?;
        }
    }
    Ok(())
}
