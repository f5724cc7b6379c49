//! `testdata/passes`: rulesets, and the results of passes.
//!
//! In its cost model trees and sets pay off for few rules, so that the cases stay short.

use weir_model::{Family, RuleIdTable, Ruleset};
use weir_passes::prefix_tree::TreeOptions;
use weir_passes::set_folding::SetFoldCostsAndNames;
use weir_passes::{
    CheckedPassesOptions, CostModel, PassContext, PassOptions, RewrittenRuleset, passes,
    prefix_tree, set_folding,
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

fn compare(folder: &str, least: usize, pass: impl Fn(&Ruleset) -> RewrittenRuleset) {
    let files = testdata::testdata_files_with_extension(folder, "txt");
    assert!(files.len() >= least, "the cases are there");
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

#[test]
fn runs_become_the_trees_that_stand_beside_them() {
    compare("passes/tree", 7, |ruleset| {
        let options = TreeOptions { cost: eager(), levels: None };
        prefix_tree::build_prefix_trees(
            ruleset,
            &options,
            &RuleIdTable::from_ruleset(ruleset),
            &|_| true,
        )
    });
}

#[test]
fn runs_become_the_sets_that_stand_beside_them() {
    compare("passes/sets", 6, |ruleset| {
        let options = SetFoldCostsAndNames {
            cost: eager(),
            name_prefix: "w4-example-".into(),
            used_names: Vec::new(),
        };
        set_folding::fold_into_sets(ruleset, &options, &RuleIdTable::from_ruleset(ruleset), &|_| {
            true
        })
    });
}

/// Passes that have a folder of cases of their own name.
const BY_NAME: [&str; 9] = [
    "cheaper_match",
    "early_drop",
    "inline_chain",
    "merge_adjacent",
    "notrack",
    "remove_duplicates",
    "remove_shadowed",
    "reorder_by_hits",
    "split_by_protocol",
];

fn options() -> PassOptions {
    let cost = CostModel { inlined_group_rules_max: 2, ..eager() };
    PassOptions { cost, allow_counter_loss: true, ..PassOptions::default() }
}

#[test]
fn each_pass_makes_what_stands_beside_its_cases() {
    for name in BY_NAME {
        let pass = passes::find_pass(name).expect("the pass is there");
        compare(&format!("passes/{name}"), 2, |ruleset| {
            let options = options();
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
fn each_pass_has_a_case_in_which_it_acts_and_one_in_which_it_does_not() {
    for name in BY_NAME {
        let pass = passes::find_pass(name).expect("the pass is there");
        let (mut acts, mut rests) = (0, 0);
        for file in testdata::testdata_files_with_extension(&format!("passes/{name}"), "txt") {
            let case = std::fs::read_to_string(&file).expect("read the case");
            let rules = case.split_once(CUT).map_or(case.trim_end(), |(rules, _)| rules);
            let v4 = read(&format!("{rules}\n"));
            let firewall = weir_model::Firewall { v4: Some(v4), ..Default::default() };
            let options =
                CheckedPassesOptions { pass: options(), ..CheckedPassesOptions::default() };
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
fn every_pass_is_known_by_its_name_and_says_what_it_does() {
    for pass in passes::ALL_PASSES {
        assert_eq!(passes::find_pass(pass.name()).map(|p| p.name()), Some(pass.name()));
        assert!(!pass.description().is_empty() && !pass.description().ends_with('.'));
    }
}
