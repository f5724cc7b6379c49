//! A study with its subjects, and the files from which they were read.

use std::path::PathBuf;

use crate::StudyError;
use crate::study::{PresetText, Study};
use crate::subject::Subjects;
use crate::toml_text::{refused, table_start};
use crate::workload::WorkloadKind;

/// A study, its subjects, and where they were read.
#[derive(Clone, Debug)]
pub struct LoadedStudy {
    /// Name of the study's folder.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Text of its file.
    pub text: String,
    /// The study.
    pub study: Study,
    /// Subjects of the file next to its folder.
    pub subjects: Subjects,
    /// Text of that file.
    pub subjects_text: String,
}

impl LoadedStudy {
    /// The preset of that name.
    ///
    /// # Errors
    /// [`StudyError::Preset`] if there is none.
    pub fn preset(&self, name: &str) -> Result<&PresetText, StudyError> {
        self.study.presets.get(name).ok_or_else(|| StudyError::Preset {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.study.presets.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// What the study measures.
    pub fn workload(&self) -> WorkloadKind {
        WorkloadKind::of(self.study.traffic.as_ref())
    }

    /// What is wrong at the table of that name.
    pub(crate) fn refused_at(&self, table: &str, message: String) -> StudyError {
        refused(&self.path, &self.text, table_start(&self.text, table), message)
    }
}
