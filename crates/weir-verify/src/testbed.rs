//! One firewall under test: a namespace with the ruleset, and a namespace around it.
//!
//! The firewall has two links, whatever devices the ruleset has: one on which packets arrive, one
//! by which they leave. Each is renamed to the device that a batch needs, so that thousands of
//! devices cost nothing. Routing uses separate tables: an incoming packet leaves by the second link
//! (or by the first, if a batch is to return where it came from), or is local, as the batch
//! requires.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_kernel::conntrack::ConnectionTable;
use weir_kernel::nflog::{Logged, Nflog};
use weir_kernel::{FrameSocket, HostSocket, LinkEnd, Namespace, Session, VethOptions};
use weir_packet::{CtState, Family};
use weir_semantics::Entry;

use crate::VerifyError;
use crate::batch::{Batch, PacketPath};
use crate::link_addresses::{FIREWALL_MAC, WORLD_MAC};
use crate::probe::{self, LOOPBACK, prefix};

/// Addresses of the two links, by family.
pub(crate) const ADDRS: [[u128; 2]; 2] =
    [[0xc000_000a, 0xc000_000b], [0xfd57_6569 << 96 | 0x0a, 0xfd57_6569 << 96 | 0x0b]];

const COPY_BYTES: u32 = 128;
/// NF_INET_LOCAL_IN.
const HOOK_INPUT: u8 = 1;
/// How long a batch may take to pass.
const PASS_LIMIT: Duration = Duration::from_secs(10);

/// What was seen of one batch.
#[derive(Debug, Default)]
pub(crate) struct BatchObservation {
    /// Packets that reached the first hook.
    pub begun: Vec<bool>,
    /// Their conntrack state, where it is logged.
    pub states: Vec<Option<CtState>>,
    /// Those that arrived, as outgoing packets.
    pub left: Vec<Option<LeftPacket>>,
    /// Index of the device that the batch leaves by.
    leaves_by: u32,
}

/// A packet as it left the firewall, or was delivered to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftPacket {
    /// Its first bytes, from the network header on.
    pub bytes: Vec<u8>,
    /// Its mark.
    pub mark: u32,
    /// It stayed: the last hook was INPUT.
    pub is_local: bool,
    /// It was to leave by another device than the batch's.
    pub is_astray: bool,
}

/// A firewall under test.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub name: String,
    pub firewall: Namespace,
    frames: FrameSocket,
    hosts: HashMap<Family, HostSocket>,
    log: Nflog,
    connections: Option<ConnectionTable>,
    /// Connections were made for the last batch.
    has_connections: bool,
    devices: [String; 2],
    /// Their indices, which stay.
    indices: [u32; 2],
    routed: HashMap<Family, Route>,
}

/// Where packets go that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Out by the second link.
    Through,
    /// Back by the first link.
    Back,
    /// To this host, though its address is not the host's (as for a transparent proxy).
    Local,
    /// To this host: every address is its own.
    Own,
}

impl Testbed {
    /// Makes the namespaces, calls `load` for the ruleset, then adds the probe.
    pub fn new(
        session: &Session,
        name: &str,
        families: &[Family],
        states: &[Family],
        load: impl FnOnce(&Namespace) -> Result<(), VerifyError>,
    ) -> Result<Testbed, VerifyError> {
        let firewall = session.namespace(&format!("fw-{name}"))?;
        let world = session.namespace(&format!("world-{name}"))?;
        prepare(&firewall, &world, families)?;
        let devices = ["weir-in".to_owned(), "weir-out".to_owned()];
        for (i, device) in devices.iter().enumerate() {
            let mac = if i == 0 { Some(FIREWALL_MAC) } else { None };
            let options = VethOptions {
                a: LinkEnd { mac, addrs: addresses(i, families) },
                b: LinkEnd { mac: Some(WORLD_MAC), addrs: Vec::new() },
                ..VethOptions::default()
            };
            session.veth(&firewall, device, &world, &format!("w{i}"), &options)?;
            firewall.set_plain(device)?;
        }
        route(&firewall, &devices, families)?;
        load(&firewall)?;
        firewall.run(&["nft", "-f", "-"], probe::text(states).as_bytes())?;
        let mut hosts = HashMap::new();
        for family in families {
            hosts.insert(*family, HostSocket::open(&firewall, *family, &devices[1])?);
        }
        Ok(Testbed {
            name: name.to_owned(),
            frames: FrameSocket::open(&world, "w0")?,
            hosts,
            log: Nflog::bind(&firewall, probe::GROUP, COPY_BYTES)?,
            connections: ConnectionTable::open(&firewall).ok(),
            has_connections: false,
            indices: [firewall.ifindex(&devices[0])?, firewall.ifindex(&devices[1])?],
            devices,
            routed: HashMap::new(),
            firewall,
        })
    }

