//! Every lint has a page whose examples are correct: the ruleset before has the finding, the
//! ruleset after does not.

use std::collections::BTreeSet;

use weir_lint::{Lint, LintLevel, LintLevels, LintOptions, Severity, all_lints, lint_firewall};
use weir_model::{Family, Firewall};
use weir_syntax::iptables::{ParserSettings, parse};

/// The ruleset that the blocks of a section make up.
fn ruleset(section: &str) -> Firewall {
    let mut firewall = Firewall::default();
    let mut sections = section.split("```");
    while let (Some(_), Some(block)) = (sections.next(), sections.next()) {
        let (kind, text) = block.split_once('\n').expect("a block of lines");
        let rules = |family| {
            let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
            parse(text, &options).map_err(|errors| format!("{errors:?}"))
        };
        match kind {
            "iptables" => firewall.v4 = Some(rules(Family::V4).expect("a good ruleset")),
            "ip6tables" => firewall.v6 = Some(rules(Family::V6).expect("a good ruleset")),
            "ipset" => firewall.sets = weir_syntax::ipset::parse(text).expect("good sets"),
            other => panic!("a block of {other}"),
        }
    }
    assert!(firewall.rulesets().next().is_some(), "no ruleset in the section");
    firewall
}

/// The lints that speak, with this one among them whether it is on or off.
fn found(firewall: &Firewall, lint: &Lint) -> BTreeSet<&'static str> {
    let mut levels = LintLevels::default();
    levels
        .set_level_by_id_or_all_enabled(lint.id, LintLevel::ReportAs(Severity::Warning))
        .expect("a lint");
    let options = LintOptions { counters_are_real: true, levels, ..LintOptions::default() };
    let checked = lint_firewall(firewall, &options);
    checked.findings.iter().map(|f| f.lint_id()).collect()
}

#[test]
fn lint_pages_show_the_finding_before_and_not_after() {
    for lint in all_lints() {
        // No parser accepts a loop, and no command a missing set.
        if lint.id == "jump-loop" {
            continue;
        }
        let before = found(&ruleset(lint.page_section("Before")), lint);
        assert!(before.contains(lint.id), "{}: before the cure: {before:?}", lint.id);
        let after = found(&ruleset(lint.page_section("After")), lint);
        assert!(!after.contains(lint.id), "{}: after the cure: {after:?}", lint.id);
    }
}

#[test]
fn the_after_example_of_a_lint_page_has_no_errors() {
    for lint in all_lints().filter(|l| l.id != "jump-loop") {
        let after = ruleset(lint.page_section("After"));
        let found = lint_firewall(&after, &LintOptions::default()).findings;
        let worse: Vec<_> = found.iter().filter(|f| f.severity == Severity::Error).collect();
        assert!(worse.is_empty(), "{}: {worse:?}", lint.id);
    }
}

#[test]
fn every_lint_page_has_its_sections() {
    for lint in all_lints() {
        assert_eq!(lint.page_markdown.lines().next(), Some(format!("# {}", lint.id).as_str()));
        assert!(lint.summary_line().ends_with('.'), "{}: a title is a sentence", lint.id);
        for heading in ["Why it matters", "Cure", "Before", "After"] {
            assert!(!lint.page_section(heading).is_empty(), "{}: {heading}", lint.id);
        }
    }
}

#[test]
fn every_page_has_a_lint_and_lint_ids_are_unique() {
    let ids: Vec<_> = all_lints().map(|l| l.id).collect();
    let distinct: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lints");
    for file in std::fs::read_dir(folder).expect("the pages").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let id = name.strip_suffix(".md").expect("a page");
        assert!(id == "README" || distinct.contains(id), "{name} is no lint's");
    }
}

#[test]
fn a_lint_is_fixable_iff_its_findings_have_fixes() {
    for lint in all_lints().filter(|l| l.id != "jump-loop") {
        let mut levels = LintLevels::default();
        levels
            .set_level_by_id_or_all_enabled(lint.id, LintLevel::ReportAs(Severity::Note))
            .expect("a lint");
        let options = LintOptions { counters_are_real: true, levels, ..LintOptions::default() };
        let all = lint_firewall(&ruleset(lint.page_section("Before")), &options).findings;
        let fixed = all.iter().any(|f| f.lint == lint && f.fix.is_some());
        assert_eq!(fixed, lint.is_fixable, "{}", lint.id);
    }
}
