//! Values of a study that cannot mean what they say: refused with file and line.

use std::fs;
use std::path::PathBuf;

use weir_study::load_study;

/// A study with every part, over frames.
const STUDY: &str = r#"title = "t"
question = "q"
subjects = ["none", "other"]
[paper]
title = "p"
authors = "a"
year = 2005
part = "1"
setting = "s"
figures = [{ number = "figure 1", title = "f", quantity = "pps", to = 16 }]
[axes.rules]
title = "rules"
values = [0, 16, 64]
[axes.illegal]
title = "to be dropped"
values = [0, 50, 100]
[axes.source]
title = "source"
values = ["near", "far"]
titles = { near = "from nearby" }
[devices]
input = "eth1"
output = "eth0.101"
[ruleset]
axes = ["rules"]
command = "true"
[traffic]
axes = ["rules", "source"]
command = "true"
drop_axis = "illegal"
[more]
axes = ["rules"]
command = "true"
[probe]
kinds = ["icmp"]
loads = ["idle"]
rate_per_second = 100
lines_per_second = 100
subjects = ["none"]
[again]
subject = "none"
at = { rules = 16 }
[noise]
spin_ratio = 1.3
steal = 0.08
psi = 0.25
switches = 20
repeats = 2
[presets.quick]
label = "l"
trial_seconds = 0.1
probe_seconds = 0.2
blocks = 1
loads = 1
adds = 1
rate_pps = 1000
axes = { rules = [0, 16] }
[[paper_values]]
what = "w"
value = "v"
place = "p"
claim = "grows"
[[claims]]
id = "flat"
by = "weir"
text = "it is flat"
[claims.test]
kind = "ratio"
quantity = "pps"
of = { subject = "none", at = { rules = 16 } }
to = { subject = "none", at = { rules = 0 } }
within = { min = 0.9, max = 1.1 }
shape = { min = 0.5 }
[[claims]]
id = "grows"
by = "paper"
text = "it grows"
[claims.test]
kind = "growth"
quantity = "ns_per_packet"
subject = "none"
axis = "rules"
at = { source = "near" }
from = 16
to = 64
above = { subject = "none", at = { rules = 0 } }
within = { max = -0.5 }
shape = { max = 1 }
"#;

const FRAMES: &str = "[traffic]\naxes = [\"rules\", \"source\"]\ncommand = \"true\"\n\
                      drop_axis = \"illegal\"\n";

const SUBJECTS: &str = "[none]\ntitle = \"t\"\nabout = \"a\"\nload = \"true\"\nneeds = [\"nft\"]\n\
                        lets_through_pps = 10\n\
                        [other]\ntitle = \"t\"\nabout = \"a\"\nload = \"true\"\n";

