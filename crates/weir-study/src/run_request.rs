//! What a run requests of a study, and whether the study supports it.

use crate::{LoadedStudy, PresetDefinition, StudyError};

/// What a run requests of a study.
#[derive(Clone, Copy, Debug)]
pub struct PresetAndRunMode<'a> {
    /// Name of the preset.
    pub preset_name: &'a str,
    /// Search the highest rate rather than measure at overload.
    pub search_rate: bool,
    /// Go on with an interrupted run.
    pub resume: bool,
    /// Measure one subject against itself.
    pub aa_test: bool,
}

impl LoadedStudy {
    /// The preset of a request, if the study supports everything requested.
    ///
    /// # Errors
    /// With file and line where the study is the cause, else by the names of the options.
    pub fn check_request_and_find_preset(
        &self,
        request: &PresetAndRunMode<'_>,
    ) -> Result<&PresetDefinition, StudyError> {
        let PresetAndRunMode {
            preset_name: name,
            search_rate: search,
            resume,
            aa_test: against_itself,
        } = *request;
        if !search {
            return self.find_preset(name);
        }
        for (is_asked, option) in [(resume, "--resume"), (against_itself, "--aa")] {
            if is_asked {
                let what = format!("`--search` and `{option}` exclude each other: remove one");
                return Err(StudyError::InvalidOptions(what));
            }
        }
        let workload = self.study.workload_features();
        if let Err(why) = workload.rate_search {
            let message = format!(
                "{} {why}, and `--search` searches for a rate of frames: run it without `--search`",
                workload.name
            );
            return Err(self.study_error_at_key(&["traffic"], message));
        }
        let preset = self.find_preset(name)?;
        if preset.rate_pps > 0 {
            let message = format!(
                "preset `{name}` has a `rate_pps`, and `--search` starts from the rate without a \
                 limit: choose a preset without `rate_pps`"
            );
            return Err(self.study_error_at_key(&["presets", name, "rate_pps"], message));
        }
        Ok(preset)
    }
}
