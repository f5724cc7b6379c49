//! The confirmation of a generation: a proof that the host can still be reached.
//!
//! A ruleset that accepts established connections and blocks new ones does not disturb the session
//! in which it was applied, but locks its administrator out. A connection therefore counts only if
//! it was opened after the ruleset was in force: the kernel's socket diagnostics list a cookie for
//! every TCP socket, and the cookies that existed then are recorded. It must belong to an ancestor
//! of the confirming process (sshd, typically), be accepted by a listening socket of this host, and
//! come from an address that is not the host's own. Environment variables prove nothing, because
//! sudo and tmux may remove or keep them.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use weir_kernel::process_sockets::{list_process_and_ancestors, list_socket_inodes};
use weir_kernel::tcp_sockets::{TcpSocketState, TcpSocketSummary, read_tcp_sockets};

use super::LockedGenerations;
use crate::ApplyOperationError;
use crate::state_store::{GenerationOutcome, Journal};

/// Proof that the host can still be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachabilityProof {
    /// The connection of this session.
    SessionConnection,
    /// The statement of an administrator at a console.
    Console,
}

impl LockedGenerations {
    /// Confirms the generation that waits for it. Returns its number, and the peer of the
    /// connection that proves that the host can be reached.
    ///
    /// # Errors
    /// [`ApplyOperationError::NothingToConfirm`], [`ApplyOperationError::NotReachable`].
    pub fn confirm(
        &mut self,
        proof: ReachabilityProof,
    ) -> Result<(u32, Option<SocketAddr>), ApplyOperationError> {
        let Some(pending) = self.store.read_journal()? else {
            let newest = self.describe_newest_generation_if_rolled_back()?;
            return Err(ApplyOperationError::NothingToConfirm { newest });
        };
        let peer = match proof {
            ReachabilityProof::Console => None,
            ReachabilityProof::SessionConnection => Some(find_new_session_connection(&pending)?),
        };
        self.record_outcome(pending.to, &GenerationOutcome::Confirmed)?;
        self.record_boot_generation(pending.to)?;
        self.store.remove_journal()?;
        Ok((pending.to, peer))
    }

    /// What became of the newest generation, if it was rolled back.
    fn describe_newest_generation_if_rolled_back(
        &self,
    ) -> Result<Option<String>, ApplyOperationError> {
        let Some(newest) = self.store.list_generations()?.last().copied() else { return Ok(None) };
        let record = self.store.read_generation_record(newest)?;
        let is_rolled_back = matches!(record.outcome, GenerationOutcome::RolledBack { .. });
        Ok(is_rolled_back.then(|| format!("generation {newest} was {}", record.describe_outcome())))
    }
}

fn find_new_session_connection(pending: &Journal) -> Result<SocketAddr, ApplyOperationError> {
    let ancestors = list_process_and_ancestors(std::process::id());
    let inodes: Vec<u64> = ancestors.into_iter().flat_map(list_socket_inodes).collect();
    let sockets = read_tcp_sockets()?;
    let before = match &pending.deadline {
        Some(deadline) => &deadline.tcp_cookies_before[..],
        None => &[],
    };
    // A socket can only be bound to an address of this host.
    let is_own = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    choose_proving_connection(&sockets, &inodes, before, is_own).map_err(|reason| {
        ApplyOperationError::NotReachable {
            reason: reason.to_owned(),
            generation: pending.to,
            seconds_left: pending.seconds_left().unwrap_or_default(),
        }
    })
}

/// The peer of a connection that proves that the host can be reached; else the reason why none
/// does.
fn choose_proving_connection(
    sockets: &[TcpSocketSummary],
    session_socket_inodes: &[u64],
    cookies_before: &[u64],
    is_own_address: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, &'static str> {
    let listens_at = |port: u16| {
        let mut listening = sockets.iter().filter(|s| s.state == TcpSocketState::Listening);
        listening.any(|socket| socket.local.port() == port)
    };
    let is_remote = |socket: &TcpSocketSummary| {
        let peer = socket.peer.ip();
        !peer.is_loopback() && peer != socket.local.ip() && !is_own_address(peer)
    };
    let accepted: Vec<&TcpSocketSummary> = sockets
        .iter()
        .filter(|socket| socket.state == TcpSocketState::Established)
        .filter(|socket| socket.inode != 0 && session_socket_inodes.contains(&socket.inode))
        .filter(|socket| listens_at(socket.local.port()) && is_remote(socket))
        .collect();
    if accepted.is_empty() {
        return Err(
            "this session has no TCP connection from another host: log in again in a second \
                    session and confirm there, or use --console at a console",
        );
    }
    let new = accepted.iter().find(|socket| !cookies_before.contains(&socket.cookie));
    new.map(|socket| socket.peer).ok_or(
        "the connection of this session was opened before the ruleset was in force, so it does not \
         prove that a new one is possible: log in again in a second session and confirm there",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(local: &str, peer: &str, state: TcpSocketState, inode: u64) -> TcpSocketSummary {
        let address = |text: &str| text.parse().expect("an address");
        let (local, peer) = (address(local), address(peer));
        TcpSocketSummary { local, peer, state, inode, cookie: inode + 1000 }
    }

    #[test]
    fn only_a_new_connection_accepted_from_another_host_confirms() {
        use TcpSocketState::{Established, Listening};
        let sockets = [
            socket("0.0.0.0:22", "0.0.0.0:0", Listening, 1),
            socket("192.0.2.1:22", "198.51.100.7:5000", Established, 2),
            socket("192.0.2.1:22", "198.51.100.7:5001", Established, 3),
            socket("192.0.2.1:41000", "198.51.100.7:443", Established, 4),
            socket("127.0.0.1:22", "127.0.0.1:6000", Established, 5),
            socket("192.0.2.1:22", "192.0.2.1:7000", Established, 6),
            socket("192.0.2.1:22", "192.0.2.9:8000", Established, 7),
        ];
        let before = [1002];
        let judge = |inodes: &[u64]| {
            let is_own = |address: IpAddr| address.to_string() == "192.0.2.9";
            choose_proving_connection(&sockets, inodes, &before, is_own)
        };
        assert_eq!(judge(&[1, 3]).map(|peer| peer.port()), Ok(5001));
        let old = judge(&[1, 2]).expect_err("an old connection");
        assert!(old.contains("was opened before"), "{old}");
        for others in [&[][..], &[1], &[4], &[5], &[6], &[7]] {
            let none = judge(others).expect_err("no connection");
            assert!(none.contains("no TCP connection from another host"), "{others:?}: {none}");
        }
    }
}
