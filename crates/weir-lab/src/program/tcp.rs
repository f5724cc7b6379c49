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
//! The request is part of the third packet, and the client closes. With [`Close::Reset`] its fifth
//! packet is RST+ACK, and the last one. With [`Close::Never`] its third packet is a plain ACK.
//! These have separate quantities, because they cost the firewall less.
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
use weir_bpf::per_cpu::{self, CStruct};
use weir_bpf::test_run::{CATCH_UP, pages, run_live};
use weir_bpf::{Watcher, object};
use weir_kernel::Namespace;
use weir_packet::Mac;
use weir_stats::{Close, Connections, Failure, Member, Volume};

use crate::LabError;
use crate::observe::cpu::before_generator;
use crate::program::histogram::{self, BUCKETS};
use crate::program::per_endpoint;
use weir_study::Endpoints;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/tcp.skel.rs"));
}
use skeleton::{TcpSkel, TcpSkelBuilder};

// SAFETY: numbers alone.
unsafe impl CStruct for skeleton::types::tally {}
// SAFETY: numbers alone, those of two structs of numbers among them.
unsafe impl CStruct for skeleton::types::member {}

/// Bytes of a frame without payload.
const FRAME_BYTES: usize = 66;
/// Places of both ends in the map of counters.
const CLIENT: u32 = 0;
const SERVER: u32 = 1;
/// A tick of the timestamps, nanoseconds (`TICK_SHIFT` in bpf/tcp_state.h).
const TICK_NS: f64 = 64.0;
/// Source addresses of a flood: the upper half of the links' part of 198.18.0.0/15.
const FLOOD_BASE: Ipv4Addr = Ipv4Addr::new(198, 18, 128, 0);
const FLOOD_SOURCES: u32 = 1 << 15;

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
    pub close: Close,
    /// Both ends verify the checksums of all that arrives.
    pub verify: bool,
    /// Marks the packets of one trial; any number that the trials before did not have.
    pub secret: u32,
    /// SYNs of a flood for each connection.
    pub flood: u32,
}

/// What the client's generator did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Opened {
    /// Connections that were begun.
    pub offered: u64,
    /// SYNs of the flood among them, which are no connections.
    pub flood: u64,
    /// Connections of the rate that could not be opened in time.
    pub given_up: u64,
    /// It finished.
    pub finished: bool,
    /// From the first packet until the kernel was done with the last batch, seconds.
    pub seconds: f64,
}

/// What one end counted. The fields are those of `struct tally` in bpf/tcp_state.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndTally {
    /// Packets of the trial that arrived.
    pub received: u64,
    /// Answers that were sent; the client's SYNs are not among them.
    pub sent: u64,
    /// Steps that were reached: SYN, or SYN+ACK.
    pub opened: u64,
    /// Request, or reply.
    pub data: u64,
    /// FIN, or FIN+ACK.
    pub closed: u64,
    /// The server's last packet: ACK, or RST.
    pub ended: u64,
    /// Packets of the trial that were not as they had to be.
    pub invalid: u64,
    /// RST that neither end sent.
    pub resets: u64,
    /// ICMP messages.
    pub icmp: u64,
    /// Other packets.
    pub foreign: u64,
    /// SYN of another address than a client's, at the server.
    pub translated: u64,
    /// Bytes of what was received, Ethernet headers included.
    pub bytes: u64,
    /// SYNs of the flood, at the server.
    pub flood: u64,
}

impl EndTally {
    fn add(&mut self, tally: &skeleton::types::tally) {
        self.received += tally.received;
        self.sent += tally.sent;
        self.opened += tally.opened;
        self.data += tally.data;
        self.closed += tally.closed;
        self.ended += tally.ended;
        self.invalid += tally.invalid;
        self.resets += tally.reset;
        self.icmp += tally.icmp;
        self.foreign += tally.foreign;
        self.translated += tally.translated;
        self.bytes += tally.bytes;
        self.flood += tally.flood;
    }
}

/// What both ends counted since the last [`TcpEnds::clear`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BothEnds {
    /// The clients.
    pub client: EndTally,
    /// The servers.
    pub server: EndTally,
}

impl BothEnds {
    /// Packets of connections that arrived at either end.
    pub fn received(&self) -> u64 {
        self.client.received + self.server.received - self.server.flood
    }

    /// Answers that either end sent.
    pub fn answered(&self) -> u64 {
        self.client.sent + self.server.sent
    }

    /// What one side received, and so what the other sent.
    fn volume(side: &EndTally) -> Volume {
        Volume { packets: side.received, bytes: side.bytes }
    }

    /// Connections by the step they reached, first to last: the packets of each step that arrived.
    fn steps(&self, close: Close) -> Vec<(&'static str, u64)> {
        let (client, server) = (&self.client, &self.server);
        let opened = [("SYN", server.opened), ("SYN+ACK", client.opened)];
        let served = [("request", server.data), ("reply", client.data)];
        let more = match close {
            Close::Fin => {
                vec![("FIN", server.closed), ("FIN+ACK", client.closed), ("last ACK", server.ended)]
            }
            Close::Reset => vec![("RST", server.ended)],
            Close::Never => return [&opened[..], &[("ACK", server.ended)]].concat(),
        };
        [&opened[..], &served, &more].concat()
    }
}

