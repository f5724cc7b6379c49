//! One firewall under test: a namespace with the ruleset, and a namespace around it.
//!
//! The firewall has two links, whatever devices the ruleset has: one on which packets arrive, one
//! by which they leave. Each is renamed to the device that a batch needs, so that thousands of
//! devices cost nothing. Routing uses separate tables: an incoming packet leaves by the second link
//! (or by the first, if a batch is to return where it came from), or is local, as the batch
//! requires.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_kernel::conntrack::KernelConntrackTable;
use weir_kernel::nflog::{LoggedPacket, NflogReceiver};
use weir_kernel::{FrameSocket, Namespace, RawIpSocket, Session, VethEndAddresses, VethOptions};
use weir_model::Hook;
use weir_packet::{CtState, Family};
use weir_semantics::JourneyKind;

use crate::VerifyError;
use crate::link_macs::{FIREWALL_INPUT_MAC, NEIGHBOUR_MAC};
use crate::observing_rules::{self, RENAMED_LOOPBACK_DEVICE, log_prefix};
use crate::packet_batch::{PacketBatch, PacketPath};

/// Addresses of the two links, by family.
pub(crate) const FIREWALL_LINK_ADDRS: [[u128; 2]; 2] =
    [[0xc000_000a, 0xc000_000b], [0xfd57_6569 << 96 | 0x0a, 0xfd57_6569 << 96 | 0x0b]];

const NFLOG_COPY_BYTES: u32 = 128;
/// How long a batch may take to pass.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// What was seen of one batch.
#[derive(Debug, Default)]
pub(crate) struct BatchObservation {
    /// Packets that reached the first hook.
    pub reached_first_hook: Vec<bool>,
    /// Their conntrack state, where it is logged.
    pub ct_states: Vec<Option<CtState>>,
    /// Those that arrived, as outgoing packets.
    pub packets_at_last_hook: Vec<Option<PacketAtLastHook>>,
    /// Index of the device that the batch leaves by.
    output_ifindex: u32,
}

/// A packet as it left the firewall, or was delivered to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketAtLastHook {
    /// Its first bytes, from the network header on.
    pub bytes: Vec<u8>,
    /// Its mark.
    pub mark: u32,
    /// It stayed: the last hook was INPUT.
    pub is_delivered_locally: bool,
    /// It was to leave by another device than the batch's.
    pub has_wrong_output_device: bool,
}

/// A firewall under test.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub name: String,
    pub firewall_namespace: Namespace,
    frame_socket: FrameSocket,
    host_sockets: HashMap<Family, RawIpSocket>,
    nflog: NflogReceiver,
    conntrack_table: Option<KernelConntrackTable>,
    /// Connections were made for the last batch.
    has_created_conntrack_entries: bool,
    device_names: [String; 2],
    /// Their indices, which stay.
    ifindices: [u32; 2],
    current_routes: HashMap<Family, IncomingRoute>,
}

/// Where packets go that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncomingRoute {
    /// Out by the second link.
    ToSecondLink,
    /// Back by the first link.
    BackToFirstLink,
    /// To this host, though its address is not the host's (as for a transparent proxy).
    LocalTransparent,
    /// To this host: every address is its own.
    LocalEveryAddressOwn,
}

