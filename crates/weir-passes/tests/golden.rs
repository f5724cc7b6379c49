//! `testdata/passes`: rulesets, and the results of passes; one folder per pass, by its name.
//!
//! In its cost model trees and sets pay off for few rules, so that the cases stay short.

use weir_model::{Family, RuleIdTable, Ruleset};
use weir_passes::{
    CheckedPassesOptions, CostModel, Pass, PassContext, PassOptions, RewrittenRuleset, passes,
};
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::testdata;

const CUT: &str = "\n---\n";

fn eager() -> CostModel {
    CostModel {
        check_ns: 10.0,
        jump_ns: 10.0,
        set_ns: 10.0,
        probe_ns: 1.0,
        inlined_group_rules_max: 1,
        ..CostModel::default()
    }
}

fn read(rules: &str) -> Ruleset {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    match iptables::parse(rules, &options) {
        Ok(ruleset) => ruleset,
        Err(d) => panic!("{}", weir_syntax::render_diagnostics(&d, "case", rules, false)),
    }
}

/// Sets, tables, and what the pass says of them.
fn print(made: &RewrittenRuleset) -> String {
    let mut text = weir_syntax::ipset::print(&made.sets);
    let mut ruleset = made.ruleset.clone();
    for table in &mut ruleset.tables {
        table.leading_comments.clear();
    }
    text += &iptables::print(
        &ruleset,
        ruleset.rules_with_table_and_chain().any(|(_, _, r)| r.counters.is_some()),
    );
    for run in &made.compiled_rule_runs {
        text += &format!("# {} and {} rules from there: {}\n", run.first, run.rules, run.into);
    }
    for kept in &made.unchanged_rules {
        text += &format!("# {} {}\n", kept.rule, kept.why);
    }
    text
}

fn compare(folder: &str, pass: impl Fn(&Ruleset) -> RewrittenRuleset) {
    let files = testdata::testdata_files_with_extension(folder, "txt");
    assert!(files.len() >= 2, "{folder} has {} cases", files.len());
    let mut changed = Vec::new();
    for file in files {
        let case = std::fs::read_to_string(&file).expect("read the case");
        let (rules, expected) = case.split_once(CUT).unwrap_or((case.trim_end(), ""));
        let text = print(&pass(&read(&format!("{rules}\n"))));
        if text != expected {
            changed.push(format!("{}:\n{text}", file.display()));
            if weir_testkit::is_blessing_golden_files() {
                std::fs::write(&file, format!("{rules}{CUT}{text}")).expect("bless the case");
            }
        }
    }
    let fine = changed.is_empty() || weir_testkit::is_blessing_golden_files();
    assert!(fine, "these became something else:\n{}", changed.join("\n"));
}

/// Trees divide every rule; a chain that is inlined has up to two.
fn options(pass: &dyn Pass) -> PassOptions {
    let inlined_group_rules_max = if pass.name() == "inline_chain" { 2 } else { 1 };
    let cost = CostModel { inlined_group_rules_max, ..eager() };
    let set_name_id = "example".to_owned();
    PassOptions { cost, set_name_id, allow_counter_loss: true, ..PassOptions::default() }
}

#[test]
fn each_pass_produces_its_golden_results() {
    for pass in passes::ALL_PASSES {
        compare(&format!("passes/{}", pass.name()), |ruleset| {
            let options = options(pass);
            let places = RuleIdTable::from_ruleset(ruleset);
            pass.run(
                ruleset,
                &PassContext {
                    options: &options,
                    rule_ids: &places,
                    sets: &[],
                    traffic_changed_sets: &Default::default(),
                },
            )
        });
    }
}

#[test]
fn each_pass_has_cases_with_and_without_a_change() {
    for pass in passes::ALL_PASSES {
        let name = pass.name();
        let (mut acts, mut rests) = (0, 0);
        for file in testdata::testdata_files_with_extension(&format!("passes/{name}"), "txt") {
            let case = std::fs::read_to_string(&file).expect("read the case");
            let rules = case.split_once(CUT).map_or(case.trim_end(), |(rules, _)| rules);
            let v4 = read(&format!("{rules}\n"));
            let firewall = weir_model::Firewall { v4: Some(v4), ..Default::default() };
            let options =
                CheckedPassesOptions { pass: options(pass), ..CheckedPassesOptions::default() };
            let run = weir_passes::run_passes_until_first_refusal(
                &firewall,
                &[pass],
                &options,
                &mut |_, _| {},
            )
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            match run.firewall == firewall {
                true => rests += 1,
                false => acts += 1,
            }
        }
        assert!(acts > 0 && rests > 0, "{name}: {acts} cases act, {rests} do not");
    }
}

#[test]
fn every_pass_is_found_by_name_and_has_a_description() {
    for pass in passes::ALL_PASSES {
        assert_eq!(passes::find_pass(pass.name()).map(|p| p.name()), Some(pass.name()));
        assert!(!pass.description().is_empty() && !pass.description().ends_with('.'));
    }
}
