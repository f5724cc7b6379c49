//! Stateless TCP connections: several hundred thousand new ones per second from one core.
//!
//! ```text
//!      client                         firewall                        server
//!        │ SYN              seq=c                                        │
//!        ├──────────────────────────────┼───────────────────────────────►│  1
//!        │                              │     SYN+ACK      seq=s ack=c+1 │
//!        │◄─────────────────────────────┼────────────────────────────────┤  2
//!        │ PSH+ACK  c+1, s+1   "GET /id=hex(c)"                          │
//!        ├──────────────────────────────┼───────────────────────────────►│  3
//!        │                PSH+ACK  s+1, c+41   "HTTP/1.1 200 OK … hex(s)"│
//!        │◄─────────────────────────────┼────────────────────────────────┤  4
//!        │ FIN+ACK  c+41, s+49                                           │
//!        ├──────────────────────────────┼───────────────────────────────►│  5
//!        │                                         FIN+ACK  s+49, c+42   │
//!        │◄─────────────────────────────┼────────────────────────────────┤  6
//!        │ ACK      c+42, s+50                                           │
//!        ├──────────────────────────────┼───────────────────────────────►│  7
//! ```
//!
//! Kernel sockets open 30,000 to 60,000 connections per second on two cores, and their cost hides
//! the cost of the firewall. Here both ends are XDP programs that turn a packet into its reply.
//! Neither keeps a table: `c` is a hash of the client's view of the connection, `s` one of the
//! server's and of `c`, as in SYN cookies. So each end can verify from any packet that all previous
//! packets arrived, and it compares numbers, lengths and text exactly. The client's TCP timestamp
//! is the time at which it opened the connection; it is returned with each reply, and the
//! histograms are computed from it.
//!
//! The request is part of the third packet, and the client closes. With [`ConnectionClose::Reset`]
//! its fifth packet is RST+ACK, and the last one. With [`ConnectionClose::Never`] its third packet
//! is a plain ACK. These have separate quantities, because they cost the firewall less.
//!
//! Every step is counted, so an incomplete connection failed at the first step that its packet did
//! not reach: offered = completed + failed. Nothing is retransmitted; a lost packet is a lost
//! connection, as for a user who does not wait. Packets are balanced separately: those that both
//! ends sent must have arrived at the other end or be in a counter of the firewall.
//!
//! A *flood* may be added: SYNs from many foreign addresses that are never completed, evenly
//! interleaved with the connections. The servers count them and do not reply, like a server with a
//! full queue.
//!
//! Limits: no window, no segments out of order, no options but timestamps, no IPv6. A firewall that
//! replies in place of an end (`SYNPROXY`) or adds options (`TCPMSS`) breaks the exchange, which is
//! detected (`invalid`).

use std::mem::offset_of;
use std::net::Ipv4Addr;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapHandle};
use weir_bpf::per_cpu_map::{self, PlainCStruct};
use weir_bpf::test_run::{
    MAX_CATCH_UP_BURST_FRAMES, count_pages_for_trial, run_live_frames_until_silent,
};
use weir_bpf::{StoppedTestRunInterrupter, object_storage_and_attach};
use weir_kernel::Namespace;
use weir_packet::Mac;
use weir_stats::{
    ArrivedTraffic, ConnectionClose, ConnectionCounts, ConnectionFailureCount, EndpointCounts,
};

use crate::LabError;
use crate::bpf_program::client_server_tally::{ClientOrServerTally, ClientServerTallies};
use crate::bpf_program::latency_histogram::{self, BUCKET_COUNT};
use crate::bpf_program::per_endpoint_counts;
use crate::observe::core_pinning::raise_priority_above_generator;
use weir_study::Endpoints;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod bpf_skeleton {
    include!(concat!(env!("OUT_DIR"), "/tcp.skel.rs"));
}
use bpf_skeleton::{TcpSkel, TcpSkelBuilder};

// SAFETY: numbers alone.
unsafe impl PlainCStruct for bpf_skeleton::types::tally {}
// SAFETY: numbers alone, those of two structs of numbers among them.
unsafe impl PlainCStruct for bpf_skeleton::types::member {}

/// Bytes of a frame without payload.
const TCP_FRAME_HEADER_BYTES: usize = 66;
/// Places of both ends in the map of counters.
const CLIENT_TALLY_INDEX: u32 = 0;
const SERVER_TALLY_INDEX: u32 = 1;
/// A tick of the timestamps, nanoseconds (`TICK_SHIFT` in bpf/tcp_state.h).
const TIMESTAMP_TICK_NS: f64 = 64.0;
/// Source addresses of a flood: the upper half of the links' part of 198.18.0.0/15.
const SYN_FLOOD_FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(198, 18, 128, 0);
const SYN_FLOOD_SOURCE_COUNT: u32 = 1 << 15;

