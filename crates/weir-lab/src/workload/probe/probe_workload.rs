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

use weir_stats::{BackgroundLoad, BulkTcpStreamResult, ProbeKind, ProbeResult};
use weir_study::ProbeKindAndLoad;

use crate::LabError;
use crate::bpf_program::frame_generator::SendResult;
use crate::observe::core_pinning::{
    CorePinGuard, MAX_REALTIME_TRIAL, pick_other_core_or_same, set_fifo_priority,
};
use crate::observe::kernel_counters::RxPacketCounterReader;
use crate::topology::FirewallWithCounters;
use crate::topology::probe_routes::ProbeLinks;
use crate::workload::frame_accounting::SentFrameTracker;
use crate::workload::frames::FrameWorkload;
use crate::workload::probe::bulk_tcp_stream;
use crate::workload::probe::open_loop::{
    PeriodicProbeSchedule, ProbeTransport, run_open_loop_probe,
};
use crate::workload::probe::probe_transports::{EchoProbe, FirewallShellProbe};
use crate::workload::workload_resources::WorkloadResources;
use crate::workload::workload_trait::{Workload, WorkloadOutcome, WorkloadScheduling};
use weir_stats::TrialResults;

/// How much longer the load lasts than the questions.
const BACKGROUND_LOAD_EXTRA_TIME: Duration = Duration::from_millis(150);
/// How long the load may take to be there.
const BACKGROUND_LOAD_START_TIMEOUT: Duration = Duration::from_secs(3);
/// Packets by which it is known to be there.
const BACKGROUND_LOAD_ENTERED_PACKETS: u64 = 64;

/// Requests through a firewall, or to it, and its load during them.
pub(crate) struct ProbeWorkload {
    kind_and_load: ProbeKindAndLoad,
    schedule: PeriodicProbeSchedule,
    transport: Option<Box<dyn ProbeTransport + Send>>,
    frame_tracker: SentFrameTracker,
    probe_result: ProbeResult,
    bulk_stream_result: Option<BulkTcpStreamResult>,
}

impl ProbeWorkload {
    /// The case's questions at the times of a schedule.
    pub(crate) fn new(
        kind_and_load: ProbeKindAndLoad,
        schedule: PeriodicProbeSchedule,
    ) -> ProbeWorkload {
        ProbeWorkload {
            kind_and_load,
            schedule,
            transport: None,
            frame_tracker: SentFrameTracker::default(),
            probe_result: ProbeResult::default(),
            bulk_stream_result: None,
        }
    }
}

impl Workload for ProbeWorkload {
    fn duration(&self) -> Duration {
        self.schedule.period * self.schedule.request_count
    }

    fn scheduling(&self) -> WorkloadScheduling {
        WorkloadScheduling::SelfPinned
    }

    fn can_attribute_link_losses(&self) -> bool {
        true
    }

    fn begin_trial(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        let source = resources.topology.source_namespace();
        {
            // What is started here stays on the core.
            let _pinned = CorePinGuard::pin_to_core(resources.core, false)?;
            self.transport = match self.kind_and_load.kind {
                ProbeKind::BulkTcpStream => None,
                ProbeKind::ShellOnFirewall => {
                    Some(Box::new(FirewallShellProbe::start(&firewall.namespace)?))
                }
                kind => {
                    let macs = resources.topology.firewall_and_source_macs();
                    Some(Box::new(EchoProbe::open(source, firewall.send_ifindex, kind, macs)?))
                }
            };
        }
        self.frame_tracker.store_counters_before(resources, firewall)
    }

