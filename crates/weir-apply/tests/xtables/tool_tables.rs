//! Tables of a namespace, loaded and listed by the tools: the oracle of these tests.

use std::path::PathBuf;
use std::process::Output;

use weir_apply::{ApplyError, xtables};
use weir_kernel::xtables::{XtablesLock, XtablesSocket};
use weir_kernel::{Namespace, Session};
use weir_model::{Family, Ruleset};
use weir_syntax::iptables::{ParserSettings, parse};

/// A namespace, and the tools in it.
pub struct ToolTables {
    pub namespace: Namespace,
    pub lock: PathBuf,
    _session: Session,
}

/// Entries in the kernel, and what `iptables-save -c` prints.
#[derive(Debug, PartialEq)]
pub struct LoadedTable {
    pub saved: Vec<String>,
    pub entries: Vec<u8>,
}

impl ToolTables {
    pub fn new(role: &str) -> ToolTables {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace(role).expect("a namespace");
        let lock = session.session_directory().join("xtables.lock");
        ToolTables { namespace, lock, _session: session }
    }

    pub fn run_tool(&self, family: Family, tool: &str, input: &str) -> Output {
        self.run_tool_with_arguments(family, tool, &["-c"], input)
    }

    pub fn run_tool_with_arguments(
        &self,
        family: Family,
        tool: &str,
        arguments: &[&str],
        input: &str,
    ) -> Output {
        use std::io::Write as _;
        use std::process::Stdio;
        let prefix = if family == Family::V4 { "iptables" } else { "ip6tables" };
        let mut command = self.namespace.command(format!("{prefix}-legacy-{tool}"));
        command.args(arguments).env("XTABLES_LOCKFILE", &self.lock);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the tool is installed");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        std::thread::scope(|scope| {
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
            child.wait_with_output().expect("the tool ends")
        })
    }

    pub fn socket(&self, family: Family) -> XtablesSocket {
        XtablesSocket::open_in_namespace(&self.namespace, family).expect("a socket")
    }

    pub fn list(&self, family: Family, table: &str) -> LoadedTable {
        let out = self.run_tool(family, "save", "");
        let saved = String::from_utf8_lossy(&out.stdout).into_owned();
        let section = saved.split('*').find(|s| s.starts_with(table)).unwrap_or_default();
        let saved = section.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
        let snapshot = self.socket(family).read_table(table).expect("the table is read");
        LoadedTable { saved, entries: snapshot.entries().to_vec() }
    }

    /// Loads a text of one table with the tool; what it says against it.
    pub fn load_by_tool(
        &self,
        family: Family,
        table: &str,
        text: &str,
    ) -> Result<LoadedTable, String> {
        let out = self.run_tool(family, "restore", text);
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        Ok(self.list(family, table))
    }

    /// Loads it with the tool and with weir, and compares bytes and listing.
    pub fn compare_loads(&self, family: Family, table: &str, text: &str) -> Result<(), ApplyError> {
        let (ours, theirs) = self.load_both(family, table, text)?;
        assert_eq!(ours.saved, theirs.saved, "{text}");
        let differing = ours.entries.iter().zip(&theirs.entries).position(|(a, b)| a != b);
        assert_eq!(differing, None, "byte of the entries\n{text}");
        assert_eq!(ours.entries.len(), theirs.entries.len(), "{text}");
        Ok(())
    }

    /// Loads it with the tool, empties the table, and loads it with weir: both results, ours first.
    pub fn load_both(
        &self,
        family: Family,
        table: &str,
        text: &str,
    ) -> Result<(LoadedTable, LoadedTable), ApplyError> {
        let theirs = self.load_by_tool(family, table, text).unwrap_or_else(|e| panic!("{text}{e}"));
        self.load_by_tool(family, table, &format!("*{table}\nCOMMIT\n")).expect("no rules");
        let lock = XtablesLock::acquire(&self.lock, std::time::Duration::from_secs(10));
        let _lock = lock.expect("nobody else holds the lock");
        xtables::load_table(&self.socket(family), &parse_ruleset(family, text).tables[0])?;
        drop(_lock);
        Ok((self.list(family, table), theirs))
    }
}

pub fn try_parse_ruleset(family: Family, text: &str) -> Result<Ruleset, String> {
    let settings = ParserSettings { family: Some(family), ..ParserSettings::default() };
    parse(text, &settings).map_err(|errors| errors[0].message.clone())
}

pub fn parse_ruleset(family: Family, text: &str) -> Ruleset {
    try_parse_ruleset(family, text).unwrap_or_else(|message| panic!("{text}: {message}"))
}
