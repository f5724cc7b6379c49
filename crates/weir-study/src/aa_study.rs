//! A study of one of its subjects compared with itself.

use toml::Spanned;
use weir_stats::Scenario;

use crate::StudyError;
use crate::loaded_study::LoadedStudy;
use crate::study::{AA_PRESET_NAME, AaControl};

/// Fewest blocks whose range contains the median with a probability of at least 95 %.
const MIN_BLOCKS_OF_95_PERCENT: u32 = 6;

impl LoadedStudy {
    /// Makes it a study of one subject against itself: `times` as many blocks as each preset has,
    /// no claims, and no loads where there is anything else.
    pub fn convert_to_aa_study(&mut self, name: &str, times: u32) -> Result<(), StudyError> {
        self.check_subject_exists(name, 0)?;
        let subject = Spanned::new(0..0, name.to_owned());
        self.check_aa_subject(&subject)?;
        let study = &mut self.study;
        study.subjects = vec![subject.clone()];
        study.again = Some(AaControl { subject, at: Scenario::default() });
        study.claims.clear();
        study.probe = None;
        study.title = format!("{}: {name} against itself", study.title);
        let has_own = study.presets.contains_key(AA_PRESET_NAME);
        if let Some(smoke) = study.presets.get("smoke").filter(|_| !has_own) {
            let short = smoke.reduce_to_two_points_and_three_blocks(&study.axes);
            study.presets.insert(AA_PRESET_NAME.to_owned(), short);
        }
        for preset in study.presets.values_mut() {
            preset.blocks = preset.blocks.max(MIN_BLOCKS_OF_95_PERCENT) * times;
            preset.loads = if study.traffic.is_none() { preset.blocks } else { 0 };
            preset.adds = 0;
        }
        Ok(())
    }

    /// Whether a subject can be measured against itself, be it one of the study's or not.
    fn check_aa_subject(&self, name: &Spanned<String>) -> Result<(), StudyError> {
        let name = name.get_ref();
        self.check_subject_client(name, 0)?;
        let is_baseline = self.subjects.0[name].loads_no_rules;
        let idle = (is_baseline && self.study.traffic.is_none()).then(|| {
            "is a `baseline`: it loads nothing, and the study has no `[traffic]`".to_owned()
        });
        match self.unsupported_connection_path_reason(name).or(idle) {
            Some(why) => {
                Err(StudyError::InvalidOptions(format!("`--aa {name}`: the subject {why}")))
            }
            None => Ok(()),
        }
    }
}
