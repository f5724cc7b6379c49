//! Metrics for Prometheus: over HTTP, as a file, and printed once.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports, wait_until,
};

/// `weir serve --metrics`, which ends with its test.
struct MetricsServer<'h> {
    host: &'h FilteringHost,
    child: Child,
    address: String,
}

impl<'h> MetricsServer<'h> {
    fn start(host: &'h FilteringHost, options: &[&str]) -> MetricsServer<'h> {
        let mut command = host.command(WEIR);
        command.args(["serve", "--metrics", "127.0.0.1:0"]).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("weir runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("a standard output");
        BufReader::new(out).read_line(&mut line).expect("it prints its address");
        let address = line.trim_start_matches("http://").split('/').next().expect("an address");
        MetricsServer { host, child, address: address.to_owned() }
    }

    /// Status line and body of the answer.
    fn get(&self, path: &str, host_name: &str) -> (String, String) {
        let connect = || TcpStream::connect(&self.address).expect("it listens");
        let mut stream =
            self.host.namespace.call_inside(connect).expect("the namespace is entered");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host_name}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        let (head, body) = reply.split_once("\r\n\r\n").expect("an empty line after the head");
        (head.lines().next().expect("a status line").to_owned(), body.to_owned())
    }

    fn scrape(&self) -> String {
        let (status, body) = self.get("/metrics", &self.address);
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        body
    }
}

impl Drop for MetricsServer<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a sample, given by its name and labels.
fn sample(text: &str, series: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(value.parse().expect("a number"))
}

fn first_rule(quantity: &str) -> String {
    format!(
        "weir_rule_{quantity}_total{}",
        r#"{family="ipv4",table="filter",chain="INPUT",rule="1"}"#
    )
}

#[test]
fn served_counters_follow_packets_generations_and_changes_by_others() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("metrics");
    let server = MetricsServer::start(&host, &[]);
    let before = server.scrape();
    assert_eq!(sample(&before, "weir_counters_readable"), Some(0.0), "nothing applied: {before}");
    assert_eq!(sample(&before, "weir_generation"), None);

    let file = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    for (form, sent) in [("nft", 1), ("ipset", 2), ("tree", 3)] {
        host.run_weir(&["apply", &file, "--to", form, "--packets", "50"]);
        assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
        let text = server.scrape();
        assert_eq!(sample(&text, &first_rule("packets")), Some(f64::from(sent)), "{form}: {text}");
        assert_eq!(sample(&text, &first_rule("bytes")), Some(f64::from(sent * 29)), "{form}");
        assert_eq!(sample(&text, "weir_generation"), Some(f64::from(sent)), "{form}");
        assert_eq!(sample(&text, "weir_counters_readable"), Some(1.0), "{form}");
        let seconds = sample(&text, "weir_apply_duration_seconds").expect("it was applied");
        assert!(seconds > 0.0, "{form}: {seconds}");
    }
    host.tool(&["ipset", "create", "blocked", "hash:ip"], "");
    host.tool(&["ipset", "add", "blocked", "192.0.2.1"], "");
    let set = r#"weir_ipset_elements{set="blocked",type="hash:ip"}"#;
    assert_eq!(sample(&server.scrape(), set), Some(1.0));
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    let again = server.scrape();
    assert_eq!(sample(&again, &first_rule("packets")), Some(4.0), "read again: {again}");

    host.tool(&["iptables-legacy", "-I", "INPUT", "1", "-p", "udp", "-j", "ACCEPT"], "");
    let changed = server.scrape();
    assert_eq!(sample(&changed, "weir_counters_readable"), Some(0.0), "{changed}");
    assert_eq!(sample(&changed, &first_rule("packets")), None, "no counts of other rules");
}

#[test]
fn a_served_rule_is_named_by_its_number_or_by_its_content() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("metrics-key");
    let print = |ports: &[u16], key: &str| {
        let file = host.write("a.rules", &rules_dropping_udp_ports(ports));
        host.run_weir(&["apply", &file, "--to", "linear", "--packets", "50"]);
        let words = ["counters", "--format", "prometheus", "--key", key];
        let text = host.run_weir(&words);
        let is_rule = |line: &&str| line.starts_with("weir_rule_packets_total{");
        text.lines().filter(is_rule).map(str::to_owned).collect::<Vec<String>>()
    };
    let by_number = print(&[5001], "number");
    assert!(by_number.iter().any(|line| line.contains(r#"chain="INPUT",rule="41""#)));
    let by_content = print(&[5001], "content");
    let after_insertion = print(&[5002, 5001], "content");
    assert_eq!(by_content.len() + 1, after_insertion.len());
    for series in &by_content {
        assert!(after_insertion.contains(series), "{series} is not in {after_insertion:?}");
    }
}

#[test]
fn only_the_metrics_are_served_and_to_loopback_names_only() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("metrics-paths");
    let server = MetricsServer::start(&host, &[]);
    for path in ["/", "/metrics/..", "/etc/passwd"] {
        assert!(server.get(path, "localhost").0.contains(" 404 "), "{path}");
    }
    assert!(server.get("/metrics", "firewall.example").0.contains(" 403 "), "DNS rebinding");
    let refused = host.run_refused_weir(&["serve"]);
    assert!(refused.contains("--metrics"), "{refused}");
    let busy = host.run_refused_weir(&["serve", "--metrics", &server.address]);
    assert!(busy.contains(&format!("listen on {}", server.address)), "{busy}");
}

#[test]
fn the_file_for_node_exporter_is_written_again_and_again() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("metrics-file");
    let file = host.write("a.rules", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    host.run_weir(&["apply", &file, "--to", "linear", "--packets", "50"]);
    let prom = host.path("weir.prom");
    let words = ["--textfile", prom.to_str().expect("UTF-8"), "--interval", "1s"];
    let _server = MetricsServer::start(&host, &words);
    let read = || fs::read_to_string(&prom).expect("the file is there");
    assert_eq!(sample(&read(), &first_rule("packets")), Some(0.0));
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
    wait_until("the count in the file", || sample(&read(), &first_rule("packets")) == Some(1.0));
    let missing = host.run_refused_weir(&["serve", "--textfile", "/nonexistent/weir.prom"]);
    assert!(missing.contains("write /nonexistent/weir.prom"), "{missing}");
}
