//! Routes by which source and sink reach each other through a firewall, for probes and streams.

use weir_kernel::Namespace;
use weir_packet::Mac;

use crate::LabError;
use crate::host::router_config::{
    FIREWALL_IN_GATEWAY_IP, FIREWALL_OUT_GATEWAY_IP, SINK_ADDRESS, SOURCE_ADDRESS, format_mac,
};

/// The links by which questions and streams go through a firewall.
#[derive(Clone, Debug)]
pub(crate) struct ProbeLinks<'a> {
    pub(crate) source: &'a Namespace,
    pub(crate) source_device: &'a str,
    pub(crate) sink: &'a Namespace,
    pub(crate) sink_device: &'a str,
}

/// The line of `ip` that keeps a device from sending several segments as one.
pub(crate) fn disable_gso_ip_batch_line(device: &str) -> String {
    format!("link set dev {device} gso_max_segs 1")
}

/// Gives source and sink their addresses, and routes between them over link `link_number`; `macs`
/// are those of the firewall's devices towards source and sink.
pub(crate) fn add_probe_routes(
    ends: &ProbeLinks<'_>,
    macs: [Mac; 2],
    link_number: u32,
) -> Result<(), LabError> {
    let [inner, outer] = macs.map(format_mac);
    let (source, sink) = (SOURCE_ADDRESS, SINK_ADDRESS);
    for (side, device, own, other, gateway, mac) in [
        (ends.source, ends.source_device, source, sink, FIREWALL_IN_GATEWAY_IP, inner),
        (ends.sink, ends.sink_device, sink, source, FIREWALL_OUT_GATEWAY_IP, outer),
    ] {
        side.run_ip_batch(&[
            "link set dev lo up".to_owned(),
            format!("addr replace {own}/32 dev lo"),
            format!("neigh replace {gateway} lladdr {mac} nud permanent dev {device}"),
            format!(
                "route add {other}/32 via {gateway} dev {device} onlink metric {}",
                link_number + 1
            ),
        ])?;
    }
    Ok(())
}