/// How connections are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPlan {
    /// How long.
    pub duration: Duration,
    /// Connections a second; 0: as fast as the firewall can follow.
    pub rate: u64,
    /// Stop after this many connections; 0: after the duration only.
    pub connections_max: u64,
    /// How they end.
    pub close: ConnectionClose,
    /// Both ends verify the checksums of all that arrives.
    pub verify_checksums: bool,
    /// Marks the packets of one trial; any number that the trials before did not have.
    pub secret: u32,
    /// SYNs of a flood for each connection.
    pub flood_syns_per_connection: u32,
}

/// What the client's generator did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionGeneratorResult {
    /// Connections that were begun.
    pub offered: u64,
    /// SYNs of the flood among them, which are no connections.
    pub flood: u64,
    /// Connections of the rate that could not be opened in time.
    pub skipped_behind_schedule: u64,
    /// It finished.
    pub finished: bool,
    /// From the first packet until the kernel was done with the last batch, seconds.
    pub seconds: f64,
}

/// The server's counters, for another thread.
pub(crate) struct CompletedConnectionCounter(MapHandle);

impl CompletedConnectionCounter {
    /// Connections completed so far; 0 if the kernel does not report it.
    pub(crate) fn read_completed(&self) -> u64 {
        sum_core_tallies(&self.0, SERVER_TALLY_INDEX)
            .map_or(0, |tally| tally.last_ack_or_rst_received)
    }
}

/// Adds what one core counted.
fn add_core_tally(sum: &mut ClientOrServerTally, tally: &bpf_skeleton::types::tally) {
    sum.received += tally.received;
    sum.answers_sent += tally.sent;
    sum.syn_or_syn_ack_received += tally.opened;
    sum.request_or_reply_received += tally.data;
    sum.fin_or_fin_ack_received += tally.closed;
    sum.last_ack_or_rst_received += tally.ended;
    sum.invalid += tally.invalid;
    sum.unexpected_resets += tally.reset;
    sum.icmp += tally.icmp;
    sum.foreign += tally.foreign;
    sum.source_translated_syns += tally.translated;
    sum.bytes += tally.bytes;
    sum.flood_syns_received += tally.flood;
}

fn sum_core_tallies(
    tallies: &impl MapCore,
    tally_index: u32,
) -> Result<ClientOrServerTally, LabError> {
    let mut sum = ClientOrServerTally::default();
    let cores =
        per_cpu_map::read_per_cpu_values(tallies, tally_index, "read the counters of connections")?;
    cores.iter().for_each(|tally| add_core_tally(&mut sum, tally));
    Ok(sum)
}

fn endpoint_counts_from_bpf(of: &bpf_skeleton::types::member) -> EndpointCounts {
    let volume = |of: &bpf_skeleton::types::volume| ArrivedTraffic {
        packets: of.packets,
        frame_bytes: of.bytes,
    };
    EndpointCounts {
        connections: of.connections,
        arrived_from_endpoint: volume(&of.from),
        arrived_at_endpoint: volume(&of.to),
    }
}

/// Clients and servers, with their programs in the kernel.
pub struct StatelessTcpEndpoints {
    bpf_skeleton: TcpSkel<'static>,
    test_run_interrupter: StoppedTestRunInterrupter,
    bpf_links: Vec<Link>,
}

impl StatelessTcpEndpoints {
    /// Loads the programs.
    ///
    /// # Errors
    /// If the kernel refuses them (not root; no XDP).
    pub fn new(
        endpoints: &Endpoints,
        firewall: Mac,
        source: Mac,
    ) -> Result<StatelessTcpEndpoints, LabError> {
        let open = TcpSkelBuilder::default()
            .open(object_storage_and_attach::leak_object_storage())
            .map_err(LabError::bpf_error("open the BPF programs of connections"))?;
        let mut skeleton =
            open.load().map_err(LabError::bpf_error("load the BPF programs of connections"))?;
        let bss = skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.control.client_base = endpoints.first_client.into();
        bss.control.clients = endpoints.client_count.max(1);
        bss.control.server_base = endpoints.first_server.into();
        bss.control.servers = endpoints.server_count.max(1);
        bss.control.port = endpoints.server_port;
        bss.control.told_apart = per_endpoint_counts::can_count_per_endpoint(endpoints).into();
        bss.control.firewall_mac = firewall;
        bss.control.client_mac = source;
        let failed = "watch the BPF program of connections";
        let map = MapHandle::try_from(&skeleton.maps.bss).map_err(LabError::bpf_error(failed))?;
        let offset = offset_of!(bpf_skeleton::types::bss, outcome)
            + offset_of!(bpf_skeleton::types::outcome, paced)
            + offset_of!(bpf_skeleton::types::paced, ended_ns);
        Ok(StatelessTcpEndpoints {
            bpf_skeleton: skeleton,
            test_run_interrupter: StoppedTestRunInterrupter::spawn_thread(
                map,
                offset,
                raise_priority_above_generator,
            )?,
            bpf_links: Vec::new(),
        })
    }

