//! Connections between sockets of the kernel, for realism: what a user's browser and a server do.
//!
//! Both ends are threads with `epoll`; the firewall is between them as ever. Connections are opened
//! at planned times, and a reply's time counts from the planned one. Each has a client address of
//! many, a port that the kernel chooses when it connects (`IP_BIND_ADDRESS_NO_PORT`), a request and
//! a reply that are compared to the byte, and 5 seconds. The client closes first, so that its port
//! waits in TIME_WAIT. What goes wrong is counted by its kind.
//!
//! Here clients and servers cost more than the firewall, tens of microseconds a connection: tell
//! firewalls apart by [`crate::program::tcp`], and use this to see that real ends go through, how
//! many packets a fetch takes, and where a client's own limits bind ([`limits`]).
//!
//! A subject may name another client ([`Client`]): weir's small TCP, or a program of others, which
//! runs where the clients are, on the same core, and asks the same servers.
//!
//! Packets are summed on the links: what entered the firewall by either device left by the other
//! one and arrived, or is in a counter of drops.

mod client;
mod limits;
mod outside;
mod server;

use std::time::{Duration, Instant};

use weir_kernel::Namespace;
use weir_stats::{Close, Collected, Connections, Failure, Scenario};

use crate::LabError;
use crate::observe::counters::ReceivedReader;
use crate::observe::cpu::{Moment, Pinned, another_core};
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::program::tcp::Open;
use crate::topology::{Firewall, Topology};
use crate::trial::runner::{Bench, Rules, Seen};
use crate::workload::probe::open_loop::spectrum;
use crate::workload::sockets::limits::Resources;
use weir_study::ConnectionLoad;
use weir_study::Endpoints;
use weir_study::Loaded;
use weir_study::{ClientKind, Sockets};

use client::{Fetched, Fetching};
use server::Serving;

/// How long a client waits for a reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long packets may be under way after the last reply.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);
/// Connections of the probe before anything is measured, and their rate.
const PROBE_CONNECTIONS: u64 = 50;
const PROBE_RATE: u64 = 500;

/// Connections at once of a client that has no rate.
const AT_ONCE: u16 = 64;

/// How a trial opens connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    /// Who opens them.
    pub(crate) client: ClientKind,
    /// All addresses that the topology has.
    pub(crate) endpoints: &'a Endpoints,
    /// Client addresses that are used.
    pub(crate) clients: u32,
    /// Connections a second.
    pub(crate) rate: u64,
    /// Connections at once, where a client has no rate.
    pub(crate) at_once: u16,
    /// How long they are opened.
    pub(crate) duration: Duration,
    /// What of the machine they may use.
    pub(crate) resources: Resources,
}

impl Asking<'_> {
    /// Connections that are planned.
    fn planned(&self) -> u64 {
        (self.duration.as_secs_f64() * self.rate as f64).round() as u64
    }
}

/// How a step of a study asks.
pub(crate) fn asking<'a>(
    bench: &Bench,
    connecting: &'a ConnectionLoad,
    client: ClientKind,
    point: &Scenario,
    open: &Open,
) -> Asking<'a> {
    let Open { rate, duration, .. } = *open;
    // A program has one address, and asks one server.
    let (clients, servers) =
        client.program().map_or_else(|| connecting.endpoints_at(point), |_| (1, 1));
    let resources = resources(&bench.topology, connecting, (clients, servers));
    let at_once = connecting.sockets.as_ref().and_then(|sockets| sockets.at_once);
    let at_once = at_once.unwrap_or(AT_ONCE);
    Asking { client, endpoints: &connecting.endpoints, clients, rate, at_once, duration, resources }
}

/// What so many clients of so many servers have.
fn resources(
    topology: &Topology,
    connecting: &ConnectionLoad,
    (clients, servers): (u32, u32),
) -> Resources {
    let ports = connecting.sockets.as_ref().map_or(0, Sockets::ports);
    let endpoints = (u64::from(clients), u64::from(ports), u64::from(servers));
    Resources::of(endpoints, topology.source(), topology.sink_side())
}

