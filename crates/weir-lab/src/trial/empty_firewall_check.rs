//! Firewalls without rules: everything that is sent through them must arrive. A link that is set up
//! wrongly always loses packets, without any error.

use crate::LabError;
use crate::topology::FirewallWithCounters;
use crate::trial::runner::{DropCountSource, TrialObservation, TrialRunner};
use crate::workload::workload_planner::{TrialParameters, WorkloadPlanner};
use crate::workload::workload_trait::WorkloadOutcome;

/// Sends a short workload through a firewall without rules; some are tried several times.
///
/// # Errors
/// [`LabError::EmptyFirewallLoss`] if something is missing after the last try.
pub(crate) fn check_empty_firewall(
    runner: &mut TrialRunner,
    firewall: &FirewallWithCounters,
    planner: &dyn WorkloadPlanner<'_>,
    trial: &TrialParameters<'_>,
) -> Result<(), LabError> {
    let mut last = Ok(());
    for _ in 0..planner.max_empty_firewall_check_tries() {
        let mut workload = planner.plan_empty_firewall_trial(&mut runner.resources, trial)?;
        let seen = runner.run_trial(firewall, &mut *workload, DropCountSource::NotCounted)?;
        let TrialObservation { send_result, arrived, trial_results, drop_counts, .. } = seen;
        let outcome = WorkloadOutcome { send_result, arrived, trial_results };
        let Some(missing) = planner.find_empty_firewall_loss(&outcome, &drop_counts) else {
            return Ok(());
        };
        last = Err(LabError::EmptyFirewallLoss {
            arrived: missing.arrived,
            offered: missing.offered,
            unit: missing.unit,
            namespace: firewall.namespace_name().to_owned(),
            why: missing.reasons.join(", "),
        });
    }
    last
}
