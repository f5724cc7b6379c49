//! Totals of each client and each server over several trials.

use crate::per_endpoint::Member;
use crate::trial::Trial;

/// Clients and servers of some trials, each with the sums of what it had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointTotals {
    /// Length of the trials together, seconds.
    pub seconds: f64,
    /// Each client.
    pub clients: Vec<Member>,
    /// Each server.
    pub servers: Vec<Member>,
}

impl EndpointTotals {
    /// The sums of these trials; trials without connections have no part.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> EndpointTotals {
        let mut totals = EndpointTotals::default();
        for trial in trials {
            let Some(connections) = trial.connections() else { continue };
            totals.seconds += trial.seconds;
            add_all(&mut totals.clients, &connections.clients);
            add_all(&mut totals.servers, &connections.servers);
        }
        totals
    }

    /// A count of these trials by their time.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// What all of a side had together.
    pub fn together(members: &[Member]) -> Member {
        let mut all = Member::default();
        members.iter().for_each(|member| add(&mut all, member));
        all
    }
}

fn add(sum: &mut Member, other: &Member) {
    sum.connections += other.connections;
    sum.from.add(other.from);
    sum.to.add(other.to);
}

fn add_all(sums: &mut Vec<Member>, others: &[Member]) {
    sums.resize(others.len(), Member::default());
    sums.iter_mut().zip(others).for_each(|(sum, other)| add(sum, other));
}
