//! Measurements of what `docs/semantics.md` says about the kernel beyond single packets: stateful
//! matches and the effect of a reload on them, when nat is traversed, how deeply chains nest, what
//! is atomic. Needs root.
//!
//! One host; its packets leave by `lo` and come in again. Each rule without target is a counter.

use std::net::{TcpStream, UdpSocket};

use weir_kernel::{KernelError, Namespace, RawIpSocket, Session};
use weir_packet::{Addr, Family, Packet, Transport};

const RESTORE: &[&str] = &["iptables-legacy-restore"];

/// A host of its own.
struct Host {
    host: Namespace,
    _session: Session,
}

impl Host {
    /// `None`, and said so, where the machine does not let us.
    fn new() -> Option<Host> {
        if weir_testkit::skip_without_root() {
            return None;
        }
        let session = Session::new().expect("a session");
        let host = session.create_namespace("host").expect("a namespace");
        Some(Host { host, _session: session })
    }

    fn load(&self, rules: &str) -> Result<(), KernelError> {
        self.host.run_command(RESTORE, rules.as_bytes()).map(drop)
    }

    fn run(&self, line: &str) -> Result<String, KernelError> {
        let argv: Vec<&str> = line.split(' ').collect();
        self.host.run_command(&argv, b"").map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    /// Sends datagrams to a port of the host: from `from`, or from its own port choice.
    fn send(&self, from: u16, to: u16, count: usize) {
        let sent = self.host.call_inside(|| {
            let socket = UdpSocket::bind(("127.0.0.1", from))?;
            (0..count).try_for_each(|_| match socket.send_to(b"weir", ("127.0.0.1", to)) {
                // An answer that nobody listens, or a firewall that drops.
                Err(e) if e.raw_os_error() == Some(libc_eperm()) => Ok(()),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
                other => other.map(drop),
            })
        });
        sent.expect("the namespace is entered").expect("datagrams are sent");
    }

    /// Packets counted by the rules of a chain, in order.
    fn counted(&self, table: &str, chain: &str) -> Vec<u64> {
        let saved = self.run(&format!("iptables-legacy-save -c -t {table}")).expect("saved rules");
        let number =
            |s: &str| s.split(':').next().and_then(|n| n.trim_start_matches('[').parse().ok());
        let rule = format!("] -A {chain} ");
        saved.lines().filter(|l| l.contains(&rule)).filter_map(number).collect()
    }
}

/// `EPERM`: what a sender is told whose packet the firewall drops.
const fn libc_eperm() -> i32 {
    1
}

fn filter(rules: &str) -> String {
    format!("*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n")
}

#[test]
fn limits_are_kept_per_rule_and_hashlimit_by_name() {
    let Some(host) = Host::new() else { return };
    let limit = "-A OUTPUT -p udp -m limit --limit 1/hour --limit-burst 3\n";
    let nth = "-A OUTPUT -p udp -m statistic --mode nth --every 2 --packet 0\n";
    let quota = "-A OUTPUT -p udp -m quota --quota 100\n";
    let hashlimit = "-A OUTPUT -p udp -m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 4 \
                     --hashlimit-name weir-facts\n";
    // Once: the control. Twice: the budgets of limit, nth and quota double, hashlimit's does not.
    host.load(&filter(&format!("{limit}{nth}{quota}{hashlimit}"))).unwrap();
    host.send(0, 9, 10);
    let once = host.counted("filter", "OUTPUT");
    assert_eq!(once, [3, 5, 3, 4]);
    let hashlimit = hashlimit.replace("weir-facts", "weir-facts-2");
    host.load(&filter(&format!("{limit}{limit}{nth}{nth}{quota}{quota}{hashlimit}{hashlimit}")))
        .unwrap();
    host.send(0, 9, 10);
    let twice = host.counted("filter", "OUTPUT");
    assert_eq!(twice[..6], [3, 3, 5, 5, 3, 3]);
    assert_eq!(twice[6] + twice[7], 4, "one memory for both: {twice:?}");
}

/// What `-m recent` keeps under a name.
fn recent_list(host: &Host, name: &str) -> String {
    let path = format!("/proc/thread-self/net/xt_recent/{name}");
    let read = host.host.call_inside(|| std::fs::read_to_string(path));
    read.expect("the namespace is entered").expect("a list of that name")
}

#[test]
fn the_first_rule_configures_a_named_hashlimit_table_for_all() {
    let Some(host) = Host::new() else { return };
    // No packet is sent to port 8: rules for it create tables and match nothing.
    let rule = |chain: &str, name: &str, port: u16, burst: u32| {
        format!(
            "-A {chain} -p udp -m udp --dport {port} -m hashlimit --hashlimit-upto 1/hour \
             --hashlimit-burst {burst} --hashlimit-name weir-{name}\n"
        )
    };
    let rules = [
        rule("Z", "last", 8, 2),
        rule("OUTPUT", "alone", 9, 5),
        rule("OUTPUT", "input", 9, 5),
        rule("OUTPUT", "last", 9, 5),
        rule("OUTPUT", "behind", 9, 5),
        rule("OUTPUT", "behind", 8, 2),
        "-A OUTPUT -j M\n".to_owned(),
        rule("M", "chain", 9, 5),
        rule("A", "chain", 8, 2),
        rule("INPUT", "input", 8, 2),
    ];
    let chains = ":Z - [0:0]\n:M - [0:0]\n:A - [0:0]\n:OUTPUT ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n";
    host.load(&format!("*filter\n{chains}{}COMMIT\n", rules.concat())).unwrap();
    host.send(0, 9, 10);
    // Built-in chains by hook, then the others by name: INPUT before OUTPUT, A before M before Z.
    assert_eq!(host.counted("filter", "OUTPUT")[..4], [5, 2, 5, 5]);
    assert_eq!(host.counted("filter", "M")[0], 2);
}

#[test]
fn the_first_rule_sets_a_recent_lists_mask_for_both_families() {
    let Some(host) = Host::new() else { return };
    let set = |name: &str| format!("-A OUTPUT -p udp -m recent --set --name {name} --rsource\n");
    for (name, mask, kept) in
        [("plain", "", "127.0.0.1"), ("wide", "--mask 255.255.0.0", "127.0.0.0")]
    {
        let first =
            format!("-A INPUT -p udp -m udp --dport 8 -m recent --rcheck --name {name} {mask}\n");
        host.load(&filter(&format!("{}{first}", set(name)))).unwrap();
        host.send(0, 9, 1);
        let list = recent_list(&host, name);
        assert!(list.contains(&format!("src={kept} ")), "{name}: {list}");
    }
    for (name, mask, kept) in [("plain6", "", "127.0.0.1"), ("wide6", "--mask ffff::", "127.0.0.0")]
    {
        let six = filter(&format!("-A INPUT -m recent --rcheck --name {name} {mask}\n"));
        host.host.run_command(&["ip6tables-legacy-restore"], six.as_bytes()).unwrap();
        host.load(&filter(&set(name))).unwrap();
        host.send(0, 9, 1);
        let list = recent_list(&host, name);
        assert!(list.contains(&format!("src={kept} ")), "{name}: {list}");
    }
}

#[test]
fn a_rate_estimator_must_be_created_before_its_test() {
    let Some(host) = Host::new() else { return };
    let make =
        "-A OUTPUT -j RATEEST --rateest-name x --rateest-interval 250ms --rateest-ewmalog 500ms\n";
    let ask = "-A OUTPUT -m rateest --rateest x --rateest-gt --rateest-bps 1mbit\n";
    host.load(&filter(&format!("{make}{ask}"))).unwrap();
    host.load(&filter("")).unwrap();
    assert!(host.load(&filter(ask)).is_err());
    assert!(host.load(&filter(&format!("{ask}{make}"))).is_err());
}

#[test]
fn conflicting_estimator_or_timer_configurations_do_not_load() {
    let Some(host) = Host::new() else { return };
    let estimator = |weight: &str| {
        let name = "--rateest-name x --rateest-interval 250ms";
        format!("-A OUTPUT -j RATEEST {name} --rateest-ewmalog {weight}\n")
    };
    let timer =
        |options: &str| format!("-A OUTPUT -j IDLETIMER --label weir-t --timeout {options}\n");
    for (one, same, other) in [
        (estimator("500ms"), estimator("500ms"), estimator("1s")),
        (timer("9"), timer("7"), timer("9 --alarm")),
        (timer("9 --alarm"), timer("9 --alarm"), timer("9")),
    ] {
        host.load(&filter(&format!("{one}{same}"))).unwrap();
        host.load(&filter("")).unwrap();
        assert!(host.load(&filter(&format!("{one}{other}"))).is_err(), "{one}{other}");
    }
}

#[test]
fn matches_run_left_to_right_and_limit_counts_reaching_packets() {
    let Some(host) = Host::new() else { return };
    let first = "-A OUTPUT -m limit --limit 1/hour --limit-burst 3 -p udp -m udp --dport 9\n";
    let last = "-A OUTPUT -p udp -m udp --dport 9 -m limit --limit 1/hour --limit-burst 3\n";
    for (rule, expected) in [(first, 0), (last, 3)] {
        host.load(&filter(rule)).unwrap();
        host.send(0, 7, 5);
        host.send(0, 9, 5);
        assert_eq!(host.counted("filter", "OUTPUT")[0], expected, "{rule}");
    }
}

#[test]
fn a_reload_resets_limits_and_counters_but_not_named_state() {
    let Some(host) = Host::new() else { return };
    let rules = filter(
        "-A OUTPUT -p udp -m limit --limit 1/hour --limit-burst 3\n\
         -A OUTPUT -p udp -m hashlimit --hashlimit-upto 1/hour --hashlimit-burst 3 \
         --hashlimit-name weir-reload\n\
         -A OUTPUT -p udp -m recent --set --name weir-reload --rdest\n",
    );
    host.load(&rules).unwrap();
    host.send(0, 9, 10);
    assert_eq!(host.counted("filter", "OUTPUT"), [3, 3, 10]);
    host.load(&rules).unwrap();
    assert_eq!(host.counted("filter", "OUTPUT"), [0, 0, 0], "without -c from zero");
    host.send(0, 9, 10);
    assert_eq!(host.counted("filter", "OUTPUT"), [3, 0, 10], "limit is full again");
    let seen = host
        .host
        .call_inside(|| std::fs::read_to_string("/proc/thread-self/net/xt_recent/weir-reload"));
    assert!(seen.unwrap().is_ok_and(|t| t.contains("127.0.0.1")), "recent remembers");
    // Any other change of the table does the same, and leaves counters alone.
    host.run("iptables-legacy -A INPUT -p tcp").unwrap();
    host.send(0, 9, 10);
    assert_eq!(host.counted("filter", "OUTPUT"), [6, 0, 20]);
}

#[test]
fn nat_is_traversed_once_per_connection_if_conntrack_is_used() {
    let Some(host) = Host::new() else { return };
    let nat = "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p udp -m udp --dport 9\nCOMMIT\n";
    host.load(nat).unwrap();
    host.send(40_000, 9, 10);
    assert_eq!(host.counted("nat", "OUTPUT"), [0], "no rule uses conntrack");
    host.load(&filter("-A OUTPUT -p udp -m conntrack --ctstate NEW\n-A OUTPUT -p udp\n")).unwrap();
    host.send(40_001, 9, 10);
    assert_eq!(host.counted("nat", "OUTPUT"), [1], "one connection");
    // The control: filter sees every packet.
    assert_eq!(host.counted("filter", "OUTPUT")[1], 10);
}

#[test]
fn socket_and_tproxy_do_not_enable_the_nat_table() {
    let Some(host) = Host::new() else { return };
    let nat = "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p udp -m udp --dport 9\nCOMMIT\n";
    let met = |port, rule: &str| {
        let mangle = format!("*mangle\n-A PREROUTING -p udp {rule}\nCOMMIT\n");
        host.load(&format!("{nat}{mangle}")).unwrap();
        host.send(port, 9, 10);
        host.counted("nat", "OUTPUT")[0]
    };
    assert_eq!(met(40_010, "-m socket"), 0);
    assert_eq!(met(40_011, "-m udp --dport 99 -j TPROXY --on-port 99"), 0);
    // The control.
    assert_eq!(met(40_012, "-m state --state NEW"), 1);
}

#[test]
fn iptables_refuses_drop_in_the_nat_table() {
    let Some(host) = Host::new() else { return };
    let rule = |target| format!("*nat\n-A OUTPUT -p udp -j {target}\nCOMMIT\n");
    host.load(&rule("ACCEPT")).expect("the control loads");
    let refused = host.load(&rule("DROP")).expect_err("refused");
    assert!(refused.to_string().contains("nat"), "{refused}");
}

/// An ICMP error about a datagram from port 4000 of the host to its own port.
fn icmp_error(kind: u8, code: u8, port: u16) -> Packet {
    let local = Addr(0x7f00_0001);
    let mut quoted = Packet::new(Family::V4, local, local, 17);
    quoted.transport = Transport::Udp { sport: 4000, dport: port };
    quoted.payload = b"weir".to_vec();
    let mut error = Packet::new(Family::V4, local, local, 1);
    error.transport = Transport::Icmp { kind, code, rest: [127, 0, 0, 1] };
    error.payload = quoted.to_bytes();
    error
}

#[test]
fn nat_drops_icmp_redirects_of_a_translated_connection() {
    let Some(host) = Host::new() else { return };
    let icmp = "-A OUTPUT -p icmp -m icmp --icmp-type 5 -m conntrack --ctstate RELATED\n\
                -A OUTPUT -p icmp -m icmp --icmp-type 3/1 -m conntrack --ctstate RELATED\n";
    host.load(&format!(
        "*nat\n-A OUTPUT -p udp -m udp --dport 9 -j REDIRECT --to-ports 10\nCOMMIT\n\
         *mangle\n{icmp}COMMIT\n{}",
        filter(icmp)
    ))
    .unwrap();
    let socket = RawIpSocket::open_bound_to_device(&host.host, Family::V4, "lo").unwrap();
    // Each connection as its receiver sees it: to port 10 after the translation, to port 7 without.
    for (to, seen, passed) in [(9, 10, [0, 1]), (7, 7, [1, 2])] {
        host.send(4000, to, 1);
        for (kind, code) in [(5, 1), (3, 1)] {
            let error = icmp_error(kind, code, seen);
            let _ = socket.send(&error, &error.to_bytes());
        }
        // The nat table is between mangle and filter.
        assert_eq!(host.counted("mangle", "OUTPUT"), if to == 9 { [1, 1] } else { [2, 2] });
        assert_eq!(host.counted("filter", "OUTPUT"), passed, "to port {to}");
    }
}

#[test]
fn a_restore_is_atomic_table_by_table() {
    let Some(host) = Host::new() else { return };
    let text =
        format!("{}*nat\n-A OUTPUT -p udp -j DROP\nCOMMIT\n", filter("-A INPUT -s 192.0.2.1\n"));
    host.load(&text).expect_err("nat is refused");
    let saved = host.run("iptables-legacy-save").unwrap();
    assert!(saved.contains("-A INPUT -s 192.0.2.1"), "filter was committed before:\n{saved}");
}

#[test]
fn a_repeated_table_keeps_its_policies() {
    let Some(host) = Host::new() else { return };
    let text = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:gone - [0:0]\n\
        -A INPUT -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n\
        *filter\n:FORWARD ACCEPT [0:0]\n:INPUT - [0:0]\n-A INPUT -s 192.0.2.2/32 -j ACCEPT\nCOMMIT\n";
    host.load(text).expect("it loads");
    let kernel = host.run("iptables-legacy-save -t filter").expect("it is listed");
    let chains = |text: &str| -> Vec<String> {
        let is_kept = |line: &&str| line.starts_with(':') || line.starts_with("-A");
        let words = |line: &str| line.split(" [").next().unwrap_or_default().to_owned();
        text.lines().filter(is_kept).map(words).collect()
    };
    let read = weir_syntax::iptables::parse(text, &Default::default()).expect("it is read");
    assert_eq!(chains(&kernel), chains(&weir_syntax::iptables::print(&read, false)));
    assert!(kernel.contains(":INPUT DROP") && kernel.contains(":FORWARD ACCEPT"), "{kernel}");
}

#[test]
fn legacy_nests_a_thousand_chains_and_nft_fifteen() {
    let Some(host) = Host::new() else { return };
    let (mut names, mut jumps) = (String::new(), "-A OUTPUT -p udp -j c0\n".to_owned());
    for i in 0..1000 {
        names += &format!(":c{i} - [0:0]\n");
        jumps += &match i {
            999 => "-A c999 -p udp\n".to_owned(),
            _ => format!("-A c{i} -j c{}\n", i + 1),
        };
    }
    host.load(&format!("*filter\n:OUTPUT ACCEPT [0:0]\n{names}{jumps}COMMIT\n")).unwrap();
    host.send(0, 9, 1);
    assert_eq!(host.counted("filter", "c999"), [1], "the deepest was walked");
    let nest = |depth: usize, verb: &str| {
        let mut text = "create table ip weir_depth\ntable ip weir_depth {\n".to_owned();
        for i in (0..depth).rev() {
            let last = i + 1 == depth;
            let rule = if last { "counter".into() } else { format!("{verb} c{}", i + 1) };
            text += &format!("chain c{i} {{ {rule}; }}\n");
        }
        text += "chain out { type filter hook output priority 0; jump c0; }\n}\n";
        let loaded = host.host.run_command(&["nft", "-f", "-"], text.as_bytes());
        let _ = host.host.run_command(&["nft", "delete", "table", "ip", "weir_depth"], b"");
        loaded.map(drop)
    };
    for verb in ["jump", "goto"] {
        nest(15, verb).expect("fifteen load");
        let refused = nest(17, verb).expect_err("seventeen do not").to_string();
        assert!(refused.contains("Too many links"), "{refused}");
    }
}

#[test]
fn an_nft_accept_ends_its_base_chain_only() {
    let Some(host) = Host::new() else { return };
    let table = "table ip weir_two {\n\
         chain a { type filter hook output priority 0; udp dport 9 counter accept; }\n\
         chain b { type filter hook output priority 1; udp dport 9 counter drop; }\n}\n";
    host.host.run_command(&["nft", "-f", "-"], table.as_bytes()).unwrap();
    host.send(0, 9, 5);
    let listed = host.run("nft list table ip weir_two").unwrap();
    assert_eq!(listed.matches("counter packets 5").count(), 2, "{listed}");
}

#[test]
fn nft_merges_two_adjacent_negated_comparisons() {
    let Some(host) = Host::new() else { return };
    // Whether a packet with the one port that is excluded, and not the other, is counted.
    let counts = |second: &str| {
        let table = format!(
            "table ip weir_two {{ chain o {{ type filter hook output priority 0; \
             meta l4proto udp {second} counter; }}; }}\n"
        );
        host.host.run_command(&["nft", "-f", "-"], table.as_bytes()).unwrap();
        host.send(4000, 7, 1);
        let listed = host.run("nft list table ip weir_two").unwrap();
        host.run("nft delete table ip weir_two").unwrap();
        listed.contains("counter packets 1 ")
    };
    assert!(counts("th sport != 4001 th dport 7"), "the control: both comparisons are evaluated");
    assert!(!counts("th sport != 4000 th dport & 0xffff != 9"), "its source port is excluded");
    let why = "nft no longer does so: the mask in the nft form may go";
    assert!(counts("th sport != 4000 th dport != 9"), "{why}");
}

#[test]
fn a_mark_in_mangle_output_causes_a_second_route_lookup() {
    let Some(host) = Host::new() else { return };
    let lines = [
        "link add one type veth peer name one-peer",
        "link add two type veth peer name two-peer",
        "link set one up",
        "link set two up",
        "addr add 192.0.2.1/24 dev one",
        "addr add 198.51.100.1/24 dev two",
        "route add 203.0.113.0/24 dev one",
        "rule add fwmark 7 table 77",
        "route add 203.0.113.0/24 dev two table 77",
    ];
    host.host.run_ip_batch(&lines).unwrap();
    let rules = |mark: &str| {
        format!(
            "*mangle\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n{mark}\
             -A POSTROUTING -o one -p udp\n-A POSTROUTING -o two -p udp\nCOMMIT\n"
        )
    };
    let send = || {
        let sent =
            host.host.call_inside(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "203.0.113.9:9"));
        sent.unwrap().unwrap();
        host.counted("mangle", "POSTROUTING")
    };
    host.load(&rules("")).unwrap();
    assert_eq!(send()[..2], [1, 0]);
    host.load(&rules("-A OUTPUT -d 203.0.113.9 -j MARK --set-mark 7\n")).unwrap();
    assert_eq!(send()[..2], [0, 1]);
    // nft does so in chains of type route only.
    for (kind, expected) in [("route", [0, 1]), ("filter", [1, 0])] {
        host.load(&rules("")).unwrap();
        let table = format!(
            "table ip weir_route {{ chain o {{ type {kind} hook output priority -150; \
             ip daddr 203.0.113.9 meta mark set 7; }}; }}\n"
        );
        host.host.run_command(&["nft", "-f", "-"], table.as_bytes()).unwrap();
        assert_eq!(send()[..2], expected, "type {kind}");
        host.run("nft delete table ip weir_route").unwrap();
    }
}

