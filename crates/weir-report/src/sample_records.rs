//! Invented records for the tests of this crate: nothing here was measured.

use std::collections::BTreeMap;

use weir_stats::claim::{ClaimBounds, ClaimSource};
use weir_stats::{
    Claim, ClaimOutcome, ClaimRecord, ClaimTest, ConnectionClose, ConnectionCounts,
    ConntrackTableObservation, Coordinate, DropCount, Estimate, GeneratedRulesetRecord,
    HostEnvironment, LookupMeasurement, NoiseFloor, Paper, PaperStatedValue, Preset, Quantity,
    RemeasuredPaperFigure, Run, RunRecord, RunSubject, Scenario, ScenarioAxis, SubjectPoint, Trial,
    TrialCounts, TrialKind, TrialNoise, TrialResults,
};

/// A subject.
pub(crate) fn sample_subject(name: &str, baseline: bool, weir: bool) -> RunSubject {
    RunSubject {
        name: name.to_owned(),
        title: if weir { format!("weir {name}") } else { name.to_owned() },
        about: "Made up for a test.".to_owned(),
        loads_no_rules: baseline,
        weir,
        load: format!("load-{name} $RULESET"),
        lets_through_pps: 0,
        lacking: None,
        excluded_points_and_reason: None,
    }
}

/// A small run: two facets, four sizes, four subjects, three blocks there and back.
pub(crate) fn sample_record() -> RunRecord {
    build_record_with_sizes(
        &[0, 16, 1024, 16_384],
        &[
            sample_subject("none", true, false),
            sample_subject("linear", false, false),
            sample_subject("tree", false, true),
            sample_subject("nft", false, true),
        ],
        3,
    )
}

/// A run of the given sizes and subjects.
pub(crate) fn build_record_with_sizes(
    sizes: &[u64],
    subjects: &[RunSubject],
    blocks: u32,
) -> RunRecord {
    let mut trials = Vec::new();
    for block in 0..blocks {
        for size in sizes {
            for leg in 0..2 {
                for source in ["far", "near"] {
                    let scenario = Scenario::default()
                        .with_coordinate("rules", *size)
                        .with_coordinate("source", source);
                    for subject in subjects {
                        trials.push(sample_rate_trial(&trials, &scenario, subject, block, leg));
                    }
                }
            }
            for subject in subjects.iter().filter(|subject| !subject.loads_no_rules) {
                let scenario = Scenario::default().with_coordinate("rules", *size);
                trials.push(build_load_or_add_trial(
                    &trials,
                    TrialKind::Load,
                    &scenario,
                    subject,
                    block,
                ));
                trials.push(build_load_or_add_trial(
                    &trials,
                    TrialKind::Add,
                    &scenario,
                    subject,
                    block,
                ));
            }
        }
    }
    RunRecord {
        run: sample_run_without_trials(sizes, subjects, blocks, trials.len() as u64),
        trials,
        searches: Vec::new(),
    }
}

/// A run of connections, each trial followed: a hundred a second for two seconds, then fifty.
pub(crate) fn sample_connections_record() -> RunRecord {
    let mut record = build_record_with_sizes(&[16], &[sample_subject("tracked", false, false)], 2);
    record.trials.retain(|trial| trial.kind == TrialKind::Rate);
    let done = |at: u64| if at <= 200 { at } else { 200 + (at - 200) / 2 };
    let samples: Vec<(f64, u64)> = (0..=400).map(|at| (at as f64 / 100.0, done(at))).collect();
    for trial in &mut record.trials {
        trial.kind = TrialKind::Connections;
        trial.scenario = trial.scenario.with_coordinate("source", "near");
        let table = ConntrackTableObservation {
            samples: samples.clone(),
            ..ConntrackTableObservation::default()
        };
        trial.observations.table = Some(table);
        trial.results = TrialResults::Connections(Box::new(ConnectionCounts {
            started: 300,
            completed: 300,
            progress: samples.clone(),
            ..ConnectionCounts::empty(ConnectionClose::Fin)
        }));
    }
    record
}

/// A run of look-ups: one classifier that takes all sets, and one that refuses those of 1,024 rules.
pub(crate) fn sample_lookups_record() -> RunRecord {
    let subjects = [sample_subject("linear", false, false), sample_subject("dag", true, false)];
    let mut record = build_record_with_sizes(&[16, 1024], &subjects, 2);
    record.trials.retain(|trial| trial.kind == TrialKind::Rate);
    for trial in &mut record.trials {
        let is_refused = trial.subject == "linear"
            && trial.scenario.coordinate("rules") == Some(&Coordinate::Number(1024));
        let measured = if is_refused {
            LookupMeasurement::of_refusal("needs more than 9 steps")
        } else {
            LookupMeasurement {
                first_match_pps: Some(10.0 * trial.correct_verdict_pps),
                build_seconds: Some(0.01),
                bytes_per_rule: Some(40.0),
                ..LookupMeasurement::default()
            }
        };
        trial.kind = TrialKind::Lookups;
        trial.results = TrialResults::Lookups(Box::new(measured));
    }
    record
}

