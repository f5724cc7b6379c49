//! The output of `weir check --format sarif` conforms to SARIF 2.1.0: every required property, no
//! unknown ones, and values of the right kind.
//!
//! The table below is the part of the standard (OASIS, sarif-v2.1.0-os, section 3) that weir uses;
//! the official schema is closed in the same way.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// What a property holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    /// A number of at least that.
    Number(i64),
    OneOf(&'static [&'static str]),
    Object(&'static str),
    Array(&'static str),
    /// A property bag: anything.
    Bag,
}

use Kind::{Array, Bag, Flag, Number, Object, OneOf, Text};

/// An object: its properties, required or not.
type Shape = &'static [(&'static str, bool, Kind)];

const LEVELS: Kind = OneOf(&["none", "note", "warning", "error"]);

#[rustfmt::skip]
const SHAPES: &[(&str, Shape)] = &[
    ("sarifLog", &[("version", true, OneOf(&["2.1.0"])), ("$schema", false, Text), ("runs", true, Array("run"))]),
    ("run", &[("tool", true, Object("tool")), ("results", false, Array("result")),
        ("columnKind", false, OneOf(&["utf16CodeUnits", "unicodeCodePoints"]))]),
    ("tool", &[("driver", true, Object("toolComponent"))]),
    ("toolComponent", &[("name", true, Text), ("semanticVersion", false, Text), ("informationUri", false, Text),
        ("rules", false, Array("reportingDescriptor"))]),
    ("reportingDescriptor", &[("id", true, Text), ("shortDescription", false, Object("multiformatMessageString")),
        ("fullDescription", false, Object("multiformatMessageString")), ("help", false, Object("multiformatMessageString")),
        ("helpUri", false, Text), ("defaultConfiguration", false, Object("reportingConfiguration")), ("properties", false, Bag)]),
    ("multiformatMessageString", &[("text", true, Text), ("markdown", false, Text)]),
    ("reportingConfiguration", &[("enabled", false, Flag), ("level", false, LEVELS)]),
    ("result", &[("message", true, Object("message")), ("ruleId", false, Text), ("ruleIndex", false, Number(-1)),
        ("level", false, LEVELS), ("locations", false, Array("location")), ("relatedLocations", false, Array("location")),
        ("properties", false, Bag)]),
    ("message", &[("text", true, Text)]),
    ("location", &[("id", false, Number(-1)), ("physicalLocation", false, Object("physicalLocation")),
        ("logicalLocations", false, Array("logicalLocation")), ("message", false, Object("message"))]),
    ("physicalLocation", &[("artifactLocation", true, Object("artifactLocation")), ("region", false, Object("region"))]),
    ("artifactLocation", &[("uri", false, Text)]),
    ("region", &[("startLine", true, Number(1)), ("startColumn", false, Number(1)), ("endLine", false, Number(1)),
        ("endColumn", false, Number(1))]),
    ("logicalLocation", &[("fullyQualifiedName", false, Text)]),
];

/// What of an object breaks its shape, appended to `wrong`.
fn judge(value: &Value, name: &str, path: &str, wrong: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        wrong.push(format!("{path} is no object"));
        return;
    };
    let shape = SHAPES.iter().find(|s| s.0 == name).expect("a shape of that name").1;
    for (property, _, _) in shape.iter().filter(|p| p.1 && !object.contains_key(p.0)) {
        wrong.push(format!("{path}: no {property}"));
    }
    for (property, value) in object {
        let path = format!("{path}.{property}");
        let Some((_, _, kind)) = shape.iter().find(|p| p.0 == property) else {
            wrong.push(format!("{path}: no such property"));
            continue;
        };
        let right = match kind {
            Text => value.as_str().is_some_and(|t| !t.is_empty()),
            Flag => value.is_boolean(),
            Number(least) => value.as_i64().is_some_and(|n| n >= *least),
            OneOf(words) => value.as_str().is_some_and(|t| words.contains(&t)),
            Bag => value.is_object(),
            Object(name) => {
                judge(value, name, &path, wrong);
                true
            }
            Array(name) => value.as_array().is_some_and(|all| {
                let each = |(i, v)| judge(v, name, &format!("{path}[{i}]"), wrong);
                all.iter().enumerate().for_each(each);
                true
            }),
        };
        if !right {
            wrong.push(format!("{path} is {value}"));
        }
    }
}

/// What is printed for a ruleset.
fn sarif(rules: &str) -> Value {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-sarif-{}-{number}.rules", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, format!("*filter\n{rules}COMMIT\n")).expect("a file");
    let out = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "--format", "sarif"])
        .arg(&file)
        .output()
        .expect("weir");
    std::fs::remove_file(&file).expect("the file");
    serde_json::from_slice(&out.stdout).expect("JSON")
}

const RULES: &str = "\
:INPUT ACCEPT [0:0]
-A INPUT -s 192.0.2.0/24 -j DROP
-A INPUT -s 192.0.2.7/32 -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
";

#[test]
fn the_log_conforms_to_the_sarif_schema() {
    let log = sarif(RULES);
    let mut wrong = Vec::new();
    judge(&log, "sarifLog", "log", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let results = log["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules");
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let line = &result["locations"][0]["physicalLocation"]["region"]["startLine"];
        assert!(line.as_u64().is_some_and(|n| n >= 1));
    }
}

#[test]
fn a_log_that_violates_the_schema_is_caught() {
    let mut log = sarif(RULES);
    let result = &mut log["runs"][0]["results"][0];
    result["levle"] = "note".into();
    result["level"] = "loud".into();
    result["locations"][0]["physicalLocation"]["region"]["startLine"] = 0.into();
    result.as_object_mut().expect("an object").remove("message");
    let mut wrong = Vec::new();
    judge(&log, "sarifLog", "log", &mut wrong);
    assert_eq!(wrong.len(), 4, "{wrong:#?}");
}

#[test]
fn no_findings_give_an_empty_result_list() {
    let log = sarif("-A FORWARD -s 192.0.2.0/24 -j DROP\n");
    assert_eq!(log["runs"][0]["results"], Value::Array(Vec::new()));
}
