//! The statements of the papers are listed, and every README shows its list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weir_stats::Estimate;
use weir_stats::evidence_limits::{
    MAX_GIVEN_UP_SHARE, MAX_NOISE_FLOOR, MIN_NOISE_FLOOR, MIN_SAMPLES,
};
use weir_study::claims_registry::{
    self, README_LIST_END_MARKER, README_LIST_START_MARKER, StatementStatus, StudyStatements,
};

fn studies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies")
}

/// Numbers such as `K12` that a README shows in bold.
fn numbers(text: &str) -> BTreeSet<String> {
    let bold = text.split("**").skip(1).step_by(2);
    let is_number = |word: &&str| {
        let mut letters = word.chars();
        letters.next().is_some_and(|c| "KHBSR".contains(c))
            && word.len() > 1
            && letters.all(|c| c.is_ascii_digit())
    };
    bold.filter(is_number).map(str::to_owned).collect()
}

fn readme(entry: &StudyStatements) -> String {
    let path = studies().join(&entry.study).join("README.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn readmes_and_registry_have_the_same_statement_numbers() {
    let entries = claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap();
    assert!(entries.len() > 15, "the studies are there");
    for entry in &entries {
        let listed: BTreeSet<String> = entry.items.iter().map(|item| item.number.clone()).collect();
        assert_eq!(numbers(&readme(entry)), listed, "{}", entry.study);
    }
    assert_eq!(numbers("**K1** and **K2x**, **not** **B7**").len(), 2, "what is no number is not");
}

#[test]
fn statement_numbers_of_a_paper_have_no_gaps() {
    let entries = claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap();
    for letter in ["K", "H", "B", "S", "R"] {
        let mut counts: Vec<u32> = entries
            .iter()
            .flat_map(|entry| &entry.items)
            .filter_map(|item| item.number.strip_prefix(letter)?.parse().ok())
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, (1..=counts.len() as u32).collect::<Vec<_>>(), "of {letter}");
        assert!(counts.len() >= 11, "{letter} has {}", counts.len());
    }
}

#[test]
fn every_readme_contains_the_current_statement_list() {
    let stale: Vec<String> = claims_registry::evaluate_statements_of_all_studies(&studies())
        .unwrap()
        .iter()
        .filter(|entry| {
            let list = format!(
                "{README_LIST_START_MARKER}\n{}{README_LIST_END_MARKER}",
                claims_registry::render_study_markdown_tables(entry)
            );
            let has_list = !entry.items.is_empty() || !entry.own.is_empty();
            has_list && !readme(entry).contains(&list)
        })
        .map(|entry| entry.study.clone())
        .collect();
    assert!(stale.is_empty(), "run `weir lab list --write`: {}", stale.join(", "));
}

/// What a person wrote in a README: everything but the list.
fn readme_prose(entry: &StudyStatements) -> String {
    let text = readme(entry);
    let Some((before, rest)) = text.split_once(README_LIST_START_MARKER) else { return text };
    let after = rest.split_once(README_LIST_END_MARKER).map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// Numbers with intervals, such as `1.06 [0.99, 1.11]` and `42× [40, 42]`: value, low and high as
/// they are written.
fn intervals_in_prose(text: &str) -> Vec<[String; 3]> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (at, _) in words.match_indices(" [") {
        let value = words[..at].rsplit(' ').next().unwrap_or_default();
        let value = value.trim_start_matches('(').trim_end_matches('×');
        let Some((inside, _)) = words[at + 2..].split_once(']') else { continue };
        let Some((low, high)) = inside.split_once(", ") else { continue };
        let numbers = [value, low, high].map(str::to_owned);
        if numbers.iter().all(|number| number.parse::<f64>().is_ok()) {
            found.push(numbers);
        }
    }
    found
}