    fn send_traffic(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<(), LabError> {
        let (kind_and_load, core, duration) = (self.kind_and_load, resources.core, self.duration());
        // A shell competes with the forwarding thread; a request through the firewall does not.
        let is_short = duration + BACKGROUND_LOAD_EXTRA_TIME <= MAX_REALTIME_TRIAL;
        let realtime =
            resources.realtime && kind_and_load.kind != ProbeKind::ShellOnFirewall && is_short;
        let entered = firewall.received_from_source.received_packets()?;
        let ended = AtomicBool::new(false);
        let (transport, schedule) = (&mut self.transport, &self.schedule);
        let (load, probe_result) = std::thread::scope(|scope| {
            let (ended, entering) = (&ended, &firewall.received_from_source);
            let asker = transport.as_mut().map(|transport| {
                let place = match kind_and_load.kind {
                    ProbeKind::ShellOnFirewall => pick_other_core_or_same(core),
                    _ => core,
                };
                scope.spawn(move || {
                    run_probes_with_priority_once_ready(transport.as_mut(), schedule, place, || {
                        kind_and_load.load == BackgroundLoad::Idle
                            || wait_for_background_load(entering, entered, ended)
                    })
                })
            });
            let load = run_overload_or_stream_blocking(
                resources,
                firewall,
                kind_and_load,
                realtime,
                duration,
            );
            ended.store(true, Ordering::SeqCst);
            (load, asker.map(|asker| asker.join().expect("who asks does not panic")))
        });
        (self.frame_tracker.send_result, self.bulk_stream_result) = load?;
        let failed = |source| LabError::SystemCall { action: "probe a firewall", source };
        self.probe_result = probe_result.transpose().map_err(failed)?.unwrap_or_default();
        Ok(())
    }

    fn await_packets_accounted_for(
        &mut self,
        resources: &mut WorkloadResources,
        firewall: &FirewallWithCounters,
    ) -> Result<WorkloadOutcome, LabError> {
        let measured = match self.bulk_stream_result.take() {
            Some(stream) => TrialResults::BulkTcpStream(stream),
            None => TrialResults::Probe(Box::new(std::mem::take(&mut self.probe_result))),
        };
        self.frame_tracker.await_packets_accounted_for(resources, firewall, measured)
    }
}

/// The load of the firewall: frames, a stream, nothing.
fn run_overload_or_stream_blocking(
    resources: &mut WorkloadResources,
    firewall: &FirewallWithCounters,
    kind_and_load: ProbeKindAndLoad,
    realtime: bool,
    duration: Duration,
) -> Result<(SendResult, Option<BulkTcpStreamResult>), LabError> {
    let nothing =
        SendResult { finished: true, seconds: duration.as_secs_f64(), ..SendResult::default() };
    let is_measured = kind_and_load.kind == ProbeKind::BulkTcpStream;
    if kind_and_load.load == BackgroundLoad::BulkTcpStream || is_measured {
        let links = ProbeLinks {
            source: resources.topology.source_namespace(),
            source_device: &firewall.source_and_sink_devices.0,
            sink: resources.topology.sink_namespace(),
            sink_device: &firewall.source_and_sink_devices.1,
        };
        let length = if is_measured { duration } else { duration + BACKGROUND_LOAD_EXTRA_TIME };
        let stream =
            bulk_tcp_stream::run_bulk_tcp_stream(&links, resources.core, realtime, length)?;
        return Ok((nothing, is_measured.then_some(stream)));
    }
    if kind_and_load.load == BackgroundLoad::Idle {
        return Ok((nothing, None));
    }
    let play = FrameWorkload::overload_plan(duration + BACKGROUND_LOAD_EXTRA_TIME);
    let _pinned = CorePinGuard::pin_to_core(resources.core, realtime)?;
    Ok((resources.send_frames(firewall, &play)?, None))
}

/// Asks on a core, before everything else, as soon as `is_ready` says so.
fn run_probes_with_priority_once_ready(
    transport: &mut dyn ProbeTransport,
    schedule: &PeriodicProbeSchedule,
    core: u32,
    is_ready: impl Fn() -> bool,
) -> io::Result<ProbeResult> {
    let _pinned = CorePinGuard::pin_to_core(core, false).map_err(io::Error::other)?;
    // Above the generator, or a question would leave only when that is done.
    set_fifo_priority(2);
    if !is_ready() {
        let late = "the load was not there in time";
        return Err(io::Error::new(io::ErrorKind::TimedOut, late));
    }
    run_open_loop_probe(transport, schedule)
}

/// Waits until the load is there.
fn wait_for_background_load(
    entering: &RxPacketCounterReader,
    entered: u64,
    ended: &AtomicBool,
) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < BACKGROUND_LOAD_START_TIMEOUT && !ended.load(Ordering::SeqCst) {
        if entering
            .received_packets()
            .is_ok_and(|now| now >= entered + BACKGROUND_LOAD_ENTERED_PACKETS)
        {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
