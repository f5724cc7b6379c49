//! A run's folder is read as it was written, and refused if it is not a run.

use std::fs;
use std::path::PathBuf;

use weir_stats::run_folder::{
    append_trial, compress_records, load_record_of_run_in_progress, load_record_recomputing_claims,
    prepare_and_load_run_to_resume, read_trials_text, save_run_json,
};
use weir_stats::{
    DropCount, HostEnvironment, Preset, RecordError, Run, Scenario, Trial, TrialCounts, TrialKind,
    TrialNoise,
};

fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn run() -> Run {
    Run {
        format: weir_stats::run::RECORD_FORMAT_VERSION,
        study: "today-example".to_owned(),
        title: "An example".to_owned(),
        question: "Does a folder keep what it is given?".to_owned(),
        paper: None,
        preset: Preset {
            name: "smoke".to_owned(),
            trial_seconds: 0.1,
            blocks: 2,
            loads: 1,
            label: "shorter than any standard asks for".to_owned(),
        },
        date: "2026-01-01T00:00:00Z".to_owned(),
        seconds: 1.5,
        complete: true,
        command: "weir lab run …".to_owned(),
        weir: "0.1.0".to_owned(),
        seed: 1,
        environment: HostEnvironment::default(),
        hosts: Vec::new(),
        axes: Vec::new(),
        subjects: Vec::new(),
        rulesets: Vec::new(),
        frame_facts: Vec::new(),
        noise_floor: None,
        counts: TrialCounts::default(),
        claims: Vec::new(),
        paper_values: Vec::new(),
        doubts: Vec::new(),
    }
}

fn trial() -> Trial {
    let scenario =
        Scenario::default().with_coordinate("rules", 16).with_coordinate("source", "near");
    Trial {
        order_in_block: 3,
        abba_leg: 1,
        offered: 10,
        delivered: 8,
        expected_drops: 2,
        drop_counts: vec![DropCount { counter: "rules".to_owned(), packets: 2 }],
        seconds: 0.1,
        correct_verdict_pps: 80.0,
        noise: TrialNoise { spin_ratio: 1.0, ..TrialNoise::default() },
        ..Trial::new(TrialKind::Rate, scenario, "none")
    }
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let dir = folder("written");
    save_run_json(&dir, &run()).unwrap();
    append_trial(&dir, &trial()).unwrap();
    append_trial(&dir, &Trial { number: 1, ..trial() }).unwrap();
    let record = load_record_recomputing_claims(&dir).unwrap();
    assert_eq!(record.run, run());
    assert_eq!(record.trials, [trial(), Trial { number: 1, ..trial() }]);
}

#[test]
fn another_format_is_refused() {
    let dir = folder("format");
    save_run_json(&dir, &Run { format: 999, ..run() }).unwrap();
    append_trial(&dir, &trial()).unwrap();
    assert!(matches!(
        load_record_recomputing_claims(&dir),
        Err(RecordError::UnsupportedFormat { found: 999, .. })
    ));
}

#[test]
fn a_broken_line_is_named() {
    let dir = folder("broken");
    save_run_json(&dir, &run()).unwrap();
    append_trial(&dir, &trial()).unwrap();
    let path = dir.join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{{\"number\": 1\n")).unwrap();
    let error = load_record_recomputing_claims(&dir).unwrap_err().to_string();
    assert!(error.contains("trials.jsonl:2:"), "{error}");
}

#[test]
fn a_complete_run_is_read_identically_after_compression() {
    let dir = folder("compressed");
    save_run_json(&dir, &run()).unwrap();
    append_trial(&dir, &trial()).unwrap();
    let (record, text) =
        (load_record_recomputing_claims(&dir).unwrap(), read_trials_text(&dir).unwrap());
    compress_records(&dir).unwrap();
    assert!(!dir.join("trials.jsonl").exists());
    assert_eq!(load_record_recomputing_claims(&dir).unwrap(), record);
    assert_eq!(load_record_of_run_in_progress(&dir).unwrap(), record);
    assert_eq!(read_trials_text(&dir).unwrap(), text);
}

#[test]
fn a_run_resumes_from_plain_or_compressed_records() {
    let dir = folder("interrupted");
    let cut_short = Run { complete: false, ..run() };
    save_run_json(&dir, &cut_short).unwrap();
    append_trial(&dir, &trial()).unwrap();
    compress_records(&dir).unwrap();
    assert_eq!(prepare_and_load_run_to_resume(&dir).unwrap().trials, [trial()]);
    append_trial(&dir, &Trial { number: 1, ..trial() }).unwrap();
    let path = dir.join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{{\"number\": 2")).unwrap();
    assert_eq!(load_record_of_run_in_progress(&dir).unwrap().trials.len(), 2);
    assert_eq!(prepare_and_load_run_to_resume(&dir).unwrap().trials.len(), 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn resuming_compresses_a_complete_uncompressed_run() {
    let dir = folder("complete");
    save_run_json(&dir, &run()).unwrap();
    append_trial(&dir, &trial()).unwrap();
    assert_eq!(prepare_and_load_run_to_resume(&dir).unwrap().trials, [trial()]);
    assert!(dir.join("trials.jsonl.gz").exists() && !dir.join("trials.jsonl").exists());
}
