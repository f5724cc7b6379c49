//! Trials that probe: what others feel while a firewall is idle, or forwards what it can.
//!
//! Echoes and streams use the core that the firewall works on, before the generator: a question
//! waits until the kernel is done with the packets that it has taken in at once, 64 at most, as it
//! would in the ring of a network card. A shell runs on that core as any process does, and so does
//! the generator then: what forwards packets on a router under load is a thread of the kernel with
//! no priority (ksoftirqd), and the generator stands for it. Who asks the shell sits elsewhere.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_stats::{Kind, Load, Probe, ProbeKind, State, Stream, Trial};

use crate::LabError;
use crate::observe::counters::ReceivedReader;
use crate::observe::cpu::{Moment, Pinned, REALTIME_LIMIT, another_core, be_realtime};
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::schedule::run::Run;
use crate::topology::Firewall;
use crate::topology::probe_routes::ProbeLinks;
use crate::trial::runner::{Bench, Rules, Seen};
use crate::trial::{judge, measure};
use crate::workload::probe::echo::{Echo, Shell};
use crate::workload::probe::open_loop::{Asked, Plan, probe};
use crate::workload::probe::stream;
use weir_study::NoiseLimits;
use weir_study::PlannedTrial;
use weir_study::ProbeCase;

/// How much longer the load lasts than the questions.
const MARGIN: Duration = Duration::from_millis(150);
/// How long the load may take to be there.
const LOAD_LIMIT: Duration = Duration::from_secs(3);
/// Packets by which it is known to be there.
const LOAD_PACKETS: u64 = 64;
/// How long answers are waited for after the last question.
const GRACE: Duration = Duration::from_secs(2);

/// One trial that probes, repeated while it is disturbed and the cap allows.
pub(crate) fn measure(
    run: &mut Run<'_>,
    step: &PlannedTrial,
    case: ProbeCase,
) -> Result<(), LabError> {
    let Some(first) = run.done.next_repeat(step) else { return Ok(()) };
    // Questions take the generator off its core: that is their purpose.
    let limits = NoiseLimits { switches: u64::MAX, ..run.loaded.study.noise.clone() };
    for repeat in first..=limits.repeats {
        let mut trial = one(run, step, case)?;
        trial.repeat = repeat;
        let (verdict, noise) = (verdict(&trial), judge::of_noise(&trial, &limits, true));
        if measure::settle(run, trial, verdict, noise, repeat == limits.repeats)? {
            break;
        }
    }
    Ok(())
}

/// Frames beside a probe have to add up as ever, but for lost echoes: these are in the same
/// counters.
fn verdict(trial: &Trial) -> Option<(State, String)> {
    let (answered, lost) = match (&trial.probe, &trial.stream) {
        (Some(probe), _) => (probe.answered, probe.lost()),
        (None, Some(stream)) => (stream.bytes, 0),
        (None, None) => (0, 0),
    };
    if answered == 0 {
        return Some((State::Failed, "nothing was answered".to_owned()));
    }
    let missing = trial.missing();
    (trial.offered > 0 && missing.unsigned_abs() > lost).then(|| {
        let why = format!("{missing} of {} packets are in no counter", trial.offered);
        (State::Unbalanced, why)
    })
}

fn one(run: &mut Run<'_>, step: &PlannedTrial, case: ProbeCase) -> Result<Trial, LabError> {
    let study = &run.loaded.study;
    let (part, frames) = run.files.frames(study, &step.scenario);
    run.bench.load_frames(&part, frames, run.options.seed)?;
    let point = step.scenario.on(&study.ruleset.axis_names());
    let firewall = &run.firewalls[&(point, step.variant.clone())];
    let rate = study.probe.as_ref().map_or(1, |plan| plan.rate_of(case.kind));
    let plan = Plan::new(rate, Duration::from_secs_f64(run.preset.probe_seconds()), GRACE);
    let (seen, probe, stream) = trial(&mut run.bench, firewall, case, &plan)?;
    let kind = match case.kind {
        ProbeKind::Icmp | ProbeKind::Udp => Kind::RoundTrip,
        ProbeKind::Shell => Kind::Response,
        ProbeKind::Stream => Kind::Stream,
    };
    let is_asked = case.kind != ProbeKind::Stream;
    Ok(Trial {
        kind,
        rate_pps: if is_asked { f64::from(rate) } else { 0.0 },
        probe: is_asked.then_some(probe),
        stream,
        ..measure::trial(run, step, &seen)
    })
}

