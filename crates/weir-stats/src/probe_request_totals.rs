//! Requests of several trials, and how many of them were lost.

use crate::trial::Trial;

/// Questions, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeRequestTotals {
    /// Questions that were planned.
    pub planned_requests: u64,
    /// Questions without an answer.
    pub lost_requests: u64,
}

impl ProbeRequestTotals {
    /// The sums of these trials; trials without requests have no part.
    pub fn from_trials<'a>(trials: impl Iterator<Item = &'a Trial>) -> ProbeRequestTotals {
        trials.filter_map(Trial::probe_result).fold(ProbeRequestTotals::default(), |sum, probe| {
            ProbeRequestTotals {
                planned_requests: sum.planned_requests + probe.planned,
                lost_requests: sum.lost_requests + probe.lost_requests(),
            }
        })
    }

    /// Share of the questions that were lost; 0 of none.
    pub fn lost_request_share_or_zero(&self) -> f64 {
        self.lost_requests as f64 / self.planned_requests.max(1) as f64
    }
}
