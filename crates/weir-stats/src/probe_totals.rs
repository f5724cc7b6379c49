//! Requests of several trials, and how many of them were lost.

use crate::trial::Trial;

/// Questions, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTotals {
    /// Questions that were planned.
    pub planned_requests: u64,
    /// Questions without an answer.
    pub lost_requests: u64,
}

impl ProbeTotals {
    /// The sums of these trials; trials without requests have no part.
    pub fn from_trials<'a>(trials: impl Iterator<Item = &'a Trial>) -> ProbeTotals {
        trials.filter_map(Trial::probe_result).fold(ProbeTotals::default(), |sum, probe| {
            ProbeTotals {
                planned_requests: sum.planned_requests + probe.planned,
                lost_requests: sum.lost_requests + probe.lost_requests(),
            }
        })
    }

    /// Share of the questions that were lost; 0 of none.
    pub fn lost_share(&self) -> f64 {
        self.lost_requests as f64 / self.planned_requests.max(1) as f64
    }
}