/// A number between 0.97 and 1.03 that depends on the trial alone.
fn trial_jitter(number: usize) -> f64 {
    let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    0.97 + 0.06 * hash as f64 / f64::from(1 << 24)
}

fn sample_rate_trial(
    trials: &[Trial],
    scenario: &Scenario,
    subject: &RunSubject,
    block: u32,
    leg: u32,
) -> Trial {
    let rules = scenario.coordinate("rules").and_then(Coordinate::as_number).unwrap_or(0) as f64;
    let near = scenario.coordinate("source") == Some(&"near".into());
    let nanoseconds = match subject.name.as_str() {
        "none" => 690.0,
        "linear" => 700.0 + rules * 1.6,
        "linear-nft" => 720.0 + rules * 4.1,
        "nft-linear" => 710.0 + rules * 3.2,
        "tree" => 730.0 + if near { (1.0 + rules).log2() * 22.0 } else { 14.0 },
        "ipset" => 780.0 + (1.0 + rules).log2() * 2.0,
        _ => 740.0 + if near { (1.0 + rules).log2() * 3.0 } else { 0.0 },
    };
    let pps = 1e9 / nanoseconds * trial_jitter(trials.len());
    let offered = (pps * 1.1) as u64;
    let delivered = pps as u64;
    Trial {
        offered,
        delivered,
        drop_counts: vec![
            DropCount { counter: "device".to_owned(), packets: offered - delivered },
            DropCount { counter: "rules".to_owned(), packets: 0 },
        ],
        correct_verdict_pps: pps,
        ..build_trial_without_results(trials, TrialKind::Rate, scenario, subject, block, leg)
    }
}

fn build_load_or_add_trial(
    trials: &[Trial],
    kind: TrialKind,
    scenario: &Scenario,
    subject: &RunSubject,
    block: u32,
) -> Trial {
    let rules = scenario.coordinate("rules").and_then(Coordinate::as_number).unwrap_or(0) as f64;
    let step = if subject.name.starts_with("linear") { 4e-6 } else { 6e-6 };
    Trial {
        seconds: (0.003 + rules * step) * trial_jitter(trials.len()),
        results: match kind {
            TrialKind::Add => TrialResults::AddedRules(1),
            _ => TrialResults::PacketSumsOrLoadTime,
        },
        ..build_trial_without_results(trials, kind, scenario, subject, block, 0)
    }
}

fn build_trial_without_results(
    trials: &[Trial],
    kind: TrialKind,
    scenario: &Scenario,
    subject: &RunSubject,
    block: u32,
    leg: u32,
) -> Trial {
    Trial {
        number: trials.len() as u64,
        block,
        abba_leg: leg,
        seconds: 1.0,
        noise: TrialNoise {
            psi: 0.02 * trial_jitter(trials.len() + 7),
            steal: 0.0,
            spin_ratio: trial_jitter(trials.len() + 9).max(1.0),
            generator_preemptions: 1,
        },
        ..Trial::new(kind, scenario.clone(), &subject.name)
    }
}

fn sample_axes(sizes: &[u64]) -> Vec<ScenarioAxis> {
    let titles = [("far", "sources far from the rules"), ("near", "sources near the rules")];
    let owned = |(value, title): (&str, &str)| (value.to_owned(), title.to_owned());
    vec![
        ScenarioAxis {
            name: "rules".to_owned(),
            title: "rules before the one that accepts".to_owned(),
            measured_values: sizes.iter().map(|size| Coordinate::Number(*size)).collect(),
            titles: BTreeMap::new(),
        },
        ScenarioAxis {
            name: "source".to_owned(),
            title: "where packets come from".to_owned(),
            measured_values: vec!["far".into(), "near".into()],
            titles: titles.map(owned).into(),
        },
    ]
}

