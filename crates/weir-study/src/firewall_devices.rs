//! Names of a firewall's two devices.

use serde::Deserialize;

/// Names of a firewall's two devices, as its ruleset knows them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallDevices {
    /// Towards the source.
    pub input: String,
    /// Towards the sink.
    pub output: String,
}

impl Default for FirewallDevices {
    fn default() -> FirewallDevices {
        FirewallDevices { input: "eth0".to_owned(), output: "eth1".to_owned() }
    }
}
