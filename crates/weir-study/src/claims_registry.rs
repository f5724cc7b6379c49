//! The statements of the papers, and the status of each.
//!
//! Every study has a `claims.toml`: the numbered figures, tables, observations and conclusions of a
//! paper that belong to it. An item either names claims of the study's `study.toml`, and then its
//! status is *computed* from the records of the newest complete run under `runs/`; or it says why
//! there is nothing to compute. No status can be set by hand.

mod statement_status;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_stats::run_comparison::AaTestRecord;
use weir_stats::{ClaimRecord, Estimate, claim, run_folder};

use crate::StudyError;
use crate::study::Study;
use crate::study_loader::load_study;
use crate::toml_text::{check_and_deserialize_toml, error_at_offset};
use crate::value_rule_tables::CLAIMS_VALUE_RULES;

pub use self::statement_status::{
    ClaimEvidence, StatementKind, StatementStatus, StatementWithStatus,
};

/// The file of a study's folder that says the result of a subject against itself.
pub const AA_TEST_FILE: &str = "aa.json";

/// A study as the registry knows it.
#[derive(Clone, Debug, Serialize)]
pub struct StudyStatements {
    /// Name of its folder.
    pub study: String,
    /// What a reader sees.
    pub title: String,
    /// The paper; `None` for a study that repeats none.
    pub paper: Option<String>,
    /// The command that runs it; `None` if it cannot be run yet.
    pub command: Option<String>,
    /// Folder of the newest complete run below the study's, e.g. `runs/2026-11-21-host`.
    pub run: Option<String>,
    /// The result of one of its subjects against itself, where that was measured and kept.
    pub self_test: Option<AaTestRecord>,
    /// What the paper says.
    pub items: Vec<StatementWithStatus>,
    /// weir's own claims, with the outcome of them.
    pub own: Vec<StatementWithStatus>,
}

/// The contents of `claims.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    paper: Option<String>,
    title: Option<String>,
    #[serde(default)]
    items: Vec<toml::Spanned<StatementDefinition>>,
}

/// An item of the file: exactly one of the last four keys determines its status.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementDefinition {
    number: String,
    kind: StatementKind,
    place: String,
    text: String,
    stated: Option<String>,
    claims: Option<Vec<String>>,
    needs: Option<String>,
    lost: Option<String>,
    missing: Option<String>,
}