/// The server's counters, for another thread.
pub(crate) struct CompletedCounter(MapHandle);

impl CompletedCounter {
    /// Connections completed so far; 0 if the kernel does not report it.
    pub(crate) fn completed(&self) -> u64 {
        sum_of_cores(&self.0, SERVER).map_or(0, |tally| tally.ended)
    }
}

fn sum_of_cores(tallies: &impl MapCore, side: u32) -> Result<EndTally, LabError> {
    let mut sum = EndTally::default();
    let cores = per_cpu::values(tallies, side, "read the counters of connections")?;
    cores.iter().for_each(|tally| sum.add(tally));
    Ok(sum)
}

fn member(of: &skeleton::types::member) -> Member {
    let volume = |of: &skeleton::types::volume| Volume { packets: of.packets, bytes: of.bytes };
    Member { connections: of.connections, from: volume(&of.from), to: volume(&of.to) }
}

/// Clients and servers, with their programs in the kernel.
pub struct TcpEnds {
    skeleton: TcpSkel<'static>,
    watcher: Watcher,
    links: Vec<Link>,
}

impl TcpEnds {
    /// Loads the programs.
    ///
    /// # Errors
    /// Where the kernel refuses them (not root; no XDP).
    pub fn new(endpoints: &Endpoints, firewall: Mac, source: Mac) -> Result<TcpEnds, LabError> {
        let open = TcpSkelBuilder::default()
            .open(object::storage())
            .map_err(LabError::bpf("open the BPF programs of connections"))?;
        let mut skeleton =
            open.load().map_err(LabError::bpf("load the BPF programs of connections"))?;
        let bss = skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.control.client_base = endpoints.client.into();
        bss.control.clients = endpoints.clients.max(1);
        bss.control.server_base = endpoints.server.into();
        bss.control.servers = endpoints.servers.max(1);
        bss.control.port = endpoints.port;
        bss.control.told_apart = per_endpoint::are_told_apart(endpoints).into();
        bss.control.firewall_mac = firewall;
        bss.control.client_mac = source;
        let failed = "watch the BPF program of connections";
        let map = MapHandle::try_from(&skeleton.maps.bss).map_err(LabError::bpf(failed))?;
        let offset = offset_of!(skeleton::types::bss, outcome)
            + offset_of!(skeleton::types::outcome, paced)
            + offset_of!(skeleton::types::paced, ended_ns);
        Ok(TcpEnds {
            skeleton,
            watcher: Watcher::new(map, offset, before_generator)?,
            links: Vec::new(),
        })
    }

