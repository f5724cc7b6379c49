//! Requests of several trials, and how many of them were lost.

use crate::trial::Trial;

/// Questions, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTotals {
    /// Questions that were planned.
    pub planned: u64,
    /// Questions without an answer.
    pub lost: u64,
}

impl ProbeTotals {
    /// The sums of these trials; trials without requests have no part.
    pub fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> ProbeTotals {
        trials.filter_map(Trial::probe).fold(ProbeTotals::default(), |sum, probe| ProbeTotals {
            planned: sum.planned + probe.planned,
            lost: sum.lost + probe.lost(),
        })
    }

    /// Share of the questions that were lost; 0 of none.
    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / self.planned.max(1) as f64
    }
}
