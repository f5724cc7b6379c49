//! The rulesets of the studies load, in both languages.

use std::io::Write;
use std::process::{Command, Stdio};

use weir_example::{RulesKind, RulesOptions, rules, rules_nft};

fn loads(tool: &[&str], text: &str) {
    let mut child = Command::new("unshare")
        .arg("--net")
        .args(tool)
        .stdin(Stdio::piped())
        .spawn()
        .expect("unshare is installed");
    let mut stdin = child.stdin.take().expect("the input is a pipe");
    stdin.write_all(text.as_bytes()).expect("the tool reads its input");
    drop(stdin);
    let status = child.wait().expect("the child was started");
    assert!(status.success(), "{tool:?}: {status}");
}

#[test]
fn both_kinds_load_in_both_languages() {
    for kind in [RulesKind::Stateless, RulesKind::Stateful] {
        for count in [0, 16, 2048] {
            let options = RulesOptions { count, seed: 1, kind };
            loads(&["iptables-legacy-restore"], &rules(&options));
            loads(&["iptables-nft-restore"], &rules(&options));
            loads(&["nft", "-f", "-"], &rules_nft(&options));
        }
    }
}
