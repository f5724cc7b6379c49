//! The rules over ranges of values: those of `testdata/options`, and those of the base options.

use weir_model::Family;
use weir_testkit::option_samples::{RuleTemplateWithValueRange, read_value_range_rules};

/// A rule whose values are in braces (see [`expand`](crate::words::expand)).
pub struct Subject {
    pub table: String,
    pub families: &'static [Family],
    pub rule: String,
}

const BASE_RULES: &[&str] = &["-A INPUT {not}-s {net} {not}-d {net}", "-A INPUT {not}-p {n:1-255}"];

/// All of them.
pub fn subjects() -> Vec<Subject> {
    let base = BASE_RULES.iter().map(|rule| RuleTemplateWithValueRange {
        family: None,
        table: "filter".to_owned(),
        text: (*rule).to_owned(),
    });
    let subject = |rule: RuleTemplateWithValueRange| Subject {
        families: match rule.family.as_deref() {
            None => &[Family::V4, Family::V6],
            Some("v4") => &[Family::V4],
            Some("v6") => &[Family::V6],
            Some(other) => panic!("{other} is no family: {}", rule.text),
        },
        table: rule.table,
        rule: rule.text,
    };
    base.chain(read_value_range_rules()).map(subject).collect()
}
