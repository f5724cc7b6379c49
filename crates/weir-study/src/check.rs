//! Consistency checks between the parts of a study's file.

mod paths;
mod preset;

use weir_stats::probe::{KIND_AXIS, LOAD_AXIS};
use weir_stats::{Claim, ClaimTest, Coordinate, Scenario, SubjectPoint};

use crate::StudyError;
use crate::client::ClientKind;
use crate::loaded::LoadedStudy;
use crate::probe::ProbePlan;
use crate::toml_text::{refused, table_start};
use crate::traffic::ConnectionLoad;
use crate::workload::WorkloadFeature;

impl LoadedStudy {
    /// Everything that one part of the file says about another.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        let study = &self.study;
        for name in &study.subjects {
            self.check_subject(name.get_ref(), name.span().start)?;
            self.check_client(name.get_ref(), name.span().start)?;
        }
        let mut sources = vec![&study.ruleset];
        sources.extend(study.frames().into_iter().chain(&study.more));
        for axis in sources.iter().flat_map(|source| &source.axes) {
            self.check_axis(axis.get_ref(), axis.span().start)?;
        }
        let load = study.connections();
        for axis in load.into_iter().flat_map(ConnectionLoad::axes) {
            self.check_axis(axis, table_start(&self.text, "traffic"))?;
        }
        self.check_paths()?;
        if let Some(probing) = &study.probe {
            self.check_probing(probing)?;
        }
        if let Some(again) = &study.again {
            let at = again.subject.span().start;
            self.check_subject(again.subject.get_ref(), at)?;
            self.check_point(&again.at, at)?;
        }
        for (name, preset) in &study.presets {
            let at = table_start(&self.text, &format!("presets.{name}"));
            for (axis, values) in &preset.axes {
                self.check_axis(axis, at)?;
                for value in values {
                    self.check_value(axis, value, at)?;
                }
            }
            if preset.trial_seconds <= 0.0 || preset.trial_seconds > 600.0 || preset.blocks == 0 {
                let message = "a preset needs blocks, and trials of up to 600 seconds".to_owned();
                return Err(refused(&self.path, &self.text, at, message));
            }
            self.check_preset(name, preset)?;
        }
        for claim in &study.claims {
            self.check_claim(claim.get_ref(), claim.span().start)?;
        }
        Ok(())
    }

    fn check_probing(&self, probing: &ProbePlan) -> Result<(), StudyError> {
        let at = table_start(&self.text, "probe");
        for name in &probing.subjects {
            self.check_subject(name.get_ref(), name.span().start)?;
        }
        probing
            .check()
            .and_then(|()| {
                let taken = [KIND_AXIS, LOAD_AXIS]
                    .into_iter()
                    .find(|axis| self.study.axes.contains_key(*axis));
                match (taken, self.workload().lacks(WorkloadFeature::Probe)) {
                    (Some(axis), _) => Err(format!("`[probe]` reserves the axis `{axis}`")),
                    (_, Some(why)) => {
                        let name = self.workload().name();
                        Err(format!("`[probe]` needs `[traffic]` of frames: {name} {why}"))
                    }
                    _ => Ok(()),
                }
            })
            .map_err(|message| refused(&self.path, &self.text, at, message))
    }

    fn check_claim(&self, claim: &Claim, at: usize) -> Result<(), StudyError> {
        let place = |place: &SubjectPoint| {
            self.check_subject(&place.subject, at)?;
            self.check_point(&place.at, at)
        };
        match &claim.test {
            Some(ClaimTest::Ratio { of, to, .. }) => place(of).and_then(|()| place(to)),
            Some(ClaimTest::Value { of, .. }) => place(of),
            Some(ClaimTest::Growth { subject, axis, at: point, above, from, to, .. }) => {
                self.check_subject(subject, at)?;
                self.check_point(point, at)?;
                self.check_value(axis, &Coordinate::Number(*from), at)?;
                self.check_value(axis, &Coordinate::Number(*to), at)?;
                above.as_ref().map_or(Ok(()), place)
            }
            None if claim.needs.is_none() => {
                let message = format!("claim `{}` has neither `test` nor `needs`", claim.id);
                Err(refused(&self.path, &self.text, at, message))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check_subject(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.subjects.0.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.subjects.0.keys().map(String::as_str).collect();
        let message = format!("no subject `{name}`; there are {}", known.join(", "));
        Err(refused(&self.path, &self.text, at, message))
    }

    /// Another client can only replace sockets.
    pub(crate) fn check_client(&self, name: &str, at: usize) -> Result<(), StudyError> {
        let client = self.subjects.0[name].client;
        let has_sockets = self.study.connections().is_some_and(|c| c.sockets.is_some());
        if client == ClientKind::Sockets || has_sockets {
            return Ok(());
        }
        let message = format!("subject `{name}` has a `client`: that needs kind `sockets`");
        Err(refused(&self.path, &self.text, at, message))
    }

    pub(crate) fn check_axis(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.study.axes.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.study.axes.keys().map(String::as_str).collect();
        let message = format!("no axis `{name}`; there are {}", known.join(", "));
        Err(refused(&self.path, &self.text, at, message))
    }

    fn check_value(&self, axis: &str, value: &Coordinate, at: usize) -> Result<(), StudyError> {
        self.check_axis(axis, at)?;
        if self.study.axes[axis].values.contains(value) {
            return Ok(());
        }
        let message = format!("axis `{axis}` has no value {value}");
        Err(refused(&self.path, &self.text, at, message))
    }

    fn check_point(&self, point: &Scenario, at: usize) -> Result<(), StudyError> {
        point.0.iter().try_for_each(|(axis, value)| match &self.study.probe {
            Some(probing) if [KIND_AXIS, LOAD_AXIS].contains(&axis.as_str()) => {
                let found = probing.has(axis, value);
                let message = || format!("`[probe]` has no {axis} `{value}`");
                found.then_some(()).ok_or_else(|| refused(&self.path, &self.text, at, message()))
            }
            _ => self.check_value(axis, value, at),
        })
    }
}
