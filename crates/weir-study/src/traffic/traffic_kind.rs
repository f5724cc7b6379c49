//! The interface of every kind of traffic.

use crate::firewall_devices::FirewallDevices;
use crate::traffic::connection_load::ConnectionLoad;
use crate::workload::WorkloadRow;

/// An axis that traffic depends on.
pub(crate) struct TrafficAxis<'a> {
    pub(crate) name: &'a str,
    /// Where the study names it; at the header of its `[traffic]` without it.
    pub(crate) offset: Option<usize>,
}

/// What the other parts of a study need to know about its traffic.
pub(crate) trait TrafficKind {
    /// What it can be asked for.
    fn workload_row(&self) -> &'static WorkloadRow;

    /// Its connections, where it opens some.
    fn connection_load(&self) -> Option<&ConnectionLoad> {
        None
    }

    /// The axes that it depends on: those of its connections.
    fn axes(&self) -> Vec<TrafficAxis<'_>> {
        let names = self.connection_load().into_iter().flat_map(ConnectionLoad::axis_names);
        names.map(|name| TrafficAxis { name, offset: None }).collect()
    }

    /// The devices that its rulesets know, where it determines them.
    fn required_devices(&self) -> Option<FirewallDevices> {
        None
    }
}
