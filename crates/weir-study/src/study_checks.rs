//! Consistency checks between the parts of a study's file.

mod connection_path_checks;
mod preset_checks;
mod subject_command_checks;

use weir_stats::probe_kinds_and_results::{BACKGROUND_LOAD_AXIS, PROBE_KIND_AXIS};
use weir_stats::{Claim, ClaimTest, Coordinate, Scenario, SubjectPoint};

use crate::StudyError;
use crate::client_kind::ClientKind;
use crate::loaded_study::LoadedStudy;
use crate::probe_plan::ProbePlan;
use crate::traffic::Traffic;
use crate::traffic::traffic_axis::TrafficAxis;

impl LoadedStudy {
    /// Everything that one part of the file says about another.
    pub(crate) fn check_consistency(&self) -> Result<(), StudyError> {
        let study = &self.study;
        for name in &study.subjects {
            self.check_subject_exists(name.get_ref(), name.span().start)?;
            self.check_subject_client(name.get_ref(), name.span().start)?;
            self.check_subject_commands(name.get_ref(), name.span().start)?;
        }
        for axis in &study.ruleset.axes {
            self.check_axis_exists(axis.get_ref(), axis.span().start)?;
        }
        for axis in study.traffic.iter().flat_map(Traffic::axes) {
            self.check_traffic_axis(&axis)?;
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
            self.check_scenario_coordinates_exist(&again.at, at)?;
        }
        for (name, preset) in &study.presets {
            for (axis, values) in &preset.axes {
                let at = self.key_or_enclosing_table_offset(&["presets", name, "axes", axis]);
                self.check_axis_exists(axis, at)?;
                for value in values {
                    self.check_axis_value_exists(axis, value, at)?;
                }
            }
            self.refuse_unsupported_preset_fields(name, preset)?;
        }
        for claim in &study.claims {
            self.check_claim(claim.get_ref(), claim.span().start)?;
        }
        self.check_titled_axis_values_exist()?;
        self.check_claims_of_paper_values_exist()
    }

    /// Whether an axis of the traffic is there, and has values that its field gives a meaning.
    fn check_traffic_axis(&self, axis: &TrafficAxis<'_>) -> Result<(), StudyError> {
        let TrafficAxis { name, traffic_field, offset, allowed_numbers } = axis;
        let at = offset
            .unwrap_or_else(|| self.key_or_enclosing_table_offset(&["traffic", traffic_field]));
        self.check_axis_exists(name, at)?;
        let Some(allowed_numbers) = allowed_numbers else { return Ok(()) };
        let is_one = |value: &Coordinate| {
            value.as_number().is_some_and(|number| allowed_numbers.contains(&number))
        };
        let Some(value) = self.study.axes[*name].values.iter().find(|value| !is_one(value)) else {
            return Ok(());
        };
        let (first, last) = (allowed_numbers.start(), allowed_numbers.end());
        let message =
            format!("axis `{name}` has {value}: `{traffic_field}` takes {first} to {last}");
        Err(self.study_error_at_offset(at, message))
    }

    /// Whether each title of a value is that of one on its axis.
    fn check_titled_axis_values_exist(&self) -> Result<(), StudyError> {
        for (name, axis) in &self.study.axes {
            for titled in axis.titles.keys() {
                if !axis.values.iter().any(|value| value.to_string() == *titled) {
                    let message = format!("axis `{name}` has no value `{titled}` to be titled");
                    return Err(self.study_error_at_key(&["axes", name, "titles", titled], message));
                }
            }
        }
        Ok(())
    }

    /// Whether each claim that a value of the paper names is there.
    fn check_claims_of_paper_values_exist(&self) -> Result<(), StudyError> {
        let ids = || self.study.claims.iter().map(|claim| claim.get_ref().id.as_str());
        let named = self.study.paper_values.iter().filter_map(|value| value.claim.as_ref());
        match named.into_iter().find(|name| !ids().any(|id| id == name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let message = format!("no claim `{name}`; there are {}", join_names(ids()));
                Err(self.study_error_at_key(&["paper_values"], message))
            }
        }
    }

    fn check_probe_plan(&self, probing: &ProbePlan) -> Result<(), StudyError> {
        for name in &probing.subjects {
            self.check_subject_exists(name.get_ref(), name.span().start)?;
        }
        let is_taken =
            |axis: &&str| self.study.axes.keys().any(|own| own.eq_ignore_ascii_case(axis));
        let taken = [PROBE_KIND_AXIS, BACKGROUND_LOAD_AXIS].into_iter().find(is_taken);
        let workload = self.study.workload_features();
        let message = match (taken, workload.latency_probe) {
            (Some(axis), _) => format!("`[probe]` reserves the axis `{axis}`"),
            (None, Err(why)) => {
                format!("`[probe]` needs `[traffic]` of frames: {} {why}", workload.name)
            }
            (None, Ok(())) => return Ok(()),
        };
        Err(self.study_error_at_key(&["probe"], message))
    }

