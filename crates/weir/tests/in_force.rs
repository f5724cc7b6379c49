//! `--live` reads the variant of iptables that is in force, and reports which.

use std::process::Output;

use weir_kernel::{Namespace, Session};
use weir_testkit::{TempFolder, skip_without_root};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A filter table with this many rules.
fn rules(count: u32) -> String {
    let rule = |n: u32| format!("-A INPUT -s 192.0.2.{n}/32 -j DROP\n");
    let rules: String = (1..=count).map(rule).collect();
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n"
    )
}

const RULES6: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
                      -A INPUT -s 2001:db8::1/128 -j ACCEPT\nCOMMIT\n";

fn weir(inside: &Namespace, words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        inside.command(WEIR).args(words).output().expect("weir runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// What `weir fmt --live` prints of a namespace: the rules that were read.
fn read(inside: &Namespace, more: &[&str]) -> (usize, String) {
    let (status, out, err) = weir(inside, &[&["fmt", "--live"], more].concat());
    assert_eq!(status, Some(0), "{err}");
    (out.lines().filter(|line| line.contains("-A ")).count(), err)
}

fn load(inside: &Namespace, program: &str, text: &str) {
    inside.run_command(&[program], text.as_bytes()).expect("rules are loaded");
}

#[test]
fn live_reads_and_reports_the_variant_that_has_rules() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let empty = session.create_namespace("empty").expect("a namespace");
    let (count, said) = read(&empty, &[]);
    assert_eq!(count, 0);
    assert!(said.contains("no table of iptables is in force, of either variant"), "{said}");

    let legacy = session.create_namespace("legacy").expect("a namespace");
    load(&legacy, "iptables-legacy-restore", &rules(3));
    let (count, said) = read(&legacy, &[]);
    assert_eq!(count, 3);
    assert!(said.contains("IPv4 from legacy iptables (iptables-legacy-save -c)"), "{said}");
    assert!(!said.contains("not read"), "{said}");

    let nft = session.create_namespace("nft").expect("a namespace");
    load(&nft, "iptables-nft-restore", &rules(40));
    let (count, said) = read(&nft, &[]);
    assert_eq!(count, 40, "rules of iptables-nft are read");
    assert!(said.contains("IPv4 from iptables-nft (iptables-nft-save -c)"), "{said}");
    let (_, out, _) = weir(&nft, &["check", "--live"]);
    assert!(out.contains("40 rules"), "{out}");
}

#[test]
fn each_family_is_read_from_its_own_variant() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("families").expect("a namespace");
    load(&inside, "iptables-legacy-restore", &rules(2));
    load(&inside, "ip6tables-nft-restore", RULES6);
    let (count, said) = read(&inside, &[]);
    assert_eq!(count, 3);
    assert!(said.contains("IPv4 from legacy iptables"), "{said}");
    assert!(said.contains("IPv6 from iptables-nft (ip6tables-nft-save -c)"), "{said}");
}

#[test]
fn rules_in_both_variants_are_refused_without_a_variant_option() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("live-both");
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("both").expect("a namespace");
    load(&inside, "iptables-legacy-restore", &rules(2));
    // A table without rules does not matter.
    load(&inside, "iptables-nft-restore", &rules(0));
    assert_eq!(read(&inside, &[]).0, 2);
    load(&inside, "iptables-nft-restore", &rules(5));
    let out = folder.path().join("form");
    let out = out.to_str().expect("a name");
    let file = folder.write_file("file", &rules(2));
    let file = file.to_str().expect("a name");
    for words in [
        &["check", "--live"][..],
        &["fmt", "--live"],
        &["compile", "--live", "--to", "nft", "-o", out],
        &["diff", "--live", file],
    ] {
        let (status, _, err) = weir(&inside, words);
        assert_eq!(status, Some(2), "{words:?}: {err}");
        assert!(err.contains("IPv4 is filtered twice"), "{err}");
        assert!(err.contains("legacy iptables holds 2 rules, iptables-nft holds 5 rules"), "{err}");
        assert!(err.contains("`--variant legacy` or `--variant nft`"), "{err}");
    }
    let (count, said) = read(&inside, &["--variant", "legacy"]);
    assert_eq!(count, 2);
    assert!(said.contains("not read: IPv4 rules of iptables-nft: it has 5 rules"), "{said}");
    let (count, said) = read(&inside, &["--variant", "nft"]);
    assert_eq!(count, 5);
    assert!(said.contains("not read: IPv4 rules of legacy iptables: it has 2 rules"), "{said}");
    let diff = weir(&inside, &["diff", "--live", "--variant", "legacy", file]);
    assert_eq!(diff.0, Some(0), "{}{}", diff.1, diff.2);
    assert!(!diff.1.contains("treats differently from legacy"), "{}", diff.1);
    let (status, out, _) = weir(&inside, &["diff", "--live", "--variant", "nft", file]);
    assert_eq!(status, Some(1));
    assert!(out.contains("packets that iptables-nft treats differently from legacy"), "{out}");
    let (status, _, err) = weir(&inside, &["fmt", file, "--variant", "nft"]);
    assert_eq!(status, Some(2), "it is a variant of what is in force: {err}");
}

