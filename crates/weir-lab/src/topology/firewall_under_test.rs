//! One firewall of a topology, and the counters that can be read from it.

use weir_kernel::Namespace;

use crate::host::host_trait::RcExecTarget;
use crate::observe::kernel_counters::{
    ConntrackStatReader, DeviceDropCounterReader, IpStackCounterReader, RxPacketCounterReader,
};

/// One firewall between them.
pub struct FirewallWithCounters {
    /// Where its ruleset is loaded; empty where that is on another host.
    pub namespace: Namespace,
    /// Index of the device into which frames are sent.
    pub send_ifindex: u32,
    /// Drop counters of its devices, and of the sink's.
    pub device_drops: DeviceDropCounterReader,
    /// Its IP stack's counters.
    pub stack_counters: IpStackCounterReader,
    /// Its connection table's counters.
    pub conntrack_counters: ConntrackStatReader,
    /// What its device towards the source received.
    pub received_from_source: RxPacketCounterReader,
    /// Packets that the device after it received.
    pub received_after_firewall: RxPacketCounterReader,
    /// Name of the source's device, and of the sink's.
    pub source_and_sink_devices: (String, String),
    /// It forwards nothing: what it gets is for itself.
    pub is_end_host: bool,
    /// Where commands of its subject run.
    pub(crate) command_target: RcExecTarget,
}

impl FirewallWithCounters {
    /// The name of its namespace.
    pub(crate) fn namespace_name(&self) -> &str {
        self.command_target.name()
    }
}