impl Testbed {
    /// Makes the namespaces, calls `load` for the ruleset, then adds the probe.
    pub fn new(
        session: &Session,
        name: &str,
        families: &[Family],
        ct_state_families: &[Family],
        load: impl FnOnce(&Namespace) -> Result<(), VerifyError>,
    ) -> Result<Testbed, VerifyError> {
        let firewall = session.create_namespace(&format!("fw-{name}"))?;
        let world = session.create_namespace(&format!("world-{name}"))?;
        rename_firewall_lo_and_set_sysctls(&firewall, &world, families)?;
        let devices = ["weir-in".to_owned(), "weir-out".to_owned()];
        for (i, device) in devices.iter().enumerate() {
            let mac = if i == 0 { Some(FIREWALL_INPUT_MAC) } else { None };
            let options = VethOptions {
                end_a: VethEndAddresses { mac, addrs: format_link_addr_prefixes(i, families) },
                end_b: VethEndAddresses { mac: Some(NEIGHBOUR_MAC), addrs: Vec::new() },
                ..VethOptions::default()
            };
            session.create_veth_pair(&firewall, device, &world, &format!("w{i}"), &options)?;
            firewall.disable_non_gro_offloads(device)?;
        }
        install_neighbours_and_routing(&firewall, &devices, families)?;
        load(&firewall)?;
        firewall.run_command(
            &["nft", "-f", "-"],
            observing_rules::write_observing_tables(ct_state_families).as_bytes(),
        )?;
        let mut hosts = HashMap::new();
        for family in families {
            hosts.insert(
                *family,
                RawIpSocket::open_bound_to_device(&firewall, *family, &devices[1])?,
            );
        }
        Ok(Testbed {
            name: name.to_owned(),
            frame_socket: FrameSocket::open(&world, "w0")?,
            host_sockets: hosts,
            nflog: NflogReceiver::bind(&firewall, observing_rules::NFLOG_GROUP, NFLOG_COPY_BYTES)?,
            conntrack_table: KernelConntrackTable::open(&firewall).ok(),
            has_created_conntrack_entries: false,
            ifindices: [firewall.ifindex(&devices[0])?, firewall.ifindex(&devices[1])?],
            device_names: devices,
            current_routes: HashMap::new(),
            firewall_namespace: firewall,
        })
    }

    /// Sends a batch and returns what was seen of it.
    pub fn send_batch(&mut self, batch: &PacketBatch) -> Result<BatchObservation, VerifyError> {
        self.configure_devices_and_route(&batch.path)?;
        self.replace_conntrack_entries(batch)?;
        // What earlier batches left to be read is not this batch's.
        self.nflog.visit_waiting_packets(|_| ())?;
        let back =
            batch.path.journey_kind == JourneyKind::Forward && batch.path.iif == batch.path.oif;
        let leaves_by = self.ifindices[if back { 0 } else { 1 }];
        let mut seen = BatchObservation::with_packet_count(batch.packets.len(), leaves_by);
        match batch.path.journey_kind {
            JourneyKind::Output => self.send_from_host(batch, &mut seen)?,
            JourneyKind::Forward | JourneyKind::Input => {
                self.send_from_outside(batch, &mut seen)?
            }
        }
        Ok(seen)
    }

    /// From outside: frames, then the marker; the marker's log entry is the last.
    fn send_from_outside(
        &mut self,
        batch: &PacketBatch,
        seen: &mut BatchObservation,
    ) -> Result<(), VerifyError> {
        let mut marker = observing_rules::make_end_of_batch_packet();
        marker.smac = Some(NEIGHBOUR_MAC);
        let marker = marker.to_frame_with_dmac(FIREWALL_INPUT_MAC);
        let frames = batch.packets.iter().map(|p| p.frame.as_slice());
        let frames = frames.chain([marker.as_slice()]);
        let mut sent = self
            .frame_socket
            .send_in_order_from_one_cpu(frames)
            .map_err(VerifyError::from_send_error)?;
        // A packet that cannot be sent is seen nowhere, which is reported; the marker must be.
        sent.pop().expect("the marker's").map_err(VerifyError::from_send_error)?;
        let end = Instant::now() + BATCH_TIMEOUT;
        let mut is_through = false;
        loop {
            self.nflog
                .visit_waiting_packets(|l| is_through |= seen.record_log_entry_or_end(batch, &l))?;
            if is_through {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(VerifyError::BatchTimeout { way: self.name.clone() });
            }
            self.nflog.wait_readable(left)?;
        }
    }

    /// From the host itself: a packet is through when its system call returns.
    fn send_from_host(
        &mut self,
        batch: &PacketBatch,
        seen: &mut BatchObservation,
    ) -> Result<(), VerifyError> {
        let host = &self.host_sockets[&batch.path.family];
        for p in &batch.packets {
            host.set_mark(p.packet.mark).map_err(VerifyError::from_send_error)?;
            // The last hook drops every packet, which the system call reports.
            let _ = host.send(&p.packet, &p.frame);
        }
        self.nflog.visit_waiting_packets(|l| {
            seen.record_log_entry_or_end(batch, &l);
        })?;
        Ok(())
    }

