//! A study that is killed and resumed has every planned trial exactly once, in the planned order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_lab::plan_packet_and_probe_trials;
use weir_stats::{Trial, TrialKind, TrialState, run_folder};
use weir_testkit::skip_without_root;

const STUDY: &str = r#"
title = "A small study"
question = "Is nothing done twice?"
subjects = ["none", "one-rule"]
[axes.size]
title = "size"
values = [1, 2]
[ruleset]
axes = ["size"]
command = ': > "$RULESET"'
[traffic]
axes = []
command = '"$WEIR" example frames --flows 16 -o "$FRAMES"'
[noise]
spin_ratio = 100.0
switches = 1000000
[presets.tiny]
label = "for a test"
trial_seconds = 0.02
blocks = 4
loads = 1
"#;

const SUBJECTS: &str = r#"
[none]
title = "no rules"
about = "forwards everything"
baseline = true
load = "true"
[one-rule]
title = "one rule"
about = "a rule that does nothing"
needs = ["iptables-legacy"]
load = "iptables-legacy -A FORWARD"
"#;

fn study(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("study.toml"), STUDY).unwrap();
    fs::write(folder.join("subjects.toml"), SUBJECTS).unwrap();
    folder
}

fn weir(study: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["lab", "run"]).arg(study).arg("-o").arg(out).args(["--preset", "tiny"]);
    command.args(more).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Trials of packets that settled a step, those of the validation omitted.
fn settled(trials: &[Trial]) -> Vec<&Trial> {
    let of_packets = trials.iter().filter(|trial| trial.kind == TrialKind::Rate);
    of_packets.skip(4).filter(|trial| trial.state == TrialState::Accepted).collect()
}

#[test]
fn a_killed_run_resumes_where_it_stopped() {
    if skip_without_root() {
        return;
    }
    let study = study("resume");
    let out = study.join("run");
    // Killed while it loads, while it validates, within a block, between two.
    for lines in [1, 4, 9, 15] {
        let more: &[&str] = if lines == 1 { &[] } else { &["--resume"] };
        let mut child = weir(&study, &out, more).spawn().expect("weir runs");
        let limit = Instant::now() + Duration::from_secs(60);
        let there = || fs::read_to_string(out.join("trials.jsonl")).unwrap_or_default();
        while there().lines().count() < lines {
            assert!(Instant::now() < limit, "no {lines} trials within a minute");
            assert_eq!(child.try_wait().unwrap(), None, "the run ended before {lines} trials");
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
    // A partial line, as left by a kill during a write.
    let path = out.join("trials.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 10]).unwrap();
    assert!(weir(&study, &out, &["--resume"]).status().unwrap().success());

    let record = run_folder::load_record_recomputing_claims(&out).unwrap();
    assert!(record.run.complete);
    assert!(!path.exists() && out.join("trials.jsonl.gz").exists(), "it is compressed");
    let plan = plan_packet_and_probe_trials(&study, "tiny", 1).unwrap();
    assert_eq!(plan.len(), 2 * 2 * 2 * 4, "points, subjects, legs, blocks");
    let found: Vec<_> = settled(&record.trials)
        .iter()
        .map(|t| (t.block, t.order_in_block, t.abba_leg, t.scenario.clone(), t.subject.clone()))
        .collect();
    let wanted: Vec<_> = plan
        .iter()
        .map(|s| {
            (
                s.block,
                s.order_in_block,
                s.abba_leg,
                s.scenario.clone(),
                s.subject_copy.subject.clone(),
            )
        })
        .collect();
    assert_eq!(found, wanted);
    let numbers: Vec<u64> = record.trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(record.trials.iter().filter(|t| t.kind == TrialKind::Load).count(), 2);
}

#[test]
fn a_run_of_a_changed_study_is_not_resumed() {
    let study = study("other");
    let out = study.join("run");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("study.toml"), STUDY.replace("small", "large")).unwrap();
    let run = weir(&study, &out, &["--resume"]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.contains("study.toml has changed since"), "{said}");
}
