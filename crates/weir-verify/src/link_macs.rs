//! MAC addresses of the links on which packets arrive.

use weir_packet::Mac;

/// MAC address of the link that packets come in by.
pub(crate) const FIREWALL_INPUT_MAC: Mac = [0x02, 0x57, 0, 0, 0, 1];
/// MAC address of those around it.
pub(crate) const NEIGHBOUR_MAC: Mac = [0x02, 0x57, 0, 0, 0, 2];