    /// Sends a batch and returns what was seen of it.
    pub fn send(&mut self, batch: &Batch) -> Result<BatchObservation, VerifyError> {
        self.turn_to(&batch.path)?;
        self.connect(batch)?;
        // What earlier batches left to be read is not this batch's.
        self.log.read(|_| ())?;
        let back = batch.path.entry == Entry::Forward && batch.path.iif == batch.path.oif;
        let leaves_by = self.indices[if back { 0 } else { 1 }];
        let mut seen = BatchObservation::of(batch.packets.len(), leaves_by);
        match batch.path.entry {
            Entry::Output => self.send_out(batch, &mut seen)?,
            Entry::Forward | Entry::Input => self.send_in(batch, &mut seen)?,
        }
        Ok(seen)
    }

    /// From outside: frames, then the marker; the marker's log entry is the last.
    fn send_in(&mut self, batch: &Batch, seen: &mut BatchObservation) -> Result<(), VerifyError> {
        let mut marker = probe::marker();
        marker.smac = Some(WORLD_MAC);
        let marker = marker.to_frame(FIREWALL_MAC);
        let frames = batch.packets.iter().map(|p| p.frame.as_slice());
        let frames = frames.chain([marker.as_slice()]);
        let mut sent = self.frames.send_in_order(frames).map_err(VerifyError::send)?;
        // A packet that cannot be sent is seen nowhere, which is reported; the marker must be.
        sent.pop().expect("the marker's").map_err(VerifyError::send)?;
        let end = Instant::now() + PASS_LIMIT;
        let mut is_through = false;
        loop {
            self.log.read(|l| is_through |= seen.take(batch, &l))?;
            if is_through {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(VerifyError::Stuck { way: self.name.clone() });
            }
            self.log.wait(left)?;
        }
    }

    /// From the host itself: a packet is through when its system call returns.
    fn send_out(&mut self, batch: &Batch, seen: &mut BatchObservation) -> Result<(), VerifyError> {
        let host = &self.hosts[&batch.path.family];
        for p in &batch.packets {
            host.set_mark(p.packet.mark).map_err(VerifyError::send)?;
            // The last hook drops every packet, which the system call reports.
            let _ = host.send(&p.packet, &p.frame);
        }
        self.log.read(|l| {
            seen.take(batch, &l);
        })?;
        Ok(())
    }

    /// Renames the links and sets the routes of incoming packets.
    fn turn_to(&mut self, path: &PacketPath) -> Result<(), VerifyError> {
        let wanted = [path.iif.as_str(), path.oif.as_str()];
        let back = path.entry == Entry::Forward && path.iif == path.oif;
        for (i, wanted) in wanted.into_iter().enumerate() {
            let other = 1 - i;
            let spare = wanted.is_empty() || (i == 1 && back) || self.devices[i] == wanted;
            if spare {
                continue;
            }
            if self.devices[other] == wanted {
                let spare = format!("weir-spare{other}");
                self.firewall.rename(&self.devices[other], &spare)?;
                self.devices[other] = spare;
            }
            self.firewall.rename(&self.devices[i], wanted)?;
            self.devices[i] = wanted.to_owned();
        }
        let route = match path.entry {
            Entry::Input if path.own => Route::Own,
            Entry::Input => Route::Local,
            Entry::Forward if back => Route::Back,
            Entry::Forward | Entry::Output => Route::Through,
        };
        if self.routed.get(&path.family) != Some(&route) {
            self.set_route(path.family, route)?;
            self.routed.insert(path.family, route);
        }
        Ok(())
    }

    fn set_route(&self, family: Family, route: Route) -> Result<(), VerifyError> {
        let (flag, via) = gateway(family);
        let device = match route {
            Route::Back => &self.devices[0],
            Route::Through | Route::Local | Route::Own => &self.devices[1],
        };
        let local = format!("local default dev {LOOPBACK}");
        let line = match route {
            Route::Own => format!("route replace {local} table local"),
            Route::Local => format!("route replace {local} table 100"),
            Route::Through | Route::Back => {
                format!("route replace default via {via} dev {device} onlink table 100")
            }
        };
        // A local and a gateway route can coexist: the old one is removed first.
        let mut text = match self.routed.get(&family) {
            Some(Route::Own) => format!("route del {local} table local\n"),
            Some(_) => "route flush table 100\n".to_owned(),
            None => String::new(),
        };
        text += &line;
        text.push('\n');
        self.firewall.run(&["ip", flag, "-batch", "-"], text.as_bytes())?;
        Ok(())
    }