    /// Makes the device with index `ifindex` of `namespace` that of clients.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach_client(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.bpf_skeleton.progs.weir_client;
        self.bpf_links.push(object_storage_and_attach::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach the client",
        )?);
        Ok(())
    }

    /// Makes the device with index `ifindex` of `namespace` that of servers.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach_server(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.bpf_skeleton.progs.weir_server;
        self.bpf_links.push(object_storage_and_attach::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach the server",
        )?);
        Ok(())
    }

    /// Gives the device with index `ifindex` of `namespace` a program that accepts everything: a
    /// veth accepts redirected packets if it has one, or GRO (drivers/net/veth.c).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn attach_pass_program(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
    ) -> Result<(), LabError> {
        let program = &self.bpf_skeleton.progs.weir_pass;
        self.bpf_links.push(object_storage_and_attach::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach what lets all pass",
        )?);
        Ok(())
    }

    /// Makes the device with index `ifindex` of `namespace` that of clients and servers alike.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn attach_both_ends_to_device(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
    ) -> Result<(), LabError> {
        let program = &self.bpf_skeleton.progs.weir_both;
        self.bpf_links.push(object_storage_and_attach::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach clients and servers",
        )?);
        Ok(())
    }

    /// From now on the first this many clients open connections to the first so many servers.
    pub fn set_active_client_server_counts(&mut self, clients: u32, servers: u32) {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.control.clients = clients.max(1);
        bss.control.servers = servers.max(1);
        bss.outcome.next_client %= clients.max(1);
        bss.outcome.next_server %= servers.max(1);
    }

    /// Opens connections out of the device with index `ifindex` of `namespace`, on the current
    /// core. Each continues where the one before ended, so no ports are used again soon.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open_connections(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
        open: &ConnectionPlan,
    ) -> Result<ConnectionGeneratorResult, LabError> {
        self.clear_counters()?;
        self.write_call_parameters_and_reset_outcome(ifindex, open);
        let each = 1 + u64::from(open.flood_syns_per_connection);
        let pages =
            count_pages_for_trial(open.duration, open.rate * each, open.connections_max * each);
        let program = &self.bpf_skeleton.progs.weir_open;
        let is_silent = || self.read_bpf_outcome().paced.ended_ns != 0;
        let (page, test_run_interrupter) =
            (&[0; TCP_FRAME_HEADER_BYTES], &self.test_run_interrupter);
        run_live_frames_until_silent(
            program,
            test_run_interrupter,
            namespace,
            open.duration,
            page,
            pages,
            &is_silent,
        )?;
        let outcome = self.read_bpf_outcome();
        let paced = outcome.paced;
        assert_eq!(paced.broken, 0, "pages are as long as frames");
        Ok(ConnectionGeneratorResult {
            offered: paced.made - outcome.flood,
            flood: outcome.flood,
            skipped_behind_schedule: paced.given_up / each,
            finished: paced.ended_ns != 0,
            seconds: paced.ended_ns.saturating_sub(paced.started_ns) as f64 / 1e9,
        })
    }

    /// Forgets what was counted.
    pub(crate) fn clear_counters(&mut self) -> Result<(), LabError> {
        let action = "clear the counters of connections";
        for tally_index in [CLIENT_TALLY_INDEX, SERVER_TALLY_INDEX] {
            per_cpu_map::clear_per_cpu_values(
                &self.bpf_skeleton.maps.tallies,
                tally_index,
                action,
            )?;
        }
        per_cpu_map::clear_per_cpu_values(&self.bpf_skeleton.maps.members, 0, action)?;
        Ok(per_cpu_map::clear_per_cpu_values(&self.bpf_skeleton.maps.times, 0, action)?)
    }

    fn write_call_parameters_and_reset_outcome(&mut self, ifindex: u32, open: &ConnectionPlan) {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        let control = &mut bss.control;
        control.pace = bpf_skeleton::types::pace {
            duration_ns: open.duration.as_nanos() as u64,
            rate: open.rate * (1 + u64::from(open.flood_syns_per_connection)),
            most: open.connections_max * (1 + u64::from(open.flood_syns_per_connection)),
            catch_up: MAX_CATCH_UP_BURST_FRAMES,
        };
        control.ifindex = ifindex;
        control.secret = open.secret;
        control.flood = open.flood_syns_per_connection;
        control.flood_base = SYN_FLOOD_FIRST_SOURCE.into();
        control.flood_sources = SYN_FLOOD_SOURCE_COUNT;
        control.verify = open.verify_checksums.into();
        control.close = match open.close {
            ConnectionClose::Fin => 0,
            ConnectionClose::Reset => 1,
            ConnectionClose::Never => 2,
        };
        let before = &bss.outcome;
        bss.outcome = bpf_skeleton::types::outcome {
            next_client: before.next_client,
            next_server: before.next_server,
            next_port: before.next_port,
            random: open.secret | 1,
            ..Default::default()
        };
    }

    fn read_bpf_outcome(&self) -> bpf_skeleton::types::outcome {
        let bss = self.bpf_skeleton.maps.bss_data.as_deref().expect("the program has variables");
        // SAFETY: a valid, aligned reference; the kernel wrote to it in the meantime, which the
        // compiler does not know.
        unsafe { std::ptr::read_volatile(&raw const bss.outcome) }
    }

    /// What of a trial can be followed while it lasts.
    pub(crate) fn completed_connection_counter(
        &self,
    ) -> Result<CompletedConnectionCounter, LabError> {
        let failed = LabError::bpf_error("follow the counters of connections");
        Ok(CompletedConnectionCounter(
            MapHandle::try_from(&self.bpf_skeleton.maps.tallies).map_err(failed)?,
        ))
    }

    /// What both ends counted since the last call of
    /// [`open_connections`](StatelessTcpEndpoints::open_connections).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read_tallies(&self) -> Result<ClientServerTallies, LabError> {
        let tallies = &self.bpf_skeleton.maps.tallies;
        Ok(ClientServerTallies {
            client: sum_core_tallies(tallies, CLIENT_TALLY_INDEX)?,
            server: sum_core_tallies(tallies, SERVER_TALLY_INDEX)?,
        })
    }

    /// Both histograms: the time until SYN+ACK, and until FIN+ACK.
    fn read_establish_and_whole_histograms(&self) -> Result<(Vec<u64>, Vec<u64>), LabError> {
        let times = &self.bpf_skeleton.maps.times;
        let mut counts = vec![0; 2 * BUCKET_COUNT];
        for core in per_cpu_map::read_per_cpu_array_at_key::<u64>(
            times,
            0,
            "read the histograms of connections",
        )? {
            for (count, more) in counts.iter_mut().zip(core) {
                *count += more;
            }
        }
        let whole = counts.split_off(BUCKET_COUNT);
        Ok((counts, whole))
    }

    /// The share of each client and each server; none if there are too many of them.
    fn read_per_endpoint_counts(
        &self,
    ) -> Result<(Vec<EndpointCounts>, Vec<EndpointCounts>), LabError> {
        let bss = self.bpf_skeleton.maps.bss_data.as_deref().expect("the program has variables");
        let control = &bss.control;
        if control.told_apart == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let action = "read the totals of clients and servers";
        let cores =
            per_cpu_map::read_per_cpu_array_at_key(&self.bpf_skeleton.maps.members, 0, action)?
                .into_iter();
        let cores = cores.map(|core| core.iter().map(endpoint_counts_from_bpf).collect());
        Ok(per_endpoint_counts::sum_endpoint_counts_over_cores(
            cores,
            control.clients,
            control.servers,
        ))
    }

    /// The record of a trial.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn build_connections_record(
        &self,
        opened: &ConnectionGeneratorResult,
        ends: &ClientServerTallies,
        close: ConnectionClose,
    ) -> Result<ConnectionCounts, LabError> {
        let steps = ends.arrivals_per_step(close);
        let before = std::iter::once(opened.offered).chain(steps.iter().map(|(_, count)| *count));
        let failed = before.zip(&steps).map(|(before, (at, reached))| ConnectionFailureCount {
            at: (*at).to_owned(),
            connections: before as i64 - *reached as i64,
        });
        let (establish, whole) = self.read_establish_and_whole_histograms()?;
        let (clients, servers) = self.read_per_endpoint_counts()?;
        Ok(ConnectionCounts {
            started: opened.offered,
            completed: steps.last().map_or(0, |(_, reached)| *reached),
            failed: failed.filter(|failure| failure.connections != 0).collect(),
            invalid_packets: ends.client.invalid + ends.server.invalid,
            foreign_resets: ends.client.unexpected_resets + ends.server.unexpected_resets,
            icmp: ends.client.icmp + ends.server.icmp,
            skipped_behind_schedule: opened.skipped_behind_schedule,
            nat_translated_connections: ends.server.source_translated_syns,
            arrived_at_servers: ClientServerTallies::volume_received_by_one_side(&ends.server),
            arrived_at_clients: ClientServerTallies::volume_received_by_one_side(&ends.client),
            clients,
            servers,
            establish: latency_histogram::summarise_histogram(&establish, TIMESTAMP_TICK_NS),
            whole: latency_histogram::summarise_histogram(&whole, TIMESTAMP_TICK_NS),
            ..ConnectionCounts::empty(close)
        })
    }
}
