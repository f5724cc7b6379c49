//! Numbers of a trial from which the quantities are read.

use crate::duration_distribution::DurationDistribution;
use crate::trial::Trial;

/// Packets per second of a trial; `None` if it took no time.
pub(super) fn divide_count_by_trial_seconds(packets: u64, trial: &Trial) -> Option<f64> {
    (trial.seconds > 0.0).then(|| packets as f64 / trial.seconds)
}

/// A share; `None` of nothing.
pub(super) fn share_of_total(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

pub(super) fn snmp_counter_or_zero(trial: &Trial, counter: &str) -> u64 {
    trial.observations.snmp.get(counter).copied().unwrap_or(0)
}

pub(super) fn completed_connections_per_second(trial: &Trial) -> Option<f64> {
    let completed = trial.connection_counts()?.completed;
    (trial.seconds > 0.0).then(|| completed as f64 / trial.seconds)
}

pub(super) fn failed_connection_share(trial: &Trial) -> Option<f64> {
    let connections = trial.connection_counts()?;
    share_of_total(connections.completed, connections.started).map(|completed| 1.0 - completed)
}

/// Times of replies to weir's own sockets: other clients count from another moment.
pub(super) fn own_socket_reply_times(trial: &Trial) -> Option<&DurationDistribution> {
    let connections = trial.connection_counts()?;
    connections.client.is_none().then_some(&connections.whole)
}

pub(super) fn probe_latency_distribution(trial: &Trial) -> Option<&DurationDistribution> {
    Some(&trial.probe_result()?.latency_from_planned_time)
}