fn sample_run_without_trials(sizes: &[u64], subjects: &[RunSubject], blocks: u32, all: u64) -> Run {
    Run {
        format: weir_stats::run::RECORD_FORMAT_VERSION,
        study: "made-up-study".to_owned(),
        title: "A made-up study".to_owned(),
        question: "What would a study look like that nobody measured?".to_owned(),
        paper: Some(sample_paper()),
        preset: Preset {
            name: "smoke".to_owned(),
            trial_seconds: 0.25,
            blocks,
            loads: 3,
            label: "Trials of a quarter of a second are shorter than RFC 3511 asks for.".to_owned(),
        },
        date: "2001-02-03T04:05:06Z".to_owned(),
        seconds: 125.0,
        complete: true,
        command: "weir lab run studies/made-up-study -o run --preset smoke --seed 7".to_owned(),
        weir: "0.0.0".to_owned(),
        seed: 7,
        environment: sample_environment(),
        hosts: Vec::new(),
        axes: sample_axes(sizes),
        subjects: subjects.to_vec(),
        rulesets: sizes
            .iter()
            .map(|size| GeneratedRulesetRecord {
                scenario: Scenario::default().with_coordinate("rules", *size),
                command: format!("weir example rules --count {size} --seed 7"),
                sha256: "0123456789abcdef".repeat(4),
                bytes: 100 + 40 * size,
                file: (*size < 100).then(|| format!("rulesets/{size}.rules")),
            })
            .collect(),
        frame_facts: Vec::new(),
        noise_floor: Some(NoiseFloor {
            subject: "linear".to_owned(),
            ratio: Estimate { value: 1.001, lo: 0.992, hi: 1.012, samples: 12 },
        }),
        counts: TrialCounts { all, accepted: all, ..TrialCounts::default() },
        claims: sample_claims(),
        paper_values: vec![PaperStatedValue {
            what: "A value that no paper states".to_owned(),
            value: "12,345 packets/s".to_owned(),
            place: "section 0".to_owned(),
            claim: Some("flat".to_owned()),
        }],
        doubts: vec!["All numbers are made up.".to_owned()],
    }
}

fn sample_paper() -> Paper {
    Paper {
        title: "A paper that nobody wrote".to_owned(),
        authors: "Nobody".to_owned(),
        year: 2001,
        part: "section 0, figure 0".to_owned(),
        setting: "Measured nowhere.".to_owned(),
        figures: vec![RemeasuredPaperFigure {
            number: "figure 0".to_owned(),
            title: "Packets per second".to_owned(),
            quantity: Quantity::Pps,
            last_axis_value: Some(1024),
        }],
    }
}

fn sample_environment() -> HostEnvironment {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    HostEnvironment {
        kernel: "0.0.0-made-up".to_owned(),
        architecture: "x86_64".to_owned(),
        cpu_model: "A processor that does not exist".to_owned(),
        cores: 2,
        core: 1,
        generator_scheduling_policy: "fifo 1".to_owned(),
        memory_mib: 2048,
        hypervisor: true,
        clocksource: "tsc".to_owned(),
        tools: map(&[("iptables-legacy", "iptables v0.0.0 (legacy)"), ("nft", "nftables v0.0.0")]),
        sysctls: map(&[("net.core.bpf_jit_enable", "1"), ("net.ipv4.ip_forward", "1")]),
        mitigations: map(&[("meltdown", "Not affected"), ("retbleed", "Mitigation: none")]),
    }
}

fn sample_claims() -> Vec<ClaimRecord> {
    let near = Scenario::default().with_coordinate("source", "near");
    let ratio = |subject: &str, from: u64, to: u64| ClaimTest::Ratio {
        quantity: Quantity::Pps,
        of: SubjectPoint { subject: subject.to_owned(), at: near.with_coordinate("rules", to) },
        to: SubjectPoint { subject: subject.to_owned(), at: near.with_coordinate("rules", from) },
        within: ClaimBounds { min: Some(0.8), max: None },
        shape: ClaimBounds { min: Some(0.5), max: None },
    };
    let claim = |id: &str, by, text: &str, test| Claim {
        id: id.to_owned(),
        by,
        text: text.to_owned(),
        place: matches!(by, ClaimSource::Paper).then(|| "section 0".to_owned()),
        test,
        expects: None,
        needs: None,
        needs_old_software: None,
    };
    let estimate = |value| Some(Estimate { value, lo: value * 0.98, hi: value * 1.02, samples: 3 });
    vec![
        ClaimRecord {
            claim: claim(
                "flat",
                ClaimSource::Paper,
                "The tree stays flat.",
                Some(ratio("tree", 16, 16_384)),
            ),
            outcome: ClaimOutcome::InDirectionOnly,
            estimate: estimate(0.72),
            shortcomings: Vec::new(),
        },
        ClaimRecord {
            claim: claim(
                "nft",
                ClaimSource::Weir,
                "The nft form stays flat.",
                Some(ratio("nft", 16, 16_384)),
            ),
            outcome: ClaimOutcome::Reproduced,
            estimate: estimate(0.94),
            shortcomings: Vec::new(),
        },
        ClaimRecord {
            claim: Claim {
                needs: Some("two network cards".to_owned()),
                ..claim("wire", ClaimSource::Paper, "A wire carries it.", None)
            },
            outcome: ClaimOutcome::NeedsHardware,
            estimate: None,
            shortcomings: Vec::new(),
        },
    ]
}
