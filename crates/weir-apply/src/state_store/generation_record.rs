//! The record of a generation: `generation.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_artefact::CompiledForm;

use super::state_version::STATE_VERSION;

/// A ruleset that was in force or was to be put in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecord {
    /// Version of the file.
    pub(super) version: u32,
    /// Its number.
    pub generation: u32,
    /// Its origin.
    #[serde(flatten)]
    pub kind: GenerationKind,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: GenerationOutcome,
    /// When it was created, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// The command line that created it.
    pub command: Vec<String>,
    /// The generation that was in force before it; none of a snapshot.
    pub previous: Option<u32>,
    /// Whether it was applied with --force, although another program had changed the ruleset.
    #[serde(default)]
    pub ignores_foreign_changes: bool,
    /// How long the change of the ruleset took, in microseconds, from the reading of counters to the
    /// last step; none of a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_microseconds: Option<u64>,
    /// SHA-256 of the files of its ruleset in hexadecimal, by name. While files are replaced, both
    /// that of the old and that of the new one.
    #[serde(default)]
    pub ruleset_sha256: BTreeMap<String, Vec<String>>,
}

/// Stands for the checksum of a file that may be missing while files are replaced.
pub(super) const ABSENT_FILE_DIGEST: &str = "no file";

/// The origin of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GenerationKind {
    /// A copy of the ruleset in force: before weir, or changed by another program.
    Snapshot,
    /// A ruleset that was applied.
    Applied {
        /// Its form.
        form: CompiledForm,
        /// The identity of its artefact.
        artefact_id: String,
        /// The files that it was compiled from; none of a compiled folder.
        sources: Vec<SourceFile>,
    },
}

/// A file that a ruleset was read from, of which the generation has a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its name as it was given.
    pub name: String,
    /// The name of the copy: `iptables`, `ip6tables` or `ipset`.
    pub copy: String,
    /// SHA-256 of its text, in hexadecimal.
    pub sha256: String,
}

/// The outcome of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum GenerationOutcome {
    /// It was created and never in force.
    Prepared,
    /// It was put in force.
    Applied,
    /// It was put in force and confirmed.
    Confirmed,
    /// It was put in force and rolled back.
    RolledBack {
        /// The reason.
        reason: String,
    },
}

impl GenerationRecord {
    /// Creates the record of a new generation.
    pub fn new(
        generation: u32,
        kind: GenerationKind,
        previous: Option<u32>,
        command: &[String],
    ) -> GenerationRecord {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        GenerationRecord {
            version: STATE_VERSION,
            generation,
            kind,
            outcome: GenerationOutcome::Prepared,
            created_unix_seconds: since_1970.map_or(0, |duration| duration.as_secs()),
            command: command.to_vec(),
            previous,
            ignores_foreign_changes: false,
            apply_microseconds: None,
            ruleset_sha256: BTreeMap::new(),
        }
    }

    /// Accepts new files of its ruleset in addition to the old ones.
    pub(super) fn accept_new_digests(&mut self, new: &BTreeMap<String, Vec<String>>) {
        let absent = || vec![ABSENT_FILE_DIGEST.to_owned()];
        for (name, digests) in new {
            let accepted = self.ruleset_sha256.entry(name.clone()).or_insert_with(absent);
            accepted.extend(digests.iter().cloned());
        }
        for (name, accepted) in &mut self.ruleset_sha256 {
            if !new.contains_key(name) {
                accepted.extend(absent());
            }
        }
    }

    /// The identity of its artefact; none of a snapshot.
    pub fn artefact_id(&self) -> Option<&str> {
        match &self.kind {
            GenerationKind::Snapshot => None,
            GenerationKind::Applied { artefact_id, .. } => Some(artefact_id),
        }
    }

    /// `linear`, `tree`, …, or `snapshot`.
    pub fn form_name_or_snapshot(&self) -> &'static str {
        match &self.kind {
            GenerationKind::Snapshot => "snapshot",
            GenerationKind::Applied { form, .. } => form.as_str(),
        }
    }

    /// When it was created, as in RFC 3339.
    pub fn format_creation_time(&self) -> String {
        format_unix_seconds(self.created_unix_seconds)
    }

    /// The files that it was compiled from, with abbreviated digests.
    pub fn describe_sources_or_command(&self) -> String {
        const SHOWN_SHA256_DIGITS: usize = 12;
        let GenerationKind::Applied { sources, artefact_id, .. } = &self.kind else {
            return format!("by {}", self.command.join(" "));
        };
        let file = |source: &SourceFile| {
            let digits = source.sha256.get(..SHOWN_SHA256_DIGITS).unwrap_or_default();
            format!("{} (sha256 {digits}…)", source.name)
        };
        let files: Vec<String> = sources.iter().map(file).collect();
        match files.is_empty() {
            true => format!("compiled directory, artefact {artefact_id}"),
            false => files.join(", "),
        }
    }

    /// Its outcome as text.
    pub fn describe_outcome(&self) -> String {
        match &self.outcome {
            _ if self.kind == GenerationKind::Snapshot => match self.previous {
                None => "saved before the first apply".to_owned(),
                Some(generation) => {
                    format!("saved because another program had changed generation {generation}")
                }
            },
            GenerationOutcome::Prepared => "never in force".to_owned(),
            GenerationOutcome::Applied => "applied".to_owned(),
            GenerationOutcome::Confirmed => "confirmed".to_owned(),
            GenerationOutcome::RolledBack { reason } => format!("rolled back: {reason}"),
        }
    }
}

/// Seconds since 1970 as a date and time in UTC.
fn format_unix_seconds(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    time.map_or_else(|| format!("{seconds} s since 1970"), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(format_unix_seconds(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_unix_seconds(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format_unix_seconds(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let kind = GenerationKind::Applied {
            form: CompiledForm::Tree,
            artefact_id: "0a1b2c3d".to_owned(),
            sources: Vec::new(),
        };
        let mut record = GenerationRecord::new(3, kind, Some(2), &["weir".to_owned()]);
        record.outcome = GenerationOutcome::RolledBack { reason: "x".to_owned() };
        let text = serde_json::to_string(&record).expect("JSON");
        assert_eq!(serde_json::from_str::<GenerationRecord>(&text).expect("a record"), record);
        assert!(text.contains("\"version\":1"), "{text}");
    }
}
