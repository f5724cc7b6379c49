//! Look-ups of published rulesets against the interpreter. Run by `make test-corpus DIR=…`.

#[path = "ruleset/ruleset_comparison.rs"]
mod ruleset_comparison;

use weir_testkit::testdata;

use self::ruleset_comparison::{ComparisonCounts, RulesetComparison, read_firewall};

#[test]
fn lookups_agree_with_the_interpreter_on_published_rulesets() {
    let mut rulesets = 0;
    for extension in ["iptables", "loadable", "ip6tables"] {
        for path in testdata::files_with_extension(&testdata::corpus_folder_from_env(), extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&bytes);
            let Some(firewall) = read_firewall(&text, None, "") else { continue };
            let mut counts = ComparisonCounts::default();
            RulesetComparison::with_all_engines(3000, 1).compare_firewall(
                &name,
                &firewall,
                &mut counts,
            );
            let ComparisonCounts { packets, chains, rules, evaluated_rules, .. } = counts;
            println!(
                "{name}: {packets} packets, {chains} chains, {evaluated_rules} of {rules} rules \
                 evaluated, engines {:?}",
                counts.accepted
            );
            rulesets += 1;
        }
    }
    assert!(rulesets > 0, "no ruleset could be read");
}
