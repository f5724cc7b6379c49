//! Totals per client and server, from the map in `src/bpf/members.h`.

use weir_stats::EndpointCounts;
use weir_study::Endpoints;

/// Most clients, and most servers, that are distinguished (`MEMBERS` in members.h).
const MAX_COUNTED_CLIENTS_OR_SERVERS: u32 = 16;

/// Whether there are few enough of both.
pub(crate) fn can_count_per_endpoint(endpoints: &Endpoints) -> bool {
    endpoints.client_count <= MAX_COUNTED_CLIENTS_OR_SERVERS
        && endpoints.server_count <= MAX_COUNTED_CLIENTS_OR_SERVERS
}

/// Totals of this many clients and so many servers, over all cores.
pub(crate) fn sum_endpoint_counts_over_cores(
    cores: impl Iterator<Item = Vec<EndpointCounts>>,
    clients: u32,
    servers: u32,
) -> (Vec<EndpointCounts>, Vec<EndpointCounts>) {
    let mut all = vec![EndpointCounts::default(); 2 * MAX_COUNTED_CLIENTS_OR_SERVERS as usize];
    for core in cores {
        for (member, more) in all.iter_mut().zip(core) {
            member.connections += more.connections;
            member.arrived_from_endpoint.add(more.arrived_from_endpoint);
            member.arrived_at_endpoint.add(more.arrived_at_endpoint);
        }
    }
    let mut behind = all.split_off(MAX_COUNTED_CLIENTS_OR_SERVERS as usize);
    all.truncate(clients as usize);
    behind.truncate(servers as usize);
    (all, behind)
}