    /// Makes the device with index `ifindex` of `namespace` that of clients.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn attach_client(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.skeleton.progs.weir_client;
        self.links.push(object::attach_xdp(program, namespace, ifindex, "attach the client")?);
        Ok(())
    }

    /// Makes the device with index `ifindex` of `namespace` that of servers.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn attach_server(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.skeleton.progs.weir_server;
        self.links.push(object::attach_xdp(program, namespace, ifindex, "attach the server")?);
        Ok(())
    }

    /// Gives the device with index `ifindex` of `namespace` a program that accepts everything: a
    /// veth accepts redirected packets if it has one, or GRO (drivers/net/veth.c).
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(crate) fn attach_pass(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
    ) -> Result<(), LabError> {
        let program = &self.skeleton.progs.weir_pass;
        self.links.push(object::attach_xdp(
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
    /// Where the kernel refuses.
    pub fn attach_both(&mut self, namespace: &Namespace, ifindex: u32) -> Result<(), LabError> {
        let program = &self.skeleton.progs.weir_both;
        self.links.push(object::attach_xdp(
            program,
            namespace,
            ifindex,
            "attach clients and servers",
        )?);
        Ok(())
    }

    /// From now on the first this many clients open connections to the first so many servers.
    pub fn take_part(&mut self, clients: u32, servers: u32) {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.control.clients = clients.max(1);
        bss.control.servers = servers.max(1);
        bss.outcome.next_client %= clients.max(1);
        bss.outcome.next_server %= servers.max(1);
    }

    /// Opens connections out of the device with index `ifindex` of `namespace`, on the current
    /// core. Each continues where the one before ended, so no ports are used again soon.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn open(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
        open: &ConnectionPlan,
    ) -> Result<Opened, LabError> {
        self.clear()?;
        self.write_control(ifindex, open);
        let each = 1 + u64::from(open.flood);
        let pages = pages(open.duration, open.rate * each, open.connections_max * each);
        let program = &self.skeleton.progs.weir_open;
        let is_silent = || self.outcome().paced.ended_ns != 0;
        let (page, watcher) = (&[0; FRAME_BYTES], &self.watcher);
        run_live(program, watcher, namespace, open.duration, page, pages, &is_silent)?;
        let outcome = self.outcome();
        let paced = outcome.paced;
        assert_eq!(paced.broken, 0, "pages are as long as frames");
        Ok(Opened {
            offered: paced.made - outcome.flood,
            flood: outcome.flood,
            given_up: paced.given_up / each,
            finished: paced.ended_ns != 0,
            seconds: paced.ended_ns.saturating_sub(paced.started_ns) as f64 / 1e9,
        })
    }

    /// Forgets what was counted.
    pub(crate) fn clear(&mut self) -> Result<(), LabError> {
        let action = "clear the counters of connections";
        for side in [CLIENT, SERVER] {
            per_cpu::clear(&self.skeleton.maps.tallies, side, action)?;
        }
        per_cpu::clear(&self.skeleton.maps.members, 0, action)?;
        Ok(per_cpu::clear(&self.skeleton.maps.times, 0, action)?)
    }

    fn write_control(&mut self, ifindex: u32, open: &ConnectionPlan) {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        let control = &mut bss.control;
        control.pace = skeleton::types::pace {
            duration_ns: open.duration.as_nanos() as u64,
            rate: open.rate * (1 + u64::from(open.flood)),
            most: open.connections_max * (1 + u64::from(open.flood)),
            catch_up: CATCH_UP,
        };
        control.ifindex = ifindex;
        control.secret = open.secret;
        control.flood = open.flood;
        control.flood_base = FLOOD_BASE.into();
        control.flood_sources = FLOOD_SOURCES;
        control.verify = open.verify.into();
        control.close = match open.close {
            Close::Fin => 0,
            Close::Reset => 1,
            Close::Never => 2,
        };
        let before = &bss.outcome;
        bss.outcome = skeleton::types::outcome {
            next_client: before.next_client,
            next_server: before.next_server,
            next_port: before.next_port,
            random: open.secret | 1,
            ..Default::default()
        };
    }

    fn outcome(&self) -> skeleton::types::outcome {
        let bss = self.skeleton.maps.bss_data.as_deref().expect("the program has variables");
        // SAFETY: a valid, aligned reference; the kernel wrote to it in the meantime, which the
        // compiler does not know.
        unsafe { std::ptr::read_volatile(&raw const bss.outcome) }
    }

    /// What of a trial can be followed while it lasts.
    pub(crate) fn progress(&self) -> Result<CompletedCounter, LabError> {
        let failed = LabError::bpf("follow the counters of connections");
        Ok(CompletedCounter(MapHandle::try_from(&self.skeleton.maps.tallies).map_err(failed)?))
    }

    /// What both ends counted since the last call of [`open`](TcpEnds::open).
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn read(&self) -> Result<BothEnds, LabError> {
        let tallies = &self.skeleton.maps.tallies;
        Ok(BothEnds {
            client: sum_of_cores(tallies, CLIENT)?,
            server: sum_of_cores(tallies, SERVER)?,
        })
    }

    /// Both histograms: the time until SYN+ACK, and until FIN+ACK.
    fn histograms(&self) -> Result<(Vec<u64>, Vec<u64>), LabError> {
        let times = &self.skeleton.maps.times;
        let mut counts = vec![0; 2 * BUCKETS];
        for core in per_cpu::arrays::<u64>(times, 0, "read the histograms of connections")? {
            for (count, more) in counts.iter_mut().zip(core) {
                *count += more;
            }
        }
        let whole = counts.split_off(BUCKETS);
        Ok((counts, whole))
    }

    /// The share of each client and each server; none if there are too many of them.
    fn members(&self) -> Result<(Vec<Member>, Vec<Member>), LabError> {
        let bss = self.skeleton.maps.bss_data.as_deref().expect("the program has variables");
        let control = &bss.control;
        if control.told_apart == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let action = "read the totals of clients and servers";
        let cores = per_cpu::arrays(&self.skeleton.maps.members, 0, action)?.into_iter();
        let cores = cores.map(|core| core.iter().map(member).collect());
        Ok(per_endpoint::sums(cores, control.clients, control.servers))
    }

    /// The record of a trial.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn record(
        &self,
        opened: &Opened,
        ends: &BothEnds,
        close: Close,
    ) -> Result<Connections, LabError> {
        let steps = ends.steps(close);
        let before = std::iter::once(opened.offered).chain(steps.iter().map(|(_, count)| *count));
        let failed = before.zip(&steps).map(|(before, (at, reached))| Failure {
            at: (*at).to_owned(),
            connections: before as i64 - *reached as i64,
        });
        let (establish, whole) = self.histograms()?;
        let (clients, servers) = self.members()?;
        Ok(Connections {
            offered: opened.offered,
            completed: steps.last().map_or(0, |(_, reached)| *reached),
            failed: failed.filter(|failure| failure.connections != 0).collect(),
            invalid: ends.client.invalid + ends.server.invalid,
            resets: ends.client.resets + ends.server.resets,
            icmp: ends.client.icmp + ends.server.icmp,
            given_up: opened.given_up,
            translated: ends.server.translated,
            from_clients: BothEnds::volume(&ends.server),
            from_servers: BothEnds::volume(&ends.client),
            clients,
            servers,
            establish: histogram::spectrum(&establish, TICK_NS),
            whole: histogram::spectrum(&whole, TICK_NS),
            ..Connections::none(close)
        })
    }
}
