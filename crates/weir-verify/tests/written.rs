//! Targets that write what later rules test: no rule is removed as redundant, and no two rulesets
//! are reported as equal, if the kernel distinguishes them.
//!
//! Random rulesets of MARK, CONNMARK, SET, TCPMSS, TTL, TOS, DSCP, CT and NOTRACK, each followed by
//! tests of what they write. From each come other rulesets that weir reports as equal: the result
//! of the removing passes, and the ruleset without one rule if the diagrams prove that nothing
//! changes. Both are loaded into separate hosts and get the same packets. Counters of a later
//! table, written here by hand, show the result; neither the interpreter nor the diagrams are
//! involved. Needs root.

use std::fmt::Write as _;

use weir_diagram::{CompareOptions, StatefulTestPairing, compare_firewalls};
use weir_kernel::{KernelError, Namespace, RawIpSocket, Session};
use weir_model::{Addr, Family, Firewall, Packet};
use weir_packet::{Transport, tcp_flag};
use weir_passes::{
    CheckedPassesOptions, PacketCheckOptions, PassOptions, passes, run_passes_until_first_refusal,
};
use weir_syntax::iptables::{ParserSettings, parse, print};
use weir_testkit::random_ruleset::TestRng;

const SETS: &str = "create s hash:ip family inet skbinfo\n\
                    add s 127.0.0.1 skbmark 0x1\n\
                    create t hash:ip family inet\n";

const TESTS: &[&str] = &[
    "",
    "-m mark --mark 0x1",
    "-m mark --mark 0x1",
    "-m mark --mark 0x2/0x3",
    "-m mark ! --mark 0x1",
    "-m connmark --mark 0x1",
    "-m connmark --mark 0x2",
    "-m ttl --ttl-eq 10",
    "-m ttl --ttl-gt 10",
    "-m tos --tos 0x4/0xff",
    "-m dscp --dscp 0x01",
    "-m length --length 44",
    "-m length --length 40",
    "-m set --match-set t src",
    "-m set ! --match-set t src",
    "-m set --match-set s src",
];

const TARGETS: &[&str] = &[
    "",
    "-j DROP",
    "-j DROP",
    "-j RETURN",
    "-j ACCEPT",
    "-j sub",
    "-j MARK --set-xmark 0x1/0xffffffff",
    "-j MARK --set-xmark 0x2/0x3",
    "-j SET --map-set s src --map-mark",
    "-j SET --add-set t src",
    "-j SET --del-set t src",
    "-p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 500",
    "-j TTL --ttl-set 10",
    "-j TTL --ttl-inc 1",
    "-j TOS --set-tos 0x4/0xff",
    "-j DSCP --set-dscp 0x01",
    "-j CONNMARK --set-xmark 0x1/0xffffffff",
    "-j CONNMARK --save-mark",
    "-j CONNMARK --restore-mark",
    "-p tcp -j ECN --ecn-tcp-remove",
];

const RAW: &[&str] = &[
    "-j CT --zone 5",
    "-j NOTRACK",
    "-j CT --notrack",
    "-m conntrack --ctstate INVALID -j DROP",
    "-m conntrack --ctstate NEW,UNTRACKED -j MARK --set-xmark 0x1/0x1",
];

/// A random ruleset, of the raw and the mangle table of OUTPUT.
fn ruleset(rng: &mut TestRng) -> String {
    let mut text = "*raw\n:OUTPUT ACCEPT [0:0]\n".to_owned();
    for _ in 0..rng.number_below(4) {
        let _ = writeln!(text, "-A OUTPUT -p udp {}", rng.pick(RAW));
    }
    text += "COMMIT\n*mangle\n:OUTPUT ACCEPT [0:0]\n:sub - [0:0]\n";
    for (chain, rules) in [("OUTPUT", 8), ("sub", 3)] {
        for _ in 0..rules {
            let target = match rng.pick(TARGETS) {
                "-j sub" if chain == "sub" => "-j RETURN",
                other => other,
            };
            let _ = writeln!(text, "-A {chain} {} {target}", rng.pick(TESTS));
        }
    }
    text + "COMMIT\n"
}

fn firewall(text: &str) -> Firewall {
    let ruleset = match parse(text, &ParserSettings::default()) {
        Ok(ruleset) => ruleset,
        Err(errors) => {
            panic!("{}", weir_syntax::render_diagnostics(&errors, "generated", text, false))
        }
    };
    let sets = weir_syntax::ipset::parse(SETS).expect("good sets");
    Firewall { v4: Some(ruleset), sets, ..Firewall::default() }
}

/// Packets out of the host: SYNs with and without flags that ECN removes, and datagrams, with
/// small values in what is tested.
fn packets() -> Vec<(u32, Packet)> {
    let here = Addr(0x7f00_0001);
    let mut out = Vec::new();
    for (mark, ttl, tos) in [(0, 64, 0), (1, 10, 0), (2, 9, 4), (3, 11, 8)] {
        for proto in [6u8, 17] {
            let number = out.len() as u16;
            let mut packet = Packet::new(Family::V4, here, here, proto);
            let (sport, dport) = (20_000 + number, 1_000 + number);
            packet.transport = match proto {
                6 => Transport::Tcp {
                    sport,
                    dport,
                    seq: 1,
                    ack: 0,
                    flags: tcp_flag::SYN | if mark > 1 { 0x40 } else { 0 },
                    options: Vec::new(),
                },
                _ => Transport::Udp { sport, dport },
            };
            if proto == 17 {
                packet.payload = vec![0; 12 + 4 * usize::from(mark == 2)];
            }
            (packet.ttl, packet.tos) = (ttl, tos);
            out.push((mark, packet));
        }
    }
    out
}

