//! `weir lab report` of several kept runs.

use std::fs;
use std::process::{Command, Output};

use weir_testkit::{TempFolder, testdata};

const RULES: &str = "studies/kadlecsik2005-rules/runs/2026-11-21-amd-epyc-2cpu";
const TABLES: &str = "studies/hagtheil-empty-tables/runs/2026-11-21-amd-epyc-2cpu";

/// The page of kept runs, and what was said.
fn report(folder: &TempFolder, runs: &[&str]) -> (Output, Option<String>) {
    let page = folder.path().join("page.html");
    let runs = runs.iter().map(|run| testdata::repository_root().join(run));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["lab", "report"]).args(runs).arg("-o").arg(&page);
    let output = weir.output().expect("weir runs");
    (output, fs::read_to_string(page).ok())
}

#[test]
fn a_page_of_several_runs_draws_all_of_them() {
    let folder = TempFolder::new("beside");
    let (ended, alone) = report(&folder, &[RULES]);
    let alone = alone.unwrap();
    assert!(
        ended.status.success() && !alone.contains("id=\"beside\""),
        "a single run has no overlay"
    );
    let (ended, page) = report(&folder, &[RULES, RULES, RULES]);
    let page = page.unwrap();
    assert!(ended.status.success());
    assert!(page.contains("3 runs in one plot"));
    for name in
        ["2026-11-21-amd-epyc-2cpu", "2026-11-21-amd-epyc-2cpu (2)", "2026-11-21-amd-epyc-2cpu (3)"]
    {
        assert!(page.contains(&format!(", {name}\" data-x=")), "{name} has points");
    }
    let drawings = |page: &str| page.matches("<figure").count();
    assert!(drawings(&page) > drawings(&alone));
    let data = |page: &str| page.matches("download=\"").count();
    assert_eq!((data(&alone), data(&page)), (2, 6), "the records of each are inside");
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(said.matches("2026-11-21-amd-epyc-2cpu, ").count(), 3, "{said}");
}

#[test]
fn a_page_of_runs_of_two_studies_is_refused() {
    let folder = TempFolder::new("beside-other");
    let (ended, page) = report(&folder, &[RULES, TABLES]);
    assert_eq!((ended.status.code(), page), (Some(2), None));
    let said = String::from_utf8(ended.stderr).unwrap();
    for words in ["of kadlecsik2005-rules", "of hagtheil-empty-tables", "name runs of one study"] {
        assert!(said.contains(words), "{said}");
    }
}
