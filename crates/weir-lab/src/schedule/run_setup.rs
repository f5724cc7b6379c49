//! Preparation of a run: files, firewalls.

use weir_stats::Scenario;
use weir_study::{SubjectCopy, trial_plan};

use crate::LabError;
use crate::schedule::run_state::RunState;
use crate::schedule::{ruleset_load_timing, workload_selection};
use crate::topology::FirewallWithCounters;
use crate::trial::empty_firewall_check::check_empty_firewall;
use crate::workload::workload_planner::{TrialParameters, WorkloadPlanner};

impl RunState<'_> {
    pub(super) fn generate_files_and_prepare_subjects(
        &mut self,
        points: &[Scenario],
        rulesets: &[Scenario],
    ) -> Result<(), LabError> {
        let study = &self.loaded_study.study;
        for point in rulesets {
            self.report_step_or_interrupt(&format!("generate the ruleset at {point}"), 0.1)?;
            let record = self.generated_files.generate_ruleset(study, point, self.record_folder)?;
            self.rulesets.extend(record);
            self.generated_files.generate_added_rules(study, point)?;
            for name in self.measurable_subjects().collect::<Vec<_>>() {
                let subject = &self.loaded_study.subjects.0[&name];
                if !subject.prepare.is_empty() {
                    self.report_step_or_interrupt(&format!("prepare {name} at {point}"), 0.5)?;
                }
                self.generated_files.prepare_subject(study, point, &name, &subject.prepare)?;
            }
        }
        for point in points {
            self.report_step_or_interrupt(&format!("generate the frames at {point}"), 0.1)?;
            let facts = self.generated_files.generate_frames_by_study_command(study, point)?;
            self.frame_facts.extend(facts);
        }
        Ok(())
    }

    /// Makes every firewall, probes it empty, and loads its ruleset.
    pub(super) fn set_up_all_firewalls(&mut self, rulesets: &[Scenario]) -> Result<(), LabError> {
        let study = &self.loaded_study.study;
        let again = study.again.as_ref().map(|again| again.subject.get_ref().clone());
        let ipv6 = self.generated_files.has_ipv6_frames();
        if study.probe.is_some() {
            self.runner.resources.topology.route_probes_through_new_firewalls()?;
        }
        for point in rulesets {
            let mut variants: Vec<SubjectCopy> = self
                .measurable_subjects()
                .map(|subject| SubjectCopy { subject, copy_index: 0 })
                .collect();
            let second =
                again.iter().filter(|name| !self.unmeasurable_subjects.contains_key(*name));
            variants
                .extend(second.map(|name| SubjectCopy { subject: name.clone(), copy_index: 1 }));
            for variant in variants {
                self.report_step_or_interrupt(
                    &format!("set up {} at {point}", variant.subject),
                    0.3,
                )?;
                let planner =
                    workload_selection::choose_planner_for_subject(self, &variant.subject);
                let firewall = planner.create_firewall(&mut self.runner.resources, ipv6)?;
                self.check_firewall_without_rules(&*planner, &firewall, point)?;
                match ruleset_load_timing::run_setup_and_time_load(
                    self,
                    &*firewall.command_target,
                    point,
                    &variant.subject,
                )? {
                    Some(_) => drop(self.firewalls.insert((point.clone(), variant), firewall)),
                    None => drop(
                        self.subjects_with_nothing_to_measure
                            .insert((point.clone(), variant.subject)),
                    ),
                }
            }
        }
        Ok(())
    }

    /// Sends traffic through the firewall of a ruleset before the ruleset is loaded, and fails if
    /// anything is lost.
    fn check_firewall_without_rules(
        &mut self,
        planner: &dyn WorkloadPlanner<'_>,
        firewall: &FirewallWithCounters,
        ruleset: &Scenario,
    ) -> Result<(), LabError> {
        // Any point that belongs to this ruleset will do.
        let points = trial_plan::list_grid_points(&self.axes);
        let Some(point) = points.iter().find(|candidate| candidate.has_coordinates_of(ruleset))
        else {
            return Ok(());
        };
        let study = &self.loaded_study.study;
        let (frames_scenario, frames) = self.generated_files.frames_at_point(study, point);
        let trial = TrialParameters {
            scenario: point.clone(),
            run_seed: self.options.seed,
            frames_scenario,
            frames,
            ..TrialParameters::default()
        };
        check_empty_firewall(&mut self.runner, firewall, planner, &trial)
    }
}
