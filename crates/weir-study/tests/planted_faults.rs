//! Faults that a referee would find are planted in a small study, one at a time, and must be named.
//! Without a fault its claim is reproduced and has no such objection.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use weir_stats::run::RECORD_FORMAT_VERSION;
use weir_stats::{
    Estimate, FrameFactsRecord, HostEnvironment, NoiseFloor, Preset, Run, RunSubject, Scenario,
    Trial, TrialCounts, TrialKind, run_folder,
};
use weir_study::claims_registry::{
    ObjectionKind, StatementStatus, StudyStatements, evaluate_statements_of_study,
};

const STUDY: &str = r#"
title = "A list against a set"
question = "How much slower is a list?"
subjects = ["none", "list", "set"]
[ruleset]
axes = []
command = 'true > "$RULESET"'
[traffic]
axes = []
command = 'make-frames "$FRAMES"'
[again]
subject = "list"
[presets.quick]
label = "for a test"
trial_seconds = 0.1
blocks = 6
loads = 1
[[claims]]
id = "list-is-slower"
by = "paper"
text = "The list forwards half of what the set forwards."
expects = { value = 0.5 }
[claims.test]
kind = "ratio"
quantity = "pps"
of = { subject = "list", at = {} }
to = { subject = "set", at = {} }
within = { min = 0.4, max = 0.6 }
shape = { max = 0.9 }
"#;

const SUBJECTS: &str = r#"
[none]
title = "no rules"
about = "Nothing."
baseline = true
load = "true"
[list]
title = "list"
about = "Rules."
load = "load-list"
[set]
title = "set"
about = "A set."
load = "load-set"
"#;

const CLAIMS: &str = r#"
paper = "a paper"
[[items]]
number = "X1"
kind = "table"
place = "table 1"
text = "A list is half as fast as a set."
claims = ["list-is-slower"]
"#;

/// What is planted.
struct PlantedFault {
    study: String,
    subjects: String,
    /// Folder below `runs`.
    run: String,
    cpu: String,
    /// Packets per second of each subject.
    list: f64,
    set: f64,
    /// Second copy of the list against the first.
    copy: f64,
    blocks: u32,
    given_up: u64,
    facts: Vec<FrameFactsRecord>,
}

impl PlantedFault {
    fn without_fault() -> PlantedFault {
        let facts = BTreeMap::from([("user_chain_share".to_owned(), 1.0)]);
        PlantedFault {
            study: STUDY.to_owned(),
            subjects: SUBJECTS.to_owned(),
            run: "2026-01-01-amd-epyc-2cpu".to_owned(),
            cpu: "AMD EPYC".to_owned(),
            list: 5e5,
            set: 1e6,
            copy: 1.001,
            blocks: 6,
            given_up: 0,
            facts: vec![FrameFactsRecord { scenario: Scenario::default(), facts }],
        }
    }

