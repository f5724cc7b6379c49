//! Other programs as clients: external references for weir's own.
//!
//! A program runs in the source's namespace, on the core to which the current thread is pinned, and
//! sends requests to one server from one address. It does not bind to a device, so the route to the
//! servers is first changed to the firewall of the trial, with a source address whose ports are not
//! in use. All of its output is parsed: an unknown line ends the run, because another version of
//! the program might give other lines another meaning, too.

mod httperf;
mod lines;
mod report;
mod wrk;

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weir_kernel::Namespace;
use weir_stats::{Close, Connections, Quantile, Spectrum};

use super::limits;
use super::plan::SocketPlan;
use super::result::{ClientResult, failures, not_possible};
use crate::LabError;
use crate::host::router::GATEWAY_ADDRESS;
use crate::topology::TestFirewall;
use crate::workload::latency;
use report::ProgramReport;
use weir_study::ClientKind;

/// How long a program may take beyond three times its trial: one that is overloaded ends late.
const LATE: Duration = Duration::from_secs(30);

/// How a program is started, and how its output is parsed.
pub(super) struct ClientProgram {
    name: &'static str,
    arguments: fn(&SocketPlan<'_>) -> Vec<String>,
    read: fn(&str) -> Result<ProgramReport, String>,
    /// Its results, if it ended with an error and reported them.
    not_begun: fn(&str) -> Option<ProgramReport>,
}

/// The program that a client is.
pub(super) fn program(client: ClientKind) -> Option<ClientProgram> {
    let name = client.program()?;
    let wrk =
        |arguments| ClientProgram { name, arguments, read: wrk::read, not_begun: wrk::not_begun };
    Some(match client {
        ClientKind::Sockets | ClientKind::Stateless => return None,
        ClientKind::Httperf => ClientProgram {
            name,
            arguments: httperf::arguments,
            read: httperf::read,
            not_begun: |_| None,
        },
        ClientKind::Wrk => wrk(|asking| wrk::arguments(asking, false)),
        ClientKind::WrkKept => wrk(|asking| wrk::arguments(asking, true)),
    })
}

/// Runs a program through a firewall, from the client address number `first`.
pub(super) fn ask(
    source: &Namespace,
    firewall: &TestFirewall,
    asking: &SocketPlan<'_>,
    first: u32,
    program: &ClientProgram,
) -> Result<ClientResult, LabError> {
    let endpoints = asking.endpoints;
    let address = Ipv4Addr::from(u32::from(endpoints.client) + first % endpoints.clients);
    let (servers, device) = (endpoints.server_network(), &firewall.ends.0);
    // Ways without a metric come before those that sockets of one device find.
    source.ip(&[format!(
        "route replace {servers} via {GATEWAY_ADDRESS} dev {device} onlink src {address}"
    )])?;
    let arguments = (program.arguments)(asking);
    let refused = |message| {
        let command = format!("{} {}", program.name, arguments.join(" "));
        LabError::Client { command, message }
    };
    let report = run(source, program, &arguments, asking.duration * 3 + LATE)?.map_err(refused)?;
    Ok((record(asking, &report), report.seconds))
}

/// Runs a program to its end, within a limit; what it did, or what went wrong with it.
fn run(
    source: &Namespace,
    program: &ClientProgram,
    arguments: &[String],
    limit: Duration,
) -> Result<Result<ProgramReport, String>, LabError> {
    let mut command = source.command(program.name);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("cannot be started: {error}"))),
    };
    // Its output fits into a pipe, so nothing has to read it while it runs.
    let is_over = wait(&mut child, limit).map_err(not_possible)?;
    if !is_over {
        child.kill().map_err(not_possible)?;
    }
    let output = child.wait_with_output().map_err(not_possible)?;
    if !is_over {
        return Ok(Err(format!("did not end within {limit:?}")));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let told = || format!("ended with {}: {said}", output.status);
        return Ok((program.not_begun)(&said).ok_or_else(told));
    }
    Ok((program.read)(&String::from_utf8_lossy(&output.stdout)))
}

/// Waits for the end of a process, up to a limit; returns whether it ended.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        latency::wait(process.as_fd(), left)?;
    }
    Ok(true)
}

fn record(asking: &SocketPlan<'_>, report: &ProgramReport) -> Connections {
    let failed = report.failed.iter().copied();
    let offered = report.completed + failed.clone().map(|(_, count)| count).sum::<u64>();
    let planned = if asking.client.keeps_a_rate() { asking.planned() } else { offered };
    let quantiles = report.quantiles.iter().map(|(share, ns)| Quantile { share: *share, ns: *ns });
    let reported = Spectrum {
        count: report.completed,
        mean_ns: report.mean_ns,
        quantiles: quantiles.collect(),
    };
    // A program has its own descriptors and buffers.
    let mut limits = asking.resources.limits();
    limits.retain(|limit| limit.name == "ports");
    Connections {
        offered,
        completed: report.completed,
        failed: failures(failed.clone()),
        resets: failed.filter(|(at, _)| *at == "reset").map(|(_, count)| count).sum(),
        given_up: planned.saturating_sub(offered),
        limits: limits::record(&limits),
        client: asking.client.record(reported),
        ..Connections::none(Close::Fin)
    }
}

#[cfg(test)]
mod tests {
    use super::report::made_up;
    use super::*;
    use weir_study::ConnectionLoad;

    #[test]
    fn what_a_program_did_not_open_was_given_up() {
        let endpoints = ConnectionLoad::default().endpoints;
        let asking = made_up(&endpoints);
        let failed = vec![("descriptors", 200), ("reset", 50), ("refused", 0)];
        let report = ProgramReport { completed: 2000, failed, ..ProgramReport::default() };
        let connections = record(&asking, &report);
        assert_eq!((connections.offered, connections.given_up), (2250, 0));
        assert_eq!((connections.missing(), connections.resets), (0, 50));
        assert_eq!(connections.failed.len(), 2, "what did not happen is not told");
        assert_eq!(connections.limit("ports"), Some(64_512.0 / 60.0));
        assert_eq!(connections.limit("descriptors"), None, "they are the program's own");
        let late = record(&asking, &ProgramReport { completed: 2000, ..ProgramReport::default() });
        assert_eq!((late.offered, late.given_up), (2000, 250));
        let closed = SocketPlan { client: ClientKind::Wrk, ..asking };
        let closed = record(&closed, &ProgramReport { completed: 9, ..ProgramReport::default() });
        assert_eq!((closed.offered, closed.given_up), (9, 0), "it has no rate");
    }
}
