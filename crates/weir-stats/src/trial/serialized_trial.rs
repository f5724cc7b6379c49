//! A trial as a line of `trials.jsonl`.

use serde::{Deserialize, Serialize};

use crate::connection_counts::ConnectionCounts;
use crate::lookup_measurement::LookupMeasurement;
use crate::machine_observations::MachineObservations;
use crate::probe_kinds_and_results::{BulkTcpStreamResult, ProbeResult};
use crate::scenario::Scenario;
use crate::trial::drop_count::DropCount;
use crate::trial::trial_kind::TrialKind;
use crate::trial::trial_noise::TrialNoise;
use crate::trial::trial_state::TrialState;

/// The serialised form of a trial: its measurements are in the field of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SerializedTrial {
    pub(crate) number: u64,
    pub(crate) kind: TrialKind,
    pub(crate) scenario: Scenario,
    pub(crate) subject: String,
    #[serde(default)]
    pub(crate) copy: u32,
    pub(crate) block: u32,
    pub(crate) order: u32,
    #[serde(rename = "leg")]
    pub(crate) abba_leg: u32,
    pub(crate) repeat: u32,
    pub(crate) offered: u64,
    pub(crate) delivered: u64,
    pub(crate) leaked: u64,
    pub(crate) foreign: u64,
    pub(crate) to_drop: u64,
    pub(crate) dropped: Vec<DropCount>,
    pub(crate) seconds: f64,
    #[serde(rename = "pps")]
    pub(crate) correct_verdict_pps: f64,
    #[serde(default)]
    pub(crate) rate_pps: f64,
    #[serde(default)]
    pub(crate) additions: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<ConnectionCounts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) probe: Option<ProbeResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<BulkTcpStreamResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lookups: Option<LookupMeasurement>,
    #[serde(default)]
    pub(crate) collected: MachineObservations,
    pub(crate) noise: TrialNoise,
    pub(crate) state: TrialState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}