/// Takes as many descriptors as the process may have; what is to be said of the clients' limits
/// before anything is measured, one text for each number of clients.
pub(crate) fn before_run(topology: &Topology, loaded: &Loaded, points: &[Scenario]) -> Vec<String> {
    let Some(connecting) = loaded.study.connections().filter(|c| c.sockets.is_some()) else {
        return Vec::new();
    };
    take_descriptors();
    let rate = |point: &Scenario| point.coordinate(connecting.rate_axis.as_ref()?)?.number();
    let most = points.iter().filter_map(rate).max().unwrap_or(0);
    let mut endpoints: Vec<_> = points.iter().map(|point| connecting.endpoints_at(point)).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints.iter().map(|counts| resources(topology, connecting, *counts).say(most)).collect()
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

/// What answers a request that is there to its end: one with a number, or that of a program for
/// `/`, whose connection is kept unless it says otherwise (RFC 9112, section 9.3).
fn answer(request: &[u8]) -> Option<String> {
    let head = std::str::from_utf8(request).ok()?.strip_suffix("\r\n\r\n")?;
    if let Some(rest) = head.strip_prefix("GET /id=") {
        return rest.get(..16).map(reply);
    }
    let fields = head.strip_prefix("GET / HTTP/1.1\r\n")?;
    let closes = fields.split("\r\n").any(|f| f.eq_ignore_ascii_case("connection: close"));
    let page = "0".repeat(16);
    let kept = || format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{page}");
    Some(if closes { reply(&page) } else { kept() })
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

/// What clients did, and for how long, seconds.
type Asked = (Connections, f64);

/// Has the clients of a trial ask, on the current core.
fn ask(
    source: &Namespace,
    firewall: &Firewall,
    asking: &Asking<'_>,
    first: u32,
) -> Result<Asked, LabError> {
    if let Some(program) = outside::program(asking.client) {
        return outside::ask(source, firewall, asking, first, &program);
    }
    let plan = Fetching { asking: *asking, first, device: &firewall.ends.0 };
    let fetched = source.enter(|| client::fetch(&plan))?.map_err(not_possible)?;
    Ok((record(&fetched, &asking.resources), fetched.seconds))
}

fn not_possible(source: std::io::Error) -> LabError {
    LabError::System { action: "connect by sockets", source }
}

/// One trial: clients on the bench's core, servers on the others.
pub(crate) fn trial(
    bench: &mut Bench,
    firewall: &Firewall,
    asking: &Asking<'_>,
    rules: Rules<'_>,
) -> Result<(Seen, Connections), LabError> {
    firewall.target.flush_connections(false)?;
    let links = Links::of(bench, firewall)?;
    let sink = bench.topology.sink_side();
    let serving = sink
        .enter(|| {
            Serving::begin(&firewall.ends.1, asking.endpoints.port, another_core(bench.core))
        })?
        .map_err(not_possible)?;
    let before = bench.before(firewall, rules, asking.duration)?;
    let links_before = links.read()?;
    let first = bench.next_client(asking.clients);
    let ((mut connections, seconds), earlier, later) = {
        let _pinned = Pinned::to(bench.core, false)?;
        let earlier = Moment::now(bench.core);
        let asked = ask(bench.topology.source(), firewall, asking, first)?;
        (asked, earlier, Moment::now(bench.core))
    };
    let (entered, left) = links.settle(links_before)?;
    let served = serving.end().map_err(not_possible)?;
    // A reply that nobody sent.
    connections.invalid = connections.completed.saturating_sub(served);
    let mut seen = Seen {
        played: Played {
            given_up: connections.given_up,
            finished: true,
            seconds,
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
    firewall.target.flush_connections(false)?;
    Ok((seen, connections))
}

/// What went wrong, and how often, as records have it.
fn failures<'a>(failed: impl Iterator<Item = (&'a str, u64)>) -> Vec<Failure> {
    let happened = failed.filter(|(_, count)| *count > 0);
    happened.map(|(at, count)| Failure { at: at.to_owned(), connections: count as i64 }).collect()
}

fn record(fetched: &Fetched, resources: &Resources) -> Connections {
    Connections {
        offered: fetched.offered,
        completed: fetched.completed,
        failed: failures(fetched.failed.iter().map(|(at, count)| (*at, *count))),
        resets: fetched.failed.get("reset").copied().unwrap_or(0),
        given_up: fetched.given_up,
        establish: spectrum(&fetched.establish),
        whole: spectrum(&fetched.whole),
        limits: limits::record(&resources.limits()),
        ..Connections::none(Close::Fin)
    }
}

/// Fetches through a firewall that has no rules yet: all must be complete.
pub(crate) fn probe(
    bench: &mut Bench,
    firewall: &Firewall,
    connecting: &ConnectionLoad,
) -> Result<(), LabError> {
    let endpoints = &connecting.endpoints;
    let clients = endpoints.clients.min(PROBE_CONNECTIONS as u32);
    let asking = Asking {
        client: ClientKind::Sockets,
        endpoints,
        clients,
        rate: PROBE_RATE,
        at_once: AT_ONCE,
        duration: Duration::from_secs(PROBE_CONNECTIONS) / PROBE_RATE as u32,
        resources: resources(&bench.topology, connecting, (clients, endpoints.servers)),
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
    fn a_request_is_answered_when_it_is_whole() {
        let text = request(0x1234);
        assert_eq!(answer(text.as_bytes()), Some(reply("0000000000001234")));
        assert_eq!(answer(&text.as_bytes()[..text.len() - 1]), None);
        assert_eq!(answer(b"POST /id=0000000000001234 HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn a_connection_is_kept_unless_its_client_says_otherwise() {
        let closes = b"GET / HTTP/1.1\r\nHost: 198.19.128.0:80\r\nConnection: Close\r\n\r\n";
        assert_eq!(answer(closes), Some(reply("0000000000000000")));
        let kept = answer(b"GET / HTTP/1.1\r\nUser-Agent: x\r\nHost: web\r\n\r\n").unwrap();
        assert!(kept.ends_with("Content-Length: 16\r\n\r\n0000000000000000"), "{kept}");
        assert_eq!(answer(b"GET /other HTTP/1.1\r\nHost: web\r\n\r\n"), None);
        assert_eq!(answer(b"GET / HTTP/1.1\r\nHost: web\r\n"), None, "there is more to come");
    }
}