/// All studies of a folder, by name.
///
/// # Errors
/// A folder that cannot be read; with file and line: a `claims.toml` or `study.toml` that is not
/// one, an item that says none or several of `claims`, `needs`, `lost`, `missing`, a claim that the
/// study has not, a number twice; records that cannot be read.
pub fn evaluate_statements_of_all_studies(
    studies: &Path,
) -> Result<Vec<StudyStatements>, StudyError> {
    let failed = StudyError::file_access_error("read", studies);
    let mut folders: Vec<PathBuf> = fs::read_dir(studies)
        .map_err(failed)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("claims.toml").is_file() || path.join("study.toml").is_file())
        .collect();
    folders.sort();
    let mut entries = Vec::new();
    let mut numbers = std::collections::BTreeMap::new();
    for folder in folders {
        let entry = evaluate_statements_of_study(&folder)?;
        for item in &entry.items {
            if let Some(other) = numbers.insert(item.number.clone(), entry.study.clone()) {
                let message = format!("number {} is in {other} already", item.number);
                return Err(error_at_offset(&folder.join("claims.toml"), "", 0, message));
            }
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn evaluate_statements_of_study(folder: &Path) -> Result<StudyStatements, StudyError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.join("claims.toml");
    let text = if path.is_file() {
        fs::read_to_string(&path).map_err(StudyError::file_access_error("read", &path))?
    } else {
        String::new()
    };
    let claims: ClaimsFile = check_and_deserialize_toml(&path, &text, CLAIMS_VALUE_RULES)?;
    let loaded = match folder.join("study.toml").is_file() {
        true => Some(load_study(folder)?.study),
        false => None,
    };
    let run = find_newest_complete_run_path_in_study(folder)?;
    let outcomes = match (&loaded, &run) {
        (Some(study), Some(run)) => Some(evaluate_study_claims(study, &folder.join(run))?),
        _ => None,
    };
    let known: Vec<&str> =
        loaded.iter().flat_map(|study| &study.claims).map(|c| c.get_ref().id.as_str()).collect();
    let mut items = Vec::new();
    for item in claims.items {
        let at = item.span().start;
        let refuse = |message: String| error_at_offset(&path, &text, at, message);
        items.push(
            evaluate_statement_status(item.into_inner(), &known, outcomes.as_deref())
                .map_err(refuse)?,
        );
    }
    let own =
        loaded.as_ref().map_or_else(Vec::new, |study| list_weir_claims(study, outcomes.as_deref()));
    let title = match (&loaded, claims.title) {
        (Some(study), _) => study.title.clone(),
        (None, Some(title)) => title,
        (None, None) => {
            let message = "without a study.toml it needs a `title`".to_owned();
            return Err(error_at_offset(&path, &text, 0, message));
        }
    };
    let command = loaded.map(|_| format!("weir lab run studies/{name} -o run"));
    let self_test = read_aa_test(folder)?;
    Ok(StudyStatements {
        study: name,
        title,
        paper: claims.paper,
        command,
        run,
        self_test,
        items,
        own,
    })
}

/// What is kept of a subject against itself in a study's folder.
fn read_aa_test(folder: &Path) -> Result<Option<AaTestRecord>, StudyError> {
    let path = folder.join(AA_TEST_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(StudyError::file_access_error("read", &path))?;
    let failed = |error: serde_json::Error| StudyError::InvalidFile {
        path: path.clone(),
        line: error.line(),
        message: format!("{error}; `weir lab run STUDY -o DIR --aa SUBJECT --keep` regenerates it"),
    };
    serde_json::from_str(&text).map(Some).map_err(failed)
}

/// The newest complete run of a study: folders under `runs` begin with their date.
fn find_newest_complete_run_path_in_study(study: &Path) -> Result<Option<String>, StudyError> {
    let Ok(entries) = fs::read_dir(study.join("runs")) else { return Ok(None) };
    let mut runs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|run| run.join("run.json").is_file()).collect();
    runs.sort();
    while let Some(run) = runs.pop() {
        if run_folder::load_record(&run)?.run.complete {
            let name = run.file_name().unwrap_or_default().to_string_lossy();
            return Ok(Some(format!("runs/{name}")));
        }
    }
    Ok(None)
}

/// The study's claims, decided on the trials that are kept.
fn evaluate_study_claims(study: &Study, run: &Path) -> Result<Vec<ClaimRecord>, StudyError> {
    let record = run_folder::load_record(run)?;
    let seed = record.run.seed;
    let decide =
        |text: &toml::Spanned<_>| claim::evaluate_claim(text.get_ref(), &record.trials, seed);
    Ok(study.claims.iter().map(decide).collect())
}

fn evaluate_statement_status(
    item: StatementDefinition,
    known: &[&str],
    outcomes: Option<&[ClaimRecord]>,
) -> Result<StatementWithStatus, String> {
    let StatementDefinition { number, kind, place, text, stated, claims, needs, lost, missing } =
        item;
    let wrong = || format!("{number} needs exactly one of `claims`, `needs`, `lost`, `missing`");
    let (status, why, evidence) = match (claims, needs, lost, missing) {
        (Some(claims), None, None, None) if !claims.is_empty() => {
            if let Some(absent) = claims.iter().find(|id| !known.contains(&id.as_str())) {
                return Err(format!("{number}: study.toml has no claim `{absent}`"));
            }
            let evidence = collect_claim_evidence(&claims, outcomes);
            let worst = evidence.iter().map(|one| one.status).min();
            (worst.unwrap_or(StatementStatus::NotRun), None, evidence)
        }
        (None, Some(needs), None, None) => {
            (StatementStatus::NeedsHardware, Some(needs), Vec::new())
        }
        (None, None, Some(lost), None) => (StatementStatus::NotPreserved, Some(lost), Vec::new()),
        (None, None, None, Some(missing)) => (StatementStatus::NotBuilt, Some(missing), Vec::new()),
        _ => return Err(wrong()),
    };
    Ok(StatementWithStatus { number, kind, place, text, stated, status, why, evidence })
}

fn collect_claim_evidence(
    claims: &[String],
    outcomes: Option<&[ClaimRecord]>,
) -> Vec<ClaimEvidence> {
    let one = |id: &String| {
        let record = outcomes.and_then(|all| all.iter().find(|record| record.claim.id == *id));
        ClaimEvidence {
            claim: id.clone(),
            status: record.map_or(StatementStatus::NotRun, |record| record.outcome.into()),
            estimate: record.and_then(|record| record.estimate),
        }
    };
    claims.iter().map(one).collect()
}

fn list_weir_claims(study: &Study, outcomes: Option<&[ClaimRecord]>) -> Vec<StatementWithStatus> {
    let own = study.claims.iter().map(|claim| claim.get_ref());
    own.filter(|claim| claim.by == weir_stats::ClaimSource::Weir)
        .map(|claim| {
            let evidence = collect_claim_evidence(std::slice::from_ref(&claim.id), outcomes);
            StatementWithStatus {
                number: claim.id.clone(),
                kind: StatementKind::Own,
                place: String::new(),
                text: claim.text.clone(),
                stated: None,
                status: evidence[0].status,
                why: claim.needs.clone(),
                evidence,
            }
        })
        .collect()
}

/// Where the list of a README begins.
pub const README_LIST_START_MARKER: &str = "<!-- weir lab list -->";
/// Where it ends.
pub const README_LIST_END_MARKER: &str = "<!-- /weir lab list -->";

/// The items of a study as the tables of its README: what the paper says, and weir's own claims.
pub fn render_study_markdown_tables(entry: &StudyStatements) -> String {
    let mut text = String::new();
    if !entry.items.is_empty() {
        text.push_str("| | where | what the paper says | its value | here |\n");
        text.push_str("|---|---|---|---|---|\n");
        for item in &entry.items {
            let stated = item.stated.as_deref().unwrap_or("");
            let (number, place, says) = (&item.number, &item.place, &item.text);
            let line = format!(
                "| **{number}** | {place} | {says} | {stated} | {} |\n",
                format_statement_status(item)
            );
            text.push_str(&line);
        }
    }
    if !entry.own.is_empty() {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str("| weir's own claims | here |\n|---|---|\n");
        for item in &entry.own {
            text.push_str(&format!("| {} | {} |\n", item.text, format_statement_status(item)));
        }
    }
    text
}

/// The status with its reason or its numbers.
fn format_statement_status(item: &StatementWithStatus) -> String {
    let mut text = item.status.to_string();
    if let Some(why) = &item.why {
        text.push_str(&format!(": {why}"));
    }
    let numbers: Vec<String> = item
        .evidence
        .iter()
        .filter_map(|one| Some(format_estimate(one.estimate.as_ref()?)))
        .collect();
    if !numbers.is_empty() {
        text.push_str(&format!(": {}", numbers.join("; ")));
    }
    text
}

/// The result of a subject against itself, as a sentence.
pub fn describe_aa_test(kept: &AaTestRecord) -> String {
    let AaTestRecord { date, subject, preset, result, .. } = kept;
    let (of, points) = (result.repetitions, result.points / result.repetitions.max(1));
    let plural = if points == 1 { "" } else { "s" };
    let doubt = if result.passes() { "" } else { ": the method is in doubt here" };
    let day = date.get(..10).unwrap_or(date);
    format!(
        "{subject} against itself: a difference was reported in {} of {of} repetitions with \
         {points} point{plural} each; about 5 % are expected by chance (preset {preset}, {day})\
         {doubt}",
        result.different
    )
}

/// `0.97 (0.95 to 0.99)`.
pub fn format_estimate(estimate: &Estimate) -> String {
    let Estimate { value, lo, hi, .. } = estimate;
    format!(
        "{} ({} to {})",
        format_three_significant_digits(*value),
        format_three_significant_digits(*lo),
        format_three_significant_digits(*hi)
    )
}

/// Three digits that count, without an exponent.
fn format_three_significant_digits(value: f64) -> String {
    let size = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = usize::try_from((2 - size).clamp(0, 6)).unwrap_or(0);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement_with_extra_toml(more: &str) -> Result<StatementWithStatus, String> {
        let text = format!(
            "number = \"X1\"\nkind = \"figure\"\nplace = \"figure 1\"\ntext = \"it falls\"\n{more}"
        );
        evaluate_statement_status(toml::from_str(&text).unwrap(), &["falls"], None)
    }

    #[test]
    fn a_status_comes_from_exactly_one_place() {
        assert_eq!(
            statement_with_extra_toml("needs = \"a ring\"").unwrap().status,
            StatementStatus::NeedsHardware
        );
        assert_eq!(
            statement_with_extra_toml("lost = \"the table\"").unwrap().status,
            StatementStatus::NotPreserved
        );
        assert_eq!(
            statement_with_extra_toml("missing = \"clients\"").unwrap().status,
            StatementStatus::NotBuilt
        );
        assert!(statement_with_extra_toml("").is_err());
        assert!(statement_with_extra_toml("claims = []").is_err());
        assert!(statement_with_extra_toml("needs = \"a\"\nlost = \"b\"").is_err());
    }

    #[test]
    fn nothing_is_reproduced_without_a_run() {
        assert_eq!(
            statement_with_extra_toml("claims = [\"falls\"]").unwrap().status,
            StatementStatus::NotRun
        );
        assert!(
            statement_with_extra_toml("claims = [\"flies\"]")
                .unwrap_err()
                .contains("no claim `flies`")
        );
        let typed = "number = \"X1\"\nkind = \"figure\"\nplace = \"\"\ntext = \"\"\n\
                     status = \"reproduced\"";
        assert!(toml::from_str::<StatementDefinition>(typed).is_err(), "a status cannot be typed");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.001234, 0.97, 12.345, 1234567.0].map(format_three_significant_digits);
        assert_eq!(shown, ["0.00123", "0.970", "12.3", "1234567"]);
    }

    #[test]
    fn a_recorded_aa_test_is_read_and_described() {
        let folder = std::env::temp_dir().join(format!("weir-aa-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(read_aa_test(&folder).unwrap(), None);
        let kept = |different: u32| {
            format!(
                r#"{{"date": "2001-02-03T04:05:06Z", "subject": "nft", "preset": "aa", "seed": 1,
                    "weir": "0", "repetitions": 20, "different": {different}, "points": 40,
                    "points_different": 2}}"#
            )
        };
        fs::write(folder.join(AA_TEST_FILE), kept(1)).unwrap();
        let said = describe_aa_test(&read_aa_test(&folder).unwrap().unwrap());
        let words = "nft against itself: a difference was reported in 1 of 20 repetitions with \
                     2 points each; about 5 % are expected by chance (preset aa, 2001-02-03)";
        assert_eq!(said, words);
        fs::write(folder.join(AA_TEST_FILE), kept(4)).unwrap();
        let said = describe_aa_test(&read_aa_test(&folder).unwrap().unwrap());
        assert!(said.ends_with("the method is in doubt here"), "{said}");
        fs::write(folder.join(AA_TEST_FILE), "{}").unwrap();
        assert!(read_aa_test(&folder).unwrap_err().to_string().contains("aa.json:1"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
