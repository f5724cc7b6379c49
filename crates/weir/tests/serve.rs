//! `weir lab serve`, with requests of a browser and other requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use weir_stats::run_folder;
use weir_testkit::testdata;

/// A server that ends with its test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn of(folder: &Path) -> Server {
        // A shell lets what it starts in the background ignore Ctrl-C, and so may these tests be.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_weir"), "lab", "serve"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("weir runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("it has a standard output");
        BufReader::new(out).read_line(&mut line).expect("it says where it is");
        let address = line.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}");
        Server { child, address }
    }

    /// The answer to a request as it is.
    fn told(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("the server accepts a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in text");
        answer
    }

    fn asked(&self, method: &str, path: &str) -> String {
        self.told(&format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn studies() -> std::path::PathBuf {
    testdata::repository_root().join("studies")
}

fn kept() -> std::path::PathBuf {
    studies().join("hagtheil-empty-tables/runs/2026-11-21-amd-epyc-2cpu")
}

#[test]
fn only_the_page_of_the_run_is_served() {
    let server = Server::of(&kept());
    let page = server.asked("GET", "/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &page[..60.min(page.len())]);
    assert!(page.contains("Content-Type: text/html") && page.ends_with("</html>"));
    assert!(!page.contains("Refresh:"), "a complete run does not change");
    for path in
        ["/run.json", "/../run.json", "/%2e%2e/run.json", "//etc/passwd", "/a/../index.html"]
    {
        let answer = server.asked("GET", path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
}

#[test]
fn requests_other_than_local_get_are_refused() {
    let server = Server::of(&kept());
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 200 "));
    assert!(server.asked("POST", "/").starts_with("HTTP/1.1 405 "));
    assert!(
        server.told("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").starts_with("HTTP/1.1 403 ")
    );
    assert!(server.told("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 200 "), "the server keeps running");
}

#[test]
fn the_index_links_reports_and_trials() {
    let server = Server::of(&studies());
    let index = server.asked("GET", "/");
    assert!(index.contains("href=\"hagtheil-empty-tables.html\""));
    assert!(server.asked("GET", "/hagtheil-empty-tables.html").starts_with("HTTP/1.1 200 "));
    let trials = server.asked("GET", "/hagtheil-empty-tables.jsonl");
    assert!(trials.contains("Content-Type: text/plain") && trials.contains("\"number\":0,"));
    assert!(server.asked("GET", "/hagtheil-empty-tables/study.toml").starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_run_in_progress_is_served_as_it_grows() {
    let dir = std::env::temp_dir().join(format!("weir-serve-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let text = std::fs::read_to_string(kept().join("run.json")).unwrap();
    let whole = text.replace("\"complete\": true", "\"complete\": false");
    assert_ne!(whole, text, "the kept run is complete");
    std::fs::write(dir.join("run.json"), whole).unwrap();
    let trials = run_folder::read_trials_text(&kept()).unwrap();
    let half = trials.len() / 2;
    std::fs::write(dir.join("trials.jsonl"), &trials[..half]).unwrap();
    let server = Server::of(&dir);
    let before = server.asked("GET", "/");
    assert!(before.contains("\r\nRefresh: 5\r\n"), "a partial line is not an error");
    std::fs::write(dir.join("trials.jsonl"), &trials).unwrap();
    let after = server.asked("GET", "/");
    assert!(after.len() > before.len() + 1000, "{} and {}", before.len(), after.len());
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 500 "), "what is gone is said");
}

#[test]
fn a_stalled_client_does_not_block_other_clients() {
    let server = Server::of(&kept());
    let mut stalled = TcpStream::connect(&server.address).expect("it listens");
    stalled.write_all(b"G").expect("the server accepts a byte");
    // A client that sent a request and reads nothing.
    let mut deaf = TcpStream::connect(&server.address).expect("it listens");
    deaf.write_all(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).as_bytes())
        .expect("the server accepts a request");
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 200 "), "another one is answered");
    // The stalled client is still connected, and gets its response after it completes its request.
    let rest = format!("ET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stalled.write_all(rest.as_bytes()).expect("it still listens to it");
    let mut answer = String::new();
    stalled.read_to_string(&mut answer).expect("it answers in text");
    assert!(answer.starts_with("HTTP/1.1 200 "), "the first one is answered, too");
}

#[test]
fn clients_that_keep_stalling_are_disconnected() {
    let server = Server::of(&kept());
    // As many clients as are served at the same time.
    let stall = |_| {
        let mut stalled = TcpStream::connect(&server.address).expect("it listens");
        stalled.write_all(b"G").expect("the server accepts a byte");
        stalled
    };
    let mut stalled: Vec<TcpStream> = (0..16).map(stall).collect();
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 200 "), "it waited for a place");
    let mut answer = Vec::new();
    // The end of the connection, or its reset.
    let _ = stalled[0].read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[test]
fn ctrl_c_stops_the_server() {
    let mut server = Server::of(&kept());
    assert!(server.asked("GET", "/").starts_with("HTTP/1.1 200 "));
    let pid = Pid::from_raw(server.child.id() as i32).expect("it has a number");
    kill_process(pid, Signal::INT).expect("it is there");
    let status = server.child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn a_folder_without_records_is_refused() {
    let out = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["lab", "serve"])
        .arg(testdata::repository_root().join("docs"))
        .output()
        .expect("weir runs");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("neither a run"));
}