    /// Renames the links and sets the routes of incoming packets.
    fn configure_devices_and_route(&mut self, path: &PacketPath) -> Result<(), VerifyError> {
        let wanted = [path.iif.as_str(), path.oif.as_str()];
        let back = path.journey_kind == JourneyKind::Forward && path.iif == path.oif;
        for (i, wanted) in wanted.into_iter().enumerate() {
            let other = 1 - i;
            let spare = wanted.is_empty() || (i == 1 && back) || self.device_names[i] == wanted;
            if spare {
                continue;
            }
            if self.device_names[other] == wanted {
                let spare = format!("weir-spare{other}");
                self.firewall_namespace.rename_device(&self.device_names[other], &spare)?;
                self.device_names[other] = spare;
            }
            self.firewall_namespace.rename_device(&self.device_names[i], wanted)?;
            self.device_names[i] = wanted.to_owned();
        }
        let route = match path.journey_kind {
            JourneyKind::Input if path.treats_all_addresses_as_own => {
                IncomingRoute::LocalEveryAddressOwn
            }
            JourneyKind::Input => IncomingRoute::LocalTransparent,
            JourneyKind::Forward if back => IncomingRoute::BackToFirstLink,
            JourneyKind::Forward | JourneyKind::Output => IncomingRoute::ToSecondLink,
        };
        if self.current_routes.get(&path.family) != Some(&route) {
            self.replace_incoming_route(path.family, route)?;
            self.current_routes.insert(path.family, route);
        }
        Ok(())
    }

    fn replace_incoming_route(
        &self,
        family: Family,
        route: IncomingRoute,
    ) -> Result<(), VerifyError> {
        let (flag, via) = ip_option_and_gateway(family);
        let device = match route {
            IncomingRoute::BackToFirstLink => &self.device_names[0],
            IncomingRoute::ToSecondLink
            | IncomingRoute::LocalTransparent
            | IncomingRoute::LocalEveryAddressOwn => &self.device_names[1],
        };
        let local = format!("local default dev {RENAMED_LOOPBACK_DEVICE}");
        let line = match route {
            IncomingRoute::LocalEveryAddressOwn => format!("route replace {local} table local"),
            IncomingRoute::LocalTransparent => format!("route replace {local} table 100"),
            IncomingRoute::ToSecondLink | IncomingRoute::BackToFirstLink => {
                format!("route replace default via {via} dev {device} onlink table 100")
            }
        };
        // A local and a gateway route can coexist: the old one is removed first.
        let mut text = match self.current_routes.get(&family) {
            Some(IncomingRoute::LocalEveryAddressOwn) => format!("route del {local} table local\n"),
            Some(_) => "route flush table 100\n".to_owned(),
            None => String::new(),
        };
        text += &line;
        text.push('\n');
        self.firewall_namespace.run_command(&["ip", flag, "-batch", "-"], text.as_bytes())?;
        Ok(())
    }

    /// Makes the connections that the batch's packets belong to.
    fn replace_conntrack_entries(&mut self, batch: &PacketBatch) -> Result<(), VerifyError> {
        let entries: Vec<_> =
            batch.packets.iter().flat_map(|p| p.conntrack_entries.clone()).collect();
        let Some(connections) = &mut self.conntrack_table else { return Ok(()) };
        if self.has_created_conntrack_entries {
            connections.flush()?;
            self.has_created_conntrack_entries = false;
        }
        if !entries.is_empty() {
            let refusals = connections.create_entries_collecting_refusals(&entries)?;
            if let Some(first) = refusals.first() {
                let (refused, reason) = (refusals.len(), first.to_string());
                return Err(VerifyError::CreateConnections { refused, reason });
            }
            self.has_created_conntrack_entries = true;
        }
        Ok(())
    }
}

impl BatchObservation {
    fn with_packet_count(packets: usize, leaves_by: u32) -> BatchObservation {
        BatchObservation {
            output_ifindex: leaves_by,
            reached_first_hook: vec![false; packets],
            ct_states: vec![None; packets],
            packets_at_last_hook: vec![None; packets],
        }
    }

