//! What a program measured of its own packet classifier.

use serde::{Deserialize, Serialize};

/// One classifier with the rules of one point. Rates are events per second of processor time, of
/// one core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookupMeasurement {
    /// Why the classifier does not take these rules; it then has no values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Packets whose first deciding rule was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_match_pps: Option<f64>,
    /// Packets all of whose matching rules were found and counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_all_pps: Option<f64>,
    /// Rules removed or inserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates_per_second: Option<f64>,
    /// Wall time to build the structure, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_seconds: Option<f64>,
    /// Size of the structure, bytes per rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_rule: Option<f64>,
}

impl LookupMeasurement {
    /// A classifier that does not take the rules.
    pub fn of_refusal(reason: impl Into<String>) -> LookupMeasurement {
        LookupMeasurement { refusal: Some(reason.into()), ..LookupMeasurement::default() }
    }
}
