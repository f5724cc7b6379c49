//! Three namespaces in a row, the firewall in the middle, and the artefacts that it loads.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir_artefact::KernelRulesetStore;
use weir_backends::load_scripts::LoadScripts;
use weir_backends::write_artefact;
use weir_kernel::{Namespace, Session};
use weir_model::Family;
use weir_testkit::skip_test;

use crate::flows::Flows;
use crate::rulesets::{ALL, BARE, BARE6};
use crate::snapshot::snapshot;

/// Words of the shell that a command may follow.
const KEYWORDS: [&str; 10] =
    ["if", "then", "else", "elif", "while", "until", "do", "in", "exec", "command"];

/// The programs that the scripts run, as far as the machine has them; each is a point where they
/// can be killed. They are what stands where a command begins: a program that is only named in a
/// message must not be among them, for what it starts finds the tools themselves.
pub fn tools() -> BTreeSet<String> {
    let (_, artefact) = &ALL[0];
    let LoadScripts { load, unload } = LoadScripts::generate_for_artefact(artefact);
    let lines = [&load, &unload].into_iter().flat_map(|text| text.lines());
    let code = lines.filter(|line| !line.trim_start().starts_with('#'));
    let commands = code.flat_map(|line| line.split(|c| "|&;(){}\"'`".contains(c)));
    let is_name = |word: &&str| !KEYWORDS.contains(word) && !word.contains(['=', '/', '$']);
    let words = commands.filter_map(|c| c.split_whitespace().find(is_name));
    let legacy = [Family::V4, Family::V6].map(KernelRulesetStore::LegacyTables);
    let loaders = legacy.into_iter().chain([KernelRulesetStore::Ipset, KernelRulesetStore::Nft]);
    let programs = loaders.flat_map(|loader| loader.save_and_load_tools().iter().copied());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |word: &&str| folders.iter().any(|folder| folder.join(word).is_file());
    // What these start would find the tools themselves, too.
    let starts_others = |word: &&str| ["sh", "unshare"].contains(word);
    let names = words.chain(programs).filter(|word| !starts_others(word)).filter(is_there);
    names.map(str::to_owned).collect()
}

/// What a script said and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// The status; `None` if it was killed.
    pub status: Option<i32>,
    /// Both streams.
    pub said: String,
}

impl Ended {
    pub fn of(out: &Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { status: out.status.code(), said: text(&out.stdout) + &text(&out.stderr) }
    }

    pub fn is_done(&self) -> bool {
        self.status == Some(0)
    }
}

/// Where the tests happen.
pub struct World {
    _session: Session,
    source: Namespace,
    firewall: Namespace,
    sink: Namespace,
    /// Where everything is written: memory, for the scripts wait for the disk.
    folder: PathBuf,
    /// Names of the artefacts; each has a folder of that name.
    pub names: Vec<&'static str>,
}

impl Drop for World {
    fn drop(&mut self) {
        // What is left is in memory and named after the run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl World {
    /// Builds it, with the bare ruleset in force; `None` if the machine does not let us.
    pub fn new(what: &str) -> Option<World> {
        let session = match Session::new() {
            Ok(session) => session,
            Err(e) => {
                skip_test(&format!("needs root and network namespaces: {e}"));
                return None;
            }
        };
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory.join(format!("weir-faults-{what}-{}", session.run_name())),
            false => session.session_directory().join("faults"),
        };
        fs::create_dir(&folder).expect("a folder");
        let make = |role| session.create_namespace(role).expect("a namespace");
        let (source, firewall, sink) = (make("source"), make("fw"), make("sink"));
        let mut names = Vec::new();
        for (name, made) in ALL.iter() {
            write_artefact(made, &folder.join(name)).expect("the artefact is written");
            names.push(*name);
        }
        let world = World { _session: session, source, firewall, sink, folder, names };
        world.connect();
        world.write_tools();
        Some(world)
    }

