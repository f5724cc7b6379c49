//! The `[probe]` part of a study: additional requests to its firewalls, and the load during them.

use serde::Deserialize;
use toml::Spanned;
use weir_stats::probe_kinds_and_results::{BACKGROUND_LOAD_AXIS, PROBE_KIND_AXIS};
use weir_stats::{BackgroundLoad, Coordinate, ProbeKind};

use crate::trial_plan::PlannedTrial;

/// The `[probe]` of a study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePlan {
    /// The kinds of probes.
    pub kinds: Vec<ProbeKind>,
    /// The load of the firewall; a stream is measured only without load.
    pub loads: Vec<BackgroundLoad>,
    /// Echoes a second.
    pub rate_per_second: u32,
    /// Lines per second sent to a shell: its work must not fill the core by itself.
    #[serde(default = "default_lines_per_second")]
    pub lines_per_second: u32,
    /// The subjects that are probed; all of the study without it.
    #[serde(default)]
    pub subjects: Vec<Spanned<String>>,
}

fn default_lines_per_second() -> u32 {
    100
}

/// The probe of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeKindAndLoad {
    /// The kind of probe.
    pub kind: ProbeKind,
    /// The load of the firewall.
    pub load: BackgroundLoad,
}

impl ProbePlan {
    /// Whether there are trials with this value on one of the axes of probes.
    pub fn includes_probe_axis_value(&self, axis: &str, value: &Coordinate) -> bool {
        let is_it = |name: &str| *value == Coordinate::from(name);
        match axis {
            PROBE_KIND_AXIS => self.kinds.iter().any(|kind| is_it(kind.name())),
            _ => self.loads.iter().any(|load| is_it(load.name())),
        }
    }

    /// Questions a second of a kind.
    pub fn requests_per_second(&self, kind: ProbeKind) -> u32 {
        if kind == ProbeKind::ShellOnFirewall {
            self.lines_per_second
        } else {
            self.rate_per_second
        }
    }

    /// The probe trials after the `planned` ones of a block: each point and subject in forward
    /// order.
    pub fn plan_probe_trials(&self, planned: &[PlannedTrial]) -> Vec<PlannedTrial> {
        let is_probed = |trial: &&PlannedTrial| {
            let subject_copy = &trial.subject_copy;
            let named = self.subjects.iter().any(|name| *name.get_ref() == subject_copy.subject);
            trial.abba_leg == 0
                && subject_copy.copy_index == 0
                && (named || self.subjects.is_empty())
        };
        let mut probes = Vec::new();
        for trial in planned.iter().filter(is_probed) {
            for case in self.kind_and_load_combinations() {
                let scenario = trial.scenario.with_coordinate(PROBE_KIND_AXIS, case.kind.name());
                let scenario = scenario.with_coordinate(BACKGROUND_LOAD_AXIS, case.load.name());
                let order = (planned.len() + probes.len()) as u32;
                probes.push(PlannedTrial { scenario, order_in_block: order, ..trial.clone() });
            }
        }
        probes
    }

    fn kind_and_load_combinations(&self) -> impl Iterator<Item = ProbeKindAndLoad> + '_ {
        let all = self.kinds.iter().flat_map(|kind| {
            self.loads.iter().map(move |load| ProbeKindAndLoad { kind: *kind, load: *load })
        });
        all.filter(|case| {
            case.kind != ProbeKind::BulkTcpStream || case.load == BackgroundLoad::Idle
        })
    }
}

impl ProbeKindAndLoad {
    /// The probe of a planned trial; `None` if it has none.
    pub fn from_planned_trial(trial: &PlannedTrial) -> Option<ProbeKindAndLoad> {
        let is_on =
            |axis, name: &str| trial.scenario.coordinate(axis) == Some(&Coordinate::from(name));
        let kinds =
            [ProbeKind::Icmp, ProbeKind::Udp, ProbeKind::ShellOnFirewall, ProbeKind::BulkTcpStream];
        let loads = [BackgroundLoad::Idle, BackgroundLoad::Frames, BackgroundLoad::BulkTcpStream];
        let kind = kinds.into_iter().find(|kind| is_on(PROBE_KIND_AXIS, kind.name()))?;
        let load = loads.into_iter().find(|load| is_on(BACKGROUND_LOAD_AXIS, load.name()))?;
        Some(ProbeKindAndLoad { kind, load })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_trial_determines_probe_kind_and_load() {
        let subject_copy =
            crate::trial_plan::SubjectCopy { subject: "a".to_owned(), copy_index: 0 };
        let plain = PlannedTrial {
            scenario: weir_stats::Scenario::default(),
            subject_copy,
            block: 0,
            order_in_block: 0,
            abba_leg: 0,
        };
        assert_eq!(ProbeKindAndLoad::from_planned_trial(&plain), None);
        let scenario = plain
            .scenario
            .with_coordinate(PROBE_KIND_AXIS, "shell")
            .with_coordinate(BACKGROUND_LOAD_AXIS, "frames");
        let asking = ProbeKindAndLoad::from_planned_trial(&PlannedTrial { scenario, ..plain });
        assert_eq!(
            asking,
            Some(ProbeKindAndLoad {
                kind: ProbeKind::ShellOnFirewall,
                load: BackgroundLoad::Frames
            })
        );
    }

    #[test]
    fn a_stream_is_combined_only_with_an_idle_firewall() {
        let probing = ProbePlan {
            kinds: vec![ProbeKind::Icmp, ProbeKind::BulkTcpStream],
            loads: vec![BackgroundLoad::Idle, BackgroundLoad::Frames],
            rate_per_second: 100,
            lines_per_second: 100,
            subjects: Vec::new(),
        };
        assert_eq!(probing.kind_and_load_combinations().count(), 3);
        assert!(probing.includes_probe_axis_value(BACKGROUND_LOAD_AXIS, &"frames".into()));
        assert!(!probing.includes_probe_axis_value(BACKGROUND_LOAD_AXIS, &"stream".into()));
    }
}
