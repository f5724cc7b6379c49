//! Totals of each client and each server, read from the map of `src/bpf/members.h`.

use libbpf_rs::{MapCore, MapFlags};
use weir_stats::{Member, Volume};

use crate::LabError;
use weir_study::Endpoints;

/// Most clients, and most servers, that are told apart (`MEMBERS` in members.h).
const MOST: u32 = 16;
/// Words of a `struct member`.
const WORDS: usize = 5;

/// Whether there are few enough of both.
pub(crate) fn are_told_apart(endpoints: &Endpoints) -> bool {
    endpoints.clients <= MOST && endpoints.servers <= MOST
}

/// Forgets what was counted.
pub(crate) fn clear(map: &impl MapCore, cores: usize) -> Result<(), LabError> {
    let nothing = vec![vec![0; 2 * MOST as usize * WORDS * 8]; cores];
    map.update_percpu(&0_u32.to_ne_bytes(), &nothing, MapFlags::ANY)
        .map_err(LabError::bpf("clear the totals of clients and servers"))
}

/// Totals of so many clients and so many servers, over all cores.
pub(crate) fn read(
    map: &impl MapCore,
    clients: u32,
    servers: u32,
) -> Result<(Vec<Member>, Vec<Member>), LabError> {
    let cores = map
        .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(LabError::bpf("read the totals of clients and servers"))?;
    let mut all = vec![Member::default(); 2 * MOST as usize];
    for core in cores.unwrap_or_default() {
        for (member, bytes) in all.iter_mut().zip(core.chunks_exact(WORDS * 8)) {
            add(member, bytes);
        }
    }
    let mut behind = all.split_off(MOST as usize);
    all.truncate(clients as usize);
    behind.truncate(servers as usize);
    Ok((all, behind))
}

/// Adds the `struct member` of one core.
fn add(member: &mut Member, bytes: &[u8]) {
    let word = |at: usize| {
        let bytes = bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    member.connections += word(0);
    member.from.add(Volume { packets: word(1), bytes: word(2) });
    member.to.add(Volume { packets: word(3), bytes: word(4) });
}
