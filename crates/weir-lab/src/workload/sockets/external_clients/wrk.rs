//! wrk: a number of concurrent connections, each of which sends its next request when its reply has
//! arrived.
//!
//! So a slow firewall gets fewer requests, and no request waits in a queue that wrk measures: its
//! rate is what this number of clients gets, and its times are not what a user waits. It counts
//! whole seconds, so a trial lasts at least one. A reply later than the limit is an error
//! (`timeout`); a missing reply is not counted at all.

use super::super::client_limits::REPLY_TIMEOUT;
use super::super::socket_plan::SocketPlan;
use super::output_lines::{OutputLines, match_line_pattern, parse_finite_nonnegative_number};
use super::program_report::ProgramReport;

const LATENCY_LINE: &str = "Latency {} {} {} {}%";
const REQUESTS_LINE: &str = "{} requests in {}, {} read";
const SOCKET_ERRORS_LINE: &str = "Socket errors: connect {}, read {}, write {}, timeout {}";
const BAD_STATUS_LINE: &str = "Non-2xx or 3xx responses: {}";
/// Shares of replies whose times it prints.
const QUANTILE_LINES: [(f64, &str); 4] =
    [(0.5, "50% {}"), (0.75, "75% {}"), (0.9, "90% {}"), (0.99, "99% {}")];

/// All that it prints with `--latency` (src/wrk.c of wrk 4).
const LINE_FORMATS: [&str; 15] = [
    "Running {} test @ {}",
    "{} threads and {} connections",
    "Thread Stats Avg Stdev Max +/- Stdev",
    LATENCY_LINE,
    "Req/Sec {} {} {} {}%",
    "Latency Distribution",
    QUANTILE_LINES[0].1,
    QUANTILE_LINES[1].1,
    QUANTILE_LINES[2].1,
    QUANTILE_LINES[3].1,
    REQUESTS_LINE,
    SOCKET_ERRORS_LINE,
    BAD_STATUS_LINE,
    "Requests/sec: {}",
    "Transfer/sec: {}",
];

/// `keep_connections_open`: its connections stay open.
pub(super) fn build_arguments(plan: &SocketPlan<'_>, keep_connections_open: bool) -> Vec<String> {
    let SocketPlan { endpoints, concurrency: at_once, duration, .. } = plan;
    let seconds = duration.as_secs_f64().ceil().max(1.0);
    let mut arguments = vec![
        "--threads=1".to_owned(),
        format!("--connections={at_once}"),
        format!("--duration={seconds}s"),
        format!("--timeout={}s", REPLY_TIMEOUT.as_secs()),
        "--latency".to_owned(),
    ];
    if !keep_connections_open {
        arguments.push("--header=Connection: close".to_owned());
    }
    arguments.push(format!("http://{}:{}/", endpoints.first_server, endpoints.server_port));
    arguments
}

/// What it says where its first connection fails, which it opens to see that there is a server; it
/// gives up then.
pub(super) fn parse_startup_failure_as_report(said: &str) -> Option<ProgramReport> {
    let values = match_line_pattern("unable to connect to {} {}", said)?;
    let why = match values[1].as_str() {
        "Connection refused" => "refused",
        "Connection timed out" => "timed out",
        _ => "connect error",
    };
    Some(ProgramReport { failures_by_kind: vec![(why, 1)], ..ProgramReport::default() })
}

pub(super) fn parse_output(text: &str) -> Result<ProgramReport, String> {
    let lines = OutputLines::parse(text, &LINE_FORMATS)?;
    let [requests, seconds, _] =
        lines.parse_gaps_of_required_line(REQUESTS_LINE, |text| Some(text.to_owned()))?;
    let told = |what: &str| format!("`{what}` in the line `{REQUESTS_LINE}` is not understood");
    let requests: u64 = requests.parse().map_err(|_| told(&requests))?;
    let seconds = parse_time_ns(&seconds).ok_or_else(|| told(&seconds))? / 1e9;
    // What did not happen is not printed.
    let [connect, read, write, late] = lines.parse_counts_of_line_or_zeros(SOCKET_ERRORS_LINE)?;
    let [wrong] = lines.parse_counts_of_line_or_zeros(BAD_STATUS_LINE)?;
    let right = requests.checked_sub(late + wrong);
    let completed = right.ok_or_else(|| format!("{late} late and {wrong} wrong of {requests}"))?;
    let mut report = ProgramReport {
        seconds,
        completed,
        failures_by_kind: vec![
            ("connect error", connect),
            ("read error", read),
            ("write error", write),
            ("timed out", late),
            ("wrong reply", wrong),
        ],
        ..ProgramReport::default()
    };
    if completed > 0 {
        let [mean, ..]: [String; 4] =
            lines.parse_gaps_of_required_line(LATENCY_LINE, |text| Some(text.to_owned()))?;
        report.mean_ns = parse_time_ns(&mean).ok_or_else(|| format!("`{mean}` is not a time"))?;
        for (share, form) in QUANTILE_LINES {
            let [ns] = lines.parse_gaps_of_required_line(form, parse_time_ns)?;
            report.quantiles.push((share, ns));
        }
    }
    Ok(report)
}