    /// Makes the connections that the batch's packets belong to.
    fn connect(&mut self, batch: &Batch) -> Result<(), VerifyError> {
        let entries: Vec<_> = batch.packets.iter().flat_map(|p| p.connections.clone()).collect();
        let Some(connections) = &mut self.connections else { return Ok(()) };
        if self.has_connections {
            connections.flush()?;
            self.has_connections = false;
        }
        if !entries.is_empty() {
            connections.create(&entries)?;
            self.has_connections = true;
        }
        Ok(())
    }
}

impl BatchObservation {
    fn of(packets: usize, leaves_by: u32) -> BatchObservation {
        BatchObservation {
            leaves_by,
            begun: vec![false; packets],
            states: vec![None; packets],
            left: vec![None; packets],
        }
    }

    /// Takes a log entry in; true where it is the marker's.
    fn take(&mut self, batch: &Batch, logged: &Logged<'_>) -> bool {
        if logged.prefix == prefix::MARKER {
            return true;
        }
        let Some(at) = batch.position(logged.payload) else { return false };
        match logged.prefix {
            prefix::BEGUN => self.begun[at] = true,
            prefix::END => {
                let is_local = logged.hook == HOOK_INPUT;
                self.left[at] = Some(LeftPacket {
                    bytes: logged.payload.to_vec(),
                    mark: logged.mark,
                    is_local,
                    is_astray: !is_local && logged.outdev != self.leaves_by,
                });
            }
            prefix::NEW => self.states[at] = Some(CtState::New),
            prefix::ESTABLISHED => self.states[at] = Some(CtState::Established),
            prefix::RELATED => self.states[at] = Some(CtState::Related),
            prefix::INVALID => self.states[at] = Some(CtState::Invalid),
            prefix::UNTRACKED => self.states[at] = Some(CtState::Untracked),
            _ => {}
        }
        false
    }
}

fn addresses(link: usize, families: &[Family]) -> Vec<String> {
    families
        .iter()
        .map(|f| {
            let addr = weir_packet::Addr(ADDRS[*f as usize][link]);
            format!("{}/{}", addr.display(*f), f.bits())
        })
        .collect()
}

/// The gateway that everything is sent to, and the option of `ip` for the family.
fn gateway(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("-4", "192.0.0.254"),
        Family::V6 => ("-6", "fe80::57:fe"),
    }
}

/// Sysctls before there are links: forwarding, no checks, no packets of the host itself.
fn prepare(
    firewall: &Namespace,
    world: &Namespace,
    families: &[Family],
) -> Result<(), VerifyError> {
    firewall.rename("lo", LOOPBACK)?;
    for scope in ["all", "default"] {
        world.sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), "1")?;
        for (key, value) in [
            ("rp_filter", "0"),
            ("accept_local", "1"),
            ("route_localnet", "1"),
            ("send_redirects", "0"),
            ("log_martians", "0"),
            ("arp_ignore", "8"),
        ] {
            firewall.sysctl(&format!("net.ipv4.conf.{scope}.{key}"), value)?;
        }
        let quiet = if families.contains(&Family::V6) { "0" } else { "1" };
        firewall.sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), quiet)?;
        for (key, value) in [
            ("accept_ra", "0"),
            ("accept_dad", "0"),
            ("accept_redirects", "0"),
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
            ("forwarding", "1"),
        ] {
            firewall.sysctl(&format!("net.ipv6.conf.{scope}.{key}"), value)?;
        }
    }
    for (key, value) in [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.icmp_ratelimit", "0"),
        ("net.ipv4.icmp_echo_ignore_broadcasts", "0"),
        ("net.ipv4.ipfrag_time", "1"),
        ("net.ipv6.icmp.ratelimit", "0"),
        ("net.ipv6.ip6frag_time", "1"),
    ] {
        firewall.sysctl(key, value)?;
    }
    Ok(())
}

/// Static neighbours, and the rules that select a table: incoming packets use table 100, the host's
/// own packets table 200.
fn route(
    firewall: &Namespace,
    devices: &[String; 2],
    families: &[Family],
) -> Result<(), VerifyError> {
    for family in families {
        let (flag, via) = gateway(*family);
        let mut text = String::new();
        for device in devices {
            text += &format!(
                "neigh replace {via} lladdr 02:57:00:00:00:fe dev {device} nud permanent\n"
            );
        }
        text += &format!("rule add pref 100 not iif {LOOPBACK} lookup 100\n");
        text += &format!("rule add pref 200 iif {LOOPBACK} lookup 200\n");
        // The return route of incoming packets is the link on which they arrived (rpfilter);
        // packets bound to the second link leave by it.
        for (metric, device) in [(1, &devices[0]), (2, &devices[1])] {
            let to = format!("via {via} dev {device} onlink metric {metric}");
            text += &format!("route add default {to} table 200\n");
        }
        firewall.run(&["ip", flag, "-batch", "-"], text.as_bytes())?;
    }
    Ok(())
}
