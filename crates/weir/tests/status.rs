//! `weir status` in namespaces with each variant, and with several: it names what is there, whose
//! it is and in which order packets traverse it, and it changes nothing.

use serde_json::Value;
use weir_kernel::{Namespace, Session};
use weir_testkit::skip_without_root;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const LEGACY: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    :DOCKER - [0:0]\n:f2b-sshd - [0:0]\n-A INPUT -s 192.0.2.1/32 -j f2b-sshd\n\
    -A FORWARD -j DOCKER\n-A f2b-sshd -j RETURN\nCOMMIT\n";
const LEGACY_V6: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    COMMIT\n";
const IPTABLES_NFT: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n\
    :OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n\
    -A PREROUTING -j KUBE-SERVICES\nCOMMIT\n";
const NFT: &str = "table inet firewalld {\n set trusted { type ipv4_addr; }\n\
    chain filter_INPUT {\n type filter hook input priority -10; policy accept;\n\
    ip saddr @trusted accept\n jump own\n }\n chain own { counter drop\n }\n}\n\
    table ip office { chain in { type filter hook input priority 5; policy drop; }\n }\n";

fn status(inside: &Namespace) -> Value {
    let output = inside.command(WEIR).args(["status", "--json"]).output().expect("weir runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn load(inside: &Namespace, words: &[&str], text: &str) {
    inside.run_command(words, text.as_bytes()).expect("it is loaded");
}

/// The kinds of firewall of a family.
fn kinds(status: &Value, family: &str) -> Vec<String> {
    let families = status["firewalls_by_family"].as_array().expect("families");
    let found = families.iter().find(|f| f["family"] == family).expect("a family");
    assert_eq!(found["is_complete"], true);
    let kinds = found["kinds"].as_array().expect("kinds").iter();
    kinds.map(|kind| kind.as_str().expect("a word").to_owned()).collect()
}

fn tables(status: &Value) -> Vec<String> {
    let tables = status["tables"].as_array().expect("tables").iter();
    let words = |t: &Value| {
        let text = |name: &str| t[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", text("kind"), text("family"), text("name"), t["rules"])
    };
    tables.map(words).collect()
}

fn owners(status: &Value) -> Vec<String> {
    let owners = status["owners"].as_array().expect("owners").iter();
    owners.map(|o| o["program"].as_str().expect("a name").to_owned()).collect()
}

/// What packets traverse at a hook.
fn order(status: &Value, family: &str, hook: &str) -> Vec<String> {
    let hooks = status["hooks"].as_array().expect("hooks");
    let found = hooks.iter().find(|h| h["family"] == family && h["hook"] == hook);
    let entries = found.map(|h| h["entries"].as_array().expect("entries").clone());
    let entries = entries.unwrap_or_default();
    entries.iter().map(|e| e["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn each_variant_is_named_with_its_tables_owners_and_order() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let namespace = |role: &str| session.create_namespace(role).expect("a namespace");

    let legacy = namespace("st-legacy");
    load(&legacy, &["iptables-legacy-restore"], LEGACY);
    load(&legacy, &["ip6tables-legacy-restore"], LEGACY_V6);
    let seen = status(&legacy);
    assert_eq!(kinds(&seen, "ipv4"), ["legacy_iptables"]);
    assert_eq!(kinds(&seen, "ipv6"), ["legacy_iptables"], "a policy of DROP is a rule");
    assert_eq!(tables(&seen), ["legacy_iptables ip filter 3", "legacy_iptables ip6 filter 0"]);
    assert_eq!(owners(&seen), ["docker", "fail2ban"]);
    assert!(order(&seen, "ipv4", "FORWARD").contains(&"legacy filter".to_owned()));

    let nft = namespace("st-iptnft");
    load(&nft, &["iptables-nft-restore"], IPTABLES_NFT);
    let seen = status(&nft);
    assert_eq!((kinds(&seen, "ipv4"), kinds(&seen, "ipv6")), (vec!["iptables_nft".into()], vec![]));
    assert_eq!(tables(&seen), ["iptables_nft ip nat 1"]);
    assert_eq!(owners(&seen), ["kube-proxy"]);

    let native = namespace("st-native");
    load(&native, &["nft", "-f", "-"], NFT);
    load(&native, &["ipset", "restore"], "create f2b-x hash:net\nadd f2b-x 192.0.2.0/24\n");
    let seen = status(&native);
    assert_eq!(kinds(&seen, "ipv4"), ["native_nft"]);
    assert_eq!(kinds(&seen, "ipv6"), ["native_nft"], "inet is of both families");
    assert_eq!(tables(&seen), ["native_nft inet firewalld 3", "native_nft ip office 0"]);
    assert_eq!(seen["tables"][0]["sets"][0], "trusted");
    assert_eq!(owners(&seen), ["fail2ban", "firewalld"]);
    assert_eq!(
        (&seen["ipsets"][0]["name"], &seen["ipsets"][0]["elements"]),
        (&"f2b-x".into(), &1.into())
    );
    let input = order(&seen, "ipv4", "INPUT");
    let place = |name: &str| input.iter().position(|entry| entry == name).expect(name);
    assert!(place("nft inet firewalld filter_INPUT") < place("nft ip office in"), "{input:?}");
}

#[test]
fn several_firewalls_are_all_named_in_the_order_in_which_packets_meet_them() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let all = session.create_namespace("st-all").expect("a namespace");
    load(&all, &["iptables-legacy-restore"], LEGACY);
    load(&all, &["iptables-nft-restore"], IPTABLES_NFT);
    load(&all, &["nft", "-f", "-"], NFT);
    let seen = status(&all);
    assert_eq!(kinds(&seen, "ipv4"), ["legacy_iptables", "iptables_nft", "native_nft"]);
    assert_eq!(kinds(&seen, "ipv6"), ["native_nft"]);
    let input = order(&seen, "ipv4", "INPUT");
    let wanted = ["nft inet firewalld filter_INPUT", "legacy filter", "nft ip office in"];
    let places: Vec<Option<usize>> =
        wanted.iter().map(|name| input.iter().position(|entry| entry == name)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{input:?}");
    // The same from outside, by the name of the namespace.
    let mut outside = std::process::Command::new(WEIR);
    let output = outside.args(["status", "--netns", all.name()]).output().expect("weir runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = "ipv4: legacy iptables, iptables-nft and nftables evaluate packets: a packet must \
                pass all of them\n";
    assert!(text.starts_with(line), "{text}");
    // It is not the firewall of the namespace that the tests run in.
    assert!(text.contains("firewalld: 2 chains, 3 rules (nft inet firewalld)"), "{text}");
}

#[test]
fn status_does_not_load_any_iptables_table() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let empty = session.create_namespace("st-empty").expect("a namespace");
    let names = |file: &str| {
        let path = format!("/proc/thread-self/net/{file}");
        let read = empty.call_inside(|| std::fs::read_to_string(path)).expect("inside");
        read.expect("legacy iptables is there")
    };
    let seen = status(&empty);
    assert!(seen["tables"].as_array().is_some_and(Vec::is_empty), "{seen:#}");
    assert!(
        seen["hooks"].as_array().is_some_and(|h| h.is_empty() || seen["order_source"] == "kernel")
    );
    assert_eq!(
        (names("ip_tables_names"), names("ip6_tables_names")),
        (String::new(), String::new())
    );
    let listed = empty.run_command(&["nft", "list", "tables"], b"").expect("nft");
    assert!(listed.is_empty());
    // Positive control: listing with the tool loads a table, which is then visible.
    load(&empty, &["iptables-legacy", "-t", "raw", "-S"], "");
    assert_eq!(names("ip_tables_names"), "raw\n");
    assert_eq!(tables(&status(&empty)), ["legacy_iptables ip raw 0"]);
}

#[test]
fn without_root_status_reports_what_it_cannot_read() {
    if skip_without_root() {
        return;
    }
    let words = ["--reuid", "65534", "--regid", "65534", "--clear-groups", WEIR, "status"];
    let output = std::process::Command::new("setpriv").args(words).output().expect("setpriv");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    if output.status.code() == Some(127) || text.is_empty() {
        return weir_testkit::skip_test("a program that nobody else may run");
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in
        ["not seen\n", "legacy tables of iptables: ", "run weir as root", "tables of nf_tables: "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("ipv4: no rules seen, but not all tables could be read"), "{text}");
}

#[test]
fn a_namespace_that_does_not_exist_is_an_error() {
    for name in ["weir-no-such-namespace", "../../etc/passwd"] {
        let mut command = std::process::Command::new(WEIR);
        let output = command.args(["status", "--netns", name]).output().expect("weir runs");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(output.stdout.is_empty());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("`ip netns` lists"), "{message}");
    }
}
