//! Preparation of a run: limits, files, firewalls.

use weir_stats::Scenario;

use crate::LabError;
use crate::schedule::load;
use crate::schedule::run_state::RunState;
use crate::topology::FirewallWithCounters;
use crate::trial::empty_firewall_check;
use weir_study::{ConcurrencyTarget, Traffic};
use weir_study::{Variant, trial_plan};

impl RunState<'_> {
    /// Raises the limits for the connections that will be open. The session restores them, or the
    /// reaper if the session was killed.
    pub(super) fn raise_conntrack_limits(&mut self, points: &[Scenario]) -> Result<(), LabError> {
        let Some(connection_load) = self.loaded_study.study.connection_load() else {
            return Ok(());
        };
        if matches!(connection_load.concurrency, Some(ConcurrencyTarget::TableLimitPercentAxis(_)))
        {
            // The behaviour at the limit is measured.
            return Ok(());
        }
        let topology = &self.runner.resources.topology;
        let limit = topology.conntrack_limit()?;
        let held = points
            .iter()
            .filter_map(|point| connection_load.concurrent_connections_at(point, limit))
            .max();
        let most = held.unwrap_or(0).max(self.preset.table_entries);
        let place =
            if topology.firewall_host().is_remote() { " on the firewall's host" } else { "" };
        // Half as many again, for what other namespaces hold: the limit is one for all.
        for (key, need) in [
            ("net.netfilter.nf_conntrack_max", most + most / 2),
            ("net.netfilter.nf_conntrack_buckets", most / 2),
        ] {
            let now = self.runner.resources.topology.read_firewall_host_sysctl(key)?;
            if now >= need {
                continue;
            }
            if !self.options.allow_global {
                let what = format!("{most} connections at once");
                return Err(LabError::GlobalSysctlTooLow { what, key, place, now, need });
            }
            self.report_step_or_interrupt(
                &format!("raise {key}{place} from {now} to {need} until the end"),
                0.1,
            )?;
            self.runner
                .resources
                .topology
                .firewall_host()
                .set_machine_sysctl_for_session(key, need)?;
        }
        Ok(())
    }

    pub(super) fn generate_files(
        &mut self,
        points: &[Scenario],
        rulesets: &[Scenario],
    ) -> Result<(), LabError> {
        let study = &self.loaded_study.study;
        for point in rulesets {
            self.report_step_or_interrupt(&format!("generate the ruleset at {point}"), 0.1)?;
            let record = self.files.generate_ruleset(study, point, self.record_folder)?;
            self.rulesets.extend(record);
            self.files.generate_added_rules(study, point)?;
            for name in self.measurable_subjects().collect::<Vec<_>>() {
                let subject = &self.loaded_study.subjects.0[&name];
                if !subject.prepare.is_empty() {
                    self.report_step_or_interrupt(&format!("prepare {name} at {point}"), 0.5)?;
                }
                self.files.prepare_subject(study, point, &name, &subject.prepare)?;
            }
        }
        for point in points {
            self.report_step_or_interrupt(&format!("generate the frames at {point}"), 0.1)?;
            self.files.generate_frames(study, point)?;
        }
        Ok(())
    }

    /// Makes every firewall, probes it empty, and loads its ruleset.
    pub(super) fn set_up_firewalls(&mut self, rulesets: &[Scenario]) -> Result<(), LabError> {
        let study = &self.loaded_study.study;
        let again = study.again.as_ref().map(|again| again.subject.get_ref().clone());
        let ipv6 = self.files.has_ipv6_frames();
        if study.probe.is_some() {
            self.runner.resources.topology.route_probes_through_new_firewalls()?;
        }
        for point in rulesets {
            let mut variants: Vec<Variant> = self
                .measurable_subjects()
                .map(|subject| Variant { subject, copy_index: 0 })
                .collect();
            let second =
                again.iter().filter(|name| !self.unmeasurable_subjects.contains_key(*name));
            variants.extend(second.map(|name| Variant { subject: name.clone(), copy_index: 1 }));
            for variant in variants {
                self.report_step_or_interrupt(
                    &format!("set up {} at {point}", variant.subject),
                    0.3,
                )?;
                let firewall = match (&study.traffic, study.connection_load()) {
                    (Some(Traffic::Loopback(_)), _) => {
                        self.runner.resources.topology.create_loopback_host()?
                    }
                    (_, Some(connection_load)) => {
                        let subject = &self.loaded_study.subjects.0[&variant.subject];
                        self.runner.resources.create_connection_path(
                            subject.path,
                            &connection_load.for_client(subject.client),
                        )?
                    }
                    (_, None) => self.runner.resources.create_firewall(None, ipv6)?,
                };
                self.check_empty_firewall(&firewall, point, &variant)?;
                match load::run_subject_setup_and_load(
                    self,
                    &*firewall.target,
                    point,
                    &variant.subject,
                )? {
                    Some(_) => drop(self.firewalls.insert((point.clone(), variant), firewall)),
                    None => drop(self.nothing_to_measure.insert((point.clone(), variant.subject))),
                }
            }
        }
        Ok(())
    }

    fn check_empty_firewall(
        &mut self,
        firewall: &FirewallWithCounters,
        point: &Scenario,
        variant: &Variant,
    ) -> Result<(), LabError> {
        let study = &self.loaded_study.study;
        let client = self.loaded_study.subjects.0[&variant.subject].client;
        if let Some(connection_load) =
            study.connection_load().map(|connection_load| connection_load.for_client(client))
        {
            return match connection_load.sockets {
                Some(_) => empty_firewall_check::check_socket_connections_complete(
                    &mut self.runner,
                    firewall,
                    &connection_load,
                ),
                None => empty_firewall_check::check_stateless_tcp_completes(
                    &mut self.runner,
                    firewall,
                    self.options.seed,
                ),
            };
        }
        if let Some(Traffic::Loopback(udp)) = study.traffic {
            return empty_firewall_check::check_datagrams_arrive(&mut self.runner, firewall, udp);
        }
        // Any frames that belong to this ruleset will do.
        let points = trial_plan::list_grid_points(&self.axes);
        let Some(point) = points.iter().find(|candidate| candidate.has_coordinates_of(point))
        else {
            return Ok(());
        };
        let (part, frames) = self.files.frames_at_point(study, point);
        self.runner.resources.load_frames_into_generator(&part, frames, self.options.seed)?;
        empty_firewall_check::check_frames_arrive(&mut self.runner, firewall)
    }
}
