//! weir accepts the sets that `ipset restore` accepts, refuses those that it refuses, and prints
//! exactly what `ipset save` prints.

use std::io::Write as _;
use std::process::{Command, Stdio};

use weir_syntax::ipset::{parse, print};

/// Kinds with the options of their `create` lines.
const SETS: [&str; 11] = [
    "hash:ip family inet",
    "hash:ip family inet6 hashsize 64 maxelem 100",
    "hash:ip netmask 24",
    "hash:net family inet counters comment",
    "hash:net family inet6",
    "hash:ip,port skbinfo",
    "hash:ip,port,net",
    "hash:net,port",
    "hash:net,iface",
    "bitmap:ip range 192.168.0.0/16",
    "bitmap:port range 0-1023",
];

/// Elements, each tried on every set.
const ELEMENTS: [&str; 42] = [
    "192.0.2.1",
    "192.168.1.1",
    "192.168.1.1-192.168.1.9",
    "192.0.2.0/28",
    "192.0.2.0-192.0.2.77",
    "0.0.0.0/0",
    "10.0.0.0/8 nomatch",
    "2001:db8::1",
    "2001:db8::/32",
    "::ffff:192.0.2.1",
    "192.0.2.1,80",
    "192.0.2.1,tcp:80",
    "192.0.2.1,udp:domain",
    "192.0.2.1,tcp:80-85",
    "192.0.2.1,icmp:echo-request",
    "192.0.2.1,icmp:3/4",
    "192.0.2.1,icmp:8",
    "192.0.2.1,gre:0",
    "192.0.2.1,gre:5",
    "192.0.2.1,sctp:9",
    "192.0.2.1,udplite:9",
    "192.0.2.1,nope:9",
    "192.0.2.1,tcp:70000",
    "192.0.2.0/30,udp:5-6",
    "192.0.2.1,tcp:80,10.0.0.0/8",
    "192.0.2.1,tcp:80,10.0.0.1",
    "10.0.0.0/8,tcp:80",
    "10.0.0.0/8,eth0",
    "10.0.0.0/8,physdev:eth1",
    "0.0.0.0/0,eth2 nomatch",
    "10.0.0.0/8,a-device-name-16",
    "80",
    "22-24",
    "1024",
    "ssh",
    "tcp:80",
    "192.0.2.1 comment \"two words\"",
    "192.0.2.1 packets 5 bytes 60",
    "192.0.2.1 timeout 5",
    "192.0.2.1,tcp:80 skbmark 0x10/0xff skbprio 1:10 skbqueue 3",
    "192.0.2.300",
    "nonsense",
];

/// Loads a text in a new namespace; what `ipset save` prints then, or nothing.
fn saved(text: &str) -> Option<String> {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", "ipset restore && ipset save"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    // A tool that ends at a bad line closes its end: that is its answer.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    let out = child.wait_with_output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().filter(|l| l.starts_with("add ")).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn sets_are_accepted_and_printed_like_ipset() {
    if saved("create x hash:ip\n").is_none() {
        return weir_testkit::skip_test("needs root, network namespaces and ipset");
    }
    let mut accepted = 0;
    let mut wrong = Vec::new();
    for set in SETS {
        for element in ELEMENTS {
            let text = format!("create x {set}\nadd x {element}\n");
            match (parse(&text), saved(&text)) {
                (Ok(sets), Some(theirs)) => {
                    accepted += 1;
                    if sorted(&print(&sets)) != sorted(&theirs) {
                        wrong.push(format!("{set}, {element}: {} / {theirs}", print(&sets)));
                    }
                    match parse(&theirs).map(|sets| print(&sets)) {
                        Ok(again) if again == theirs => {}
                        other => wrong.push(format!("{theirs} is printed {other:?}")),
                    }
                    if saved(&print(&sets)).as_deref().map(sorted) != Some(sorted(&theirs)) {
                        wrong.push(format!("{set}, {element}: does not load the same"));
                    }
                }
                (Err(_), None) => {}
                (Ok(_), None) => wrong.push(format!("ipset refuses {set}, {element}")),
                (Err(e), Some(_)) => {
                    wrong.push(format!("weir refuses {set}, {element}: {}", e[0].message));
                }
            }
        }
    }
    assert!(accepted > 60, "{accepted} accepted");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn lists_and_their_members_load_as_printed() {
    let text = "create a hash:ip family inet\ncreate l list:set size 8 counters\nadd l a\n";
    let Some(theirs) = saved(text) else {
        return weir_testkit::skip_test("needs root, network namespaces and ipset");
    };
    let ours = parse(&theirs).map(|sets| print(&sets));
    assert_eq!(ours.as_deref(), Ok(theirs.as_str()));
    assert!(parse("create l list:set\nadd l nobody\n").is_err());
    assert!(saved("create l list:set\nadd l nobody\n").is_none());
}
