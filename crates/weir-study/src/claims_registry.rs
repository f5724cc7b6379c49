//! The statements of the papers, and the status of each.
//!
//! Every study has a `claims.toml`: the numbered figures, tables, observations and conclusions of a
//! paper that belong to it. An item either names claims of the study's `study.toml`, and then its
//! status is *computed* from the records of the complete runs under `runs/`, of which the best one
//! decides ([`kept_runs`]); or it says why there is nothing to compute. No status can be set by
//! hand.

mod definition_at_run;
mod estimate_text;
pub mod kept_runs;
mod objection;
mod objections;
mod statement_status;
mod status_text;
mod study_statements;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_stats::Claim;
use weir_stats::aa_test::AaTestRecord;

use crate::StudyError;
use crate::loaded_study::LoadedStudy;
use crate::study_loader::load_study;
use crate::toml_text::{check_and_deserialize_toml, error_at_offset};
use crate::value_rule_tables::CLAIMS_VALUE_RULES;

pub use self::estimate_text::format_estimate;
pub use self::kept_runs::{KeptRun, format_cpu_for_folder, format_cpu_for_reader};
pub use self::objection::{Objection, ObjectionKind};
pub use self::statement_status::{
    ClaimEvidence, OtherRunEvidence, StatementKind, StatementStatus, StatementWithStatus,
};
pub use self::status_text::{
    README_LIST_END_MARKER, README_LIST_START_MARKER, describe_aa_test, describe_kept_run,
    format_statement_evidence, format_statement_status, render_study_markdown_tables,
};
pub use self::study_statements::StudyStatements;

/// The file of a study's folder that says the result of a subject against itself.
pub const AA_TEST_FILE: &str = "aa.json";

/// The contents of `claims.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    paper: Option<String>,
    title: Option<String>,
    #[serde(default)]
    items: Vec<toml::Spanned<StatementDefinition>>,
}

/// An item of the file: exactly one of the last five keys determines its status.
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
    needs_old_software: Option<String>,
    lost: Option<String>,
    missing: Option<String>,
}

/// All studies of a folder, by name.
///
/// # Errors
/// A folder that cannot be read; with file and line: a `claims.toml` or `study.toml` that is not
/// one, an item that says none or several of `claims`, `needs`, `needs_old_software`, `lost`,
/// `missing`, a claim that the study has not, a number twice; records that cannot be read, or whose
/// folder names another processor.
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

/// One study, by its folder.
///
/// # Errors
/// As [`evaluate_statements_of_all_studies`].
pub fn evaluate_statements_of_study(folder: &Path) -> Result<StudyStatements, StudyError> {
    let whole = folder.canonicalize().map_err(StudyError::file_access_error("read", folder))?;
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.join("claims.toml");
    let text = if path.is_file() {
        fs::read_to_string(&path).map_err(StudyError::file_access_error("read", &path))?
    } else {
        String::new()
    };
    let claims: ClaimsFile = check_and_deserialize_toml(&path, &text, CLAIMS_VALUE_RULES)?;
    let loaded = match folder.join("study.toml").is_file() {
        true => Some(load_study(folder)?),
        false => None,
    };
    let kept = kept_runs::load_kept_runs_best_first(folder)?;
    let evidence = |id: &str| {
        let loaded = loaded.as_ref()?;
        let claim = find_claim(loaded, id)?;
        let evidence = kept_runs::choose_claim_evidence(loaded, claim, &kept);
        let objections = objections::list_claim_objections(loaded, claim, &evidence, &kept);
        Some((evidence, objections))
    };
    let mut items = Vec::new();
    for item in claims.items {
        let at = item.span().start;
        let refuse = |message: String| error_at_offset(&path, &text, at, message);
        items.push(evaluate_statement_status(item.into_inner(), evidence).map_err(refuse)?);
    }
    let own = loaded.as_ref().map_or_else(Vec::new, |study| list_weir_claims(study, evidence));
    let title = match (&loaded, claims.title) {
        (Some(loaded), _) => loaded.study.title.clone(),
        (None, Some(title)) => title,
        (None, None) => {
            let message = "without a study.toml it needs a `title`".to_owned();
            return Err(error_at_offset(&path, &text, 0, message));
        }
    };
    let command = loaded.as_ref().map(|_| format!("weir lab run studies/{name} -o run"));
    let self_test = read_aa_test(folder)?;
    Ok(StudyStatements {
        study: name,
        title,
        paper: claims.paper,
        command,
        run: kept.first().map(|kept| kept.run.folder.clone()),
        runs: kept.into_iter().map(|kept| kept.run).collect(),
        objections: objections::list_aa_objections(self_test.as_ref()),
        self_test,
        items,
        own,
    })
}

fn find_claim<'a>(loaded: &'a LoadedStudy, id: &str) -> Option<&'a Claim> {
    let mut claims = loaded.study.claims.iter().map(toml::Spanned::get_ref);
    claims.find(|claim| claim.id == id)
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