/// Counters after the rules: each packet, and each value that it may have then.
fn observers(packets: &[(u32, Packet)]) -> String {
    let mut text = "*filter\n:OUTPUT ACCEPT [0:0]\n".to_owned();
    for (_, packet) in packets {
        let (_, port) = packet.ports().expect("a port");
        let proto = if packet.proto == 6 { "tcp" } else { "udp" };
        let mut see = |test: &str| {
            let _ = writeln!(text, "-A OUTPUT -p {proto} -m {proto} --dport {port} {test}");
        };
        see("");
        for mark in 0..4 {
            see(&format!("-m mark --mark {mark}"));
            see(&format!("-m connmark --mark {mark}"));
        }
        for ttl in 9..14 {
            see(&format!("-m ttl --ttl-eq {ttl}"));
        }
        for tos in [0, 4, 8] {
            see(&format!("-m tos --tos {tos}/0xff"));
        }
        see("-m length --length 44");
        if proto == "tcp" {
            see("-m ecn --ecn-tcp-ece");
        }
    }
    text + "COMMIT\n"
}

/// What the counters after a ruleset say of the packets.
fn observed(session: &Session, role: &str, rules: &str) -> Result<String, KernelError> {
    let host = session.create_namespace(role)?;
    let out = observe(&host, rules);
    session.remove_namespace(host)?;
    out
}

fn observe(host: &Namespace, rules: &str) -> Result<String, KernelError> {
    let packets = packets();
    host.run_command(&["ipset", "restore"], SETS.as_bytes())?;
    let both = format!("{rules}{}", observers(&packets));
    host.run_command(&["iptables-legacy-restore", "-w"], both.as_bytes())?;
    let socket = RawIpSocket::open_bound_to_device(host, Family::V4, "lo")?;
    for (mark, packet) in packets {
        socket.set_mark(mark).expect("a mark");
        // A firewall that drops is an error of the sender's.
        let _ = socket.send(&packet, &packet.to_bytes());
    }
    let saved = host.run_command(&["iptables-legacy-save", "-c", "-t", "filter"], b"")?;
    let saved = String::from_utf8_lossy(&saved).into_owned();
    let counter = |l: &str| l.split(' ').next().map(str::to_owned);
    Ok(saved.lines().filter(|l| l.contains("] -A OUTPUT")).filter_map(counter).collect())
}

/// The same ruleset without the rule of that number.
fn without(text: &str, number: usize) -> Option<String> {
    let mut rules = 0;
    let mut removed = false;
    let kept = text.lines().filter(|line| {
        rules += usize::from(line.starts_with("-A"));
        let this = line.starts_with("-A") && rules == number + 1;
        removed |= this;
        !this
    });
    let text: String = kept.map(|l| format!("{l}\n")).collect();
    removed.then_some(text)
}

/// Rulesets that weir calls equal to the first, and some that it does not.
fn candidates(text: &str) -> (Vec<(String, String)>, Vec<String>) {
    let before = firewall(text);
    let mut equal = Vec::new();
    for name in ["remove_duplicates", "remove_shadowed"] {
        let pass = passes::find_pass(name).expect("a pass");
        let options = CheckedPassesOptions {
            pass: PassOptions::default(),
            packet_check: PacketCheckOptions { seed: 1, packets_per_family: 200 },
            ..CheckedPassesOptions::default()
        };
        let run = run_passes_until_first_refusal(&before, &[pass], &options, &mut |_, _| {})
            .unwrap_or_else(|refused| panic!("{refused}\n{text}"));
        let after = print(run.firewall.v4.as_ref().expect("rules"), false);
        if run.pass_reports.iter().any(|s| s.rule_counts.0 != s.rule_counts.1) {
            equal.push((name.to_owned(), after));
        }
    }
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    let mut different = Vec::new();
    for number in 0.. {
        let Some(less) = without(text, number) else { break };
        let comparison =
            compare_firewalls(&before, &firewall(&less), &options).expect("no mistake");
        match comparison.is_equal() {
            true => equal.push((format!("without rule {}", number + 1), less)),
            false => different.push(less),
        }
    }
    (equal, different)
}

#[test]
fn rulesets_called_equal_behave_equally_in_the_kernel() {
    if weir_testkit::skip_without_root() {
        return;
    }
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |v| v.parse().expect("a number"))
    };
    let mut rng = TestRng::new(number("WEIR_SEED", 1));
    let session = Session::new().expect("a session");
    let (mut equal, mut removed, mut differed, mut controls) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    let rulesets = number("WEIR_RULESETS", 16);
    for n in 0..rulesets {
        let text = ruleset(&mut rng);
        let before = observed(&session, &format!("a{n}"), &text).expect("the original");
        let (called_equal, called_different) = candidates(&text);
        for (i, (why, other)) in called_equal.iter().enumerate() {
            let after = observed(&session, &format!("b{n}x{i}"), other).expect("another");
            equal += 1;
            removed += u64::from(why.starts_with("remove"));
            if after != before {
                wrong.push(format!("{why}:\n{text}becomes\n{other}"));
            }
        }
        // The control: of rulesets that are called different, the kernel distinguishes many.
        for (i, other) in called_different.iter().take(3).enumerate() {
            let after = observed(&session, &format!("c{n}x{i}"), other).expect("a control");
            controls += 1;
            differed += u64::from(after != before);
        }
    }
    println!(
        "{rulesets} rulesets: {equal} others called equal ({removed} by passes), {} of them told \
         apart by the kernel; {differed} of {controls} called different told apart",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal >= rulesets / 2, "{equal} rulesets were called equal");
    assert!(differed * 4 >= controls, "{differed} of {controls} controls differ");
}
