//! `weir lab compare` on a kept run, and on the same with one subject made slower.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir_stats::run_folder;
use weir_testkit::testdata;

fn kept() -> PathBuf {
    testdata::repository_root().join("studies/hagtheil-empty-tables/runs/2026-11-21-amd-epyc-2cpu")
}

/// A copy of the kept run in which a subject's rates are `times` as high.
fn changed(name: &str, subject: &str, times: f64) -> PathBuf {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&out).unwrap();
    fs::copy(kept().join("run.json"), out.join("run.json")).unwrap();
    let text = run_folder::read_trials_text(&kept()).unwrap();
    let line = |line: &str| {
        let mut trial: serde_json::Value = serde_json::from_str(line).unwrap();
        if trial["subject"] == subject {
            trial["pps"] = (trial["pps"].as_f64().unwrap() * times).into();
        }
        format!("{trial}\n")
    };
    fs::write(out.join("trials.jsonl"), text.lines().map(line).collect::<String>()).unwrap();
    out
}

fn compare(second: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["lab", "compare"])
        .arg(kept())
        .arg(second)
        .args(more)
        .output()
        .expect("weir runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_is_no_regression_of_itself() {
    let same = compare(&kept(), &[]);
    assert_eq!(same.status.code(), Some(0), "{}", said(&same));
    assert!(said(&same).contains(" 0 worse"), "{}", said(&same));
}

#[test]
fn a_subject_that_became_slower_is_found_and_named() {
    let slower = changed("slower", "empty-three", 0.8);
    let found = compare(&slower, &[]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(said(&found).contains("WORSE"), "{}", said(&found));
    assert!(said(&found).contains("rate of empty-three"), "{}", said(&found));
    assert_eq!(compare(&slower, &["--margin", "0.5"]).status.code(), Some(0), "within the margin");
    let json: serde_json::Value =
        serde_json::from_slice(&compare(&slower, &["--json"]).stdout).unwrap();
    let points = json["points"].as_array().unwrap();
    let worse = points.iter().filter(|point| point["verdict"] == "regression");
    assert_eq!(worse.count(), 1);
}

#[test]
fn a_machine_that_became_slower_as_a_whole_is_no_regression() {
    let slower = changed("machine", "none", 0.8);
    let better = compare(&slower, &["--json"]);
    assert_eq!(better.status.code(), Some(0), "{}", said(&better));
    assert_eq!(
        compare(&slower, &["--absolute"]).status.code(),
        Some(1),
        "in absolute numbers, it is slower"
    );
}

#[test]
fn runs_of_two_studies_are_not_compared() {
    let other = testdata::repository_root()
        .join("studies/kadlecsik2005-rules/runs/2026-11-21-amd-epyc-2cpu");
    assert_eq!(compare(&other, &[]).status.code(), Some(2));
}
