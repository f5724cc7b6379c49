//! Limits of the connection table for the connections of a study.

use weir_stats::Scenario;
use weir_study::ConcurrencyTarget;

use crate::LabError;
use crate::schedule::run_state::RunState;

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
}
