//! Trials of connections: opened through a firewall, and every counter read before and after.

use std::time::{Duration, Instant};

use weir_stats::{Close, Collected, Connections, Kind, State, Trial};

use crate::LabError;
use crate::observe::cpu::{Moment, Pinned, REALTIME_LIMIT};
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::program::tcp::{Open, TcpEnds};
use crate::schedule::run::Run;
use crate::topology::Firewall;
use crate::trial::runner::{Bench, Rules, Seen};
use crate::workload::progress::Following;
use weir_study::ConnectionLoad;
use weir_study::PlannedTrial;

/// How long packets may be under way after a trial.
const SETTLE_LIMIT: Duration = Duration::from_millis(100);
/// Connections of the probe before anything is measured, and its tries.
const PROBE_CONNECTIONS: u64 = 500;
const PROBE_TRIES: u32 = 3;

/// One trial.
pub(crate) fn trial(
    bench: &mut Bench,
    firewall: &Firewall,
    open: &Open,
    rules: Rules<'_>,
) -> Result<(Seen, Connections), LabError> {
    // Memory is looked at only where connections are left open.
    let is_held = open.close == Close::Never;
    firewall.target.flush_connections(is_held)?;
    let before = bench.before(firewall, rules, open.duration)?;
    let realtime = bench.realtime && open.duration <= REALTIME_LIMIT;
    let source = bench.topology.source().clone();
    let ends = bench.ends.as_mut().expect("a study of connections has both ends");
    let following = Following::start(ends, open.duration)?;
    let (opened, earlier, later) = {
        let _pinned = Pinned::to(bench.core, realtime)?;
        let earlier = Moment::now(bench.core);
        let opened = ends.open(&source, firewall.ifindex, open)?;
        (opened, earlier, Moment::now(bench.core))
    };
    settle(ends, opened.offered + opened.flood)?;
    let both = ends.read()?;
    let mut record = ends.record(&opened, &both, open.close)?;
    record.progress = following.map_or_else(Vec::new, Following::stop);
    let mut seen = Seen {
        played: Played {
            offered: opened.offered + opened.flood + both.answered(),
            to_drop: opened.flood,
            given_up: opened.given_up,
            finished: opened.finished,
            seconds: opened.seconds,
        },
        arrived: Arrived {
            delivered: both.received(),
            leaked: both.server.flood,
            foreign: both.client.foreign + both.server.foreign,
        },
        dropped: Vec::new(),
        noise: earlier.noise_until(&later, bench.best_spin()),
        collected: Collected::default(),
    };
    bench.after(firewall, rules, before, &mut seen)?;
    // Millions of entries would be walked, and would take memory, in the trials of others.
    firewall.target.flush_connections(is_held)?;
    Ok((seen, record))
}

/// Waits until every packet has arrived, or none does any more.
fn settle(ends: &TcpEnds, opened: u64) -> Result<(), LabError> {
    let begun = Instant::now();
    let mut last = (0, Instant::now());
    loop {
        let both = ends.read()?;
        let received = both.received() + both.server.flood;
        if received != last.0 {
            last = (received, Instant::now());
        }
        let is_still = last.1.elapsed() > SETTLE_LIMIT / 20;
        if received >= opened + both.answered() || is_still || begun.elapsed() > SETTLE_LIMIT {
            return Ok(());
        }
        std::thread::yield_now();
    }
}

/// Opens connections through a firewall that has no rules yet: all must be complete.
pub(crate) fn probe(bench: &mut Bench, firewall: &Firewall, seed: u64) -> Result<(), LabError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let open = Open {
            duration: Duration::from_millis(500),
            rate: 0,
            connections_max: PROBE_CONNECTIONS,
            close: Close::Fin,
            verify: false,
            secret: bench.next_magic(seed),
            flood: 0,
        };
        let (seen, record) = trial(bench, firewall, &open, Rules::Unwatched)?;
        if record.completed >= PROBE_CONNECTIONS {
            return Ok(());
        }
        if tries == PROBE_TRIES {
            let failed = record.failed.iter().map(|f| format!("{} at {}", f.connections, f.at));
            let drops = seen.dropped.iter().map(|d| format!("{} {}", d.counter, d.packets));
            return Err(LabError::Probe {
                of: seen.arrived.delivered,
                offered: seen.played.offered,
                namespace: firewall.name().to_owned(),
                why: failed.chain(drops).collect::<Vec<_>>().join(", "),
            });
        }
    }
}

/// How a step of a study opens connections; those who take part in it are told.
pub(crate) fn open(
    run: &mut Run<'_>,
    connecting: &ConnectionLoad,
    step: &PlannedTrial,
    seconds: f64,
) -> Result<Open, LabError> {
    let held = connecting.held_at(&step.scenario, run.bench.topology.table_limit()?);
    let (clients, servers) = connecting.endpoints_at(&step.scenario);
    // Sockets need no programs at the ends.
    if let Some(ends) = &mut run.bench.ends {
        ends.take_part(clients, servers);
    }
    let on = |axis: &Option<String>| step.scenario.coordinate(axis.as_ref()?)?.number();
    Ok(Open {
        duration: Duration::from_secs_f64(seconds),
        rate: on(&connecting.rate_axis).unwrap_or(run.preset.rate_pps),
        flood: on(&connecting.flood_axis).unwrap_or(0) as u32,
        connections_max: held.unwrap_or(0),
        close: connecting.close,
        verify: connecting.verify,
        secret: run.bench.next_magic(run.options.seed),
    })
}

/// The kind of a trial.
pub(crate) fn kind(connecting: &ConnectionLoad) -> Kind {
    match connecting.close {
        _ if connecting.sockets.is_some() => Kind::Sockets,
        _ if connecting.hold.is_some() => Kind::Concurrent,
        Close::Fin => Kind::Connections,
        Close::Reset => Kind::ConnectionsReset,
        Close::Never => Kind::Handshakes,
    }
}

/// What the connections of a trial say beside its packets.
pub(crate) fn judge(trial: &Trial) -> Option<(State, String)> {
    let connections = trial.connections.as_ref()?;
    if connections.invalid > 0 {
        let why = format!("{} packets arrived changed", connections.invalid);
        return Some((State::Failed, why));
    }
    if connections.completed == 0 {
        return Some((State::Failed, "no connection was completed".to_owned()));
    }
    let twice = connections.failed.iter().find(|failure| failure.connections < 0);
    twice.map(|failure| (State::Unbalanced, format!("more {} arrived than were sent", failure.at)))
}