/// Whether an estimate is written so, with as many decimals as each number has.
fn is_written_as(estimate: &Estimate, written: &[String; 3]) -> bool {
    [estimate.value, estimate.lo, estimate.hi].iter().zip(written).all(|(number, text)| {
        let decimals = text.split_once('.').map_or(0, |(_, after)| after.len());
        format!("{number:.decimals$}") == *text
    })
}

#[test]
fn intervals_in_the_prose_of_a_readme_are_those_of_its_records() {
    let mut checked = 0;
    for entry in claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap() {
        if entry.runs.is_empty() {
            continue;
        }
        let evidence = entry.items.iter().chain(&entry.own).flat_map(|item| &item.evidence);
        let estimates: Vec<Estimate> = evidence
            .flat_map(|one| {
                one.estimate.into_iter().chain(one.other_runs.iter().map(|o| o.estimate))
            })
            .chain(entry.runs.iter().filter_map(|run| run.quality.noise_floor))
            .collect();
        for written in intervals_in_prose(&readme_prose(&entry)) {
            let known = estimates.iter().any(|estimate| is_written_as(estimate, &written));
            assert!(known, "{}: {written:?} is not in the records", entry.study);
            checked += 1;
        }
    }
    assert!(checked >= 15, "{checked} intervals are written in prose");
    let told = intervals_in_prose("rates (1.06 [0.99,\n1.11]) and 42× [40, 42], [1] and x [2, 3]");
    assert_eq!(told, [["1.06", "0.99", "1.11"], ["42", "40", "42"]]);
    let estimate = Estimate { value: 1.06, lo: 0.994, hi: 1.11, samples: 8 };
    assert!(is_written_as(&estimate, &told[0]) && !is_written_as(&estimate, &told[1]));
}

/// Words of statuses that no statement has any more, or that only the list may say.
const STATUS_WORDS: [&str; 6] = [
    "qualitatively reproduced",
    "not reproduced",
    "is reproduced",
    "are reproduced",
    "is confirmed",
    "are confirmed",
];

#[test]
fn no_prose_states_a_status_of_its_own() {
    for entry in claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap() {
        let prose = readme_prose(&entry).split_whitespace().collect::<Vec<_>>().join(" ");
        let said = STATUS_WORDS.iter().find(|words| prose.contains(**words));
        assert_eq!(said, None, "{}: only the list states a status", entry.study);
    }
}

#[test]
fn no_decided_status_rests_on_a_run_that_may_not_decide() {
    let entries = claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap();
    let mut decided = 0;
    for entry in &entries {
        for item in entry.items.iter().chain(&entry.own) {
            if item.status.is_decided_by_measurement() {
                assert!(entry.rests_on_sufficient_evidence(item), "{}", item.number);
                decided += 1;
            }
        }
    }
    assert!(decided >= 20, "{decided} are decided: the check has something to check");
}

#[test]
fn the_limits_of_evidence_are_those_of_the_documentation() {
    let lab = studies().join("../docs/lab.md");
    let text = std::fs::read_to_string(lab).unwrap();
    let rows = [
        ("the interval of the run's noise floor begins at or above", MIN_NOISE_FLOOR),
        ("and ends at or below", MAX_NOISE_FLOOR),
        (
            "share of accepted trials that were given up (disturbed to the last repetition), at most",
            MAX_GIVEN_UP_SHARE,
        ),
        ("samples of the estimate, at least", MIN_SAMPLES as f64),
    ];
    for (name, value) in rows {
        let row = format!("| {name} | {value} |");
        assert!(text.contains(&row), "docs/lab.md has no row `{row}`");
    }
}

#[test]
fn every_reproduced_statement_has_a_run_and_an_estimate() {
    for entry in claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap() {
        for item in entry.items.iter().chain(&entry.own) {
            let seen = matches!(
                item.status,
                StatementStatus::Reproduced
                    | StatementStatus::InDirectionOnly
                    | StatementStatus::Refuted
            );
            let measured = item.evidence.iter().all(|one| one.estimate.is_some());
            assert!(!seen || (entry.run.is_some() && measured), "{}", item.number);
        }
    }
}
