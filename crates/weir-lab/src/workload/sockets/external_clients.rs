//! Other programs as clients: external references for weir's own.
//!
//! A program runs in the source's namespace, on the core to which the current thread is pinned, and
//! sends requests to one server from one address. It does not bind to a device, so the route to the
//! servers is first changed to the firewall of the trial, with a source address whose ports are not
//! in use. All of its output is parsed: an unknown line ends the run, because another version of
//! the program might give other lines another meaning, too.

mod httperf;
mod output_lines;
mod program_report;
mod wrk;

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weir_kernel::Namespace;
use weir_stats::{ConnectionClose, ConnectionCounts, DurationDistribution, Quantile};

use super::client_limits;
use super::client_result::{ClientCountsAndSeconds, socket_io_error, to_failure_records};
use super::socket_plan::SocketPlan;
use crate::LabError;
use crate::host::router_config::FIREWALL_IN_GATEWAY_IP;
use crate::topology::FirewallWithCounters;
use crate::workload::response_time;
use program_report::ProgramReport;
use weir_study::ClientKind;

/// How long a program may take beyond three times its trial: one that is overloaded ends late.
const OVERTIME_BEYOND_TRIPLE_DURATION: Duration = Duration::from_secs(30);

/// How a program is started, and how its output is parsed.
pub(super) struct ClientProgramAdapter {
    name: &'static str,
    arguments: fn(&SocketPlan<'_>) -> Vec<String>,
    parse_output: fn(&str) -> Result<ProgramReport, String>,
    /// Its results, if it ended with an error and reported them.
    parse_startup_failure: fn(&str) -> Option<ProgramReport>,
}

/// The program that a client is.
pub(super) fn choose_program_adapter(client: ClientKind) -> Option<ClientProgramAdapter> {
    let name = client.program_name()?;
    let wrk = |arguments| ClientProgramAdapter {
        name,
        arguments,
        parse_output: wrk::parse_output,
        parse_startup_failure: wrk::parse_startup_failure_as_report,
    };
    Some(match client {
        ClientKind::Sockets | ClientKind::Stateless => return None,
        ClientKind::Httperf => ClientProgramAdapter {
            name,
            arguments: httperf::build_arguments,
            parse_output: httperf::parse_output,
            parse_startup_failure: |_| None,
        },
        ClientKind::Wrk => wrk(|plan| wrk::build_arguments(plan, false)),
        ClientKind::WrkKept => wrk(|plan| wrk::build_arguments(plan, true)),
    })
}

/// Runs a program through a firewall, from the client address number `first_client_index`.
pub(super) fn run_program_for_connection_counts(
    source: &Namespace,
    firewall: &FirewallWithCounters,
    plan: &SocketPlan<'_>,
    first_client_index: u32,
    program: &ClientProgramAdapter,
) -> Result<ClientCountsAndSeconds, LabError> {
    let endpoints = plan.endpoints;
    let address = Ipv4Addr::from(
        u32::from(endpoints.first_client) + first_client_index % endpoints.client_count,
    );
    let (servers, device) = (endpoints.server_prefix(), &firewall.source_and_sink_devices.0);
    // Ways without a metric come before those that sockets of one device find.
    source.run_ip_batch(&[format!(
        "route replace {servers} via {FIREWALL_IN_GATEWAY_IP} dev {device} onlink src {address}"
    )])?;
    let arguments = (program.arguments)(plan);
    let refused = |message| {
        let command = format!("{} {}", program.name, arguments.join(" "));
        LabError::ExternalClientFailed { command, message }
    };
    let report = run_program_and_parse_report(
        source,
        program,
        &arguments,
        plan.duration * 3 + OVERTIME_BEYOND_TRIPLE_DURATION,
    )?
    .map_err(refused)?;
    Ok((build_record_from_program_report(plan, &report), report.seconds))
}

/// Runs a program to its end, within a limit; what it did, or what went wrong with it.
fn run_program_and_parse_report(
    source: &Namespace,
    program: &ClientProgramAdapter,
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
    let is_over = wait_for_exit_or_time_limit(&mut child, limit).map_err(socket_io_error)?;
    if !is_over {
        child.kill().map_err(socket_io_error)?;
    }
    let output = child.wait_with_output().map_err(socket_io_error)?;
    if !is_over {
        return Ok(Err(format!("did not end within {limit:?}")));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let told = || format!("ended with {}: {said}", output.status);
        return Ok((program.parse_startup_failure)(&said).ok_or_else(told));
    }
    Ok((program.parse_output)(&String::from_utf8_lossy(&output.stdout)))
}

/// Waits for the end of a process, up to a limit; returns whether it ended.
fn wait_for_exit_or_time_limit(child: &mut Child, limit: Duration) -> std::io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        response_time::sleep_until_readable_or_limit(process.as_fd(), left)?;
    }
    Ok(true)
}

