//! Connections between sockets of the kernel, for realism: what a user's browser and a server do.
//!
//! Both ends are threads with `epoll`; the firewall is between them as ever. Connections are opened
//! at planned times, and a reply's time counts from the planned one. Each has a client address of
//! many, a port that the kernel chooses when it connects (`IP_BIND_ADDRESS_NO_PORT`), a request and
//! a reply that are compared to the byte, and 5 seconds. The client closes first, so that its port
//! waits in TIME_WAIT. What goes wrong is counted by its kind.
//!
//! Here clients and servers cost more than the firewall, tens of microseconds a connection: tell
//! firewalls apart by [`crate::connections`], and use this to see that real ends go through, how
//! many packets a fetch takes, and where a client's own limits bind ([`crate::preflight`]).
//!
//! Packets are summed on the links: what entered the firewall by either device left by the other
//! one and arrived, or is in a counter of drops.

mod client;
mod server;

use std::time::{Duration, Instant};

use weir_stats::{Close, Collected, Connections, Failure, Scenario};

use crate::LabError;
use crate::bench::{Bench, Rules, Seen};
use crate::connecting::forget_connections;
use crate::connections::{Open, Parties};
use crate::counters::ReceivedReader;
use crate::cpu::{Moment, Pinned, another_core};
use crate::generator::Played;
use crate::preflight::{self, Resources};
use crate::probe::spectrum;
use crate::sink::Arrived;
use crate::study::Loaded;
use crate::topology::{Firewall, Topology};
use crate::traffic::Connecting;

use client::{Fetched, Fetching};
use server::Serving;

/// How long a client waits for a reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long packets may be under way after the last reply.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);
/// Connections of the probe before anything is measured, and their rate.
const PROBE_CONNECTIONS: u64 = 50;
const PROBE_RATE: u64 = 500;

/// Sockets as a study says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// How many ports a client address has; all above 1023 without it.
    pub ports: Option<u16>,
}

impl Sockets {
    /// Ports of one client address.
    pub(crate) fn ports(&self) -> u16 {
        self.ports.unwrap_or(u16::MAX - FIRST_PORT + 1)
    }
}

/// The first port of a client.
pub(crate) const FIRST_PORT: u16 = 1024;

/// How a trial opens connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    /// All addresses that the topology has.
    pub(crate) parties: &'a Parties,
    /// Client addresses that are used.
    pub(crate) clients: u32,
    /// Connections a second.
    pub(crate) rate: u64,
    /// How long they are opened.
    pub(crate) duration: Duration,
    /// What of the machine they may use.
    pub(crate) resources: Resources,
}

/// How a step of a study asks.
pub(crate) fn asking<'a>(
    bench: &Bench,
    connecting: &'a Connecting,
    point: &Scenario,
    open: &Open,
) -> Asking<'a> {
    let Open { rate, duration, .. } = *open;
    let clients = connecting.parties_at(point).0;
    let resources = resources(&bench.topology, connecting, clients);
    Asking { parties: &connecting.parties, clients, rate, duration, resources }
}

/// What so many clients have.
fn resources(topology: &Topology, connecting: &Connecting, clients: u32) -> Resources {
    let ports = connecting.sockets.as_ref().map_or(0, Sockets::ports);
    let parties = (u64::from(clients), u64::from(ports), u64::from(connecting.parties.servers));
    Resources::of(parties, topology.source(), topology.sink_side())
}

/// Takes as many descriptors as the process may have; what is to be said of the clients' limits
/// before anything is measured, one text for each number of clients.
pub(crate) fn before_run(topology: &Topology, loaded: &Loaded, points: &[Scenario]) -> Vec<String> {
    let Some(connecting) = loaded.study.connecting().filter(|c| c.sockets.is_some()) else {
        return Vec::new();
    };
    take_descriptors();
    let rate = |point: &Scenario| point.coordinate(connecting.rate_axis.as_ref()?)?.number();
    let most = points.iter().filter_map(rate).max().unwrap_or(0);
    let mut clients: Vec<u32> = points.iter().map(|point| connecting.parties_at(point).0).collect();
    clients.sort_unstable();
    clients.dedup();
    clients.iter().map(|count| resources(topology, connecting, *count).say(most)).collect()
}

