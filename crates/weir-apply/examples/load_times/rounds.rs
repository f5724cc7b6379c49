//! What the comparisons share: the tools in a namespace, and rows of medians.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use weir_kernel::{Namespace, Session};

/// How often each loader loads, in turn.
pub const ROUNDS: usize = 5;

/// The tools, in a namespace with a lock of its own.
pub struct Tools {
    pub namespace: Namespace,
    /// Where files can be written.
    pub folder: PathBuf,
    _session: Session,
}

impl Tools {
    pub fn new() -> Tools {
        let session = Session::new().expect("root");
        let namespace = session.create_namespace("loadtimes").expect("a namespace");
        Tools { namespace, folder: session.session_directory(), _session: session }
    }

    /// Runs a command with a file as its last argument, and returns what it prints.
    pub fn run_on_file(&self, words: &[&str], file: Option<&Path>) -> String {
        let mut command = self.namespace.command(words[0]);
        command.env("XTABLES_LOCKFILE", self.folder.join("xtables.lock")).stdin(Stdio::null());
        let out = command.args(&words[1..]).args(file).output().expect("the tool is installed");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("UTF-8")
    }
}

/// Milliseconds that something takes.
pub fn time_ms<T>(times_ms: &mut Vec<f64>, f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = f();
    times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    result
}

/// A row, and the median in milliseconds.
pub fn print_row(name: &str, mut times_ms: Vec<f64>) -> f64 {
    times_ms.sort_by(f64::total_cmp);
    let (median, last) = (times_ms[times_ms.len() / 2], times_ms[times_ms.len() - 1]);
    println!("  {name:<34} {median:8.1} ms ({:.1} to {last:.1})", times_ms[0]);
    median
}
