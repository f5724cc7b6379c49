//! The rulesets of the studies load, in both languages.

use std::io::Write;
use std::process::{Command, Stdio};

use weir_example::{RuleListKind, RuleListOptions, generate_rule_list, generate_rule_list_nft};

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
fn both_rule_list_kinds_load_with_iptables_and_nft() {
    for kind in [RuleListKind::Stateless, RuleListKind::Stateful] {
        for count in [0, 16, 2048] {
            let options = RuleListOptions { nonmatching_rule_count: count, seed: 1, kind };
            loads(&["iptables-legacy-restore"], &generate_rule_list(&options));
            loads(&["iptables-nft-restore"], &generate_rule_list(&options));
            loads(&["nft", "-f", "-"], &generate_rule_list_nft(&options));
        }
    }
}
