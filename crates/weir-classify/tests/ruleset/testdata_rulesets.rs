//! Every ruleset below `testdata`.

use std::fs;
use std::path::Path;

use weir_model::Family;
use weir_testkit::testdata::testdata_path;
use weir_testkit::verdict_cases::read_verdict_cases;

use crate::ruleset_comparison::{ComparisonCounts, RulesetComparison, read_firewall};

#[test]
fn lookups_agree_with_the_interpreter_on_testdata_rulesets() {
    let mut counts = ComparisonCounts::default();
    let mut rulesets = 0;
    let comparison = RulesetComparison::with_all_engines(300, 7);
    for case in read_verdict_cases(&testdata_path("verdicts")) {
        let family = if case.family == "v6" { Family::V6 } else { Family::V4 };
        let firewall = read_firewall(&case.rules, Some(family), &case.sets).expect("a case");
        comparison.compare_firewall(&case.name, &firewall, &mut counts);
        rulesets += 1;
    }
    let mut texts = Vec::new();
    collect_texts(&testdata_path(""), &mut texts);
    for (name, text) in texts {
        // The texts before and after `---`, and their printed forms.
        for part in text.split("\n---\n") {
            for family in [Family::V4, Family::V6] {
                if let Some(firewall) = read_firewall(part, Some(family), "") {
                    comparison.compare_firewall(&name, &firewall, &mut counts);
                    rulesets += 1;
                }
            }
        }
    }
    println!("{rulesets} rulesets: {counts:#?}");
    assert!(rulesets > 100 && counts.packets > 10_000, "{rulesets} {counts:?}");
}

fn collect_texts(folder: &Path, texts: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect_texts(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(&path).expect("a readable file");
            texts.push((path.display().to_string(), text));
        }
    }
}
