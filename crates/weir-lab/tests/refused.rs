//! Studies that are refused, with file and line.

use std::fs;
use std::path::PathBuf;

use weir_lab::study::load;

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
fn refused(name: &str, study: &str, subjects: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("refused-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("s")).unwrap();
    fs::write(folder.join("subjects.toml"), subjects).unwrap();
    fs::write(folder.join("s/study.toml"), study).unwrap();
    match load(&folder.join("s")) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_whole_study_is_read() {
    assert_eq!(refused("whole", STUDY, SUBJECTS), "");
}

#[test]
fn what_is_not_there_is_refused_with_its_line() {
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
            "preset-value",
            "loads = 1",
            "loads = 1\naxes = { rules = [7] }",
            ":13: axis `rules` has no value 7",
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
        ("length", "trial_seconds = 0.1", "trial_seconds = 0", ":13: a preset needs"),
    ];
    for (name, before, after, expected) in cases {
        assert!(STUDY.contains(before), "{name}");
        let said = refused(name, &STUDY.replace(before, after), SUBJECTS);
        assert!(said.contains("study.toml") && said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn paths_that_the_traffic_cannot_take_are_refused() {
    let frames = "[traffic]\naxes = [\"rules\"]\ncommand = \"true\"\n";
    let connections = |more: &str| {
        assert!(STUDY.contains(frames));
        STUDY.replace(frames, &format!("[traffic]\nkind = \"connections\"\n{more}"))
    };
    let subject = |more: &str| format!("{SUBJECTS}{more}");
    let baseline = "path = \"direct\"\nbaseline = true\n";
    assert_eq!(refused("path-direct", &connections(""), &subject(baseline)), "");
    let cases = [
        ("path-frames", STUDY.to_owned(), baseline, ":3: subject `none` has a `path`"),
        ("path-rules", connections(""), "path = \"direct\"\n", "has to be a `baseline`"),
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
            ":10: axis `rules` has 0, and there are 8 clients",
        ),
        ("path-axis", connections("servers_axis = \"rulse\"\n"), "", ":10: no axis `rulse`"),
    ];
    for (name, study, more, expected) in cases {
        let said = refused(name, &study, &subject(more));
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn a_subject_with_an_unknown_field_is_refused() {
    let said = refused("subjects", STUDY, &SUBJECTS.replace("about", "abuot"));
    assert!(said.contains("subjects.toml:3: unknown field `abuot`"), "{said}");
}
