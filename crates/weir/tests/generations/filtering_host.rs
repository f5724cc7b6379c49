//! A network namespace whose ruleset is changed, and what tests ask of it.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kernel::{Namespace, Session};
use weir_testkit::TempFolder;

pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Rulesets that take each other's place all drop datagrams to this port.
pub const ALWAYS_DROPPED_PORT: u16 = 5000;
/// No ruleset drops datagrams to this port.
pub const OPEN_PORT: u16 = 5009;

/// A namespace, a state folder and files.
pub struct FilteringHost {
    pub namespace: Namespace,
    pub folder: TempFolder,
    pub session: Session,
}

/// A filter table that drops datagrams to some ports, after enough rules for every form to compile.
pub fn rules_dropping_udp_ports(ports: &[u16]) -> String {
    let many: String = (1..=40)
        .map(|n| format!("-A INPUT -s 10.1.{n}.0/24 -p tcp -m tcp --dport 80 -j ACCEPT\n"))
        .collect();
    let drops: String =
        ports.iter().map(|p| format!("-A INPUT -p udp -m udp --dport {p} -j DROP\n")).collect();
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{drops}{many}COMMIT\n"
    )
}

/// The rules with one more, which no form but linear, tree and ipset can express: nft leaves the
/// chain to legacy iptables.
pub fn add_rule_without_nft_form(rules: &str) -> String {
    let rule = "-A INPUT -p tcp -m tcp --dport 81 -m osf --genre Linux -j DROP\n";
    rules.replace("COMMIT", &format!("{rule}COMMIT"))
}

/// How long a test waits for something that happens soon.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds, within a generous limit.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT_LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen within {WAIT_LIMIT:?}");
        std::thread::yield_now();
    }
}

impl FilteringHost {
    /// A host whose loopback device is up. `name` is unique among the tests.
    pub fn new(name: &str) -> FilteringHost {
        let session = Session::new().expect("a session");
        let namespace = session.create_namespace("fw").expect("a namespace");
        namespace.set_device_up("lo").expect("the loopback device is up");
        FilteringHost { namespace, folder: TempFolder::new(&format!("apply-{name}")), session }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its path as a word.
    pub fn write(&self, name: &str, text: &str) -> String {
        self.folder.write_file(name, text).display().to_string()
    }

    /// A command in the namespace, with the state folder and the lock of tools of this host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.namespace.command(program);
        command.env("WEIR_STATE", self.path("state")).env("XTABLES_LOCKFILE", self.path("xtables"));
        command
    }

    /// Runs weir: its status, standard output and standard error.
    pub fn weir(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } =
            self.command(WEIR).args(words).output().expect("weir runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (status.code(), text(stdout), text(stderr))
    }

    /// Runs weir, which must succeed.
    pub fn run_weir(&self, words: &[&str]) -> String {
        let (status, out, err) = self.weir(words);
        assert_eq!(status, Some(0), "{words:?}: {out}{err}");
        out
    }

    /// Runs weir, which must end with status 2; its message.
    pub fn run_refused_weir(&self, words: &[&str]) -> String {
        let (status, out, err) = self.weir(words);
        assert_eq!(status, Some(2), "{words:?}: {out}{err}");
        err
    }

    /// The JSON that weir prints.
    pub fn weir_json(&self, words: &[&str]) -> Value {
        let (_, out, err) = self.weir(words);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{words:?}: {e}: {out}{err}"))
    }

    pub fn generation_in_force(&self) -> u64 {
        self.weir_json(&["history", "--json"])["in_force"].as_u64().expect("a number")
    }

    /// Runs a tool, which must succeed.
    pub fn tool(&self, words: &[&str], input: &str) -> String {
        let output =
            self.namespace.run_command(words, input.as_bytes()).expect("the tool succeeds");
        String::from_utf8(output).expect("UTF-8")
    }

    /// Everything that the tools print of the rulesets in force, without dates and counters.
    pub fn saved_rulesets(&self) -> String {
        let mut out = String::new();
        for words in [&["iptables-legacy-save"][..], &["ip6tables-legacy-save"]] {
            let text = self.tool(words, "");
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            out.extend(lines.map(|line| without_chain_counters(line) + "\n"));
        }
        out.push_str(&self.nft_listing());
        // Elements come in the order of a hash with a random seed.
        let sets = self.tool(&["ipset", "save"], "");
        let words = |line: &str| -> String {
            let words: Vec<&str> = line.split(" initval ").collect();
            words[0].to_owned()
        };
        let mut lines: Vec<String> = sets.lines().map(words).collect();
        lines.sort();
        out + &lines.join("\n")
    }

    /// The stateless listing of all nft tables.
    pub fn nft_listing(&self) -> String {
        self.tool(&["nft", "-s", "list", "ruleset"], "")
    }

    /// Whether a datagram to a port arrives.
    pub fn is_delivered(&self, port: u16) -> bool {
        DatagramPorts::bind(self, port).is_delivered()
    }

    /// Loads rules by the tool, as an administrator did before weir.
    pub fn load_legacy(&self, rules: &str) {
        self.tool(&["iptables-legacy-restore"], rules);
    }

    /// Compiles rules to a folder; its path.
    pub fn compile(&self, name: &str, rules: &str, form: &str) -> String {
        let file = self.write(&format!("{name}.rules"), rules);
        let folder = self.path(&format!("{name}-{form}")).display().to_string();
        self.run_weir(&["compile", &file, "--to", form, "-o", &folder, "--packets", "50"]);
        folder
    }
}

/// Sockets that tell whether datagrams to a port arrive.
pub struct DatagramPorts {
    tried: UdpSocket,
    control: UdpSocket,
    sender: UdpSocket,
}

impl DatagramPorts {
    /// Binds a port, and the open one.
    pub fn bind(host: &FilteringHost, port: u16) -> DatagramPorts {
        // A process that is being started by another thread holds all sockets until it is another
        // program.
        let bind_free = |port: u16| {
            let mut bound = None;
            wait_until("a free port", || match UdpSocket::bind(("127.0.0.1", port)) {
                Ok(socket) => bound.insert(socket).local_addr().is_ok(),
                Err(error) if error.kind() == ErrorKind::AddrInUse => false,
                Err(error) => panic!("bind {port}: {error}"),
            });
            bound.expect("it is bound")
        };
        let bind_all = || {
            let (tried, control, sender) = (bind_free(port), bind_free(OPEN_PORT), bind_free(0));
            tried.set_nonblocking(true).expect("it does not wait");
            control.set_read_timeout(Some(WAIT_LIMIT)).expect("a timeout");
            DatagramPorts { tried, control, sender }
        };
        host.namespace.call_inside(bind_all).expect("the namespace is entered")
    }

    /// Whether a datagram arrives. One to the open port, sent after it, must: datagrams of the
    /// loopback device stay in order.
    pub fn is_delivered(&self) -> bool {
        for to in [&self.tried, &self.control] {
            // A datagram that OUTPUT drops is an error of the sender.
            let _ = self.sender.send_to(b"x", to.local_addr().expect("an address"));
        }
        self.control.recv(&mut [0; 4]).expect("the positive control arrives");
        match self.tried.recv(&mut [0; 4]) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("receive: {error}"),
        }
    }
}

fn without_chain_counters(line: &str) -> String {
    match line.starts_with(':') {
        true => line.split(" [").next().unwrap_or_default().to_owned(),
        false => line.to_owned(),
    }
}
