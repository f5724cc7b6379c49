//! Checks of the fields of a preset.

use crate::StudyError;
use crate::loaded_study::LoadedStudy;
use crate::study::PresetDefinition;

impl LoadedStudy {
    /// Refuses a preset whose fields request what the study does not support.
    pub(crate) fn refuse_unsupported_preset_fields(
        &self,
        name: &str,
        preset: &PresetDefinition,
    ) -> Result<(), StudyError> {
        let workload = self.study.workload_features();
        let refuse = |field: &str, why: String| {
            let message = format!("preset `{name}` has `{field}`: {why}");
            Err(self.study_error_at_key(&["presets", name, field], message))
        };
        for (is_asked, field, support) in [
            (preset.rate_pps > 0, "rate_pps", workload.fixed_rate),
            (preset.table_entries > 0, "table_entries", workload.conntrack_table_size),
        ] {
            if let Some(why) = support.err().filter(|_| is_asked) {
                return refuse(field, format!("{} {why}", workload.name));
            }
        }
        let has_rates =
            self.study.connection_load().is_some_and(|c| c.preset_rate_override_axis.is_some());
        match () {
            () if preset.rate_pps > 0 && has_rates => {
                refuse("rate_pps", "the study has its rates on `rate_axis`".to_owned())
            }
            () if preset.probe_seconds > 0.0 && self.study.probe.is_none() => {
                refuse("probe_seconds", "the study has no `[probe]`".to_owned())
            }
            () if self.study.traffic.is_none() && preset.loads == 0 && preset.adds == 0 => refuse(
                "loads",
                "the study has no `[traffic]`, so it measures only loads".to_owned(),
            ),
            () if self.study.measures_lookups() && preset.loads + preset.adds > 0 => refuse(
                if preset.loads > 0 { "loads" } else { "adds" },
                format!("{} puts no rules in force", workload.name),
            ),
            () if preset.adds > 0 && self.study.more.is_none() => {
                refuse("adds", "the study has no `[more]`".to_owned())
            }
            () => Ok(()),
        }
    }
}
