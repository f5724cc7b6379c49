//! A study with its subjects, and the files from which they were read.

use std::path::PathBuf;

use crate::StudyError;
use crate::study::{PresetDefinition, Study};
use crate::subject::Subjects;
use crate::toml_text::{error_at_offset, find_key_offset};

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
    /// [`StudyError::UnknownPreset`] if there is none.
    pub fn find_preset(&self, name: &str) -> Result<&PresetDefinition, StudyError> {
        self.study.presets.get(name).ok_or_else(|| StudyError::UnknownPreset {
            path: self.path.clone(),
            name: name.to_owned(),
            known: self.study.presets.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// What is wrong at an offset of the study's text.
    pub(crate) fn study_error_at_offset(&self, offset: usize, message: String) -> StudyError {
        error_at_offset(&self.path, &self.text, offset, message)
    }

    /// What is wrong at a key of the study.
    pub(crate) fn study_error_at_key(&self, path: &[&str], message: String) -> StudyError {
        self.study_error_at_offset(self.key_or_enclosing_table_offset(path), message)
    }

    /// Offset of a key of the study, or of the innermost table of its path that is there.
    pub(crate) fn key_or_enclosing_table_offset(&self, path: &[&str]) -> usize {
        let mut prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
        prefixes.find_map(|path| find_key_offset(&self.text, path)).unwrap_or(0)
    }
}
