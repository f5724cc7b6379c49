//! Kind `lookups`: packets that a subject's program looks up in its own classifier.

use serde::Deserialize;

use crate::supported_workload_features::{
    NEEDS_NO_CONNTRACK_ENTRIES, NOT_IMPLEMENTED_OVER_HOSTS, SENDS_NO_FRAMES, WorkloadFeatures,
};
use crate::traffic::traffic_kind::TrafficKind;

/// Look-ups in user space. Packets and times are those of the subject's `measure`, which prints
/// what `weir bench classify --json` prints for one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSpaceLookups {}

static LOOKUPS_WORKLOAD_FEATURES: WorkloadFeatures = WorkloadFeatures {
    name: "kind `lookups`",
    rate_search: Err(SENDS_NO_FRAMES),
    remote_hosts: Err(NOT_IMPLEMENTED_OVER_HOSTS),
    latency_probe: Err(SENDS_NO_FRAMES),
    fixed_rate: Err("looks up as fast as it can"),
    conntrack_table_size: Err(NEEDS_NO_CONNTRACK_ENTRIES),
};

impl TrafficKind for UserSpaceLookups {
    fn workload_features(&self) -> &'static WorkloadFeatures {
        &LOOKUPS_WORKLOAD_FEATURES
    }
}

#[cfg(test)]
mod tests {
    use crate::traffic::tests::{assert_refused, read};

    #[test]
    fn lookups_need_no_devices_and_no_axes() {
        let traffic = read("kind = \"lookups\"").unwrap();
        assert!(traffic.required_devices().is_none() && traffic.axes().is_empty());
    }

    #[test]
    fn invalid_lookups_are_refused() {
        for (text, message) in [
            ("command = \"true\"", "takes no `command`; it takes no fields"),
            ("verify = true", "takes no `verify`"),
        ] {
            assert_refused(&format!("kind = \"lookups\"\n{text}"), message);
        }
    }
}