    fn check_claim(&self, claim: &Claim, at: usize) -> Result<(), StudyError> {
        let place = |place: &SubjectPoint| {
            self.check_subject_exists(&place.subject, at)?;
            self.check_scenario_coordinates_exist(&place.at, at)
        };
        match &claim.test {
            Some(ClaimTest::Ratio { of, to, .. }) => place(of).and_then(|()| place(to)),
            Some(ClaimTest::Value { of, .. }) => place(of),
            Some(ClaimTest::Growth { subject, axis, at: point, above, from, to, .. }) => {
                self.check_subject_exists(subject, at)?;
                self.check_scenario_coordinates_exist(point, at)?;
                self.check_axis_value_exists(axis, &Coordinate::Number(*from), at)?;
                self.check_axis_value_exists(axis, &Coordinate::Number(*to), at)?;
                above.as_ref().map_or(Ok(()), place)
            }
            None if claim.needs.is_none() == claim.needs_old_software.is_none() => {
                let message = format!(
                    "claim `{}` needs exactly one of `test`, `needs`, `needs_old_software`",
                    claim.id
                );
                Err(self.study_error_at_offset(at, message))
            }
            None => Ok(()),
        }?;
        let Some(test) = &claim.test else { return Ok(()) };
        let contradiction = claim
            .expects
            .as_ref()
            .and_then(|expects| expects.contradiction(test.reproduced_bounds()));
        let message = if let Some(why) = contradiction {
            format!("{why}: the test is in the wrong direction, or its bounds are")
        } else if let Some(why) = find_reason_true_by_construction(test) {
            why
        } else {
            return Ok(());
        };
        Err(self.study_error_at_offset(at, format!("claim `{}`: {message}", claim.id)))
    }

    pub(crate) fn check_subject_exists(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.subjects.0.contains_key(name) {
            return Ok(());
        }
        let known = join_names(self.subjects.0.keys().map(String::as_str));
        let message = format!("no subject `{name}`; there are {known}");
        Err(self.study_error_at_offset(at, message))
    }

    /// Another client can only replace sockets.
    pub(crate) fn check_subject_client(&self, name: &str, at: usize) -> Result<(), StudyError> {
        let client = self.subjects.0[name].client;
        let has_sockets =
            self.study.connection_load().is_some_and(|c| c.kernel_socket_clients.is_some());
        if client == ClientKind::Sockets || has_sockets {
            return Ok(());
        }
        let message = format!("subject `{name}` has a `client`: that needs kind `sockets`");
        Err(self.study_error_at_offset(at, message))
    }

    pub(crate) fn check_axis_exists(&self, name: &str, at: usize) -> Result<(), StudyError> {
        if self.study.axes.contains_key(name) {
            return Ok(());
        }
        let known = join_names(self.study.axes.keys().map(String::as_str));
        let message = format!("no axis `{name}`; there are {known}");
        Err(self.study_error_at_offset(at, message))
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
        Err(self.study_error_at_offset(at, message))
    }

    fn check_scenario_coordinates_exist(
        &self,
        point: &Scenario,
        at: usize,
    ) -> Result<(), StudyError> {
        point.0.iter().try_for_each(|(axis, value)| match &self.study.probe {
            Some(probing) if [PROBE_KIND_AXIS, BACKGROUND_LOAD_AXIS].contains(&axis.as_str()) => {
                let found = probing.includes_probe_axis_value(axis, value);
                let message = || format!("`[probe]` has no {axis} `{value}`");
                found.then_some(()).ok_or_else(|| self.study_error_at_offset(at, message()))
            }
            _ => self.check_axis_value_exists(axis, value, at),
        })
    }
}

/// Why a test cannot fail whatever is measured, if it cannot.
fn find_reason_true_by_construction(test: &ClaimTest) -> Option<String> {
    let within = test.reproduced_bounds();
    match test {
        ClaimTest::Ratio { of, to, .. } if of == to => {
            Some("both sides of the ratio are the same: it is 1 whatever is measured".to_owned())
        }
        ClaimTest::Growth { from, to, .. } if from >= to => {
            Some(format!("growth from {from} to {to} has no exponent"))
        }
        ClaimTest::Ratio { .. } | ClaimTest::Value { .. }
            if within.max.is_none() && within.min.is_some_and(|min| min <= 0.0) =>
        {
            Some("no quantity is negative: any number reproduces it".to_owned())
        }
        ClaimTest::Ratio { .. } | ClaimTest::Value { .. } | ClaimTest::Growth { .. } => None,
    }
}

/// The names that there are, in a message.
fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
