//! The access network has the published size, and the kernel loads it unchanged.

use std::io::Write;
use std::process::{Command, Stdio};

use weir_example::{IspOptions, generate_isp_ruleset};

/// Chains and rules of one table.
fn counts(text: &str, table: &str) -> (usize, usize) {
    let lines = text.lines().skip_while(|line| *line != format!("*{table}"));
    let lines: Vec<&str> = lines.take_while(|line| *line != "COMMIT").collect();
    let starting = |prefix: &str| lines.iter().filter(|line| line.starts_with(prefix)).count();
    (starting(":"), starting("-A "))
}

/// Runs a shell line in its own network namespace, which ends with it.
fn in_namespace(line: &str, input: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-ec", line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare and sh are installed");
    let mut stdin = child.stdin.take().expect("the input is a pipe");
    let input = input.to_owned();
    let feed = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the child was started");
    assert!(output.status.success(), "{line} failed: {}", output.status);
    feed.join().expect("the feed does not panic").expect("the child reads its input");
    String::from_utf8(output.stdout).expect("the tools print UTF-8")
}

/// What differs between two printings of a ruleset: comments, and the order of the tables.
fn tables(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let body: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut tables: Vec<String> = body.split("COMMIT\n").map(str::to_owned).collect();
    tables.retain(|table| !table.is_empty());
    tables.sort();
    tables
}

fn survives_the_kernel(text: &str, prefix: &str) {
    let line = format!("{prefix}-legacy-restore; {prefix}-legacy-save");
    let saved = in_namespace(&line, text);
    let (written, saved) = (tables(text), tables(&saved));
    assert_eq!(written.len(), saved.len());
    for (written, saved) in written.iter().zip(&saved) {
        for (ours, kernels) in written.lines().zip(saved.lines()) {
            assert_eq!(ours, kernels);
        }
        assert_eq!(written.len(), saved.len());
    }
}

#[test]
fn the_whole_network_has_the_published_counts() {
    for seed in [1, 2, 77] {
        let example = generate_isp_ruleset(&IspOptions { seed, ..IspOptions::default() });
        assert_eq!(counts(&example.v4, "filter"), (9827, 36_532));
        assert_eq!(counts(&example.v4, "mangle"), (2770, 14_275));
        let dispatched =
            example.v4.lines().filter(|l| l.starts_with("-A customers_up -s ")).count();
        assert_eq!(dispatched, 3477);
        let shaped = example.v6.lines().filter(|l| l.starts_with("-A bw_up -s ")).count();
        assert_eq!(shaped, 2105);
    }
}

#[test]
fn a_small_network_has_the_counts_in_proportion() {
    for scale in [0.02, 0.05, 0.1, 0.5] {
        let options = IspOptions::scale_published_counts(1, scale);
        let example = generate_isp_ruleset(&options);
        let filter = counts(&example.v4, "filter");
        assert_eq!(filter, (options.filter_chains, options.filter_rules), "scale {scale}");
        let mangle = counts(&example.v4, "mangle");
        assert_eq!(mangle, (options.mangle_chains, options.mangle_rules), "scale {scale}");
    }
}

#[test]
fn the_smallest_network_has_one_customer() {
    let example = generate_isp_ruleset(&IspOptions::scale_published_counts(1, 0.0001));
    survives_the_kernel(&example.v4, "iptables");
}

#[test]
fn a_seed_determines_the_network() {
    let options = IspOptions::scale_published_counts(1, 0.05);
    assert_eq!(generate_isp_ruleset(&options), generate_isp_ruleset(&options));
    assert_ne!(
        generate_isp_ruleset(&options).v4,
        generate_isp_ruleset(&IspOptions::scale_published_counts(2, 0.05)).v4
    );
}

#[test]
fn no_chain_name_is_longer_than_the_kernel_takes() {
    let example = generate_isp_ruleset(&IspOptions::default());
    for line in example.v4.lines().chain(example.v6.lines()).filter(|l| l.starts_with(':')) {
        let name = line[1..].split(' ').next().unwrap_or_default();
        assert!(name.len() <= 28, "{name}");
    }
}

#[test]
fn each_customer_dispatch_rule_tests_a_distinct_address() {
    let example = generate_isp_ruleset(&IspOptions::default());
    let mut seen = std::collections::HashSet::new();
    for line in example.v4.lines().filter(|l| l.starts_with("-A customers_up ")) {
        let address = line.split(' ').nth(3).unwrap_or_default();
        assert!(seen.insert(address), "{line}");
    }
}

#[test]
fn the_kernel_prints_a_small_network_as_it_was_written() {
    let example = generate_isp_ruleset(&IspOptions::scale_published_counts(3, 0.03));
    survives_the_kernel(&example.v4, "iptables");
    survives_the_kernel(&example.v6, "ip6tables");
}

#[test]
fn the_kernel_prints_the_whole_network_as_it_was_written() {
    let example = generate_isp_ruleset(&IspOptions::default());
    survives_the_kernel(&example.v4, "iptables");
    survives_the_kernel(&example.v6, "ip6tables");
}

#[test]
fn the_abuse_set_loads_with_the_network() {
    let options = IspOptions { use_abuse_set: true, ..IspOptions::scale_published_counts(1, 0.02) };
    let example = generate_isp_ruleset(&options);
    let sets = example.ipset.expect("the options ask for a set");
    let before = example.v4;
    assert!(before.contains("-m set --match-set abuse src -j DROP"));
    let text = format!("{sets}#rules\n{before}");
    // Both texts are passed on one standard input: the sets come before the marker.
    let line = "cat >all; sed '/^#rules$/,$d' all | ipset restore; sed '1,/^#rules$/d' all | \
                iptables-legacy-restore; ipset save";
    let line = format!("cd \"$(mktemp -d)\"; {line}; rm all");
    let saved = in_namespace(&line, &text);
    let sorted = |text: &str| {
        let mut lines: Vec<String> =
            text.lines().filter(|l| l.starts_with("add")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&sets), sorted(&saved));
}
