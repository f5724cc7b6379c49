//! `weir lab serve`: a run, or the index of studies, in a browser on this machine.
//!
//! What can be requested is a handful of files that are made here and held in memory: a request
//! names one of them or nothing, and no path of the machine is ever built from it. A few threads
//! take the connections, each of which has a limited time: a client that asks or reads slowly keeps
//! no other one waiting. The listener is on the loopback address alone, and asks that the browser
//! called it by such a name, so that no page of another site can read it (DNS rebinding). Decision
//! 0023 says why there is no crate for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use weir_stats::run_folder;

use super::YesNoExitStatus;
use super::lab_claims::{self, INDEX_FILE};
use crate::cli::LabServeArgs;
use crate::terminal;

/// The longest request; a browser's are a tenth of it.
const MAX_REQUEST_BYTES: usize = 16 * 1024;
/// How long a client may take to ask, and again to take the answer.
const CLIENT_TIMEOUT_PER_DIRECTION: Duration = Duration::from_secs(5);
/// Connections that are served at once, each by a thread; others wait. A browser opens about six.
const MAX_CONNECTIONS: usize = 16;
/// How much is written before the clock is read again, bytes.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;
/// How soon the page of a run that goes on is requested again, seconds.
const RUN_IN_PROGRESS_REFRESH_SECONDS: u32 = 5;

/// Serves until Ctrl-C.
pub fn serve_pages_until_killed(args: &LabServeArgs) -> Result<YesNoExitStatus> {
    let site = Mutex::new(ServedSite::new(&args.folder)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("listen on 127.0.0.1:{}; --port takes another one", args.port))?;
    let address = listener.local_addr().context("ask for the port")?;
    terminal::print_escaped_if_terminal(&format!("http://{address}/ (Ctrl-C ends it)\n"))?;
    thread::scope(|scope| {
        for _ in 0..MAX_CONNECTIONS {
            scope.spawn(|| {
                loop {
                    // A browser that went away concerns nobody.
                    let _ =
                        listener.accept().and_then(|(stream, _)| serve_connection(stream, &site));
                }
            });
        }
    });
    Ok(YesNoExitStatus::Yes)
}

/// What is shown, and from where.
struct ServedSite {
    folder: PathBuf,
    is_single_run_folder: bool,
    source_file_stamps: SourceFileStamps,
    served_files: BTreeMap<String, Arc<[u8]>>,
    is_run_in_progress: bool,
}

/// Lengths and times of the files that pages are made from.
type SourceFileStamps = Vec<(PathBuf, u64, SystemTime)>;

impl ServedSite {
    fn new(folder: &Path) -> Result<ServedSite> {
        let is_single_run_folder = folder.join("run.json").is_file();
        let mut site = ServedSite {
            folder: folder.to_owned(),
            is_single_run_folder,
            source_file_stamps: SourceFileStamps::new(),
            served_files: BTreeMap::new(),
            is_run_in_progress: false,
        };
        if !is_single_run_folder && site.source_files().is_empty() {
            bail!(
                "{} is neither a run (run.json) nor a folder of studies (*/study.toml)",
                folder.display()
            );
        }
        site.rebuild_if_changed()?;
        Ok(site)
    }

    /// The files that pages are made from.
    fn source_files(&self) -> Vec<PathBuf> {
        if self.is_single_run_folder {
            return run_folder::RECORD_FILE_NAMES.map(|name| self.folder.join(name)).to_vec();
        }
        let mut found = Vec::new();
        for study in list_subfolders(&self.folder) {
            let own = ["study.toml", "claims.toml", "aa.json"].map(|name| study.join(name));
            found.extend(own.into_iter().filter(|path| path.is_file()));
            for run in list_subfolders(&study.join("runs")) {
                found.extend(run_folder::RECORD_FILE_NAMES.map(|name| run.join(name)));
            }
        }
        found
    }

