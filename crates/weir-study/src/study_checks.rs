//! Consistency checks between the parts of a study's file.

mod connection_path_checks;
mod preset_checks;

use weir_stats::probe_result::{BACKGROUND_LOAD_AXIS, PROBE_KIND_AXIS};
use weir_stats::{Claim, ClaimTest, Coordinate, Scenario, SubjectPoint};

use crate::StudyError;
use crate::client_kind::ClientKind;
use crate::loaded_study::LoadedStudy;
use crate::probe_plan::ProbePlan;
use crate::toml_text::{error_at_offset, table_header_offset};
use crate::traffic::Traffic;

impl LoadedStudy {
    /// Everything that one part of the file says about another.
    pub(crate) fn check_consistency(&self) -> Result<(), StudyError> {
        let study = &self.study;
        for name in &study.subjects {
            self.check_subject_exists(name.get_ref(), name.span().start)?;
            self.check_subject_client(name.get_ref(), name.span().start)?;
        }
        for axis in &study.ruleset.axes {
            self.check_axis_exists(axis.get_ref(), axis.span().start)?;
        }
        for axis in study.traffic.iter().flat_map(Traffic::axes) {
            let at = axis.offset.unwrap_or_else(|| table_header_offset(&self.text, "traffic"));
            self.check_axis_exists(axis.name, at)?;
        }
        for axis in study.more.iter().flat_map(|more| &more.axes) {
            self.check_axis_exists(axis.get_ref(), axis.span().start)?;
        }
        self.check_connection_paths()?;
        if let Some(probing) = &study.probe {
            self.check_probe_plan(probing)?;
        }
        if let Some(again) = &study.again {
            let at = again.subject.span().start;
            self.check_subject_exists(again.subject.get_ref(), at)?;
            self.check_scenario(&again.at, at)?;
        }
        for (name, preset) in &study.presets {
            let at = table_header_offset(&self.text, &format!("presets.{name}"));
            for (axis, values) in &preset.axes {
                self.check_axis_exists(axis, at)?;
                for value in values {
                    self.check_axis_value_exists(axis, value, at)?;
                }
            }
            if preset.trial_seconds <= 0.0 || preset.trial_seconds > 600.0 || preset.blocks == 0 {
                let message = "a preset needs blocks, and trials of up to 600 seconds".to_owned();
                return Err(error_at_offset(&self.path, &self.text, at, message));
            }
            self.refuse_unsupported_preset_fields(name, preset)?;
        }
        for claim in &study.claims {
            self.check_claim(claim.get_ref(), claim.span().start)?;
        }
        Ok(())
    }

    fn check_probe_plan(&self, probing: &ProbePlan) -> Result<(), StudyError> {
        let at = table_header_offset(&self.text, "probe");
        for name in &probing.subjects {
            self.check_subject_exists(name.get_ref(), name.span().start)?;
        }
        probing
            .validate()
            .and_then(|()| {
                let taken = [PROBE_KIND_AXIS, BACKGROUND_LOAD_AXIS]
                    .into_iter()
                    .find(|axis| self.study.axes.contains_key(*axis));
                let workload = self.study.workload_row();
                match (taken, workload.latency_probe) {
                    (Some(axis), _) => Err(format!("`[probe]` reserves the axis `{axis}`")),
                    (None, Err(why)) => {
                        let name = workload.name;
                        Err(format!("`[probe]` needs `[traffic]` of frames: {name} {why}"))
                    }
                    (None, Ok(())) => Ok(()),
                }
            })
            .map_err(|message| error_at_offset(&self.path, &self.text, at, message))
    }

    fn check_claim(&self, claim: &Claim, at: usize) -> Result<(), StudyError> {
        let place = |place: &SubjectPoint| {
            self.check_subject_exists(&place.subject, at)?;
            self.check_scenario(&place.at, at)
        };
        match &claim.test {
            Some(ClaimTest::Ratio { of, to, .. }) => place(of).and_then(|()| place(to)),
            Some(ClaimTest::Value { of, .. }) => place(of),
            Some(ClaimTest::Growth { subject, axis, at: point, above, from, to, .. }) => {
                self.check_subject_exists(subject, at)?;
                self.check_scenario(point, at)?;
                self.check_axis_value_exists(axis, &Coordinate::Number(*from), at)?;
                self.check_axis_value_exists(axis, &Coordinate::Number(*to), at)?;
                above.as_ref().map_or(Ok(()), place)
            }
            None if claim.needs.is_none() => {
                let message = format!("claim `{}` has neither `test` nor `needs`", claim.id);
                Err(error_at_offset(&self.path, &self.text, at, message))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check_subject_exists(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.subjects.0.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.subjects.0.keys().map(String::as_str).collect();
        let message = format!("no subject `{name}`; there are {}", known.join(", "));
        Err(error_at_offset(&self.path, &self.text, at, message))
    }

    /// Another client can only replace sockets.
    pub(crate) fn check_subject_client(&self, name: &str, at: usize) -> Result<(), StudyError> {
        let client = self.subjects.0[name].client;
        let has_sockets = self.study.connection_load().is_some_and(|c| c.sockets.is_some());
        if client == ClientKind::Sockets || has_sockets {
            return Ok(());
        }
        let message = format!("subject `{name}` has a `client`: that needs kind `sockets`");
        Err(error_at_offset(&self.path, &self.text, at, message))
    }

    pub(crate) fn check_axis_exists(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.study.axes.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.study.axes.keys().map(String::as_str).collect();
        let message = format!("no axis `{name}`; there are {}", known.join(", "));
        Err(error_at_offset(&self.path, &self.text, at, message))
    }

    fn check_axis_value_exists(
        &self,
        axis: &str,
        value: &Coordinate,
        at: usize,
    ) -> Result<(), StudyError> {
        self.check_axis_exists(axis, at)?;
        if self.study.axes[axis].values.contains(value) {
            return Ok(());
        }
        let message = format!("axis `{axis}` has no value {value}");
        Err(error_at_offset(&self.path, &self.text, at, message))
    }

    fn check_scenario(&self, point: &Scenario, at: usize) -> Result<(), StudyError> {
        point.0.iter().try_for_each(|(axis, value)| match &self.study.probe {
            Some(probing) if [PROBE_KIND_AXIS, BACKGROUND_LOAD_AXIS].contains(&axis.as_str()) => {
                let found = probing.includes_probe_axis_value(axis, value);
                let message = || format!("`[probe]` has no {axis} `{value}`");
                found
                    .then_some(())
                    .ok_or_else(|| error_at_offset(&self.path, &self.text, at, message()))
            }
            _ => self.check_axis_value_exists(axis, value, at),
        })
    }
}
