//! httperf (Mosberger and Jin, 1998), which the papers used: one connection per request, opened at
//! planned times regardless of earlier ones.
//!
//! It uses `select`, so it has at most 1,024 descriptors, and a connection that it cannot open for
//! lack of one is an immediate error (`fd-unavail`).

use super::super::client_limits::REPLY_TIMEOUT;
use super::super::socket_plan::SocketPlan;
use super::output_lines::{OutputLines, parse_finite_nonnegative_number};
use super::program_report::ProgramReport;

const TOTAL_LINE: &str = "Total: connections {} requests {} replies {} test-duration {} s";
const REPLY_TIME_LINE: &str = "Reply time [ms]: response {} transfer {}";
const REPLY_STATUS_LINE: &str = "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}";
const ERRORS_LINE: &str =
    "Errors: total {} client-timo {} socket-timo {} connrefused {} connreset {}";
const MORE_ERRORS_LINE: &str = "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}";

/// All that it prints (src/stat/basic.c of httperf 0.9), its command line first.
const LINE_FORMATS: [&str; 17] = [
    "httperf {}",
    "Maximum connect burst length: {}",
    TOTAL_LINE,
    "Connection rate: {} conn/s ({} ms/conn, <={} concurrent connections)",
    "Connection time [ms]: min {} avg {} max {} median {} stddev {}",
    "Connection time [ms]: connect {}",
    "Connection length [replies/conn]: {}",
    "Request rate: {} req/s ({} ms/req)",
    "Request size [B]: {}",
    "Reply rate [replies/s]: min {} avg {} max {} stddev {} ({} samples)",
    REPLY_TIME_LINE,
    "Reply size [B]: header {} content {} footer {} (total {})",
    REPLY_STATUS_LINE,
    "CPU time [s]: user {} system {} (user {}% system {}% total {}%)",
    "Net I/O: {} KB/s ({} bps)",
    ERRORS_LINE,
    MORE_ERRORS_LINE,
];

pub(super) fn build_arguments(plan: &SocketPlan<'_>) -> Vec<String> {
    let SocketPlan { endpoints, rate, .. } = plan;
    vec![
        format!("--server={}", endpoints.first_server),
        format!("--port={}", endpoints.server_port),
        "--uri=/".to_owned(),
        format!("--rate={rate}"),
        format!("--num-conns={}", plan.planned_connections().max(1)),
        "--num-calls=1".to_owned(),
        format!("--timeout={}", REPLY_TIMEOUT.as_secs()),
    ]
}

