//! The effects of every match and target, measured in the kernel and compared with the interpreter
//! and the table of effects. Needs root.
//!
//! Every packet is sent through every rule, each copy through one rule only. The table must agree
//! with the observations; and each row with one changed entry must be detected.

#[path = "effects/changed_fields.rs"]
mod changed_fields;
#[path = "effects/flips.rs"]
mod flips;
#[path = "effects/judge.rs"]
mod judge;
#[path = "effects/measure.rs"]
mod measure;
#[path = "effects/rows.rs"]
mod rows;
#[path = "effects/targets.rs"]
mod targets;

use std::time::Instant;

use judge::{MatchFact, TargetFact, caught, match_mutants, target_mutants};
use judge::{wrong_matches, wrong_targets};
use measure::Tally;
use weir_kernel::Session;
use weir_model::Family;
use weir_model::effect::{MATCH_ROWS, TARGET_ROWS};
use weir_testkit::skip_without_root;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Options that need what a namespace of the tests does not have: a file in the BPF file system, a
/// policy of conntrack timeouts. `--localtz` and `--utc` are taken and change nothing.
const WITHOUT: &[&str] = &["object-pinned", "timeout", "localtz", "utc"];

#[test]
fn every_modelled_module_and_option_is_measured() {
    let mut rules: Vec<String> = Vec::new();
    for family in FAMILIES {
        let matches = rows::matches(family).into_iter().chain(rows::connection_matches(family));
        let targets = targets::plain(family).into_iter().chain(targets::translations(family));
        let targets = targets.chain(targets::sets()).chain(targets::connections(family));
        rules.extend(matches.chain(targets).map(|s| format!("{} ", s.rule)));
    }
    let mut missing = Vec::new();
    let modules =
        weir_syntax::iptables::extension_descriptions::describe_extensions_with_effect_row();
    // The kernel has no modules of other packages.
    for module in modules.iter().filter(|module| module.is_part_of_iptables) {
        let flag = if module.is_target { "-j" } else { "-m" };
        let own = format!("{flag} {} ", module.name);
        let own: Vec<&String> = rules.iter().filter(|r| r.contains(&own)).collect();
        if own.is_empty() {
            missing.push(format!("{flag} {}", module.name));
        }
        // Several option names with the same number are spellings of one option.
        let mut ids: Vec<u8> = module.options.iter().map(|o| o.id).collect();
        ids.dedup();
        for id in ids {
            let names: Vec<&str> =
                module.options.iter().filter(|o| o.id == id).map(|o| o.name).collect();
            let is_there = |name: &&str| own.iter().any(|r| r.contains(&format!("--{name} ")));
            if !names.iter().any(|n| is_there(n) || WITHOUT.contains(n)) {
                missing.push(format!("{flag} {} --{}", module.name, names[0]));
            }
        }
    }
    assert!(missing.is_empty(), "not measured:\n{}", missing.join("\n"));
}

#[test]
fn every_match_behaves_as_interpreter_and_effect_table_state() {
    if skip_without_root() {
        return;
    }
    let (session, began) = (Session::new().unwrap(), Instant::now());
    let (mut facts, mut tally) = (Vec::<MatchFact>::new(), Tally::default());
    for family in FAMILIES {
        measure::matches(&session, family, &mut facts, &mut tally);
    }
    println!("{} match rules, {tally} in {:.0?}", facts.len(), began.elapsed());
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    let wrong = wrong_matches(MATCH_ROWS, &facts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mutants = match_mutants(MATCH_ROWS);
    let all = mutants.len();
    let (count, missed) =
        caught(mutants.into_iter().map(|(what, rows)| (what, wrong_matches(&rows, &facts))));
    println!("{} rows, {count} of {all} mutants caught", MATCH_ROWS.len());
    assert!(missed.is_empty(), "{missed}");
}

#[test]
fn every_target_behaves_as_interpreter_and_effect_table_state() {
    if skip_without_root() {
        return;
    }
    let (session, began) = (Session::new().unwrap(), Instant::now());
    let (mut facts, mut tally) = (Vec::<TargetFact>::new(), Tally::default());
    for family in FAMILIES {
        measure::targets(&session, family, &mut facts, &mut tally);
    }
    println!("{} target rules, {tally} in {:.0?}", facts.len(), began.elapsed());
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    let wrong = wrong_targets(TARGET_ROWS, &facts);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mutants = target_mutants(TARGET_ROWS);
    let all = mutants.len();
    let (count, missed) =
        caught(mutants.into_iter().map(|(what, rows)| (what, wrong_targets(&rows, &facts))));
    println!("{} rows, {count} of {all} mutants caught", TARGET_ROWS.len());
    println!("not measured, taken as the cautious value: emits of {:?}", judge::NOTICED);
    println!("  reads of targets; other bytes of {:?}", judge::UNMODELLED);
    println!("  barriers: {:?}", judge::HANDED.iter().map(|(name, ..)| name).collect::<Vec<_>>());
    println!("  rows that no rule reaches: {:?}", judge::UNREACHED);
    println!("  memory of {:?}, writes of {:?}", judge::MEMORIES, judge::UNSEEN);
    assert!(missed.is_empty(), "{missed}");
}
