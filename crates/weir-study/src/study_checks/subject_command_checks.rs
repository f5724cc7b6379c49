//! Checks of the commands of a subject against what a study measures.

use crate::StudyError;
use crate::loaded_study::LoadedStudy;

impl LoadedStudy {
    /// Whether a subject has the command that the study runs: `load`, or `measure` for look-ups.
    pub(super) fn check_subject_commands(
        &self,
        name: &str,
        offset: usize,
    ) -> Result<(), StudyError> {
        let subject = &self.subjects.0[name];
        let message = match (self.study.measures_lookups(), &*subject.load, &*subject.measure) {
            (false, "", _) => "has no `load`, which puts its rules in force",
            (false, _, measure) if !measure.is_empty() => {
                "has `measure`, which only a study of kind `lookups` runs"
            }
            (true, _, "") => "has no `measure`, which a study of kind `lookups` runs",
            (true, load, _) if !load.is_empty() => {
                "has `load`, but a study of kind `lookups` puts no rules in force"
            }
            _ => return Ok(()),
        };
        Err(self.study_error_at_offset(offset, format!("subject `{name}` {message}")))
    }
}
