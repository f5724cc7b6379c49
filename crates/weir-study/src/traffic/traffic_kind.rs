//! The interface of every kind of traffic.

use crate::firewall_devices::FirewallDevices;
use crate::supported_workload_features::WorkloadFeatures;
use crate::traffic::connection_load::ConnectionLoad;
use crate::traffic::traffic_axis::TrafficAxis;

/// What the other parts of a study need to know about its traffic.
pub(crate) trait TrafficKind {
    /// What it supports.
    fn workload_features(&self) -> &'static WorkloadFeatures;

    /// Its connections, where it opens some.
    fn connection_load(&self) -> Option<&ConnectionLoad> {
        None
    }

    /// The axes that it depends on: those of its connections.
    fn axes(&self) -> Vec<TrafficAxis<'_>> {
        self.connection_load().map_or_else(Vec::new, ConnectionLoad::axes)
    }

    /// The devices that its rulesets know, where it determines them.
    fn required_devices(&self) -> Option<FirewallDevices> {
        None
    }
}
