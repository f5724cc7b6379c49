//! Budgets and `--timeout`: what is not proven is checked on packets and reported, and a command
//! that takes too long writes nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use weir_testkit::TempFolder;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn weir(words: &[&str], paths: &[&Path]) -> Output {
    Command::new(WEIR).args(words).args(paths).output().expect("weir runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn assert_status(output: &Output, wanted: i32) {
    assert_eq!(output.status.code(), Some(wanted), "{}", said(output));
}

fn forward(rules: &str) -> String {
    format!("*filter\n:FORWARD DROP [0:0]\n{rules}COMMIT\n")
}

/// Prefixes of which the forms make something else.
fn many_sources(count: u32) -> String {
    let rule = |i| format!("-A FORWARD -s 10.{}.{}.0/24 -j ACCEPT\n", i / 256, i % 256);
    forward(&(0..count).map(rule).collect::<String>())
}

/// Rules that each test and change the mark after a test that no field decides: whole diagrams
/// tell their combinations apart.
fn marks_after_opaque_tests(count: u32) -> String {
    let rule = |i: u32| {
        let (offset, bit) = (4 * (i % 60), 1_u32 << (i % 32));
        format!(
            "-A FORWARD -m u32 --u32 \"{offset}&0xFF=0x1\" -m statistic --mode random --probability 0.5 \
             -m mark --mark 0x{bit:x}/0x{bit:x} -j MARK --set-xmark 0x{:x}/0x{:x}\n",
            bit.rotate_left(7),
            bit.rotate_left(7)
        )
    };
    let rules: String = (0..count).map(rule).collect();
    format!("*mangle\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n")
}

/// How the passes and the form are known to be equal.
fn evidence(folder: &Path) -> String {
    let manifest = fs::read(folder.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    manifest["checked"]["passes"].to_string()
}

#[test]
fn compile_records_what_is_not_proven_within_its_steps() {
    let folder = TempFolder::new("budget-compile");
    let rules = folder.write_file("rules", &many_sources(300));
    for form in ["tree", "ipset", "nft"] {
        let out = folder.path().join(form);
        let output = out.to_str().expect("a name");
        let words = |steps| ["compile", "--to", form, "--steps", steps, "-o", output];
        assert_status(&weir(&words("200"), &[&rules]), 0);
        assert!(!evidence(&out).contains("not proven"), "{form}: {}", evidence(&out));
        let unproven = weir(&words("0"), &[&rules]);
        assert_status(&unproven, 0);
        assert!(evidence(&out).contains("not proven within 0 million steps"), "{}", evidence(&out));
        assert!(said(&unproven).contains("equal on "), "{}", said(&unproven));
    }
}

#[test]
fn diff_reports_how_many_packets_agree_if_nothing_is_proven() {
    let folder = TempFolder::new("budget-diff");
    let limited = "-A FORWARD -m limit --limit 1/s -j LOG\n-A FORWARD -i eth0 -j ACCEPT\n";
    let a = folder.write_file("a", &forward(limited));
    let b = folder.write_file("b", &forward(&format!("-A FORWARD -i eth1 -j DROP\n{limited}")));
    let same = folder.write_file("same", &forward(&format!("{limited}-A FORWARD -j DROP\n")));
    assert_status(&weir(&["diff"], &[&a, &same]), 0);
    let open = weir(&["diff", "--steps", "0", "--json"], &[&a, &same]);
    assert_status(&open, 2);
    let review: Value = serde_json::from_slice(&open.stdout).expect("JSON");
    let part = &review["parts"][0];
    assert_eq!(part["answer"], "unknown", "{review}");
    assert!(part["packets_agreed"].as_u64().is_some_and(|packets| packets > 100), "{review}");
    let text = said(&weir(&["diff", "--steps", "0"], &[&a, &same]));
    assert!(text.contains(" packets agree"), "{text}");
    let found = weir(&["diff", "--steps", "0"], &[&a, &b]);
    assert_status(&found, 1);
    assert!(said(&found).contains("differs on a packet: iif eth1"), "{}", said(&found));
}

#[test]
fn check_names_the_tables_that_exceed_its_steps() {
    let folder = TempFolder::new("budget-check");
    let overlapping = "-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n-A FORWARD -s 10.1.0.0/16 -j ACCEPT\n";
    let rules = folder.write_file("rules", &forward(overlapping));
    let unfinished = |steps| {
        let output = weir(&["check", "--steps", steps, "--json"], &[&rules]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["rulesets"][0]["unfinished_tables"].clone()
    };
    assert_eq!(unfinished("1"), serde_json::json!([]));
    assert_eq!(unfinished("0"), serde_json::json!([{"family": "v4", "table": "filter"}]));
    let text = |steps| said(&weir(&["check", "--steps", steps], &[&rules]));
    let note = "note: v4 filter needs too many comparisons";
    assert!(text("0").contains(note), "{}", text("0"));
    assert!(!text("1").contains(note), "{}", text("1"));
}

#[test]
fn a_timed_out_command_writes_nothing_and_suggests_options() {
    let folder = TempFolder::new("budget-timeout");
    let rules = folder.write_file("rules", &marks_after_opaque_tests(120));
    let out = folder.path().join("out");
    let output = out.to_str().expect("a name");
    let words = ["compile", "--to", "nft", "-o", output];
    // The check alone takes longer than that.
    let long = ["--timeout", "1", "--steps", "1000000", "--packets", "100000000"];
    let ended = weir(&[&words[..], &long[..]].concat(), &[&rules]);
    assert_status(&ended, 2);
    assert!(said(&ended).contains("--timeout") && said(&ended).contains("--packets"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "the rules alone");
    assert_status(
        &weir(&[&words[..], &["--steps", "0", "--packets", "100"]].concat(), &[&rules]),
        0,
    );
    assert!(out.join("load.sh").exists());
}