    /// Writes the study and its run, as they were when it was run, and evaluates it; `today` are
    /// its files of today.
    fn evaluate(&self, name: &str, today: (&str, &str)) -> Result<StudyStatements, String> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("planted").join(name);
        let _ = fs::remove_dir_all(&folder);
        let run = folder.join("runs").join(&self.run);
        fs::create_dir_all(&run).unwrap();
        for (place, study, subjects) in
            [(&folder, today.0, today.1), (&run, self.study.as_str(), self.subjects.as_str())]
        {
            fs::write(place.join("study.toml"), study).unwrap();
            fs::write(place.join("subjects.toml"), subjects).unwrap();
        }
        fs::write(folder.join("claims.toml"), CLAIMS).unwrap();
        run_folder::save_run_json(&run, &self.run_record()).unwrap();
        for trial in self.trials() {
            run_folder::append_trial(&run, &trial).unwrap();
        }
        evaluate_statements_of_study(&folder).map_err(|error| error.to_string())
    }

    fn evaluate_unchanged(&self, name: &str) -> Result<StudyStatements, String> {
        self.evaluate(name, (&self.study, &self.subjects))
    }

    fn trials(&self) -> Vec<Trial> {
        let rates = [("none", 0, 2e6), ("list", 0, self.list), ("list", 1, self.list * self.copy)];
        let mut trials = Vec::new();
        for block in 0..self.blocks {
            for (subject, copy_index, pps) in rates.into_iter().chain([("set", 0, self.set)]) {
                // Each subject differs from block to block by a twentieth of a percent.
                let scatter = 1.0 + f64::from(block % 3) * 5e-4;
                trials.push(Trial {
                    number: trials.len() as u64,
                    block,
                    copy_index,
                    offered: 1,
                    delivered: 1,
                    seconds: 0.1,
                    correct_verdict_pps: pps * scatter,
                    ..Trial::new(TrialKind::Rate, Scenario::default(), subject)
                });
            }
        }
        trials
    }

    fn run_record(&self) -> Run {
        let subject = |name: &str| RunSubject {
            name: name.to_owned(),
            title: name.to_owned(),
            about: String::new(),
            loads_no_rules: name == "none",
            weir: false,
            load: if name == "none" { "true".to_owned() } else { format!("load-{name}") },
            lets_through_pps: 0,
            lacking: None,
            excluded_points_and_reason: None,
        };
        Run {
            format: RECORD_FORMAT_VERSION,
            study: "planted".to_owned(),
            title: String::new(),
            question: String::new(),
            paper: None,
            preset: Preset {
                name: "quick".to_owned(),
                trial_seconds: 0.1,
                blocks: self.blocks,
                loads: 1,
                label: String::new(),
            },
            date: "2026-01-01T00:00:00Z".to_owned(),
            seconds: 1.0,
            complete: true,
            command: String::new(),
            weir: "0".to_owned(),
            seed: 1,
            environment: HostEnvironment {
                cpu_model: self.cpu.clone(),
                ..HostEnvironment::default()
            },
            hosts: Vec::new(),
            axes: Vec::new(),
            subjects: ["none", "list", "set"].map(subject).into(),
            rulesets: Vec::new(),
            frame_facts: self.facts.clone(),
            noise_floor: Some(NoiseFloor {
                subject: "list".to_owned(),
                ratio: Estimate { value: 1.0, lo: 1.0, hi: 1.0, samples: 1 },
            }),
            counts: TrialCounts {
                accepted: 24,
                accepted_despite_disturbance: self.given_up,
                ..TrialCounts::default()
            },
            claims: Vec::new(),
            paper_values: Vec::new(),
            doubts: Vec::new(),
        }
    }
}

/// The status of the statement, and what its objections are about.
fn status_and_objections(entry: &StudyStatements) -> (StatementStatus, Vec<ObjectionKind>) {
    let item = &entry.items[0];
    (item.status, item.objections.iter().map(|objection| objection.kind).collect())
}

#[test]
fn without_a_fault_the_claim_is_reproduced_without_objections() {
    let entry = PlantedFault::without_fault().evaluate_unchanged("without_fault").unwrap();
    assert_eq!(status_and_objections(&entry), (StatementStatus::Reproduced, Vec::new()));
    let aa = entry.objections.iter().map(|objection| objection.kind);
    assert!(aa.eq([ObjectionKind::AaComparison]), "no A/A comparison is kept");
}

#[test]
fn a_subject_without_observed_effect_is_named() {
    let idle = PlantedFault { list: 1e6, set: 2e6, ..PlantedFault::without_fault() };
    let entry = idle.evaluate_unchanged("silent").unwrap();
    assert_eq!(
        status_and_objections(&entry),
        (StatementStatus::Reproduced, vec![ObjectionKind::SubjectWithoutObservedEffect])
    );
    assert!(entry.items[0].objections[0].text.contains("`set` does not differ from `none`"));
}

#[test]
fn traffic_without_recorded_facts_is_named() {
    let unproven = PlantedFault { facts: Vec::new(), ..PlantedFault::without_fault() };
    let entry = unproven.evaluate_unchanged("unproven").unwrap();
    assert_eq!(
        status_and_objections(&entry),
        (StatementStatus::Reproduced, vec![ObjectionKind::UnrecordedTraffic])
    );
}

#[test]
fn a_threshold_in_the_wrong_direction_is_refused() {
    let swapped = STUDY
        .replace("of = { subject = \"list\"", "of = { subject = \"swap\"")
        .replace("to = { subject = \"set\"", "to = { subject = \"list\"")
        .replace("subject = \"swap\"", "subject = \"set\"")
        .replace("within = { min = 0.4, max = 0.6 }", "within = { min = 1.6 }")
        .replace("shape = { max = 0.9 }", "shape = { min = 1.1 }");
    let planted = PlantedFault { study: swapped, ..PlantedFault::without_fault() };
    let error = planted.evaluate_unchanged("swapped").unwrap_err();
    assert!(error.contains("the paper's value is 0.5"), "{error}");
    assert!(error.contains("wrong direction"), "{error}");
}