#[test]
fn a_mark_in_mangle_output_affects_realm_but_not_devgroup() {
    let Some(host) = Host::new() else { return };
    let lines = [
        "link add one type veth peer name one-peer",
        "link add two type veth peer name two-peer",
        "link set one group 5",
        "link set two group 7",
        "link set one up",
        "link set two up",
        "addr add 192.0.2.1/24 dev one",
        "addr add 198.51.100.1/24 dev two",
        "route add 203.0.113.0/24 dev one realm 5",
        "rule add fwmark 7 table 77",
        "route add 203.0.113.0/24 dev two table 77 realm 7",
    ];
    host.host.run_ip_batch(&lines).unwrap();
    let tests = "-A OUTPUT -m realm --realm 5\n-A OUTPUT -m devgroup --dst-group 5\n\
                 -A OUTPUT -o one\n";
    let counted = |mark: &str| {
        host.load(&format!(
            "*mangle\n:OUTPUT ACCEPT [0:0]\n{mark}{tests}COMMIT\n{}",
            filter(tests)
        ))
        .unwrap();
        let sent =
            host.host.call_inside(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "203.0.113.9:9"));
        sent.unwrap().unwrap();
        let mangle = host.counted("mangle", "OUTPUT");
        (mangle[mangle.len() - 3..].to_vec(), host.counted("filter", "OUTPUT"))
    };
    // The control: without a mark, both tables see the first route.
    assert_eq!(counted(""), (vec![1, 1, 1], vec![1, 1, 1]));
    assert_eq!(counted("-A OUTPUT -j MARK --set-mark 7\n"), (vec![1, 1, 1], vec![0, 1, 1]));
}

