//! Preparation of a run: limits, files, firewalls.

use weir_stats::Scenario;

use crate::LabError;
use crate::schedule::load;
use crate::schedule::state::RunState;
use crate::topology::TestFirewall;
use crate::trial::empty;
use weir_study::Hold;
use weir_study::{Variant, plan};

impl RunState<'_> {
    /// Raises the limits for the connections that will be open. The session restores them, or the
    /// reaper if the session was killed.
    pub(super) fn raise_limits(&mut self, points: &[Scenario]) -> Result<(), LabError> {
        let Some(connection_load) = self.loaded.study.connections() else { return Ok(()) };
        if matches!(connection_load.hold, Some(Hold::Limit(_))) {
            // The behaviour at the limit is measured.
            return Ok(());
        }
        let topology = &self.runner.stage.topology;
        let limit = topology.table_limit()?;
        let held = points.iter().filter_map(|point| connection_load.held_at(point, limit)).max();
        let most = held.unwrap_or(0).max(self.preset.table_entries);
        let place = if topology.host().is_remote() { " on the firewall's host" } else { "" };
        // Half as many again, for what other namespaces hold: the limit is one for all.
        for (key, need) in [
            ("net.netfilter.nf_conntrack_max", most + most / 2),
            ("net.netfilter.nf_conntrack_buckets", most / 2),
        ] {
            let now = self.runner.stage.topology.machine_sysctl(key)?;
            if now >= need {
                continue;
            }
            if !self.options.allow_global {
                let what = format!("{most} connections at once");
                return Err(LabError::Global { what, key, place, now, need });
            }
            self.step(&format!("raise {key}{place} from {now} to {need} until the end"), 0.1)?;
            self.runner.stage.topology.host().raise_sysctl(key, need)?;
        }
        Ok(())
    }

    pub(super) fn make_files(
        &mut self,
        points: &[Scenario],
        rulesets: &[Scenario],
    ) -> Result<(), LabError> {
        let study = &self.loaded.study;
        for point in rulesets {
            self.step(&format!("generate the ruleset at {point}"), 0.1)?;
            let record = self.files.make_ruleset(study, point, self.out)?;
            self.rulesets.extend(record);
            self.files.make_more(study, point)?;
            for name in self.subjects().collect::<Vec<_>>() {
                let subject = &self.loaded.subjects.0[&name];
                if !subject.prepare.is_empty() {
                    self.step(&format!("prepare {name} at {point}"), 0.5)?;
                }
                self.files.prepare(study, point, &name, &subject.prepare)?;
            }
        }
        for point in points {
            self.step(&format!("generate the frames at {point}"), 0.1)?;
            self.files.make_frames(study, point)?;
        }
        Ok(())
    }

    /// Makes every firewall, probes it empty, and loads its ruleset.
    pub(super) fn set_up(&mut self, rulesets: &[Scenario]) -> Result<(), LabError> {
        let study = &self.loaded.study;
        let again = study.again.as_ref().map(|again| again.subject.get_ref().clone());
        let ipv6 = self.files.has_ipv6();
        if study.probe.is_some() {
            self.runner.stage.topology.enable_probe_routes()?;
        }
        for point in rulesets {
            let mut variants: Vec<Variant> =
                self.subjects().map(|subject| Variant { subject, copy: 0 }).collect();
            let second = again.iter().filter(|name| !self.lacking.contains_key(*name));
            variants.extend(second.map(|name| Variant { subject: name.clone(), copy: 1 }));
            for variant in variants {
                self.step(&format!("set up {} at {point}", variant.subject), 0.3)?;
                let firewall = match (study.loopback(), study.connections()) {
                    (Some(_), _) => self.runner.stage.topology.lone_host()?,
                    (None, Some(connection_load)) => {
                        let subject = &self.loaded.subjects.0[&variant.subject];
                        self.runner
                            .stage
                            .between(subject.path, &connection_load.by(subject.client))?
                    }
                    (None, None) => self.runner.stage.firewall(None, ipv6)?,
                };
                self.probe(&firewall, point, &variant)?;
                match load::load(self, &*firewall.target, point, &variant.subject)? {
                    Some(_) => drop(self.firewalls.insert((point.clone(), variant), firewall)),
                    None => drop(self.left_out.insert((point.clone(), variant.subject))),
                }
            }
        }
        Ok(())
    }

    fn probe(
        &mut self,
        firewall: &TestFirewall,
        point: &Scenario,
        variant: &Variant,
    ) -> Result<(), LabError> {
        let study = &self.loaded.study;
        let client = self.loaded.subjects.0[&variant.subject].client;
        if let Some(connection_load) =
            study.connections().map(|connection_load| connection_load.by(client))
        {
            return match connection_load.sockets {
                Some(_) => empty::fetches(&mut self.runner, firewall, &connection_load),
                None => empty::connections(&mut self.runner, firewall, self.options.seed),
            };
        }
        if let Some(udp) = study.loopback() {
            return empty::datagrams(&mut self.runner, firewall, udp);
        }
        // Any frames that belong to this ruleset will do.
        let points = plan::grid(&self.axes);
        let Some(point) = points.iter().find(|candidate| candidate.contains(point)) else {
            return Ok(());
        };
        let (part, frames) = self.files.frames(study, point);
        self.runner.stage.load_frames(&part, frames, self.options.seed)?;
        empty::frames(&mut self.runner, firewall)
    }
}