    /// Takes a log entry in; true where it is the marker's.
    fn record_log_entry_or_end(&mut self, batch: &PacketBatch, logged: &LoggedPacket<'_>) -> bool {
        if logged.prefix == log_prefix::END_OF_BATCH_PACKET {
            return true;
        }
        let Some(at) = batch.identify_packet(logged.payload) else { return false };
        match logged.prefix {
            log_prefix::REACHED_FIRST_HOOK => self.reached_first_hook[at] = true,
            log_prefix::REACHED_LAST_HOOK => {
                let is_delivered_locally = usize::from(logged.hook) == Hook::Input.number();
                self.packets_at_last_hook[at] = Some(PacketAtLastHook {
                    bytes: logged.payload.to_vec(),
                    mark: logged.mark,
                    is_delivered_locally,
                    has_wrong_output_device: !is_delivered_locally
                        && logged.outdev != self.output_ifindex,
                });
            }
            log_prefix::CT_NEW => self.ct_states[at] = Some(CtState::New),
            log_prefix::CT_ESTABLISHED => self.ct_states[at] = Some(CtState::Established),
            log_prefix::CT_RELATED => self.ct_states[at] = Some(CtState::Related),
            log_prefix::CT_INVALID => self.ct_states[at] = Some(CtState::Invalid),
            log_prefix::CT_UNTRACKED => self.ct_states[at] = Some(CtState::Untracked),
            _ => {}
        }
        false
    }
}

fn format_link_addr_prefixes(link: usize, families: &[Family]) -> Vec<String> {
    families
        .iter()
        .map(|f| {
            let addr = weir_packet::Addr(FIREWALL_LINK_ADDRS[*f as usize][link]);
            format!("{}/{}", addr.display(*f), f.addr_bits())
        })
        .collect()
}

/// The gateway that everything is sent to, and the option of `ip` for the family.
fn ip_option_and_gateway(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("-4", "192.0.0.254"),
        Family::V6 => ("-6", "fe80::57:fe"),
    }
}

/// Sysctls before there are links: forwarding, no checks, no packets of the host itself.
fn rename_firewall_lo_and_set_sysctls(
    firewall: &Namespace,
    world: &Namespace,
    families: &[Family],
) -> Result<(), VerifyError> {
    firewall.rename_device("lo", RENAMED_LOOPBACK_DEVICE)?;
    for scope in ["all", "default"] {
        world.set_sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), "1")?;
        for (key, value) in [
            ("rp_filter", "0"),
            ("accept_local", "1"),
            ("route_localnet", "1"),
            ("send_redirects", "0"),
            ("log_martians", "0"),
            ("arp_ignore", "8"),
        ] {
            firewall.set_sysctl(&format!("net.ipv4.conf.{scope}.{key}"), value)?;
        }
        let quiet = if families.contains(&Family::V6) { "0" } else { "1" };
        firewall.set_sysctl(&format!("net.ipv6.conf.{scope}.disable_ipv6"), quiet)?;
        for (key, value) in [
            ("accept_ra", "0"),
            ("accept_dad", "0"),
            ("accept_redirects", "0"),
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
            ("forwarding", "1"),
        ] {
            firewall.set_sysctl(&format!("net.ipv6.conf.{scope}.{key}"), value)?;
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
        firewall.set_sysctl(key, value)?;
    }
    Ok(())
}

/// Static neighbours, and the rules that select a table: incoming packets use table 100, the host's
/// own packets table 200.
fn install_neighbours_and_routing(
    firewall: &Namespace,
    devices: &[String; 2],
    families: &[Family],
) -> Result<(), VerifyError> {
    for family in families {
        let (flag, via) = ip_option_and_gateway(*family);
        let mut text = String::new();
        for device in devices {
            text += &format!(
                "neigh replace {via} lladdr 02:57:00:00:00:fe dev {device} nud permanent\n"
            );
        }
        text += &format!("rule add pref 100 not iif {RENAMED_LOOPBACK_DEVICE} lookup 100\n");
        text += &format!("rule add pref 200 iif {RENAMED_LOOPBACK_DEVICE} lookup 200\n");
        // The return route of incoming packets is the link on which they arrived (rpfilter);
        // packets bound to the second link leave by it.
        for (metric, device) in [(1, &devices[0]), (2, &devices[1])] {
            let to = format!("via {via} dev {device} onlink metric {metric}");
            text += &format!("route add default {to} table 200\n");
        }
        firewall.run_command(&["ip", flag, "-batch", "-"], text.as_bytes())?;
    }
    Ok(())
}