fn evaluate_statement_status(
    item: StatementDefinition,
    evidence_by_claim_id: impl Fn(&str) -> Option<(ClaimEvidence, Vec<Objection>)>,
) -> Result<StatementWithStatus, String> {
    let StatementDefinition {
        number,
        kind,
        place,
        text,
        stated,
        claims,
        needs,
        needs_old_software,
        lost,
        missing,
    } = item;
    let reasons = [
        (StatementStatus::NeedsHardware, needs),
        (StatementStatus::NeedsOldSoftware, needs_old_software),
        (StatementStatus::NotPreserved, lost),
        (StatementStatus::NotBuilt, missing),
    ];
    let mut reasons = reasons.into_iter().filter_map(|(status, why)| Some((status, why?)));
    let mut objections = Vec::new();
    let (status, why, evidence) = match (claims, reasons.next(), reasons.next()) {
        (Some(claims), None, None) if !claims.is_empty() => {
            let mut evidence = Vec::new();
            for id in &claims {
                let absent = || format!("{number}: study.toml has no claim `{id}`");
                let (of_claim, objected) = evidence_by_claim_id(id).ok_or_else(absent)?;
                evidence.push(of_claim);
                objections.extend(objected);
            }
            objections.extend(objections::list_statement_objections(&evidence));
            let worst = evidence.iter().map(|one| one.status).min();
            (worst.unwrap_or(StatementStatus::NotRun), None, evidence)
        }
        (None, Some((status, why)), None) => (status, Some(why), Vec::new()),
        _ => {
            return Err(format!(
                "{number} needs exactly one of `claims`, `needs`, `needs_old_software`, `lost`, \
                 `missing`"
            ));
        }
    };
    Ok(StatementWithStatus { number, kind, place, text, stated, status, why, evidence, objections })
}

fn list_weir_claims(
    loaded: &LoadedStudy,
    evidence: impl Fn(&str) -> Option<(ClaimEvidence, Vec<Objection>)>,
) -> Vec<StatementWithStatus> {
    let own = loaded.study.claims.iter().map(|claim| claim.get_ref());
    own.filter(|claim| claim.by == weir_stats::ClaimSource::Weir)
        .filter_map(|claim| {
            let (of_claim, objections) = evidence(&claim.id)?;
            let evidence = vec![of_claim];
            Some(StatementWithStatus {
                number: claim.id.clone(),
                kind: StatementKind::Own,
                place: String::new(),
                text: claim.text.clone(),
                stated: None,
                status: evidence[0].status,
                why: claim.needs.clone().or_else(|| claim.needs_old_software.clone()),
                evidence,
                objections,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement_with_extra_toml(more: &str) -> Result<StatementWithStatus, String> {
        let text = format!(
            "number = \"X1\"\nkind = \"figure\"\nplace = \"figure 1\"\ntext = \"it falls\"\n{more}"
        );
        let not_run = |id: &str| {
            let evidence = || ClaimEvidence {
                claim: id.to_owned(),
                status: StatementStatus::NotRun,
                estimate: None,
                run: None,
                cpu: None,
                shortcomings: Vec::new(),
                other_runs: Vec::new(),
            };
            (id == "falls").then(|| (evidence(), Vec::new()))
        };
        evaluate_statement_status(toml::from_str(&text).unwrap(), not_run)
    }

    #[test]
    fn a_status_comes_from_exactly_one_key() {
        assert_eq!(
            statement_with_extra_toml("needs = \"a ring\"").unwrap().status,
            StatementStatus::NeedsHardware
        );
        assert_eq!(
            statement_with_extra_toml("needs_old_software = \"Linux 2.4\"").unwrap().status,
            StatementStatus::NeedsOldSoftware
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
    fn a_claim_without_run_is_not_run_and_no_status_is_typed() {
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
    fn a_recorded_aa_test_is_read_and_described() {
        let folder = std::env::temp_dir().join(format!("weir-aa-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(read_aa_test(&folder).unwrap(), None);
        let kept = |different: u32| {
            format!(
                r#"{{"date": "2001-02-03T04:05:06Z", "subject": "nft", "preset": "aa", "seed": 1,
                    "weir": "0", "repetitions": 20, "different": 2, "points": 40,
                    "statistic": "median_interval", "points_different": {different}}}"#
            )
        };
        fs::write(folder.join(AA_TEST_FILE), kept(3)).unwrap();
        let said = describe_aa_test(&read_aa_test(&folder).unwrap().unwrap());
        let words = "nft against itself: the interval excluded 1 at 3 of 40 points in 20 \
                     repetitions; about 5 % are expected by chance (preset aa, 2001-02-03)";
        assert_eq!(said, words);
        fs::write(folder.join(AA_TEST_FILE), kept(9)).unwrap();
        let said = describe_aa_test(&read_aa_test(&folder).unwrap().unwrap());
        assert!(said.ends_with("the method is in doubt here"), "{said}");
        fs::write(folder.join(AA_TEST_FILE), "{}").unwrap();
        assert!(read_aa_test(&folder).unwrap_err().to_string().contains("aa.json:1"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