#[test]
fn a_claim_that_is_true_by_construction_is_refused_or_named() {
    let same = STUDY.replace("to = { subject = \"set\"", "to = { subject = \"list\"");
    let same = same.replace("min = 0.4, max = 0.6", "min = 0.4, max = 1.2");
    let same = same.replace("shape = { max = 0.9 }", "shape = { max = 1.3 }");
    let error =
        PlantedFault { study: same, ..PlantedFault::without_fault() }.evaluate_unchanged("same");
    assert!(error.unwrap_err().contains("both sides of the ratio are the same"));
    let any = STUDY.replace("within = { min = 0.4, max = 0.6 }", "within = { min = 0 }");
    let any = any.replace("shape = { max = 0.9 }", "shape = { min = 0 }");
    let any = any.replace("expects = { value = 0.5 }", "expects = { above = 0 }");
    let error =
        PlantedFault { study: any, ..PlantedFault::without_fault() }.evaluate_unchanged("any");
    assert!(error.unwrap_err().contains("any number reproduces it"));
    let alike = SUBJECTS.replace("load-set", "load-list");
    let planted = PlantedFault { subjects: alike.clone(), ..PlantedFault::without_fault() };
    let entry = planted.evaluate("alike", (STUDY, &alike)).unwrap();
    assert!(
        status_and_objections(&entry).1.contains(&ObjectionKind::TrueByConstruction),
        "{:?}",
        status_and_objections(&entry)
    );
}

#[test]
fn a_run_from_another_processor_than_its_folder_says_is_refused() {
    let other = PlantedFault {
        cpu: "Intel(R) Xeon(R) Processor".to_owned(),
        ..PlantedFault::without_fault()
    };
    let error = other.evaluate_unchanged("other-cpu").unwrap_err();
    assert!(error.contains("name it DATE-intel-xeon-0cpu"), "{error}");
    let right = PlantedFault { run: "2026-01-01-intel-xeon-2cpu".to_owned(), ..other };
    let entry = right.evaluate_unchanged("its-cpu").unwrap();
    assert_eq!(entry.items[0].evidence[0].cpu.as_deref(), Some("Intel Xeon"));
}

#[test]
fn a_run_that_may_not_decide_leaves_the_claim_undecided() {
    let faults = [
        (PlantedFault { copy: 1.06, ..PlantedFault::without_fault() }, ObjectionKind::NoiseFloor),
        (PlantedFault { copy: 0.94, ..PlantedFault::without_fault() }, ObjectionKind::NoiseFloor),
        (
            PlantedFault { given_up: 3, ..PlantedFault::without_fault() },
            ObjectionKind::GivenUpTrials,
        ),
        (PlantedFault { blocks: 4, ..PlantedFault::without_fault() }, ObjectionKind::FewSamples),
    ];
    for (at, (planted, kind)) in faults.into_iter().enumerate() {
        let entry = planted.evaluate_unchanged(&format!("quality-{at}")).unwrap();
        assert_eq!(status_and_objections(&entry), (StatementStatus::Undecided, vec![kind]), "{at}");
        assert!(!entry.rests_on_sufficient_evidence(&entry.items[0]), "{at}");
    }
}

#[test]
fn traffic_that_changed_after_the_run_leaves_the_claim_undecided_unless_it_is_accepted() {
    let today = STUDY.replace("make-frames", "make-other-frames");
    let planted = PlantedFault::without_fault();
    let entry = planted.evaluate("changed", (&today, SUBJECTS)).unwrap();
    assert_eq!(
        status_and_objections(&entry),
        (StatementStatus::Undecided, vec![ObjectionKind::ChangedDefinition])
    );
    let other_subject = SUBJECTS.replace("load-set", "load-faster-set");
    let entry = planted.evaluate("changed-subject", (STUDY, &other_subject)).unwrap();
    assert_eq!(status_and_objections(&entry).0, StatementStatus::Undecided);
    let accepted = format!(
        "{today}\n[[accepted_changes]]\nrun = \"runs/2026-01-01-amd-epyc-2cpu\"\n\
         parts = [\"traffic\"]\nreason = \"the same frames\"\n"
    );
    let entry = planted.evaluate("accepted", (&accepted, SUBJECTS)).unwrap();
    assert_eq!(
        status_and_objections(&entry),
        (StatementStatus::Reproduced, vec![ObjectionKind::ChangedDefinition])
    );
}

#[test]
fn a_test_that_is_newer_than_its_run_is_named() {
    let today = STUDY.replace("min = 0.4, max = 0.6", "min = 0.45, max = 0.6");
    let entry = PlantedFault::without_fault().evaluate("newer-test", (&today, SUBJECTS)).unwrap();
    assert_eq!(
        status_and_objections(&entry),
        (StatementStatus::Reproduced, vec![ObjectionKind::TestNewerThanRun])
    );
}
