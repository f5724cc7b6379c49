//! Reading a study from its folder.

use std::path::Path;

use crate::StudyError;
use crate::loaded_study::LoadedStudy;
use crate::study::Study;
use crate::subject::Subjects;
use crate::toml_text::{check_edit_and_deserialize_toml, error_at_offset, find_key_offset};
use crate::traffic::{Traffic, nest_traffic_fields_under_kind};
use crate::value_rule_tables::STUDY_VALUE_RULES;

/// Reads a study from its folder or its file.
///
/// Its subjects are those of `subjects.toml` next to its folder, and those of `subjects.toml` next
/// to its file, which must have different names.
///
/// # Errors
/// With file and line: text that is no TOML, fields that are not known or are missing, values
/// that are out of their range, subjects, axes or values that are not there.
pub fn load_study(path: &Path) -> Result<LoadedStudy, StudyError> {
    let path = if path.is_dir() { path.join("study.toml") } else { path.to_owned() };
    let text =
        std::fs::read_to_string(&path).map_err(StudyError::file_access_error("read", &path))?;
    let mut study: Study = check_edit_and_deserialize_toml(
        &path,
        &text,
        STUDY_VALUE_RULES,
        nest_traffic_fields_under_kind,
    )?;
    if let Some(devices) = study.traffic.as_ref().and_then(Traffic::required_devices) {
        if let Some(at) = find_key_offset(&text, &["devices"]) {
            let (workload, input) = (study.workload_features().name, &devices.input);
            let message = format!(
                "{workload} has its own devices, `{input}` and `{}`: remove `[devices]`",
                devices.output
            );
            return Err(error_at_offset(&path, &text, at, message));
        }
        study.devices = devices;
    }
    let folder = path.canonicalize().map_err(StudyError::file_access_error("read", &path))?;
    let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
    let beside = folder.join("subjects.toml");
    let above = folder.parent().unwrap_or(Path::new("/")).join("subjects.toml");
    let (subjects, subjects_text) = Subjects::read_disjoint_shared_and_own(&above, &beside)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let loaded = LoadedStudy { name, path, text, study, subjects, subjects_text };
    loaded.check_consistency()?;
    Ok(loaded)
}
