//! The server: one thread that replies to each request and waits until the client closes or sends
//! another one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use slab::Slab;

use super::http::reply_to_complete_request;
use crate::observe::core_pinning::CorePinGuard;
use weir_kernel::set_socket_option;

/// Connections that may wait to be accepted; the kernel takes `somaxconn` if that is less.
const LISTEN_BACKLOG: i32 = 65_535;
/// Longest text of a request.
const MAX_REQUEST_BYTES: usize = 256;
const MAX_EVENTS_PER_EPOLL_WAIT: usize = 256;
/// What belongs to no connection.
const LISTENER_TOKEN: u64 = u64::MAX;
const STOP_TOKEN: u64 = u64::MAX - 1;

/// A server that runs until it is told to end.
pub(super) struct ServerThread {
    /// The thread sees the end of it.
    stop_signal: UnixStream,
    thread: JoinHandle<io::Result<u64>>,
}

impl ServerThread {
    /// Listens in the current namespace, to packets from one device, and replies on one core.
    pub(super) fn start_in_current_namespace(
        device: &str,
        port: u16,
        core: u32,
    ) -> io::Result<ServerThread> {
        let listener = listen_on_device(device, port)?;
        let (end, other) = UnixStream::pair()?;
        let serve = move || {
            let _pinned = CorePinGuard::pin_to_core(core, false).map_err(io::Error::other)?;
            HttpServer::new(listener, other)?.serve_until_stopped()
        };
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve)?;
        Ok(ServerThread { stop_signal: end, thread })
    }

    /// Ends it; replies that it sent.
    pub(super) fn stop(self) -> io::Result<u64> {
        drop(self.stop_signal);
        self.thread.join().expect("the server does not panic")
    }
}

fn listen_on_device(device: &str, port: u16) -> io::Result<TcpListener> {
    let nonblocking = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, nonblocking, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // One queue for each server on a device: several may listen at the same time.
    sockopt::set_socket_reuseport(&socket, true)?;
    set_socket_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    rustix::net::listen(&socket, LISTEN_BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// One connection.
struct ServerConnection {
    socket: TcpStream,
    request: Vec<u8>,
}

struct HttpServer {
    listener: TcpListener,
    /// Readable when it is over.
    _stop_signal: UnixStream,
    epoll: rustix::fd::OwnedFd,
    connections: Slab<ServerConnection>,
    sent_reply_count: u64,
}

impl HttpServer {
    fn new(listener: TcpListener, end: UnixStream) -> io::Result<HttpServer> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER_TOKEN), EventFlags::IN)?;
        epoll::add(&epoll, &end, EventData::new_u64(STOP_TOKEN), EventFlags::IN)?;
        Ok(HttpServer {
            listener,
            _stop_signal: end,
            epoll,
            connections: Slab::new(),
            sent_reply_count: 0,
        })
    }

    fn serve_until_stopped(mut self) -> io::Result<u64> {
        let mut events: Vec<Event> = Vec::with_capacity(MAX_EVENTS_PER_EPOLL_WAIT);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    STOP_TOKEN => return Ok(self.sent_reply_count),
                    LISTENER_TOKEN => self.accept_waiting_connections()?,
                    slot => self.answer_request_or_close_connection(slot as usize),
                }
            }
        }
    }

    /// Takes all that wait. One that cannot be taken now (no descriptor is left) waits on.
    fn accept_waiting_connections(&mut self) -> io::Result<()> {
        loop {
            let (socket, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(_) => return Ok(()),
            };
            socket.set_nonblocking(true)?;
            let slot = self.connections.insert(ServerConnection { socket, request: Vec::new() });
            let socket = &self.connections[slot].socket;
            epoll::add(&self.epoll, socket, EventData::new_u64(slot as u64), EventFlags::IN)?;
        }
    }

    /// Reads; answers a request that is whole; forgets a connection that the client closed, or that
    /// is not one of ours.
    fn answer_request_or_close_connection(&mut self, slot: usize) {
        let Some(session) = self.connections.get_mut(slot) else { return };
        let mut chunk = [0; MAX_REQUEST_BYTES];
        let is_over = match session.socket.read(&mut chunk) {
            Ok(0) => true,
            Ok(length) => {
                session.request.extend_from_slice(&chunk[..length]);
                let text = reply_to_complete_request(&session.request);
                let sent = text.map(|text| {
                    session.request.clear();
                    session.socket.write_all(text.as_bytes()).is_ok()
                });
                self.sent_reply_count += u64::from(sent == Some(true));
                sent == Some(false) || session.request.len() > MAX_REQUEST_BYTES
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if is_over {
            self.connections.try_remove(slot);
        }
    }
}
