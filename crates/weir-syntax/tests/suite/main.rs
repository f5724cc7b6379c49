//! The cases of iptables' own test suite (`extensions/*.t` of its sources): weir accepts what the
//! kernel accepts, and prints text that loads to the same bytes; weir refuses text that the tool
//! refuses.
//!
//! Run by `make test-corpus`. `WEIR_IPTABLES_SUITE` names the folder `extensions`; it is not part
//! of this repository. A file of the suite names chains (`:INPUT,FORWARD`), a table (`*mangle`),
//! commands to run before (`%iptables …`, `@nfct …`), and one rule per line, which becomes one case
//! per chain. The results that the suite expects are not read: the references are
//! `iptables-legacy-restore --test` for the text and a load into a namespace for the kernel.

mod cases;
mod judge;
#[path = "../loaded/mod.rs"]
mod loaded;

use std::collections::BTreeMap;
use std::path::PathBuf;

use judge::{Judge, Outcome};

/// Rows of the report, in its order.
const ROWS: [(&str, &[Outcome]); 2] = [
    (
        "taken by the kernel",
        &[Outcome::Same, Outcome::SameOpaque, Outcome::Different, Outcome::Refused],
    ),
    (
        "refused by the kernel or the tool",
        &[
            Outcome::BothRefuse,
            Outcome::TakenAgainstKernel,
            Outcome::TakenOpaque,
            Outcome::TakenAgainstText,
        ],
    ),
];

#[test]
fn suite_cases_load_unchanged_or_are_refused_like_iptables() {
    let folder = std::env::var_os("WEIR_IPTABLES_SUITE").map(PathBuf::from);
    let folder = folder.expect("WEIR_IPTABLES_SUITE names the folder extensions of iptables");
    if weir_testkit::skip_without_root() {
        return;
    }
    let judge = Judge::new();
    let mut counts: BTreeMap<Outcome, usize> = BTreeMap::new();
    // Each rule once with the chains in which it was tried, or a cause with the lines of the file.
    let mut told: BTreeMap<Outcome, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let files = cases::files(&folder);
    for file in &files {
        for case in &file.cases {
            let (outcome, why) = judge.decide(case);
            *counts.entry(outcome).or_default() += 1;
            let (rule, place) = match outcome {
                // Features that the kernel lacks or has not set up, by cause.
                Outcome::TakenAgainstKernel => {
                    (format!("{} {:?} ({why})", file.name, case.family), case.line.to_string())
                }
                _ => {
                    let (name, line, family) = (&file.name, case.line, case.family);
                    (format!("{name}:{line} {family:?} {} ({why})", case.rule), case.chain.clone())
                }
            };
            let places = told.entry(outcome).or_default().entry(rule).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    for (title, outcomes) in ROWS {
        let count = |o: &Outcome| counts.get(o).copied().unwrap_or(0);
        println!("{title}: {}", outcomes.iter().map(count).sum::<usize>());
        for outcome in outcomes {
            println!("  {:>5} {outcome}", count(outcome));
        }
    }
    for (outcome, rules) in told.iter().filter(|(outcome, _)| outcome.is_listed()) {
        println!("\n{outcome}:\n{}", list(rules));
    }
    let same = counts.get(&Outcome::Same).copied().unwrap_or(0);
    assert!(same > 500, "{same} cases of {} load as they were: no suite?", folder.display());
    for outcome in [Outcome::Different, Outcome::Refused, Outcome::TakenAgainstText] {
        let rules = told.remove(&outcome).unwrap_or_default();
        assert!(rules.is_empty(), "{outcome}:\n{}", list(&rules));
    }
}

fn list(rules: &BTreeMap<String, Vec<String>>) -> String {
    rules.iter().map(|(rule, chains)| format!("  {rule}: {}\n", chains.join(", "))).collect()
}