/// What is said of a study and subjects: nothing if they are read.
fn load_error_text(name: &str, study: &str, subjects: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("values-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("study.toml"), study).unwrap();
    fs::write(folder.join("subjects.toml"), subjects).unwrap();
    load_study(&folder).map_or_else(|error| error.to_string(), |_| String::new())
}

/// The text with `after` in place of `before`, which it has once, and the line of the change.
fn replaced(text: &str, before: &str, after: &str) -> (String, usize) {
    assert_eq!(text.matches(before).count(), 1, "{before}");
    let line = text[..text.find(before).unwrap()].matches('\n').count() + 1;
    (text.replace(before, after), line)
}

/// Whether a change of a study is refused at the line of the change with a message.
#[track_caller]
fn assert_refused_at_its_line(study: &str, before: &str, after: &str, message: &str) {
    let (text, line) = replaced(study, before, after);
    // Names of folders must differ, because tests run at once.
    let name =
        format!("{}-{line}", after.bytes().fold(7_u64, |sum, b| sum * 31 % 65_521 + u64::from(b)));
    let said = load_error_text(&name, &text, SUBJECTS);
    assert!(said.contains(&format!("study.toml:{line}: {message}")), "{after}: {said}");
}

#[test]
fn a_study_with_every_part_is_read() {
    assert_eq!(load_error_text("whole", STUDY, SUBJECTS), "");
}

/// Every number of the study: its text, and what else its range excludes.
const NUMBERS: &[(&str, &[&str])] = &[
    ("year = 2005", &["10000"]),
    ("to = 16 }", &["0"]),
    ("values = [0, 16, 64]", &[]),
    ("rate_per_second = 100", &["0", "100_001"]),
    ("lines_per_second = 100", &["0", "501"]),
    ("spin_ratio = 1.3", &["1000.5", "1e400"]),
    ("steal = 0.08", &["100.5"]),
    ("psi = 0.25", &["1e308"]),
    ("switches = 20", &[]),
    ("repeats = 2", &["101"]),
    ("trial_seconds = 0.1", &["0", "0.0", "-0.1", "1e-9", "600.5"]),
    ("probe_seconds = 0.2", &["1e-9", "601"]),
    ("blocks = 1", &["0", "10_001"]),
    ("loads = 1", &["10_001"]),
    ("adds = 1", &["10_001"]),
    ("rate_pps = 1000", &["1_000_000_001"]),
    ("rules = [0, 16]", &[]),
    ("of = { subject = \"none\", at = { rules = 16 }", &[]),
    ("min = 0.9", &["1e19"]),
    ("max = 1.1", &["1e19"]),
    ("min = 0.5", &["1e19"]),
    ("from = 16", &["0"]),
    ("to = 64", &["0"]),
];

#[test]
fn nonfinite_and_out_of_range_numbers_are_refused() {
    for (written, others) in NUMBERS {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        let end = written.rfind(is_digit).unwrap() + 1;
        let start = written[..end].rfind(|c| !is_digit(c)).unwrap() + 1;
        let number_of = |value: &str| format!("{}{value}{}", &written[..start], &written[end..]);
        let is_bound = written.starts_with("m");
        let all = ["nan", "-nan", "inf", "-inf"].iter().chain(*others);
        for value in all.chain(if is_bound { &[][..] } else { &["-1"] }) {
            let after = number_of(value);
            let (text, line) = replaced(STUDY, written, &after);
            let said = load_error_text("number", &text, SUBJECTS);
            assert!(said.contains(&format!("study.toml:{line}: ")), "{after}: {said}");
            assert!(said.contains(" is ") && said.contains(": it takes "), "{after}: {said}");
        }
    }
}

#[test]
fn numbers_at_the_ends_of_their_ranges_are_read() {
    for (before, after) in [
        ("trial_seconds = 0.1", "trial_seconds = 0.001"),
        ("trial_seconds = 0.1", "trial_seconds = 600"),
        ("probe_seconds = 0.2", "probe_seconds = 0"),
        ("rate_pps = 1000", "rate_pps = 0"),
        ("loads = 1", "loads = 0"),
        ("psi = 0.25", "psi = 10"),
        ("min = 0.9, max = 1.1", "min = 1, max = 1.0"),
    ] {
        let (text, _) = replaced(STUDY, before, after);
        assert_eq!(load_error_text("ends", &text, SUBJECTS), "", "{after}");
    }
}

#[test]
fn invalid_names_lists_and_bounds_are_refused() {
    let cases = [
        ("subjects = [\"none\", \"other\"]", "subjects = []", "`subjects` is empty"),
        (
            "subjects = [\"none\", \"other\"]",
            "subjects = [\"none\", \"none\"]",
            "`subjects` has `none` twice",
        ),
        ("values = [0, 16, 64]", "values = []", "`values` is empty"),
        ("values = [0, 16, 64]", "values = [0, 16, 64, 0x10]", "`values` has `16` twice"),
        (
            "values = [\"near\", \"far\"]",
            "values = [\"near\", \"\"]",
            "a value of `values` is \"\"",
        ),
        ("values = [\"near\", \"far\"]", "values = [\"near\", \"a/b\"]", "a value of `values` is"),
        ("{ near = \"from", "{ neer = \"from", "axis `source` has no value `neer`"),
        ("rules = [0, 16]", "rules = []", "`rules` is empty"),
        ("rules = [0, 16]", "rules = [16, 16]", "`rules` has `16` twice"),
        ("rules = [0, 16]", "rules = [17]", "axis `rules` has no value 17"),
        (
            "[axes.source]",
            "[axes.Rules]\ntitle = \"\"\nvalues = [1]\n[axes.source]",
            "axes `rules` and `Rules`",
        ),
        ("[axes.source]", "[axes.seed]\ntitle = \"\"\nvalues = [1]\n[axes.source]", "axis `seed`"),
        ("[axes.source]", "[axes.path]\ntitle = \"\"\nvalues = [1]\n[axes.source]", "axis `path`"),
        ("input = \"eth1\"", "input = \"a/b\"", "`input` is \"a/b\": the name of a device cannot"),
        ("input = \"eth1\"", "input = \"abcdefghijklmnop\"", "`input` is \"abcdefghijklmnop\""),
        ("input = \"eth1\"", "input = \"lo\"", "`input` is \"lo\": no device"),
        ("output = \"eth0.101\"", "output = \"eth1\"", "`input` and `output` are both \"eth1\""),
        (
            "drop_axis = \"illegal\"",
            "drop_axis = \"source\"",
            "axis `source` has near: `drop_axis`",
        ),
        ("values = [0, 50, 100]", "values = [0, 50, 50]", "`values` has `50` twice"),
        ("kinds = [\"icmp\"]", "kinds = []", "`kinds` is empty"),
        ("loads = [\"idle\"]", "loads = [\"idle\", \"idle\"]", "`loads` has `idle` twice"),
        ("id = \"grows\"", "id = \"flat\"", "`claims` has `flat` twice as `id`: remove one"),
        ("id = \"flat\"", "id = \"\"", "`id` is \"\""),
        ("min = 0.9, max = 1.1", "min = 1.2, max = 1.1", "`min` is 1.2 and `max` is 1.1"),
        ("shape = { min = 0.5 }", "shape = {}", "an interval needs `min`, `max` or both"),
        ("shape = { min = 0.5 }", "shape = { min = 1 }", "`shape` must contain `within`"),
        ("shape = { max = 1 }", "shape = { max = -1 }", "`shape` must contain `within`"),
        ("to = 64", "to = 16", "`to` is 16: it must be above `from`"),
        (
            "text = \"it is flat\"",
            "text = \"it is\\u0000flat\"",
            "`text` contains the character NUL",
        ),
        (
            "drop_axis = \"illegal\"",
            "\"drop_axis\\u0000\" = \"illegal\"",
            "a key contains the character NUL",
        ),
    ];
    for (before, after, message) in cases {
        assert_refused_at_its_line(STUDY, before, after, message);
    }
    // The place of a value of the paper is that of the first one.
    let (text, line) = replaced(STUDY, "claim = \"grows\"", "claim = \"shrinks\"");
    let said = load_error_text("paper-value", &text, SUBJECTS);
    let expected = format!(":{}: no claim `shrinks`; there are flat, grows", line - 4);
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn an_empty_or_nul_containing_command_is_refused() {
    for part in ["ruleset", "more"] {
        let before = format!("[{part}]\naxes = [\"rules\"]\ncommand = \"true\"");
        let (text, line) = replaced(STUDY, &before, &before.replace("true", " "));
        let said = load_error_text(&format!("command-{part}"), &text, SUBJECTS);
        assert!(said.contains(&format!(":{}: `command` is \" \"", line + 2)), "{said}");
    }
    assert_refused_at_its_line(
        STUDY,
        "command = \"true\"\ndrop_axis",
        "command = \"true\\u0000\"\ndrop_axis",
        "`command` contains the character NUL: remove it",
    );
}

#[test]
fn rate_and_share_axes_require_values_in_range() {
    let (frames, _) = replaced(STUDY, "values = [0, 50, 100]", "values = [0, 50, 101]");
    let said = load_error_text("share", &frames, SUBJECTS);
    assert!(said.contains("axis `illegal` has 101: `drop_axis` takes 0 to 100"), "{said}");

    let connections = |fields: &str| {
        let (text, _) = replaced(STUDY, FRAMES, &format!("[traffic]\n{fields}\n"));
        let (text, _) = replaced(&text, "rate_pps = 1000\n", "");
        let (start, end) = (text.find("[probe]").unwrap(), text.find("[again]").unwrap());
        let text = format!("{}{}", &text[..start], &text[end..]);
        replaced(&text, "probe_seconds = 0.2\n", "").0
    };
    let cases = [
        ("kind = \"connections\"\nrate_axis = \"illegal\"", "has 0: `rate_axis` takes 1 to"),
        (
            "kind = \"connections\"\nservers_axis = \"illegal\"",
            "has 0: `servers_axis` takes 1 to 16",
        ),
        ("kind = \"concurrent\"\nlimit_axis = \"illegal\"", "has 0: `limit_axis` takes 1 to 1000"),
        (
            "kind = \"concurrent\"\nconnections_axis = \"source\"",
            "has near: `connections_axis` takes 1 to",
        ),
        ("kind = \"connections\"\nflood_axis = \"source\"", "has near: `flood_axis` takes 0 to"),
    ];
    for (fields, message) in cases {
        let text = connections(fields);
        let line = text[..text.find("_axis = ").unwrap()].matches('\n').count() + 1;
        let said = load_error_text("axis", &text, SUBJECTS);
        let has_line = said.contains(&format!("study.toml:{line}: axis `"));
        assert!(has_line && said.contains(message), "{fields}: {said}");
    }
    let flood = connections("kind = \"connections\"\nflood_axis = \"illegal\"");
    assert_eq!(load_error_text("flood", &flood, SUBJECTS), "");
    for (name, fields, message) in [
        ("client", "client = \"224.0.0.1\"", "multicast addresses"),
        ("server", "server = \"255.255.255.255\"\nservers = 1", "reserved or broadcast"),
    ] {
        let text = connections(&format!("kind = \"connections\"\n{fields}"));
        let said = load_error_text(name, &text, SUBJECTS);
        assert!(said.contains(message) && said.contains(&format!("`{name}`")), "{said}");
    }
}

#[test]
fn a_loopback_study_must_not_name_devices() {
    let loopback = "title = \"t\"\nquestion = \"q\"\nsubjects = [\"none\"]\n\
                    [ruleset]\naxes = []\ncommand = \"true\"\n\
                    [traffic]\nkind = \"loopback\"\n\
                    [presets.quick]\nlabel = \"l\"\ntrial_seconds = 0.1\nblocks = 1\nloads = 0\n";
    assert_eq!(load_error_text("loopback", loopback, SUBJECTS), "");
    let devices = format!("{loopback}[ \"devices\" ]\ninput = \"eth0\"\noutput = \"eth1\"\n");
    let said = load_error_text("loopback-devices", &devices, SUBJECTS);
    let expected = ":14: kind `loopback` has its own devices, `lo` and `lo`: remove `[devices]`";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_study_without_traffic_must_load_something() {
    let study = "title = \"t\"\nquestion = \"q\"\nsubjects = [\"none\"]\n\
                 [ruleset]\naxes = []\ncommand = \"true\"\n\
                 [presets.quick]\nlabel = \"l\"\ntrial_seconds = 0.1\nblocks = 1\nloads = 1\n";
    assert_eq!(load_error_text("loads", study, SUBJECTS), "");
    let said = load_error_text("no-loads", &study.replace("loads = 1", "loads = 0"), SUBJECTS);
    assert!(
        said.contains(":11: preset `quick` has `loads`: the study has no `[traffic]`"),
        "{said}"
    );
}

#[test]
fn errors_name_the_line_of_a_header_in_any_spelling() {
    let probe = replaced(STUDY, FRAMES, "[traffic]\nkind = \"connections\"\n").0;
    for header in ["[probe]", "[ probe ]", "[\"probe\"]", "['probe']"] {
        let (text, line) = replaced(&probe, "[probe]", header);
        let said = load_error_text("header", &text, SUBJECTS);
        assert!(
            said.contains(&format!(":{line}: `[probe]` needs `[traffic]`")),
            "{header}: {said}"
        );
    }
    let (text, line) = replaced(
        &STUDY.replace("[more]\naxes = [\"rules\"]\ncommand = \"true\"\n", ""),
        "[presets.quick]",
        "[presets.'qu.ick']",
    );
    let said = load_error_text("header", &text, SUBJECTS);
    assert!(said.contains(&format!(":{}: preset `qu.ick` has `adds`", line + 6)), "{said}");
}

#[test]
fn values_of_subjects_are_checked() {
    for (before, after, expected) in [
        ("lets_through_pps = 10", "lets_through_pps = -1", ":6: `lets_through_pps` is -1"),
        ("[other]", "[\"a/b\"]", ":7: subject \"a/b\""),
        ("needs = [\"nft\"]", "needs = [\"\"]", ":5: a value of `needs` is \"\""),
        ("needs = [\"nft\"]", "needs = [\"a\\u0000\"]", ":5: a value of `needs` contains"),
    ] {
        let (text, _) = replaced(SUBJECTS, before, after);
        let said = load_error_text("subjects", STUDY, &text);
        assert!(said.contains("subjects.toml") && said.contains(expected), "{after}: {said}");
    }
}

#[test]
fn all_studies_of_the_repository_are_read() {
    let studies = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let mut count = 0;
    for entry in fs::read_dir(studies).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("study.toml").is_file() {
            load_study(&folder).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

const LOOKUPS_STUDY: &str = "title = \"t\"\nquestion = \"q\"\nsubjects = [\"engine\"]\n\
                             [ruleset]\naxes = []\ncommand = \"true\"\n\
                             [traffic]\nkind = \"lookups\"\n\
                             [presets.smoke]\nlabel = \"l\"\ntrial_seconds = 0.01\nblocks = 1\n\
                             loads = 0\n";
const LOOKUPS_SUBJECT: &str = "[engine]\ntitle = \"t\"\nabout = \"a\"\nmeasure = \"true\"\n";

#[test]
fn subjects_have_the_command_that_the_study_runs() {
    assert_eq!(load_error_text("lookups", LOOKUPS_STUDY, LOOKUPS_SUBJECT), "");
    for (subject, message) in [
        ("load = \"true\"", "`engine` has no `measure`"),
        ("measure = \"true\"\nload = \"true\"", "`engine` has `load`, but a study of kind"),
    ] {
        let (subjects, _) = replaced(LOOKUPS_SUBJECT, "measure = \"true\"", subject);
        let said = load_error_text("lookups-refused", LOOKUPS_STUDY, &subjects);
        assert!(said.contains(&format!("study.toml:3: subject {message}")), "{said}");
    }
    let name = "frames-without-load";
    for (load, message) in [
        ("", "`none` has no `load`"),
        ("load = \"true\"\nmeasure = \"true\"", "`none` has `measure`, which only a study of kind"),
    ] {
        let subjects = SUBJECTS.replacen("load = \"true\"", load, 1);
        let said = load_error_text(name, STUDY, &subjects);
        assert!(said.contains(&format!("subject {message}")), "{said}");
    }
}

#[test]
fn look_ups_load_no_rules() {
    let (study, line) = replaced(LOOKUPS_STUDY, "loads = 0", "loads = 3");
    let said = load_error_text("lookups-loads", &study, LOOKUPS_SUBJECT);
    let expected =
        format!("study.toml:{line}: preset `smoke` has `loads`: kind `lookups` puts no rules");
    assert!(said.contains(&expected), "{said}");
}
