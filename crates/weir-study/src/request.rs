//! What a run requests of a study, and whether the study supports it.

use crate::toml_text::{refused, table_start};
use crate::{LoadedStudy, PresetText, StudyError, WorkloadFeature};

/// What a run requests of a study.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest<'a> {
    /// Name of the preset.
    pub preset: &'a str,
    /// Search the highest rate rather than measure at overload.
    pub search: bool,
    /// Go on with an interrupted run.
    pub resume: bool,
    /// Measure one subject against itself.
    pub against_itself: bool,
}

impl LoadedStudy {
    /// The preset of a request, if the study supports everything requested.
    ///
    /// # Errors
    /// With file and line where the study is the cause, else by the names of the options.
    pub fn preset_for(&self, request: &RunRequest<'_>) -> Result<&PresetText, StudyError> {
        let RunRequest { preset: name, search, resume, against_itself } = *request;
        if !search {
            return self.preset(name);
        }
        for (is_asked, option) in [(resume, "--resume"), (against_itself, "--aa")] {
            if is_asked {
                let what = format!("`--search` and `{option}` exclude each other: remove one");
                return Err(StudyError::Options(what));
            }
        }
        if let Some(why) = self.workload().lacks(WorkloadFeature::Search) {
            let message = format!(
                "{} {why}, and `--search` searches for a rate of frames: run it without `--search`",
                self.workload().name()
            );
            let at = table_start(&self.text, "traffic");
            return Err(refused(&self.path, &self.text, at, message));
        }
        let preset = self.preset(name)?;
        if preset.rate_pps > 0 {
            let message = format!(
                "preset `{name}` has a `rate_pps`, and `--search` starts from the rate without a \
                 limit: choose a preset without `rate_pps`"
            );
            let at = table_start(&self.text, &format!("presets.{name}"));
            return Err(refused(&self.path, &self.text, at, message));
        }
        Ok(preset)
    }
}
