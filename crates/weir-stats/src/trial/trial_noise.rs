//! How quiet the machine was during a trial.

use serde::{Deserialize, Serialize};

/// How quiet the machine was during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialNoise {
    /// Share of the trial during which some task waited for a processor (pressure stall
    /// information); 0 to 1 and more, because it is counted over the trial and its set-up.
    pub psi: f64,
    /// Share of processor time that the hypervisor gave to others.
    pub steal: f64,
    /// Time of a fixed loop, the slower of before and after, against the fastest of the run:
    /// 1 is undisturbed.
    pub spin_ratio: f64,
    /// Times that the generator was taken off its processor.
    #[serde(rename = "switches")]
    pub generator_preemptions: u64,
}
