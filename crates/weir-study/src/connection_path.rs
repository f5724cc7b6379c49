//! The path of connections between clients and servers.

use serde::Deserialize;

/// Most clients and servers on the network of a gateway with one arm: each is a neighbour.
pub const MAX_ONE_ARMED_NEIGHBOURS: u32 = 8192;

/// The path that connections take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionPath {
    /// Through a gateway with a device on either side.
    #[default]
    Gateway,
    /// Through a gateway that takes and sends by the same device.
    OneArmed,
    /// Over one link; nothing is between clients and servers.
    Direct,
}