/// Raises the soft limit of descriptors to the hard one.
fn take_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the preflight check reads what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A request, and the reply to it; both hold the connection's number.
fn request(number: u64) -> String {
    format!("GET /id={number:016x} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
}

fn reply(number: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\n{number}")
}

/// The number in a request that is there to its end.
fn number_in(request: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(request).ok()?.strip_suffix("\r\n\r\n")?;
    text.strip_prefix("GET /id=")?.get(..16)
}

/// Packets on the links of one firewall.
struct Links {
    into_firewall: [ReceivedReader; 2],
    out_of_it: [ReceivedReader; 2],
}

impl Links {
    fn of(bench: &Bench, firewall: &Firewall) -> Result<Links, LabError> {
        let devices = bench.topology.devices();
        let open = ReceivedReader::open;
        Ok(Links {
            into_firewall: [
                open(&firewall.namespace, &devices.input)?,
                open(&firewall.namespace, &devices.output)?,
            ],
            out_of_it: [
                open(bench.topology.source(), &firewall.ends.0)?,
                open(bench.topology.sink_side(), &firewall.ends.1)?,
            ],
        })
    }

    /// Packets that entered the firewall, and that came out of it.
    fn read(&self) -> Result<(u64, u64), LabError> {
        let sum = |[one, other]: &[ReceivedReader; 2]| -> Result<u64, LabError> {
            Ok(one.packets()? + other.packets()?)
        };
        Ok((sum(&self.into_firewall)?, sum(&self.out_of_it)?))
    }

    /// Waits until what entered came out, or nothing moves any more; what is there then.
    fn settle(&self, before: (u64, u64)) -> Result<(u64, u64), LabError> {
        let begun = Instant::now();
        let mut last = (self.read()?, Instant::now());
        loop {
            let now = self.read()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
            let is_still = last.1.elapsed() > SETTLE_LIMIT / 10;
            if is_still || begun.elapsed() > SETTLE_LIMIT {
                return Ok((now.0 - before.0, now.1 - before.1));
            }
            std::thread::yield_now();
        }
    }
}

/// One trial: clients on the bench's core, servers on the others.
pub(crate) fn trial(
    bench: &mut Bench,
    firewall: &Firewall,
    asking: &Asking<'_>,
    rules: Rules<'_>,
) -> Result<(Seen, Connections), LabError> {
    forget_connections(firewall, false)?;
    let failed = |source| LabError::System { action: "connect by sockets", source };
    let links = Links::of(bench, firewall)?;
    let sink = bench.topology.sink_side();
    let serving = sink
        .enter(|| Serving::begin(&firewall.ends.1, asking.parties.port, another_core(bench.core)))?
        .map_err(failed)?;
    let before = bench.before(firewall, rules, asking.duration)?;
    let links_before = links.read()?;
    let first = bench.next_client(asking.clients);
    let plan = Fetching { asking: *asking, first, device: &firewall.ends.0 };
    let source = bench.topology.source();
    let (fetched, earlier, later) = {
        let _pinned = Pinned::to(bench.core, false)?;
        let earlier = Moment::now(bench.core);
        let fetched = source.enter(|| client::fetch(&plan))?.map_err(failed)?;
        (fetched, earlier, Moment::now(bench.core))
    };
    let (entered, left) = links.settle(links_before)?;
    let served = serving.end().map_err(failed)?;
    let mut seen = Seen {
        played: Played {
            given_up: fetched.given_up,
            finished: true,
            seconds: fetched.seconds,
            ..Played::default()
        },
        arrived: Arrived::default(),
        dropped: Vec::new(),
        noise: earlier.noise_until(&later, bench.best_spin()),
        collected: Collected::default(),
    };
    bench.after(firewall, rules, before, &mut seen)?;
    seen.played.offered = entered;
    seen.arrived.delivered = left;
    forget_connections(firewall, false)?;
    Ok((seen, record(&fetched, served, &asking.resources)))
}

fn record(fetched: &Fetched, served: u64, resources: &Resources) -> Connections {
    let failed = fetched.failed.iter();
    Connections {
        offered: fetched.offered,
        completed: fetched.completed,
        failed: failed
            .map(|(at, count)| Failure { at: (*at).to_owned(), connections: *count as i64 })
            .collect(),
        // A reply that nobody sent.
        invalid: fetched.completed.saturating_sub(served),
        resets: fetched.failed.get("reset").copied().unwrap_or(0),
        given_up: fetched.given_up,
        establish: spectrum(&fetched.establish),
        whole: spectrum(&fetched.whole),
        limits: preflight::record(&resources.limits()),
        ..Connections::none(Close::Fin)
    }
}

/// Fetches through a firewall that has no rules yet: all must be complete.
pub(crate) fn probe(
    bench: &mut Bench,
    firewall: &Firewall,
    connecting: &Connecting,
) -> Result<(), LabError> {
    let parties = &connecting.parties;
    let clients = parties.clients.min(PROBE_CONNECTIONS as u32);
    let asking = Asking {
        parties,
        clients,
        rate: PROBE_RATE,
        duration: Duration::from_secs(PROBE_CONNECTIONS) / PROBE_RATE as u32,
        resources: resources(&bench.topology, connecting, clients),
    };
    let (_, record) = trial(bench, firewall, &asking, Rules::Unwatched)?;
    if record.completed > 0 && record.failed.is_empty() {
        return Ok(());
    }
    let why = record.failed.iter().map(|f| format!("{} {}", f.connections, f.at));
    Err(LabError::Probe {
        of: record.completed,
        offered: record.offered,
        namespace: firewall.namespace.name().to_owned(),
        why: why.collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_when_it_is_whole() {
        let text = request(0x1234);
        assert_eq!(number_in(text.as_bytes()), Some("0000000000001234"));
        assert_eq!(number_in(&text.as_bytes()[..text.len() - 1]), None);
        assert_eq!(number_in(b"POST /id=0000000000001234 HTTP/1.1\r\n\r\n"), None);
    }
}