    fn compute_source_file_stamps(&self) -> SourceFileStamps {
        let of = |path: PathBuf| {
            let file = fs::metadata(&path).ok()?;
            Some((path, file.len(), file.modified().ok()?))
        };
        self.source_files().into_iter().filter_map(of).collect()
    }

    /// Makes the pages again where something changed.
    fn rebuild_if_changed(&mut self) -> Result<()> {
        let stamp = self.compute_source_file_stamps();
        if stamp == self.source_file_stamps && !self.served_files.is_empty() {
            return Ok(());
        }
        if self.is_single_run_folder {
            let record = run_folder::load_record_of_run_in_progress(&self.folder)?;
            self.is_run_in_progress = !record.run.complete;
            let page = weir_report::render_page(&record, &[]).into_bytes();
            self.served_files = BTreeMap::from([(INDEX_FILE.to_owned(), page.into())]);
        } else {
            let pages = lab_claims::build_index_and_linked_files(&self.folder)?.into_iter();
            self.served_files = pages.map(|(name, bytes)| (name, bytes.into())).collect();
        }
        self.source_file_stamps = stamp;
        Ok(())
    }

    /// The answer to a request.
    fn answer_request(&mut self, request: &str) -> HttpReply {
        let Some(request) = HttpRequest::parse(request) else {
            return HttpReply::plain_text("400 Bad Request", "not an HTTP/1.1 request");
        };
        if !request.is_loopback_host() {
            return HttpReply::plain_text(
                "403 Forbidden",
                "use the host name 127.0.0.1 or localhost",
            );
        }
        if request.method != "GET" {
            return HttpReply::plain_text("405 Method Not Allowed", "only GET is supported");
        }
        if let Err(error) = self.rebuild_if_changed() {
            return HttpReply::plain_text("500 Internal Server Error", &format!("{error:#}"));
        }
        let name = if request.path == "/" { INDEX_FILE } else { &request.path[1..] };
        match self.served_files.get(name) {
            Some(bytes) => HttpReply {
                status: "200 OK",
                media_type: if name.ends_with(".html") { "text/html" } else { "text/plain" },
                body: Arc::clone(bytes),
                auto_refresh: self.is_run_in_progress,
            },
            None => HttpReply::plain_text("404 Not Found", "page not found"),
        }
    }
}

/// Folders in a folder; none of one that is not there.
fn list_subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// The parts of a request that matter.
struct HttpRequest<'a> {
    method: &'a str,
    path: &'a str,
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
    fn is_loopback_host(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host, |(name, _)| name);
        ["127.0.0.1", "localhost"].contains(&name)
    }
}

/// What is sent back.
struct HttpReply {
    status: &'static str,
    media_type: &'static str,
    body: Arc<[u8]>,
    auto_refresh: bool,
}

impl HttpReply {
    /// A sentence.
    fn plain_text(status: &'static str, text: &str) -> HttpReply {
        let body = format!("{text}\n").into_bytes().into();
        HttpReply { status, media_type: "text/plain", body, auto_refresh: false }
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let again = if self.auto_refresh {
            format!("Refresh: {RUN_IN_PROGRESS_REFRESH_SECONDS}\r\n")
        } else {
            String::new()
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n\
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

/// Answers one request. The site is held only while its pages are looked up or made.
fn serve_connection(mut stream: TcpStream, site: &Mutex<ServedSite>) -> std::io::Result<()> {
    let reply = match read_request_head(&mut stream)? {
        Some(request) => {
            let request = String::from_utf8_lossy(&request);
            // A thread that ended while it made pages left those that there were.
            site.lock().unwrap_or_else(PoisonError::into_inner).answer_request(&request)
        }
        None => HttpReply::plain_text("431 Request Header Fields Too Large", "too long"),
    };
    reply.send(&mut stream)
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
        assert!(is_local("127.0.0.1:8080") && is_local("localhost"));
        assert!(!is_local("example.org:8080") && !is_local("127.0.0.1.example.org"));
    }
}