fn build_record_from_program_report(
    plan: &SocketPlan<'_>,
    report: &ProgramReport,
) -> ConnectionCounts {
    let failed = report.failures_by_kind.iter().copied();
    let offered = report.completed + failed.clone().map(|(_, count)| count).sum::<u64>();
    let planned =
        if plan.client.opens_at_fixed_rate() { plan.planned_connections() } else { offered };
    let quantiles = report.quantiles.iter().map(|(share, ns)| Quantile { share: *share, ns: *ns });
    let reported = DurationDistribution {
        count: report.completed,
        mean_ns: report.mean_ns,
        quantiles: quantiles.collect(),
    };
    // A program has its own descriptors and buffers.
    let mut limits = plan.resources.connection_rate_limits();
    limits.retain(|limit| limit.name == "ports");
    ConnectionCounts {
        started: offered,
        completed: report.completed,
        failed: to_failure_records(failed.clone()),
        foreign_resets: failed.filter(|(at, _)| *at == "reset").map(|(_, count)| count).sum(),
        skipped_behind_schedule: planned.saturating_sub(offered),
        limits: client_limits::to_limit_records(&limits),
        client: plan.client.to_substitute_client_report(reported),
        ..ConnectionCounts::empty(ConnectionClose::Fin)
    }
}

#[cfg(test)]
mod tests {
    use super::program_report::made_up_socket_plan;
    use super::*;
    use weir_study::ConnectionLoad;

    #[test]
    fn connections_that_a_program_did_not_open_are_not_started() {
        let endpoints = ConnectionLoad::default().endpoints;
        let plan = made_up_socket_plan(&endpoints);
        let failed = vec![("descriptors", 200), ("reset", 50), ("refused", 0)];
        let report =
            ProgramReport { completed: 2000, failures_by_kind: failed, ..ProgramReport::default() };
        let connections = build_record_from_program_report(&plan, &report);
        assert_eq!((connections.started, connections.skipped_behind_schedule), (2250, 0));
        assert_eq!((connections.unaccounted_connections(), connections.foreign_resets), (0, 50));
        assert_eq!(connections.failed.len(), 2, "failures that did not occur are not listed");
        assert_eq!(connections.rate_limit_of_client_resource("ports"), Some(64_512.0 / 60.0));
        assert_eq!(
            connections.rate_limit_of_client_resource("descriptors"),
            None,
            "they are the program's own"
        );
        let late = build_record_from_program_report(
            &plan,
            &ProgramReport { completed: 2000, ..ProgramReport::default() },
        );
        assert_eq!((late.started, late.skipped_behind_schedule), (2000, 250));
        let closed = SocketPlan { client: ClientKind::Wrk, ..plan };
        let closed = build_record_from_program_report(
            &closed,
            &ProgramReport { completed: 9, ..ProgramReport::default() },
        );
        assert_eq!((closed.started, closed.skipped_behind_schedule), (9, 0), "it has no rate");
    }
}
