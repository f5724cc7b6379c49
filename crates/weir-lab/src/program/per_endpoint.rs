//! Totals per client and server, from the map in `src/bpf/members.h`.

use weir_stats::Member;
use weir_study::Endpoints;

/// Most clients, and most servers, that are distinguished (`MEMBERS` in members.h).
const MOST: u32 = 16;

/// Whether there are few enough of both.
pub(crate) fn are_told_apart(endpoints: &Endpoints) -> bool {
    endpoints.clients <= MOST && endpoints.servers <= MOST
}

/// Totals of this many clients and so many servers, over all cores.
pub(crate) fn sums(
    cores: impl Iterator<Item = Vec<Member>>,
    clients: u32,
    servers: u32,
) -> (Vec<Member>, Vec<Member>) {
    let mut all = vec![Member::default(); 2 * MOST as usize];
    for core in cores {
        for (member, more) in all.iter_mut().zip(core) {
            member.connections += more.connections;
            member.from.add(more.from);
            member.to.add(more.to);
        }
    }
    let mut behind = all.split_off(MOST as usize);
    all.truncate(clients as usize);
    behind.truncate(servers as usize);
    (all, behind)
}
