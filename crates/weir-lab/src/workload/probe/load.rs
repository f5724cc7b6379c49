//! Probes: response times while a firewall is idle or forwards at full load.
//!
//! Echoes and streams use the core on which the firewall works, before the generator: a request
//! waits until the kernel has processed the packets that it has accepted at once, at most 64, as it
//! would in the ring of a network card. A shell runs on that core as an ordinary process, and so
//! does the generator then: on a router under load a kernel thread without priority (ksoftirqd)
//! forwards packets, and the generator represents it. The process that sends lines to the shell
//! runs on another core.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_stats::{BackgroundLoad, Probe, ProbeKind, Stream};
use weir_study::ProbeCase;

use crate::LabError;
use crate::observe::counters::ReceivedReader;
use crate::observe::cpu::{Pinned, REALTIME_LIMIT, another_core, be_realtime};
use crate::program::generator::Played;
use crate::topology::TestFirewall;
use crate::topology::probe_routes::ProbeLinks;
use crate::workload::arrivals::SentFrames;
use crate::workload::contract::{Scheduling, Workload, WorkloadOutcome};
use crate::workload::frames::FrameWorkload;
use crate::workload::probe::echo::{Echo, Shell};
use crate::workload::probe::open_loop::{ProbeSchedule, ProbeTransport, probe};
use crate::workload::probe::stream;
use crate::workload::stage::Stage;
use weir_stats::Measured;

/// How much longer the load lasts than the questions.
const MARGIN: Duration = Duration::from_millis(150);
/// How long the load may take to be there.
const LOAD_LIMIT: Duration = Duration::from_secs(3);
/// Packets by which it is known to be there.
const LOAD_PACKETS: u64 = 64;

/// Requests through a firewall, or to it, and its load during them.
pub(crate) struct ProbeWorkload {
    case: ProbeCase,
    schedule: ProbeSchedule,
    transport: Option<Box<dyn ProbeTransport + Send>>,
    sent: SentFrames,
    probe: Probe,
    stream: Option<Stream>,
}

impl ProbeWorkload {
    /// The case's questions at the times of a schedule.
    pub(crate) fn new(case: ProbeCase, schedule: ProbeSchedule) -> ProbeWorkload {
        ProbeWorkload {
            case,
            schedule,
            transport: None,
            sent: SentFrames::default(),
            probe: Probe::default(),
            stream: None,
        }
    }
}

impl Workload for ProbeWorkload {
    fn duration(&self) -> Duration {
        self.schedule.period * self.schedule.questions
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Own
    }

    fn is_counted_on_links(&self) -> bool {
        true
    }

    fn prepare(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        let source = stage.topology.source();
        {
            // What is started here stays on the core.
            let _pinned = Pinned::to(stage.core, false)?;
            self.transport = match self.case.kind {
                ProbeKind::Stream => None,
                ProbeKind::Shell => Some(Box::new(Shell::start(&firewall.namespace)?)),
                kind => {
                    let macs = stage.topology.macs();
                    Some(Box::new(Echo::open(source, firewall.ifindex, kind, macs)?))
                }
            };
        }
        self.sent.prepare(stage, firewall)
    }

    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        let (case, core, duration) = (self.case, stage.core, self.duration());
        // A shell competes with the forwarding thread; a request through the firewall does not.
        let is_short = duration + MARGIN <= REALTIME_LIMIT;
        let realtime = stage.realtime && case.kind != ProbeKind::Shell && is_short;
        let entered = firewall.entered.packets()?;
        let ended = AtomicBool::new(false);
        let (transport, schedule) = (&mut self.transport, &self.schedule);
        let (load, probe) = std::thread::scope(|scope| {
            let (ended, entering) = (&ended, &firewall.entered);
            let asker = transport.as_mut().map(|transport| {
                let place = match case.kind {
                    ProbeKind::Shell => another_core(core),
                    _ => core,
                };
                scope.spawn(move || {
                    ask(transport.as_mut(), schedule, place, || {
                        case.load == BackgroundLoad::Idle || is_loaded(entering, entered, ended)
                    })
                })
            });
            let load = carry(stage, firewall, case, realtime, duration);
            ended.store(true, Ordering::SeqCst);
            (load, asker.map(|asker| asker.join().expect("who asks does not panic")))
        });
        (self.sent.played, self.stream) = load?;
        let failed = |source| LabError::System { action: "probe a firewall", source };
        self.probe = probe.transpose().map_err(failed)?.unwrap_or_default();
        Ok(())
    }

    fn settle(
        &mut self,
        stage: &mut Stage,
        firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        let measured = match self.stream.take() {
            Some(stream) => Measured::Stream(stream),
            None => Measured::Probe(Box::new(std::mem::take(&mut self.probe))),
        };
        self.sent.settle(stage, firewall, measured)
    }
}

/// The load of the firewall: frames, a stream, nothing.
fn carry(
    stage: &mut Stage,
    firewall: &TestFirewall,
    case: ProbeCase,
    realtime: bool,
    duration: Duration,
) -> Result<(Played, Option<Stream>), LabError> {
    let nothing = Played { finished: true, seconds: duration.as_secs_f64(), ..Played::default() };
    let is_measured = case.kind == ProbeKind::Stream;
    if case.load == BackgroundLoad::Stream || is_measured {
        let links = ProbeLinks {
            source: stage.topology.source(),
            source_device: &firewall.ends.0,
            sink: stage.topology.sink_side(),
            sink_device: &firewall.ends.1,
        };
        let length = if is_measured { duration } else { duration + MARGIN };
        let stream = stream::stream(&links, stage.core, realtime, length)?;
        return Ok((nothing, is_measured.then_some(stream)));
    }
    if case.load == BackgroundLoad::Idle {
        return Ok((nothing, None));
    }
    let play = FrameWorkload::overload(duration + MARGIN);
    let _pinned = Pinned::to(stage.core, realtime)?;
    Ok((stage.play(firewall, &play)?, None))
}

/// Asks on a core, before everything else, as soon as `is_ready` says so.
fn ask(
    transport: &mut dyn ProbeTransport,
    schedule: &ProbeSchedule,
    core: u32,
    is_ready: impl Fn() -> bool,
) -> io::Result<Probe> {
    let _pinned = Pinned::to(core, false).map_err(io::Error::other)?;
    // Above the generator, or a question would leave only when that is done.
    be_realtime(2);
    if !is_ready() {
        let late = "the load was not there in time";
        return Err(io::Error::new(io::ErrorKind::TimedOut, late));
    }
    probe(transport, schedule)
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
