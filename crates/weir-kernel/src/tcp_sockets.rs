//! The TCP sockets of the current network namespace (include/uapi/linux/inet_diag.h).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::KernelError;
use crate::netlink::attribute::MalformedNetlink;
use crate::netlink::{
    DUMP_TIMEOUT, NLM_F_DUMP, NetlinkMessage, NetlinkProtocol, NetlinkRequest, NetlinkSocket,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `struct inet_diag_req_v2`.
const INET_DIAG_REQUEST_BYTES: usize = 56;
/// `struct inet_diag_msg`.
const INET_DIAG_MESSAGE_BYTES: usize = 72;
const IPPROTO_TCP: u8 = 6;
/// include/net/tcp_states.h
const TCP_ESTABLISHED: u8 = 1;
const TCP_LISTEN: u8 = 10;

/// A TCP socket, or a connection that is being established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocketSummary {
    /// Its own address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub peer: SocketAddr,
    /// Its state.
    pub state: TcpSocketState,
    /// The inode of its file descriptor; 0 if it has none.
    pub inode: u64,
    /// The socket cookie: unique until the next boot.
    pub cookie: u64,
}

/// The state of a TCP socket, as far as weir distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpSocketState {
    /// A connection.
    Established,
    /// It accepts connections.
    Listening,
    /// A connection that is being established or closed.
    Other,
}

/// Reads the TCP sockets of both families.
///
/// # Errors
/// If the kernel has no socket diagnostics (`CONFIG_INET_DIAG`).
pub fn read_tcp_sockets() -> Result<Vec<TcpSocketSummary>, KernelError> {
    let mut socket = NetlinkSocket::open(NetlinkProtocol::SocketDiagnostics)
        .map_err(KernelError::io("open", "socket diagnostics"))?;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut header = [0; INET_DIAG_REQUEST_BYTES];
        (header[0], header[1]) = (family as u8, IPPROTO_TCP);
        header[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        let request = NetlinkRequest::new(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &header);
        let sockets =
            socket.fold_dumped_objects(&request, DUMP_TIMEOUT, Vec::new, |sockets, message| {
                sockets.push(parse_inet_diag_message(message)?);
                Ok(())
            });
        match sockets.map_err(KernelError::netlink("list", "TCP sockets")) {
            Ok(sockets) => found.extend(sockets),
            // A kernel without IPv6.
            Err(error)
                if family == libc::AF_INET6 && error.kind() == Some(io::ErrorKind::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn parse_inet_diag_message(
    message: NetlinkMessage<'_>,
) -> Result<TcpSocketSummary, MalformedNetlink> {
    let bytes = message.fixed_header::<INET_DIAG_MESSAGE_BYTES>()?;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_ne_bytes(copy_bytes_at(&bytes, at));
    let address = |at: usize| match i32::from(bytes[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(copy_bytes_at::<4>(&bytes, at))),
        _ => Ipv6Addr::from(copy_bytes_at::<16>(&bytes, at)).to_canonical(),
    };
    Ok(TcpSocketSummary {
        local: SocketAddr::new(address(8), port(4)),
        peer: SocketAddr::new(address(24), port(6)),
        state: match bytes[1] {
            TCP_ESTABLISHED => TcpSocketState::Established,
            TCP_LISTEN => TcpSocketState::Listening,
            _ => TcpSocketState::Other,
        },
        inode: u64::from(word(68)),
        cookie: u64::from(word(44)) | u64::from(word(48)) << 32,
    })
}

fn copy_bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the message is longer")
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_listed_with_its_ends_and_a_cookie_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let at = listener.local_addr().expect("an address");
        let list = |of: SocketAddr| -> Vec<TcpSocketSummary> {
            let all = read_tcp_sockets().expect("sockets");
            all.into_iter().filter(|socket| socket.local == of).collect()
        };
        let [only] = list(at)[..] else { panic!("one socket has the port") };
        assert_eq!(only.state, TcpSocketState::Listening);
        let client = TcpStream::connect(at).expect("a connection");
        let (_accepted, _) = listener.accept().expect("a connection");
        let [mine] = list(client.local_addr().expect("an address"))[..] else {
            panic!("one socket is the client's")
        };
        assert_eq!((mine.peer, mine.state), (at, TcpSocketState::Established));
        let cookies: Vec<u64> = list(at).iter().map(|socket| socket.cookie).collect();
        assert!(cookies.len() == 2 && cookies.contains(&only.cookie), "{cookies:?}");
        assert!(!cookies.contains(&mine.cookie) && mine.inode != 0);
    }
}
