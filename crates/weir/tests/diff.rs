//! `weir diff` as a program: every kind of operand, one hook, written packets, and its output if it
//! gives up.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use weir_kernel::Session;
use weir_testkit::{TempFolder, skip_without_root};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn rules(input: &str, forward: &str) -> String {
    format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n{input}{forward}COMMIT\n")
}

const WEB: &str = "-A FORWARD -i eth0 -p tcp -m tcp --dport 80 -j ACCEPT\n";
const WEB_AND_TELNET: &str = "\
    -A FORWARD -i eth0 -p tcp -m tcp --dport 80 -j ACCEPT\n\
    -A FORWARD -i eth0 -s 192.0.2.0/24 -p tcp -m tcp --dport 23 -j ACCEPT\n";

fn diff(words: &[&str], paths: &[&Path]) -> Output {
    Command::new(WEIR).arg("diff").args(words).args(paths).output().expect("weir runs")
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn assert_status(output: &Output, wanted: i32) {
    assert_eq!(output.status.code(), Some(wanted), "{}", said(output));
}

#[test]
fn diff_of_one_hook_ignores_other_hooks() {
    let folder = TempFolder::new("diff-hook");
    let drop = "-A INPUT -p udp -j DROP\n";
    let (a, b) =
        (folder.write_file("a", &rules("", WEB)), folder.write_file("b", &rules(drop, WEB)));
    assert_status(&diff(&["--hook", "input"], &[&a, &b]), 1);
    assert_status(&diff(&["--hook", "forward"], &[&a, &b]), 0);
    assert_status(&diff(&[], &[&a, &b]), 1);
}

#[test]
fn ipv6_rules_are_compared_alone_or_with_ipv4_rules() {
    let folder = TempFolder::new("diff-ip6");
    let v4 = folder.write_file("v4", &rules("", WEB));
    let six = |port: u16| {
        rules("", &format!("-A FORWARD -s 2001:db8::/32 -p tcp -m tcp --dport {port} -j ACCEPT\n"))
    };
    let (a, b) = (folder.write_file("a6", &six(80)), folder.write_file("b6", &six(443)));
    assert_status(&diff(&[], &[&a, &a]), 0);
    let found = diff(&["--regions", "1"], &[&a, &b]);
    assert_status(&found, 1);
    assert!(said(&found).contains("ipv6 forward: differs"), "{}", said(&found));
    let with = |a: &Path, b: &Path| {
        let words = ["--ip6", a.to_str().expect("a name"), "--ip6", b.to_str().expect("a name")];
        diff(&words, &[&v4, &v4])
    };
    assert_status(&with(&a, &a), 0);
    let found = with(&a, &b);
    assert_status(&found, 1);
    assert!(said(&found).contains("ipv4 forward: equal"), "{}", said(&found));
    assert!(said(&found).contains("ipv6 forward: differs"), "{}", said(&found));
}

#[test]
fn an_edited_manifest_does_not_make_one_limit_of_two() {
    let folder = TempFolder::new("diff-two-limits");
    let limited = "-A FORWARD -m limit --limit 5/min -j ACCEPT\n";
    let file = folder.write_file("file", &rules("", limited));
    let form = folder.path().join("linear");
    let made = Command::new(WEIR)
        .args(["compile", "--to", "linear", "-o"])
        .args([&form, &file])
        .output()
        .expect("weir runs");
    assert_status(&made, 0);
    assert_status(&diff(&[], &[&file, &form]), 0);
    // A limit for each half of the addresses: two buckets.
    let rules_file = form.join("iptables.rules");
    let text = fs::read_to_string(&rules_file).expect("rules");
    let one = text.lines().find(|line| line.contains("-m limit")).expect("the rule");
    let half = |test: &str| one.replacen("-A FORWARD", &format!("-A FORWARD {test}"), 1);
    let two = [half("-s 0.0.0.0/1"), half("! -s 0.0.0.0/1")].join("\n");
    fs::write(&rules_file, text.replacen(one, &two, 1)).expect("a file");
    let manifest_file = form.join("manifest.json");
    let manifest = fs::read(&manifest_file).expect("a manifest");
    let mut manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let counters = manifest["counters"]["iptables/filter/FORWARD/1"].as_array_mut();
    let counters = counters.expect("the counters of the rule");
    let mut second = counters[0].clone();
    second["number"] = 2.into();
    counters.push(second);
    fs::write(&manifest_file, manifest.to_string()).expect("a file");
    let found = diff(&[], &[&file, &form]);
    assert_status(&found, 1);
    assert!(said(&found).contains("ipv4 forward: differs"), "{}", said(&found));
}

#[test]
fn each_form_equals_its_source_and_differs_from_others() {
    let folder = TempFolder::new("diff-forms");
    let block = |last: &str| {
        let one = |n: u32| format!("-A FORWARD -s 198.51.100.{n}/32 -j DROP\n");
        rules("", &((1..40).map(one).collect::<String>() + last + WEB))
    };
    let (file, other) = (
        folder.write_file("file", &block("")),
        folder.write_file("other", &block("-A FORWARD -s 203.0.113.7/32 -j DROP\n")),
    );
    for form in ["linear", "tree", "ipset", "nft"] {
        let out = folder.path().join(form);
        let compiled = Command::new(WEIR)
            .args(["compile", "--to", form, "-o"])
            .args([&out, &file])
            .output()
            .expect("weir runs");
        assert_status(&compiled, 0);
        assert_status(&diff(&[], &[&file, &out]), 0);
        assert_status(&diff(&[], &[&out, &file]), 0);
        let found = diff(&[], &[&out, &other]);
        assert_status(&found, 1);
        assert!(said(&found).contains("ip saddr 203.0.113.7"), "{form}: {}", said(&found));
    }
}

#[test]
fn the_live_ruleset_can_be_compared_on_either_side() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("diff-live");
    let (web, telnet) = (rules("", WEB), rules("", WEB_AND_TELNET));
    let (a, b) = (folder.write_file("web", &web), folder.write_file("telnet", &telnet));
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("live").expect("a namespace");
    inside.run_command(&["iptables-legacy-restore"], web.as_bytes()).expect("rules are loaded");
    let live = |before: &[&str], file: &Path, after: &[&str]| {
        let mut command = inside.command(WEIR);
        command.arg("diff").args(before).arg(file).args(after).output().expect("weir runs")
    };
    assert_status(&live(&["--live"], &a, &[]), 0);
    let found = live(&["--live"], &b, &[]);
    assert_status(&found, 1);
    assert!(said(&found).contains("newly allowed"), "{}", said(&found));
    let found = live(&[], &b, &["--live"]);
    assert_status(&found, 1);
    assert!(said(&found).contains("newly denied"), "{}", said(&found));
}