/// A time with its unit (src/units.c), nanoseconds.
fn parse_time_ns(text: &str) -> Option<f64> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let in_unit = |(unit, ns): &(&str, f64)| {
        Some(parse_finite_nonnegative_number(text.strip_suffix(unit)?)? * ns)
    };
    units.iter().find_map(in_unit)
}

#[cfg(test)]
mod tests {
    use super::super::program_report::made_up_socket_plan;
    use super::*;
    use weir_study::ConnectionLoad;

    const PRINTED: &str = "\
Running 1s test @ http://198.19.128.0:80/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     4.42ms  635.91us  12.92ms   93.69%
    Req/Sec    14.20k     1.07k   16.00k    86.54%
  Latency Distribution
     50%  250.00us
     75%    2.91ms
     90%    4.03ms
     99%    1.20s
  14230 requests in 1.10s, 0.92MB read
  Socket errors: connect 1, read 2, write 3, timeout 20
  Non-2xx or 3xx responses: 10
Requests/sec:  12936.36
Transfer/sec:    858.89KB
";

    #[test]
    fn replies_errors_and_times_of_wrk_are_parsed() {
        let report = parse_output(PRINTED).unwrap();
        assert!((report.seconds - 1.1).abs() < 1e-9, "{report:?}");
        assert_eq!(report.completed, 14_200, "without those that were late or wrong");
        let failed: Vec<u64> = report.failures_by_kind.iter().map(|(_, count)| *count).collect();
        assert_eq!(failed, [1, 2, 3, 20, 10]);
        assert!((report.mean_ns - 4.42e6).abs() < 1.0, "{report:?}");
        assert_eq!(report.quantiles[0], (0.5, 250e3));
        assert_eq!(report.quantiles[3].1, 1.2e9);
    }

    #[test]
    fn missing_error_lines_mean_zero_errors() {
        let is_good = |line: &&str| !line.contains("errors") && !line.contains("xx");
        let good: Vec<&str> = PRINTED.lines().filter(is_good).collect();
        let report = parse_output(&good.join("\n")).unwrap();
        assert_eq!(report.completed, 14_230);
        assert!(report.failures_by_kind.iter().all(|(_, count)| *count == 0));
    }

    #[test]
    fn without_a_reply_there_are_no_times() {
        let nothing = PRINTED
            .replace("14230 requests", "0 requests")
            .replace("timeout 20", "timeout 0")
            .replace("responses: 10", "responses: 0")
            .replace("93.69%", "-nan%");
        let report = parse_output(&nothing).unwrap();
        assert_eq!((report.completed, report.mean_ns, report.quantiles.len()), (0, 0.0, 0));
    }

    #[test]
    fn truncated_or_unknown_wrk_output_is_refused() {
        let cut = PRINTED.find("  14230 requests").unwrap();
        let error = parse_output(&PRINTED[..cut]).unwrap_err();
        assert_eq!(error, format!("the line `{REQUESTS_LINE}` is missing"));
        // wrk2 calibrates first, and says so.
        let calibrated = "  Thread calibration: mean lat.: 1ms\n  Thread Stats";
        let error = parse_output(&PRINTED.replace("  Thread Stats", calibrated)).unwrap_err();
        assert!(error.starts_with("line 3 is not understood: `Thread calibration"), "{error}");
        let error = parse_output(&PRINTED.replace("1.10s", "1.10y")).unwrap_err();
        assert!(error.starts_with("`1.10y` in the line"), "{error}");
        let error = parse_output(&PRINTED.replace("timeout 20", "timeout 20000")).unwrap_err();
        assert_eq!(error, "20000 late and 10 wrong of 14230");
    }

    #[test]
    fn a_failed_start_is_one_failed_connection() {
        let failed = |why| {
            parse_startup_failure_as_report(&format!("unable to connect to 198.19.128.0:80 {why}"))
        };
        let of = |report: Option<ProgramReport>| {
            report.map(|report| (report.completed, report.failures_by_kind))
        };
        assert_eq!(of(failed("Connection refused")), Some((0, vec![("refused", 1)])));
        assert_eq!(of(failed("Connection timed out")), Some((0, vec![("timed out", 1)])));
        assert_eq!(parse_startup_failure_as_report("unable to create thread 0: no memory"), None);
    }

    #[test]
    fn arguments_round_the_duration_up_to_whole_seconds() {
        let endpoints = ConnectionLoad::default().endpoints;
        let plan = made_up_socket_plan(&endpoints);
        let line = build_arguments(&plan, false).join(" ");
        assert!(line.contains("--connections=64 --duration=2s"), "{line}");
        assert!(line.contains("Connection: close"), "{line}");
        assert!(!build_arguments(&plan, true).join(" ").contains("close"));
    }

    #[test]
    fn wrk_times_are_parsed_by_their_unit() {
        assert_eq!(
            (parse_time_ns("250.00us"), parse_time_ns("1.50ms")),
            (Some(250e3), Some(1.5e6))
        );
        assert_eq!((parse_time_ns("2.00s"), parse_time_ns("1.50m")), (Some(2e9), Some(90e9)));
        assert_eq!(
            (parse_time_ns("7"), parse_time_ns("7kg"), parse_time_ns("-nanus")),
            (None, None, None)
        );
    }
}
