//! Totals of each client and each server over several trials.

use crate::endpoint_counts::EndpointCounts;
use crate::trial::Trial;

/// Clients and servers of some trials, each with the sums of what it had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerEndpointTotals {
    /// Length of the trials together, seconds.
    pub seconds: f64,
    /// Each client.
    pub clients: Vec<EndpointCounts>,
    /// Each server.
    pub servers: Vec<EndpointCounts>,
}

impl PerEndpointTotals {
    /// The sums of these trials; trials without connections have no part.
    pub fn from_trials<'a>(trials: impl Iterator<Item = &'a Trial>) -> PerEndpointTotals {
        let mut totals = PerEndpointTotals::default();
        for trial in trials {
            let Some(connections) = trial.connection_counts() else { continue };
            totals.seconds += trial.seconds;
            add_all_endpoint_counts(&mut totals.clients, &connections.clients);
            add_all_endpoint_counts(&mut totals.servers, &connections.servers);
        }
        totals
    }

    /// A count of these trials by their time.
    pub fn convert_count_to_rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// What all of a side had together.
    pub fn sum_endpoints(members: &[EndpointCounts]) -> EndpointCounts {
        let mut all = EndpointCounts::default();
        members.iter().for_each(|member| add_endpoint_counts(&mut all, member));
        all
    }
}

fn add_endpoint_counts(sum: &mut EndpointCounts, other: &EndpointCounts) {
    sum.connections += other.connections;
    sum.arrived_from_endpoint.add(other.arrived_from_endpoint);
    sum.arrived_at_endpoint.add(other.arrived_at_endpoint);
}

fn add_all_endpoint_counts(sums: &mut Vec<EndpointCounts>, others: &[EndpointCounts]) {
    sums.resize(others.len(), EndpointCounts::default());
    sums.iter_mut().zip(others).for_each(|(sum, other)| add_endpoint_counts(sum, other));
}