/// Source, destination, protocol and ports of the first frame, read by the bytes alone: libpcap's
/// file header of 24 bytes, a record header of 16, Ethernet, IPv4.
fn first_frame(bytes: &[u8]) -> (Ipv4Addr, Ipv4Addr, u8, u16, u16) {
    let magic = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    assert!(
        [0xa1b2_c3d4, 0xa1b2_3c4d].contains(&magic),
        "{magic:#x} is not a pcap of this byte order"
    );
    let link = u32::from_le_bytes(bytes[20..24].try_into().expect("four bytes"));
    assert_eq!(link, 1, "Ethernet");
    let frame = &bytes[24 + 16..];
    assert_eq!(frame[12..14], [8, 0], "IPv4");
    let ip = &frame[14..];
    let addr = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let transport = &ip[usize::from(ip[0] & 15) * 4..];
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    (addr(12), addr(16), ip[9], port(0), port(2))
}

#[test]
fn the_written_witness_packet_gets_two_different_verdicts() {
    let folder = TempFolder::new("diff-pcap");
    let (a, b) = (
        folder.write_file("a", &rules("", WEB)),
        folder.write_file("b", &rules("", WEB_AND_TELNET)),
    );
    let pcap = folder.path().join("witness.pcap");
    let words = ["--format", "json", "--pcap", pcap.to_str().expect("a name")];
    let found = diff(&words, &[&a, &b]);
    assert_status(&found, 1);
    let review: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!((&review["command"], &review["version"]), (&"diff".into(), &1.into()));
    let change = &review["changes"][0];
    assert_eq!(change["kind"], "newly_allowed");
    assert!(change["share"].as_f64().is_some_and(|s| s > 0.0), "{review}");
    let decided = &change["regions"][0]["decided_by"][0];
    assert_eq!(decided["before"]["rule"]["text"], ":FORWARD DROP");
    assert_eq!(decided["after"]["rule"]["line"], 5, "{review}");
    assert_eq!(decided["after"]["rule"]["place"], "iptables/filter/FORWARD/2");
    let (saddr, daddr, proto, sport, dport) = first_frame(&fs::read(&pcap).expect("a file"));
    assert_eq!((proto, dport), (6, 23));
    assert_eq!(saddr.octets()[..3], [192, 0, 2]);
    // A frame does not contain the device; the words of the packet do.
    let packet =
        format!("iif eth0 ip saddr {saddr} ip daddr {daddr} tcp sport {sport} tcp dport {dport}");
    let verdict = |file: &Path| {
        let out = Command::new(WEIR)
            .arg("explain")
            .arg(file)
            .args(["--hook", "forward", "--packet", &packet])
            .output()
            .expect("weir runs");
        said(&out)
    };
    let (before, after) = (verdict(&a), verdict(&b));
    assert!(before.contains("verdict: drop,"), "{before}");
    assert!(after.contains("verdict: accept,"), "{after}");
    // Without a difference, no file is written.
    let none = folder.path().join("none.pcap");
    assert_status(&diff(&["--pcap", none.to_str().expect("a name")], &[&a, &a]), 0);
    assert!(!none.exists() || fs::read(&none).expect("a file").len() == 24, "no frame");
}

#[test]
fn a_diff_not_proven_within_its_steps_is_undecided() {
    let folder = TempFolder::new("diff-steps");
    let (a, b) = (
        folder.write_file("a", &rules("", WEB)),
        folder.write_file("b", &rules("", &(WEB.to_owned() + "-A FORWARD -i eth1 -j DROP\n"))),
    );
    assert_status(&diff(&[], &[&a, &b]), 0);
    let open = diff(&["--steps", "0"], &[&a, &b]);
    assert_status(&open, 2);
    assert!(said(&open).contains("not proven within"), "{}", said(&open));
    assert!(said(&open).contains("--steps"), "{}", said(&open));
}
