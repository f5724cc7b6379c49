//! One firewall of a topology, and the counters that can be read from it.

use weir_kernel::Namespace;

use crate::host::target::SharedTarget;
use crate::observe::counters::{ConntrackReader, DeviceReader, ReceivedReader, StackReader};

/// One firewall between them.
pub struct TestFirewall {
    /// Where its ruleset is loaded; empty where that is on another host.
    pub namespace: Namespace,
    /// Index of the device into which frames are sent.
    pub ifindex: u32,
    /// Drop counters of its devices, and of the sink's.
    pub devices: DeviceReader,
    /// Its IP stack's counters.
    pub stack: StackReader,
    /// Its connection table's counters.
    pub conntrack: ConntrackReader,
    /// What its device towards the source received.
    pub entered: ReceivedReader,
    /// Packets that the device after it received.
    pub left: ReceivedReader,
    /// Name of the source's device, and of the sink's.
    pub ends: (String, String),
    /// It forwards nothing: what it gets is for itself.
    pub is_host: bool,
    /// Where commands of its subject run.
    pub(crate) target: SharedTarget,
}

impl TestFirewall {
    /// The name of its namespace.
    pub(crate) fn name(&self) -> &str {
        self.target.name()
    }
}