#[test]
fn owner_without_a_socket_matches_only_negated_tests() {
    let Some(host) = Host::new() else { return };
    host.load(&filter(
        "-A OUTPUT -p tcp -m tcp --tcp-flags RST RST -m owner --uid-owner 0\n\
         -A OUTPUT -p tcp -m tcp --tcp-flags RST RST -m owner ! --uid-owner 0\n\
         -A OUTPUT -p tcp -m tcp --tcp-flags SYN,ACK SYN -m owner --uid-owner 0\n\
         -A OUTPUT -p tcp -m tcp --tcp-flags SYN,ACK SYN -m owner ! --uid-owner 0\n",
    ))
    .unwrap();
    // Nobody listens: the kernel itself answers.
    let refused = host.host.call_inside(|| TcpStream::connect("127.0.0.1:9")).unwrap();
    assert_eq!(refused.expect_err("refused").kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(host.counted("filter", "OUTPUT")[..4], [0, 1, 1, 0]);
}

#[test]
fn a_later_statistic_rule_sees_only_the_remaining_packets() {
    let Some(host) = Host::new() else { return };
    let rule = |every: u32, target: &str| {
        format!("-A OUTPUT -p udp -m statistic --mode nth --every {every} --packet 0 -j {target}\n")
    };
    host.load(&filter(&format!("{}{}", rule(2, "ACCEPT"), rule(2, "ACCEPT")))).unwrap();
    host.send(0, 9, 12);
    assert_eq!(host.counted("filter", "OUTPUT")[..2], [6, 3], "half, then half of the other half");
}

#[test]
fn prerouting_sees_fragments_and_input_the_reassembled_datagram() {
    let Some(host) = Host::new() else { return };
    host.run("ip link set lo mtu 1000").expect("a short mtu");
    let rules = "-A PREROUTING -f\n-A PREROUTING -p udp\n";
    let filter = "*filter\n-A INPUT -f -j DROP\n-A INPUT -m length --length 2528\nCOMMIT\n";
    host.load(&format!("*mangle\n{rules}COMMIT\n{filter}")).expect("the rules");
    let received = host.host.call_inside(|| {
        let to = UdpSocket::bind(("127.0.0.1", 0))?;
        to.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        let from = UdpSocket::bind(("127.0.0.1", 0))?;
        from.send_to(&[0; 2500], to.local_addr()?)?;
        to.recv(&mut [0; 3000])
    });
    assert_eq!(received.expect("the namespace is entered").expect("it arrives"), 2500);
    assert_eq!(host.counted("mangle", "PREROUTING"), [2, 3]);
    assert_eq!(host.counted("filter", "INPUT"), [0, 1]);
}