    fn connect(&self) {
        let (source, sink) = (self.source.name(), self.sink.name());
        let lines = [
            format!("link add name left type veth peer name eth0 netns {source}"),
            format!("link add name right type veth peer name eth0 netns {sink}"),
            "address add 10.77.1.1/24 dev left".to_owned(),
            "address add 10.77.2.1/24 dev right".to_owned(),
            "link set left up".to_owned(),
            "link set right up".to_owned(),
        ];
        self.firewall.run_ip_batch(&lines).expect("the links are made");
        for (end, net) in [(&self.source, 1), (&self.sink, 2)] {
            let lines = [
                format!("address add 10.77.{net}.2/24 dev eth0"),
                "link set eth0 up".to_owned(),
                format!("route add default via 10.77.{net}.1"),
            ];
            end.run_ip_batch(&lines).expect("the end is set up");
        }
        self.firewall.set_sysctl("net.ipv4.ip_forward", "1").expect("it forwards");
    }

    fn write_tools(&self) {
        let folder = self.folder.join("tools");
        fs::create_dir(&folder).expect("a folder");
        let tool = self.folder.join("tool.sh");
        fs::write(&tool, include_str!("tool.sh")).expect("the tool is written");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("it can be run");
        for name in tools() {
            symlink(&tool, folder.join(&name)).expect("a link");
        }
    }

    /// Puts the bare ruleset in force.
    pub fn load_bare(&self) {
        self.tool(&["iptables-legacy-restore"], BARE);
        self.tool(&["ip6tables-legacy-restore"], BARE6);
    }

    /// The flows; before any rules are there, they show that a forbidden packet would arrive.
    pub fn flows(&self, forbidden_in_a_burst: usize) -> Flows {
        let start = |burst| Flows::start(&self.source, &self.sink, "10.77.2.2", burst);
        let flows = start(1);
        assert!(flows.forbidden_arrives(), "without rules all arrives");
        drop(flows);
        self.load_bare();
        start(forbidden_in_a_burst)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The firewall's name in messages and in the state: the number of its namespace.
    pub fn number(&self) -> u64 {
        self.firewall.inode()
    }

    /// Runs a tool in the firewall.
    pub fn tool(&self, argv: &[&str], input: &str) -> String {
        let out = self.firewall.run_command(argv, input.as_bytes()).expect("the tool runs");
        String::from_utf8(out).expect("text")
    }

    /// What is in force.
    pub fn snapshot(&self) -> String {
        let v4 = self.tool(&["iptables-legacy-save"], "");
        let v6 = self.tool(&["ip6tables-legacy-save"], "");
        let nft = self.tool(&["nft", "list", "ruleset"], "");
        snapshot(&(v4 + &v6), &nft, &self.tool(&["ipset", "save"], ""))
    }

    /// A command in the firewall with the state and the lock file of this test.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.firewall.command(program);
        command.env("WEIR_STATE", self.path("state"));
        command.env("XTABLES_LOCKFILE", self.path("xtables.lock"));
        command.current_dir("/");
        command
    }

    /// The same, where tools of the name find those that fail.
    pub fn faulty(&self, program: &str, count: &str) -> Command {
        let mut command = self.command(program);
        let path = std::env::var("PATH").expect("a path");
        let tools = self.path("tools");
        command.env("PATH", format!("{}:{path}", tools.display()));
        command.env("FAULT_PATH", path);
        let count = self.path(count);
        if let Err(e) = fs::remove_file(&count) {
            assert_eq!(e.kind(), io::ErrorKind::NotFound, "{e}");
        }
        command.env("FAULT_COUNT", count);
        command
    }

    /// The script of a line such as `tree/load.sh --check`, as words for `sh`.
    pub fn words(&self, line: &str) -> Vec<String> {
        let (script, options) = line.split_once(' ').unwrap_or((line, ""));
        let path = self.path(script).display().to_string();
        [path].into_iter().chain(options.split_whitespace().map(str::to_owned)).collect()
    }

    /// Runs a script to its end, without faults.
    pub fn script(&self, line: &str) -> Ended {
        Ended::of(&self.command("sh").args(self.words(line)).output().expect("sh runs"))
    }

    /// Runs a script that must succeed.
    pub fn done(&self, line: &str) {
        let ended = self.script(line);
        assert!(ended.is_done(), "{line}: {}", ended.said);
    }

    /// Unloads everything.
    pub fn unload_all(&self) {
        for _ in 0..8 {
            let ended = self.script("tree/unload.sh --latest");
            if !ended.is_done() {
                assert!(ended.said.contains("is not loaded"), "{}", ended.said);
                return;
            }
        }
        panic!("there is always something more to unload");
    }
}
