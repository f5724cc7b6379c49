//! A small HTTP server: GET requests of one line and one header, answered from memory (RFC 9112).
//!
//! A few threads accept connections, each of which has a limited time: a client that sends or reads
//! slowly keeps no other one waiting. Decision 0023 gives the reason why there is no crate for it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The longest request; a browser's are a tenth of it.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// How long a client may take to send a request, and again to read the answer.
const CLIENT_TIMEOUT_PER_DIRECTION: Duration = Duration::from_secs(5);
/// Connections that are served at once, each by a thread; others wait. A browser opens about six.
const MAX_CONNECTIONS: usize = 16;
/// How long a thread waits if it cannot accept a connection.
const PAUSE_AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(100);
/// How much is written before the clock is read again, bytes.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;

/// Answers requests until the process ends.
pub fn serve_requests(
    listener: &TcpListener,
    answer: impl Fn(&HttpRequest<'_>) -> HttpReply + Sync,
) {
    thread::scope(|scope| {
        for _ in 0..MAX_CONNECTIONS {
            scope.spawn(|| {
                loop {
                    match listener.accept() {
                        // A client that went away concerns nobody.
                        Ok((stream, _)) => drop(serve_connection(stream, &answer)),
                        // Too few descriptors, for example.
                        Err(_) => thread::sleep(PAUSE_AFTER_ACCEPT_ERROR),
                    }
                }
            });
        }
    });
}

fn serve_connection(
    mut stream: TcpStream,
    answer: impl Fn(&HttpRequest<'_>) -> HttpReply,
) -> std::io::Result<()> {
    let reply = match read_request_head(&mut stream)? {
        Some(text) => match HttpRequest::parse(&String::from_utf8_lossy(&text)) {
            None => HttpReply::plain_text("400 Bad Request", "not an HTTP/1.1 request"),
            Some(request) if request.method != "GET" => {
                HttpReply::plain_text("405 Method Not Allowed", "only GET is supported")
            }
            // A panic must not end the thread: later requests would wait for ever.
            Some(request) => {
                catch_unwind(AssertUnwindSafe(|| answer(&request))).unwrap_or_else(|_| {
                    HttpReply::plain_text("500 Internal Server Error", "internal error")
                })
            }
        },
        None => HttpReply::plain_text("431 Request Header Fields Too Large", "too long"),
    };
    reply.send(&mut stream)
}

/// The parts of a request that matter.
pub struct HttpRequest<'a> {
    /// `GET`.
    method: &'a str,
    /// The path, from its first slash on, without a query.
    pub path: &'a str,
    host: &'a str,
}

impl<'a> HttpRequest<'a> {
    /// The first line, and the host that was called (RFC 9112).
    fn parse(text: &'a str) -> Option<HttpRequest<'a>> {
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        let path = target.split(['?', '#']).next()?;
        let is_known = version.starts_with("HTTP/1.") && words.next().is_none();
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then_some(value.trim())
        })?;
        (is_known && path.starts_with('/')).then_some(HttpRequest { method, path, host })
    }

    /// Whether this machine was called by a name that no other one can have.
    pub fn is_loopback_host(&self) -> bool {
        let has_port = !self.host.ends_with(']');
        let without_port = self.host.rsplit_once(':').map(|(name, _)| name);
        let name = without_port.filter(|_| has_port).unwrap_or(self.host);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|a| a.is_loopback())
    }
}

/// What is sent back.
pub struct HttpReply {
    /// Status code and reason phrase.
    pub status: &'static str,
    /// Media type, with parameters.
    pub media_type: &'static str,
    /// The content.
    pub body: Arc<[u8]>,
    /// After how many seconds a browser requests the page again.
    pub refresh_seconds: Option<u32>,
}

impl HttpReply {
    /// A sentence.
    pub fn plain_text(status: &'static str, text: &str) -> HttpReply {
        let body = format!("{text}\n").into_bytes().into();
        HttpReply { status, media_type: "text/plain; charset=utf-8", body, refresh_seconds: None }
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let again = self.refresh_seconds.map(|n| format!("Refresh: {n}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Allow: GET\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             {again}Connection: close\r\n\r\n",
            self.status,
            self.media_type,
            self.body.len()
        );
        let mut limit = DeadlineStream::new(stream);
        limit.write_all(head.as_bytes())?;
        limit.write_all(&self.body)
    }
}

/// A connection that must have done within [`CLIENT_TIMEOUT_PER_DIRECTION`] what is asked of it,
/// however many pieces it takes.
struct DeadlineStream<'a> {
    stream: &'a mut TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    fn new(stream: &'a mut TcpStream) -> DeadlineStream<'a> {
        DeadlineStream { stream, deadline: Instant::now() + CLIENT_TIMEOUT_PER_DIRECTION }
    }

    /// What is left of the time; an error where nothing is.
    fn time_left_or_timed_out(&self) -> std::io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(self.time_left_or_timed_out()?)?;
        self.stream.read(part)
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.stream.set_write_timeout(self.time_left_or_timed_out()?)?;
            let written = self.stream.write(&rest[..rest.len().min(WRITE_CHUNK_BYTES)])?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// A request until its empty line; `None` of one that is too long.
fn read_request_head(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut limit = DeadlineStream::new(stream);
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_REQUEST_BYTES {
            return Ok(None);
        }
        match limit.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => request.extend_from_slice(&part[..read]),
        }
    }
    Ok(Some(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str, host: &str) -> String {
        format!("{line} HTTP/1.1\r\nUser-Agent: a\r\nHost: {host}\r\n\r\n")
    }

    #[test]
    fn the_request_line_and_host_are_parsed() {
        let text = request("GET /a.html?b", "localhost:80");
        let read = HttpRequest::parse(&text).unwrap();
        assert_eq!((read.method, read.path, read.host), ("GET", "/a.html", "localhost:80"));
        for wrong in ["", "GET", "GET /", "GET / SPDY/3\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n"] {
            assert!(HttpRequest::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn only_loopback_host_names_are_local() {
        let is_local =
            |host| HttpRequest::parse(&request("GET /", host)).unwrap().is_loopback_host();
        for local in
            ["127.0.0.1:8080", "127.0.1.1", "LOCALHOST:1", "localhost", "[::1]", "[::1]:80"]
        {
            assert!(is_local(local), "{local}");
        }
        for other in ["example.org:8080", "127.0.0.1.example.org", "192.0.2.1", "[2001:db8::1]:80"]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