pub(super) fn parse_output(text: &str) -> Result<ProgramReport, String> {
    let lines = OutputLines::parse(text, &LINE_FORMATS)?;
    let [_, _, replies, seconds] =
        lines.parse_gaps_of_required_line(TOTAL_LINE, parse_finite_nonnegative_number)?;
    let [informed, completed, moved, wrong, broken] =
        lines.parse_counts_of_required_line(REPLY_STATUS_LINE)?;
    let [all, client, socket, refused, reset] = lines.parse_counts_of_required_line(ERRORS_LINE)?;
    let [descriptors, addresses, files, other] =
        lines.parse_counts_of_required_line(MORE_ERRORS_LINE)?;
    let failed = vec![
        ("timed out", client),
        ("socket timed out", socket),
        ("refused", refused),
        ("reset", reset),
        ("descriptors", descriptors),
        ("address not available", addresses),
        ("file table", files),
        ("another error", other),
    ];
    let sum: u64 = failed.iter().map(|(_, count)| count).sum();
    if sum != all {
        return Err(format!("its errors by kind add up to {sum}, but the total is {all}"));
    }
    let others = informed + moved + wrong + broken;
    let by_status = completed + others;
    if by_status as f64 != replies {
        return Err(format!(
            "its replies by status add up to {by_status}, but the total is {replies}"
        ));
    }
    let [response, transfer] =
        lines.parse_gaps_of_required_line(REPLY_TIME_LINE, parse_finite_nonnegative_number)?;
    Ok(ProgramReport {
        seconds,
        completed,
        failures_by_kind: failed.into_iter().chain([("wrong reply", others)]).collect(),
        mean_ns: (response + transfer) * 1e6,
        quantiles: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::program_report::made_up_socket_plan;
    use super::*;
    use weir_study::ConnectionLoad;

    const PRINTED: &str = "\
httperf --timeout=5 --client=0/1 --server=198.19.128.0 --port=80 --uri=/ --rate=9000 --num-calls=1
Maximum connect burst length: 12

Total: connections 2700 requests 2500 replies 2400 test-duration 1.250 s

Connection rate: 2160.0 conn/s (0.5 ms/conn, <=1022 concurrent connections)
Connection time [ms]: min 0.2 avg 3.4 max 99.1 median 2.5 stddev 7.2
Connection time [ms]: connect 1.1
Connection length [replies/conn]: 1.000

Request rate: 2000.0 req/s (0.5 ms/req)
Request size [B]: 68.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 2.3 transfer 0.1
Reply size [B]: header 40.0 content 16.0 footer 0.0 (total 56.0)
Reply status: 1xx=0 2xx=2390 3xx=0 4xx=4 5xx=6

CPU time [s]: user 0.21 system 1.03 (user 16.8% system 82.4% total 99.2%)
Net I/O: 233.1 KB/s (1.9*10^6 bps)

Errors: total 305 client-timo 100 socket-timo 1 connrefused 2 connreset 3
Errors: fd-unavail 197 addrunavail 0 ftab-full 0 other 2
";

    fn refused(from: &str, to: &str) -> String {
        assert_eq!(PRINTED.matches(from).count(), 1, "{from}");
        parse_output(&PRINTED.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn replies_errors_and_times_of_httperf_are_parsed() {
        let report = parse_output(PRINTED).unwrap();
        assert_eq!((report.seconds, report.completed), (1.25, 2390));
        let of = |kind| {
            report.failures_by_kind.iter().find(|(at, _)| *at == kind).map(|(_, count)| *count)
        };
        assert_eq!((of("timed out"), of("socket timed out")), (Some(100), Some(1)));
        assert_eq!((of("refused"), of("reset"), of("descriptors")), (Some(2), Some(3), Some(197)));
        assert_eq!((of("another error"), of("wrong reply")), (Some(2), Some(10)));
        assert!((report.mean_ns - 2.4e6).abs() < 1.0, "response and transfer");
    }

    #[test]
    fn truncated_or_unknown_httperf_output_is_refused() {
        let cut = PRINTED.find("Errors: total").unwrap();
        let error = parse_output(&PRINTED[..cut]).unwrap_err();
        assert_eq!(error, format!("the line `{ERRORS_LINE}` is missing"));
        let error = parse_output("Server Software: nginx\n").unwrap_err();
        assert_eq!(error, "line 1 is not understood: `Server Software: nginx`");
        let error = refused("Net I/O", "Disk I/O");
        assert!(error.starts_with("line 20 is not understood: `Disk I/O: 233.1"), "{error}");
        let error = refused("test-duration 1.250 s", "test-duration inf s");
        assert!(error.starts_with("`inf` in the line `Total"), "{error}");
    }

    #[test]
    fn inconsistent_sums_are_refused() {
        let error = refused("connreset 3", "connreset 4");
        assert_eq!(error, "its errors by kind add up to 306, but the total is 305");
        let error = refused("2xx=2390", "2xx=2391");
        assert_eq!(error, "its replies by status add up to 2401, but the total is 2400");
    }

    #[test]
    fn arguments_contain_the_planned_rate_and_connection_count() {
        let endpoints = ConnectionLoad::default().endpoints;
        let line = build_arguments(&made_up_socket_plan(&endpoints)).join(" ");
        assert!(line.contains("--rate=1500 --num-conns=2250 --num-calls=1"), "{line}");
    }
}
