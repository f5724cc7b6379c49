//! Comparison of a study's definition with the one at the time of a run.
//!
//! A run's folder holds copies of the study and of its subjects. Commands are compared without
//! their comments and line breaks; texts, titles and bounds may change, because they do not affect
//! the measurement.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_stats::{ClaimTest, RunRecord};

use crate::StudyError;
use crate::loaded_study::LoadedStudy;

/// The files of a run that say what was measured.
#[derive(Clone, Debug)]
pub(super) struct DefinitionAtRun {
    study: toml::Table,
    subjects: toml::Table,
}

impl DefinitionAtRun {
    /// Reads the copies in a run's folder.
    pub(super) fn read_from_run_folder(run: &Path) -> Result<DefinitionAtRun, StudyError> {
        let read = |name: &str| -> Result<toml::Table, StudyError> {
            let path = run.join(name);
            let text =
                fs::read_to_string(&path).map_err(StudyError::file_access_error("read", &path))?;
            toml::from_str(&text).map_err(|error| StudyError::InvalidFile {
                path,
                line: 1,
                message: error.message().to_owned(),
            })
        };
        Ok(DefinitionAtRun { study: read("study.toml")?, subjects: read("subjects.toml")? })
    }

    /// Whether the study had this claim with the same test.
    pub(super) fn has_same_test(&self, loaded: &LoadedStudy, claim_id: &str) -> bool {
        let today: toml::Table = toml::from_str(&loaded.text).unwrap_or_default();
        let of_today = find_claim_test(&today, claim_id);
        of_today.is_some() && find_claim_test(&self.study, claim_id) == of_today
    }

    /// The parts on which a test depends and which the study now defines differently: `ruleset`,
    /// `traffic`, `subject NAME`.
    pub(super) fn list_changed_parts(
        &self,
        loaded: &LoadedStudy,
        record: &RunRecord,
        test: &ClaimTest,
    ) -> Vec<String> {
        // The study was loaded, so its text is TOML.
        let today: toml::Table = toml::from_str(&loaded.text).unwrap_or_default();
        let mut changed: Vec<String> = ["ruleset", "traffic"]
            .into_iter()
            .filter(|part| {
                !is_same_but_for_comments_and_hits(self.study.get(*part), today.get(*part))
            })
            .map(str::to_owned)
            .collect();
        for name in subjects_of_test(test) {
            let today = loaded.subjects.0.get(name);
            let then = record.run.subjects.iter().find(|subject| subject.name == name);
            let (Some(today), Some(then)) = (today, then) else { continue };
            // Subjects that all studies share are not in the copy.
            let prepare = self.subjects.get(name).map(|subject| {
                subject.get("prepare").and_then(toml::Value::as_str).unwrap_or_default()
            });
            let is_prepared_alike =
                prepare.is_none_or(|then| is_same_command_but_for_comments(then, &today.prepare));
            if !is_same_command_but_for_comments(&then.load, today.measured_command())
                || !is_prepared_alike
            {
                changed.push(format!("subject {name}"));
            }
        }
        changed
    }
}

fn find_claim_test<'a>(study: &'a toml::Table, claim_id: &str) -> Option<&'a toml::Value> {
    let mut claims = study.get("claims")?.as_array()?.iter();
    claims
        .find(|claim| claim.get("id").and_then(toml::Value::as_str) == Some(claim_id))?
        .get("test")
}

fn subjects_of_test(test: &ClaimTest) -> BTreeSet<&str> {
    match test {
        ClaimTest::Ratio { of, to, .. } => [of, to].map(|place| place.subject.as_str()).into(),
        ClaimTest::Value { of, .. } => [of.subject.as_str()].into(),
        ClaimTest::Growth { subject, above, .. } => {
            let above = above.iter().map(|place| place.subject.as_str());
            std::iter::once(subject.as_str()).chain(above).collect()
        }
    }
}

/// Whether two values are equal but for comments and white space in their texts.
fn is_same_but_for_comments_and_hits(
    first: Option<&toml::Value>,
    second: Option<&toml::Value>,
) -> bool {
    match (first, second) {
        (Some(toml::Value::String(first)), Some(toml::Value::String(second))) => {
            is_same_command_but_for_comments(first, second)
        }
        (Some(toml::Value::Table(first)), Some(toml::Value::Table(second))) => {
            // Expected hits of packets are only checked; they do not change what is sent.
            let keys: BTreeSet<&String> =
                first.keys().chain(second.keys()).filter(|key| *key != "hits").collect();
            keys.into_iter()
                .all(|key| is_same_but_for_comments_and_hits(first.get(key), second.get(key)))
        }
        (first, second) => first == second,
    }
}

fn is_same_command_but_for_comments(first: &str, second: &str) -> bool {
    fn words(command: &str) -> impl Iterator<Item = &str> {
        let is_code = |line: &&str| !line.trim_start().starts_with('#');
        command.lines().filter(is_code).flat_map(str::split_whitespace)
    }
    words(first).eq(words(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_equal_but_for_comments_and_line_breaks() {
        assert!(is_same_command_but_for_comments("# how\nnft -f  a\n", "nft -f a"));
        assert!(!is_same_command_but_for_comments("nft -f a", "nft -f b"));
    }

    #[test]
    fn parts_are_equal_but_for_what_is_expected_of_packets() {
        let table = |text: &str| toml::Value::Table(toml::from_str(text).unwrap());
        let before = table("command = 'weir traffic'\naxes = ['rules']");
        let same = table("command = '''\n# why\nweir traffic'''\naxes = ['rules']\nhits = {}");
        assert!(is_same_but_for_comments_and_hits(Some(&before), Some(&same)));
        let other = table("command = 'weir traffic --pattern end'\naxes = ['rules']");
        assert!(!is_same_but_for_comments_and_hits(Some(&before), Some(&other)));
        assert!(!is_same_but_for_comments_and_hits(Some(&before), None));
    }
}
