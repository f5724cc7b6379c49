//! The tools in a separate namespace, and what a load leaves in the kernel, byte for byte. Shared
//! by the tests that compare loads.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use weir_kernel::xtables_counters::LegacyTableCounterReader;
use weir_kernel::{Namespace, Session};
use weir_model::Family;

/// A namespace with the tools in it.
pub struct Kernel {
    namespace: Namespace,
    lock: PathBuf,
    _session: Session,
}

/// A table after a load: as `iptables-save` prints it, and as the kernel holds it.
#[derive(Debug, PartialEq)]
pub struct Loaded {
    pub saved: Vec<String>,
    pub entries: Vec<Vec<u8>>,
}

impl Kernel {
    pub fn new(role: &str) -> Kernel {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        let lock = session.session_directory().join("xtables.lock");
        Kernel { namespace, lock, _session: session }
    }

    /// Runs a command to its end; `None` if there is no such program.
    pub fn run(&self, words: &[&str], input: &str) -> Option<Output> {
        let mut command = self.namespace.command(words[0]);
        command.args(&words[1..]).env("XTABLES_LOCKFILE", &self.lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        let out = std::thread::scope(|scope| {
            // A tool that stops at a bad line is judged by its status.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output()
        });
        Some(out.expect("the command ends"))
    }

    /// Runs `iptables-legacy-restore` or its sister; the first line of what it says against it.
    pub fn restore(&self, family: Family, extra: &[&str], text: &str) -> Result<(), String> {
        let tool = match family {
            Family::V4 => "iptables-legacy-restore",
            Family::V6 => "ip6tables-legacy-restore",
        };
        let out = self.run(&[&[tool], extra].concat(), text).expect("the tool is installed");
        if out.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        Err(said.lines().find(|l| !l.trim().is_empty()).unwrap_or("no reason given").to_owned())
    }

    /// Loads a text of one table in place of what the table holds.
    pub fn load(&self, family: Family, table: &str, text: &str) -> Result<Loaded, String> {
        self.restore(family, &[], text)?;
        let tool = match family {
            Family::V4 => "iptables-legacy-save",
            Family::V6 => "ip6tables-legacy-save",
        };
        let out = self.run(&[tool, "-t", table], "").expect("the tool is installed");
        assert!(out.status.success(), "{tool} of what was loaded");
        let saved = String::from_utf8_lossy(&out.stdout).into_owned();
        let saved = saved.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
        let mut counters = LegacyTableCounterReader::open(&self.namespace, family, table)
            .unwrap_or_else(|e| panic!("{table}: {e}"));
        let bytes = counters.read_entries_as_kernel_bytes().expect("the table is read");
        Ok(Loaded { saved, entries: entries(family, &bytes) })
    }

    /// Empties a table: what keeps a name (hashlimit, recent) is gone with its last rule.
    pub fn clear(&self, family: Family, table: &str) {
        let empty = format!("*{table}\nCOMMIT\n");
        self.restore(family, &[], &empty).expect("an empty table loads");
    }
}

/// Splits a table into its entries, each without bytes that have no meaning.
fn entries(family: Family, bytes: &[u8]) -> Vec<Vec<u8>> {
    // struct ipt_entry and struct ip6t_entry: offsets of target_offset and of the first match.
    let (offsets, first) = match family {
        Family::V4 => (88, 112),
        Family::V6 => (140, 168),
    };
    let word = |b: &[u8], at: usize| usize::from(u16::from_ne_bytes([b[at], b[at + 1]]));
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let mut entry = bytes[at..at + word(&bytes[at..], offsets + 2)].to_vec();
        let (mut m, target) = (first, word(&entry, offsets));
        at += entry.len();
        while m < target {
            let size = word(&entry, m);
            let name = entry[m + 2..m + 31].split(|b| *b == 0).next().unwrap_or_default();
            for address in addresses(family, name) {
                entry[m + 32 + address + 4..m + 32 + address + 16].fill(0);
            }
            m += size;
        }
        out.push(entry);
    }
    out
}

/// Where a match holds IPv4 addresses in places for IPv6 ones, of which the kernel reads the first
/// word. The rest is filled by the tool's defaults and not by its options, or the other way round.
fn addresses(family: Family, name: &[u8]) -> &'static [usize] {
    match (family, name) {
        (Family::V4, b"connlimit") => &[0],
        (Family::V4, b"recent") => &[212],
        (Family::V4, b"conntrack") => &[0, 16, 32, 48, 64, 80, 96, 112],
        _ => &[],
    }
}