/// One trial on a firewall.
fn trial(
    bench: &mut Bench,
    firewall: &Firewall,
    case: ProbeCase,
    plan: &Plan,
) -> Result<(Seen, Probe, Option<Stream>), LabError> {
    let duration = plan.period * plan.questions;
    let core = bench.core;
    // A shell competes with what forwards; a question that goes through it does not.
    let realtime =
        bench.realtime && case.kind != ProbeKind::Shell && duration + MARGIN <= REALTIME_LIMIT;
    let mut asked: Option<Box<dyn Asked + Send>> = {
        let source = bench.topology.source();
        // What is started here stays on the core.
        let _pinned = Pinned::to(core, false)?;
        match case.kind {
            ProbeKind::Stream => None,
            ProbeKind::Shell => Some(Box::new(Shell::start(&firewall.namespace)?)),
            kind => {
                let macs = bench.topology.macs();
                Some(Box::new(Echo::open(source, firewall.ifindex, kind, macs)?))
            }
        }
    };
    let before = bench.before(firewall, Rules::Unwatched, duration)?;
    let entered = firewall.entered.packets()?;
    let ended = AtomicBool::new(false);
    let (load, probe, earlier, later) = std::thread::scope(|scope| {
        let (ended, entering) = (&ended, &firewall.entered);
        let asker = asked.as_mut().map(|asked| {
            let place = match case.kind {
                ProbeKind::Shell => another_core(core),
                _ => core,
            };
            scope.spawn(move || {
                ask(asked.as_mut(), plan, place, || {
                    case.load == Load::Idle || is_loaded(entering, entered, ended)
                })
            })
        });
        let earlier = Moment::now(core);
        let load = carry(bench, firewall, case, realtime, duration);
        ended.store(true, Ordering::SeqCst);
        let probe = asker.map(|asker| asker.join().expect("who asks does not panic"));
        (load, probe, earlier, Moment::now(core))
    });
    let (played, stream) = load?;
    let failed = |source| LabError::System { action: "probe a firewall", source };
    let probe = probe.transpose().map_err(failed)?.unwrap_or_default();
    let mut seen = Seen {
        played,
        arrived: Arrived::default(),
        dropped: Vec::new(),
        noise: earlier.noise_until(&later, bench.best_spin()),
        collected: weir_stats::Collected::default(),
    };
    bench.finish(firewall, before, &mut seen)?;
    Ok((seen, probe, stream))
}

/// What the firewall does meanwhile: frames, a stream, nothing.
fn carry(
    bench: &mut Bench,
    firewall: &Firewall,
    case: ProbeCase,
    realtime: bool,
    duration: Duration,
) -> Result<(Played, Option<Stream>), LabError> {
    let nothing = Played { finished: true, seconds: duration.as_secs_f64(), ..Played::default() };
    let is_measured = case.kind == ProbeKind::Stream;
    if case.load == Load::Stream || is_measured {
        let links = ProbeLinks {
            source: bench.topology.source(),
            source_device: &firewall.ends.0,
            sink: bench.topology.sink_side(),
            sink_device: &firewall.ends.1,
        };
        let length = if is_measured { duration } else { duration + MARGIN };
        let stream = stream::stream(&links, bench.core, realtime, length)?;
        return Ok((nothing, is_measured.then_some(stream)));
    }
    if case.load == Load::Idle {
        return Ok((nothing, None));
    }
    let play = Bench::play_of(duration + MARGIN);
    let _pinned = Pinned::to(bench.core, realtime)?;
    Ok((bench.play(firewall, &play)?, None))
}

/// Asks on a core, before everything else, as soon as `is_ready` says so.
fn ask(
    asked: &mut dyn Asked,
    plan: &Plan,
    core: u32,
    is_ready: impl Fn() -> bool,
) -> io::Result<Probe> {
    let _pinned = Pinned::to(core, false).map_err(io::Error::other)?;
    // Above the generator, or a question would leave only when that is done.
    be_realtime(2);
    if !is_ready() {
        return Err(io::Error::other("the load was not there in time"));
    }
    probe(asked, plan)
}

/// Waits until the load is there.
fn is_loaded(entering: &ReceivedReader, entered: u64, ended: &AtomicBool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LOAD_LIMIT && !ended.load(Ordering::SeqCst) {
        if entering.packets().is_ok_and(|now| now >= entered + LOAD_PACKETS) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
