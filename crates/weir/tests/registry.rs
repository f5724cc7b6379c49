//! The statements of the papers are listed, and every README shows its list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
            !entry.items.is_empty() && !readme(entry).contains(&list)
        })
        .map(|entry| entry.study.clone())
        .collect();
    assert!(stale.is_empty(), "run `weir lab list --write`: {}", stale.join(", "));
}

#[test]
fn every_reproduced_statement_has_a_run_and_an_estimate() {
    for entry in claims_registry::evaluate_statements_of_all_studies(&studies()).unwrap() {
        for item in entry.items.iter().chain(&entry.own) {
            let seen = matches!(
                item.status,
                StatementStatus::Reproduced | StatementStatus::ReproducedInShape
            );
            let measured = item.evidence.iter().all(|one| one.estimate.is_some());
            assert!(!seen || (entry.run.is_some() && measured), "{}", item.number);
        }
    }
}
