//! What each workload supports.
//!
//! A [`WorkloadFeatures`] is next to the fields of its kind of traffic, in `traffic`. Whatever an
//! option of a run, a part of the study or a field of a preset requests is looked up in it before
//! anything is generated or measured: a run must not measure something else than requested.

/// Whether a workload has a feature, and else why not: the end of a sentence that begins with its
/// name.
pub type FeatureSupport = Result<(), &'static str>;

/// A workload: its name, and the features that it supports.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkloadFeatures {
    /// Its name in messages.
    pub name: &'static str,
    /// `--search`.
    pub rate_search: FeatureSupport,
    /// `--hosts`.
    pub remote_hosts: FeatureSupport,
    /// `[probe]`.
    pub latency_probe: FeatureSupport,
    /// `rate_pps` of a preset.
    pub fixed_rate: FeatureSupport,
    /// `table_entries` of a preset.
    pub conntrack_table_size: FeatureSupport,
}

/// Why a workload cannot be searched for a rate or probed.
pub(crate) const SENDS_NO_FRAMES: &str = "sends no frames";
/// Why a workload has no table size.
pub(crate) const NEEDS_NO_CONNTRACK_ENTRIES: &str = "opens no connections that need table entries";
/// Why something needs a firewall on the same machine.
pub(crate) const NOT_IMPLEMENTED_OVER_HOSTS: &str = "is not implemented over hosts";

/// No traffic: only loads are timed.
pub static RULESET_LOADS_ONLY_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "a study without `[traffic]`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Ok(()),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Err("sends nothing"),
    conntrack_table_size: Err(NEEDS_NO_CONNTRACK_ENTRIES),
};
