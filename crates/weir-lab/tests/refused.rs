//! Studies that are refused, with file and line.

use std::fs;
use std::path::PathBuf;

use weir_lab::execute_study;
use weir_lab::{LabError, StudyRunOptions};
use weir_stats::rate_search::SearchGoal;
use weir_study::StudyError;
use weir_study::load_study;

const SUBJECTS: &str = "[none]\ntitle = \"t\"\nabout = \"a\"\nload = \"true\"\n";

const STUDY: &str = r#"title = "t"
question = "q"
subjects = ["none"]
[axes.rules]
title = "rules"
values = [0, 16]
[ruleset]
axes = ["rules"]
command = "true"
[traffic]
axes = ["rules"]
command = "true"
[presets.quick]
label = "l"
trial_seconds = 0.1
blocks = 1
loads = 1
[[claims]]
id = "c"
by = "weir"
text = "it is flat"
[claims.test]
kind = "ratio"
quantity = "pps"
of = { subject = "none", at = { rules = 16 } }
to = { subject = "none", at = { rules = 0 } }
within = { min = 0.9 }
shape = { min = 0.5 }
"#;

/// What is said of a study and subjects.
fn load_error_text(name: &str, study: &str, subjects: &str) -> String {
    match load_study(&written(name, study, subjects)) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

/// What is said of a run of a study with options; what it wrote is none.
fn run_refused(name: &str, study: &str, subjects: &str, options: &StudyRunOptions) -> LabError {
    let folder = written(name, study, subjects);
    let out = folder.with_file_name("records");
    let error = execute_study(&folder, &out, options, &mut |_| ()).unwrap_err();
    if matches!(
        error,
        LabError::UnusableStudy(StudyError::InvalidFile { .. } | StudyError::InvalidOptions(_))
    ) {
        assert!(!out.exists(), "{name}: refused before anything is written");
    }
    error
}

fn written(name: &str, study: &str, subjects: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("refused-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("s")).unwrap();
    fs::write(folder.join("subjects.toml"), subjects).unwrap();
    fs::write(folder.join("s/study.toml"), study).unwrap();
    folder.join("s")
}

const FRAMES: &str = "[traffic]\naxes = [\"rules\"]\ncommand = \"true\"\n";

/// The study with other traffic than frames, or none.
fn with_traffic(traffic: &str) -> String {
    assert!(STUDY.contains(FRAMES));
    STUDY.replace(FRAMES, traffic)
}

/// The study without the value 0 on its axis, which is no rate.
fn without_zero(study: &str) -> String {
    study.replace("[0, 16]", "[1, 16]").replace("rules = 0", "rules = 1")
}

#[test]
fn a_search_without_frames_is_refused_before_the_run() {
    let search =
        StudyRunOptions { search: Some(SearchGoal::ZERO_LOSS), ..StudyRunOptions::default() };
    // A search supports frames: this run fails because its command writes none.
    let frames = run_refused("search-frames", STUDY, SUBJECTS, &search);
    assert!(
        !matches!(
            frames,
            LabError::UnusableStudy(StudyError::InvalidFile { .. } | StudyError::InvalidOptions(_))
        ),
        "{frames}"
    );
    let kinds = [
        ("connections", "kind = \"connections\"\n"),
        ("concurrent", "kind = \"concurrent\"\nconnections = 10\n"),
        ("sockets", "kind = \"sockets\"\nrate_axis = \"rules\"\n"),
        ("loopback", "kind = \"loopback\"\n"),
    ];
    for (kind, text) in kinds {
        let study = without_zero(&with_traffic(&format!("[traffic]\n{text}")));
        let said = run_refused(&format!("search-{kind}"), &study, SUBJECTS, &search).to_string();
        let expected = format!("study.toml:10: kind `{kind}` sends no frames");
        assert!(said.contains(&expected) && said.contains("without `--search`"), "{kind}: {said}");
    }
    let study = with_traffic("[traffic]\nkind = \"lookups\"\n").replace("loads = 1", "loads = 0");
    let subjects = SUBJECTS.replace("load = ", "measure = ");
    let said = run_refused("search-lookups", &study, &subjects, &search).to_string();
    assert!(said.contains("study.toml:10: kind `lookups` sends no frames"), "{said}");
    let said = run_refused("search-loads", &with_traffic(""), SUBJECTS, &search).to_string();
    assert!(said.contains("a study without `[traffic]` sends no frames"), "{said}");
}

#[test]
fn options_incompatible_with_search_are_refused_by_name() {
    let search =
        StudyRunOptions { search: Some(SearchGoal::ZERO_LOSS), ..StudyRunOptions::default() };
    let resume = StudyRunOptions { resume: true, ..search.clone() };
    let said = run_refused("search-resume", STUDY, SUBJECTS, &resume).to_string();
    assert!(said.contains("`--search` and `--resume` exclude each other"), "{said}");
    let itself = StudyRunOptions { against_itself: Some("none".to_owned()), ..search.clone() };
    let study = STUDY.replace("[presets.quick]", "[presets.aa]");
    let itself = StudyRunOptions { preset: "aa".to_owned(), ..itself };
    let said = run_refused("search-aa", &study, SUBJECTS, &itself).to_string();
    assert!(said.contains("`--search` and `--aa` exclude each other"), "{said}");
    let paced = STUDY.replace("loads = 1", "loads = 1\nrate_pps = 1000");
    let said = run_refused("search-paced", &paced, SUBJECTS, &search).to_string();
    assert!(said.contains(":18: preset `quick` has a `rate_pps`"), "{said}");
}

#[test]
fn the_subject_of_an_aa_test_must_fit_the_study() {
    let itself = |name: &str| StudyRunOptions {
        against_itself: Some(name.to_owned()),
        preset: "quick".to_owned(),
        ..StudyRunOptions::default()
    };
    let other = "[other]\ntitle = \"t\"\nabout = \"a\"\nload = \"true\"\n";
    let subjects = |more: &str| format!("{SUBJECTS}{other}{more}");
    // A valid subject that the study does not list.
    let fits = run_refused("aa-fits", STUDY, &subjects(""), &itself("other"));
    assert!(
        !matches!(
            fits,
            LabError::UnusableStudy(StudyError::InvalidFile { .. } | StudyError::InvalidOptions(_))
        ),
        "{fits}"
    );
    let loads = with_traffic("");
    let cases = [
        ("path", STUDY, "path = \"one-armed\"\n", "has a `path`"),
        ("client", STUDY, "client = \"wrk\"\n", "has a `client`"),
        ("baseline", loads.as_str(), "baseline = true\n", "is a `baseline`: it loads nothing"),
    ];
    for (name, study, more, expected) in cases {
        let of = itself("other");
        let said = run_refused(&format!("aa-{name}"), study, &subjects(more), &of).to_string();
        assert!(said.contains("`other`") || said.contains("--aa other"), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn fields_of_a_preset_that_the_study_has_no_use_for_are_refused() {
    let connections = with_traffic("[traffic]\nkind = \"connections\"\n");
    let more = |study: &str, field: &str| {
        assert!(study.contains("loads = 1\n"));
        study.replace("loads = 1\n", &format!("loads = 1\n{field}\n"))
    };
    assert_eq!(load_error_text("field-rate", &more(STUDY, "rate_pps = 10"), SUBJECTS), "");
    assert_eq!(
        load_error_text("field-table", &more(&connections, "table_entries = 9"), SUBJECTS),
        ""
    );
    let loopback = with_traffic("[traffic]\nkind = \"loopback\"\n");
    let loads = with_traffic("");
    let rated = |kind: &str| {
        let traffic = format!("[traffic]\nkind = \"{kind}\"\nrate_axis = \"rules\"\n");
        without_zero(&with_traffic(&traffic))
    };
    let (swept, sockets) = (rated("connections"), rated("sockets"));
    let cases = [
        ("frames-table", STUDY, "table_entries = 9", "opens no connections"),
        ("loopback-rate", loopback.as_str(), "rate_pps = 10", "as fast as the host accepts it"),
        ("swept-rate", swept.as_str(), "rate_pps = 10", "its rates on `rate_axis`"),
        ("sockets-rate", sockets.as_str(), "rate_pps = 10", "its rates on `rate_axis`"),
        ("loads-rate", loads.as_str(), "rate_pps = 10", "sends nothing"),
        ("probe", STUDY, "probe_seconds = 1", "the study has no `[probe]`"),
        ("adds", STUDY, "adds = 1", "the study has no `[more]`"),
    ];
    for (name, study, field, expected) in cases {
        let said = load_error_text(&format!("field-{name}"), &more(study, field), SUBJECTS);
        let (field, _) = field.split_once(' ').unwrap();
        assert!(said.contains(expected) && said.contains(&format!("`{field}`")), "{name}: {said}");
    }
}

#[test]
fn a_valid_study_is_accepted() {
    assert_eq!(load_error_text("whole", STUDY, SUBJECTS), "");
}

#[test]
fn unknown_names_and_fields_are_refused_with_their_line() {
    let cases = [
        ("subject", "subjects = [\"none\"]", "subjects = [\"none\", \"trie\"]", ":3: no subject"),
        ("field", "label = \"l\"", "lable = \"l\"", ":14: unknown field `lable`"),
        (
            "axis",
            "axes = [\"rules\"]\ncommand = \"true\"\n[presets",
            "axes = [\"rulse\"]\ncommand = \"true\"\n[presets",
            ":11: no axis `rulse`",
        ),
        (
            "traffic-field",
            "command = \"true\"\n[presets",
            "command = \"true\"\nverify = true\n[presets",
            ":13: kind `frames` takes no `verify`; it takes `axes`, `command`, `drop_axis`, `hits`",
        ),
        (
            "preset-value",
            "loads = 1",
            "loads = 1\naxes = { rules = [7] }",
            ":18: axis `rules` has no value 7",
        ),
        (
            "claim-subject",
            "of = { subject = \"none\"",
            "of = { subject = \"nobody\"",
            ":18: no subject `nobody`",
        ),
        (
            "claim-value",
            "at = { rules = 16 }",
            "at = { rules = 17 }",
            ":18: axis `rules` has no value 17",
        ),
        ("claim-kind", "kind = \"ratio\"", "kind = \"ration\"", "unknown variant `ration`"),
        ("length", "trial_seconds = 0.1", "trial_seconds = 0", ":15: `trial_seconds` is 0"),
    ];
    for (name, before, after, expected) in cases {
        assert!(STUDY.contains(before), "{name}");
        let said = load_error_text(name, &STUDY.replace(before, after), SUBJECTS);
        assert!(said.contains("study.toml") && said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn paths_that_the_traffic_cannot_take_are_refused() {
    let connections =
        |more: &str| with_traffic(&format!("[traffic]\nkind = \"connections\"\n{more}"));
    let subject = |more: &str| format!("{SUBJECTS}{more}");
    let baseline = "path = \"direct\"\nbaseline = true\n";
    assert_eq!(load_error_text("path-direct", &connections(""), &subject(baseline)), "");
    let cases = [
        ("path-frames", STUDY.to_owned(), baseline, ":3: subject `none` has a `path`"),
        ("path-rules", connections(""), "path = \"direct\"\n", "must be a `baseline`"),
        ("path-kind", connections(""), "path = \"bent\"\n", "unknown variant `bent`"),
        (
            "path-neighbours",
            connections("clients = 9000\n"),
            "path = \"one-armed\"\n",
            "at most 8192 together, not 9016",
        ),
        (
            "path-clients",
            connections("clients = 8\nclients_axis = \"rules\"\n"),
            "",
            ":13: axis `rules` has 0: `clients_axis` takes 1 to 8",
        ),
        ("path-axis", connections("servers_axis = \"rulse\"\n"), "", ":12: no axis `rulse`"),
    ];
    for (name, study, more, expected) in cases {
        let said = load_error_text(name, &study, &subject(more));
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn a_subject_with_an_unknown_field_is_refused() {
    let said = load_error_text("subjects", STUDY, &SUBJECTS.replace("about", "abuot"));
    assert!(said.contains("subjects.toml:3: unknown field `abuot`"), "{said}");
}