#[test]
fn native_nft_tables_that_are_not_read_are_named() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("native").expect("a namespace");
    load(&inside, "iptables-nft-restore", &rules(4));
    let nft = |text: &str| {
        inside.run_command(&["nft", "-f", "-"], text.as_bytes()).expect("nft loads it")
    };
    nft("table inet fw { chain input { type filter hook input priority 0; policy drop; }; }");
    let (count, said) = read(&inside, &[]);
    assert_eq!(count, 4);
    let named = "not read: nft table inet fw, which is not a table of iptables-nft";
    let traversed = format!("{named}; packets traverse its 0 rules as well");
    assert!(said.contains(&traversed), "its policy drops: {said}");
    nft("flush chain inet fw input; add chain inet fw input { policy accept; }");
    let (_, said) = read(&inside, &[]);
    assert!(said.contains(named) && !said.contains("traverse"), "{said}");
    inside
        .run_command(&["tc", "qdisc", "add", "dev", "lo", "clsact"], b"")
        .expect("a qdisc on the loopback device");
    let filter = "tc filter add dev lo ingress protocol ip u32 match ip src 192.0.2.1 flowid 1:1";
    let words: Vec<&str> = filter.split(' ').collect();
    inside.run_command(&words, b"").expect("a filter");
    let (_, said) = read(&inside, &[]);
    let filter = "not read: tc ingress of lo (u32): packets traverse it before iptables";
    assert!(said.contains(filter), "{said}");
    assert!(!said.contains("nft table ip filter"), "{said}");
    // A chain of another program in a table of iptables-nft.
    nft("table ip filter { chain mine { type filter hook input priority 5; policy drop; }; }");
    let (_, said) = read(&inside, &[]);
    assert!(said.contains("not read: nft table filter (IPv4): it has chains"), "{said}");
    // A rule that iptables-nft cannot read.
    nft("add rule ip filter INPUT meta mark set 5");
    let (status, _, err) = weir(&inside, &["check", "--live"]);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("nft tables filter of IPv4 cannot be read: iptables-nft-save"), "{err}");
    assert!(err.contains("`--variant legacy`"), "{err}");
    let (count, said) = read(&inside, &["--variant", "legacy"]);
    assert_eq!(count, 0);
    assert!(said.contains("not read: nft tables filter of IPv4"), "{said}");
}

#[test]
fn live_refuses_if_an_nft_artefact_replaces_the_rules() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("artefact").expect("a namespace");
    let folder = TempFolder::new("live-artefact");
    let file = folder.path().join("rules");
    let text = rules(40).replace(":INPUT ACCEPT", ":INPUT DROP");
    std::fs::write(&file, &text).expect("the rules are written");
    load(&inside, "iptables-legacy-restore", &text);
    assert_eq!(read(&inside, &[]).0, 40);
    let artefact = folder.path().join("nft").display().to_string();
    let file = file.display().to_string();
    let (status, _, err) = weir(&inside, &["compile", &file, "--to", "nft", "-o", &artefact]);
    assert_eq!(status, Some(0), "{err}");
    let state = folder.path().join("state").display().to_string();
    let script = format!("{artefact}/load.sh");
    let words = ["env", &format!("WEIR_STATE={state}"), "sh", &script];
    inside.run_command(&words, b"").expect("it is loaded");
    for words in [
        &["fmt", "--live"][..],
        &["check", "--live"],
        &["compile", "--live", "--to", "nft", "-o", &artefact],
    ] {
        let (status, out, err) = weir(&inside, words);
        assert_eq!((status, &*out), (Some(2), ""), "{words:?}: {err}");
        assert!(err.contains("an nft artefact is in force"), "{err}");
    }
    let (status, _, err) = weir(&inside, &["diff", "--live", &file]);
    assert_eq!(status, Some(0), "{err}");
}

#[test]
fn a_failing_tool_is_not_an_empty_ruleset() {
    if skip_without_root() {
        return;
    }
    let session = Session::new().expect("a session");
    let inside = session.create_namespace("failing").expect("a namespace");
    load(&inside, "iptables-nft-restore", &rules(3));
    assert_eq!(read(&inside, &[]).0, 3);
    let folder = TempFolder::new("failing-tools");
    let tool = folder.path().join("iptables-legacy-save");
    std::fs::write(&tool, "#!/bin/sh\necho refused >&2\nexit 1\n").expect("the tool is written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&tool, mode).expect("it can be run");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let mut command = inside.command(WEIR);
    let out = command.args(["fmt", "--live"]).env("PATH", path).output().expect("weir runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("refused"), "{said}");
}
