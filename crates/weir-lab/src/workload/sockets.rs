//! Connections between kernel sockets, for realism: like a browser and a server.
//!
//! Both ends are threads with `epoll`, with the firewall between them. Connections are opened at
//! planned times, and response times count from the planned time. Each connection has one of many
//! client addresses, a port that the kernel chooses when it connects (`IP_BIND_ADDRESS_NO_PORT`), a
//! request and a reply that are compared byte by byte, and a timeout of 5 seconds. The client
//! closes first, so its port waits in TIME_WAIT. Errors are counted by kind.
//!
//! Here clients and servers cost more than the firewall, tens of microseconds per connection. Use
//! [`crate::program::tcp`] to distinguish firewalls, and this workload to check that real ends
//! work, how many packets a fetch needs, and where a client's own limits apply ([`limits`]).
//!
//! A subject may name another client ([`Client`]): weir's small TCP, or another program, which runs
//! on the clients' core and sends requests to the same servers.
//!
//! Packets are balanced on the links: what entered the firewall by either device left by the other
//! one and arrived, or is in a counter of drops.

mod client;
mod http;
pub(crate) mod limits;
mod links;
mod outside;
pub(crate) mod plan;
mod result;
mod server;

use std::time::Duration;

use weir_kernel::Namespace;
use weir_stats::{Close, Connections};

use crate::LabError;
use crate::observe::cpu::another_core;
use crate::program::generator::Played;
use crate::program::sink::Arrived;
use crate::topology::TestFirewall;
use crate::workload::contract::{Scheduling, Workload, WorkloadOutcome};
use crate::workload::latency::spectrum;
use crate::workload::stage::Stage;
use weir_stats::Measured;

use client::{Fetched, Fetching};
use limits::Resources;
use links::Links;
use plan::SocketPlan;
use result::{ClientResult, failures, not_possible};
use server::Serving;

/// Connections between sockets: clients on the stage's core, servers on another.
pub(crate) struct SocketWorkload<'a> {
    plan: SocketPlan<'a>,
    ready: Option<Ready>,
    asked: Option<ClientResult>,
}

/// What is before a trial.
struct Ready {
    serving: Serving,
    links: Links,
    /// Packets that entered and left so far.
    before: (u64, u64),
    first_client: u32,
}

impl<'a> SocketWorkload<'a> {
    /// As the plan says.
    pub(crate) fn new(plan: SocketPlan<'a>) -> SocketWorkload<'a> {
        SocketWorkload { plan, ready: None, asked: None }
    }
}

impl Workload for SocketWorkload<'_> {
    fn duration(&self) -> Duration {
        self.plan.duration
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::Pinned
    }

    fn prepare(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        firewall.target.flush_connections(false)?;
        let links = Links::of(&stage.topology, firewall)?;
        let (sink, port) = (stage.topology.sink_side(), self.plan.endpoints.port);
        let serving = sink
            .enter(|| Serving::begin(&firewall.ends.1, port, another_core(stage.core)))?
            .map_err(not_possible)?;
        let before = links.read()?;
        let first_client = stage.next_client(self.plan.clients);
        self.ready = Some(Ready { serving, links, before, first_client });
        Ok(())
    }

    fn play(&mut self, stage: &mut Stage, firewall: &TestFirewall) -> Result<(), LabError> {
        let first = self.ready.as_ref().expect("prepared before").first_client;
        self.asked = Some(ask(stage.topology.source(), firewall, &self.plan, first)?);
        Ok(())
    }

    fn settle(
        &mut self,
        _stage: &mut Stage,
        _firewall: &TestFirewall,
    ) -> Result<WorkloadOutcome, LabError> {
        let Ready { serving, links, before, .. } = self.ready.take().expect("prepared before");
        let (mut connections, seconds) = self.asked.take().expect("played before");
        let (entered, left) = links.settle(before)?;
        let served = serving.end().map_err(not_possible)?;
        // A reply that was never sent.
        connections.invalid = connections.completed.saturating_sub(served);
        Ok(WorkloadOutcome {
            played: Played {
                offered: entered,
                given_up: connections.given_up,
                finished: true,
                seconds,
                ..Played::default()
            },
            arrived: Arrived { delivered: left, ..Arrived::default() },
            measured: Measured::Connections(Box::new(connections)),
        })
    }

    fn clean_up(&mut self, firewall: &TestFirewall) -> Result<(), LabError> {
        firewall.target.flush_connections(false)
    }
}

/// Runs the clients of a trial on the current core.
fn ask(
    source: &Namespace,
    firewall: &TestFirewall,
    plan: &SocketPlan<'_>,
    first: u32,
) -> Result<ClientResult, LabError> {
    if let Some(program) = outside::program(plan.client) {
        return outside::ask(source, firewall, plan, first, &program);
    }
    let fetching = Fetching { plan: *plan, first, device: &firewall.ends.0 };
    let fetched = source.enter(|| client::fetch(&fetching))?.map_err(not_possible)?;
    Ok((record(&fetched, &plan.resources), fetched.seconds))
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
