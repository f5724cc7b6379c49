//! The output of `weir compile`.

use std::path::PathBuf;
use std::process::Command;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A node of Kubernetes, and what compiling it to a form says.
fn compiled(form: &str, more: &[&str]) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compile");
    std::fs::create_dir_all(&folder).unwrap();
    let rules = Command::new(WEIR).args(["example", "services", "--count", "20"]).output().unwrap();
    let path = folder.join("services.rules");
    std::fs::write(&path, rules.stdout).unwrap();
    let mut command = Command::new(WEIR);
    command.args(["compile", "--to", form, "-o"]).arg(folder.join(form)).args(more).arg(path);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn rules_left_to_a_managing_program_are_reported() {
    let note = "rules are in chains that kube-proxy rewrites";
    for form in ["tree", "ipset", "nft"] {
        let said = compiled(form, &[]);
        assert!(said.contains(note) && said.contains("--programs kube-proxy"), "{said}");
        let said = compiled(form, &["--programs", "kube-proxy"]);
        assert!(!said.contains(note), "{said}");
    }
    assert!(!compiled("linear", &[]).contains(note), "this form leaves every rule as it was");
}

/// What compiling a text says: status, standard output and standard error.
fn compile(name: &str, text: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("share").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rules"), text).unwrap();
    let mut command = Command::new(WEIR);
    command.current_dir(&folder).args(["compile", "rules", "-o", "out"]).args(more);
    let ended = command.output().unwrap();
    let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let is_written = folder.join("out").exists();
    assert_eq!(is_written, ended.status.success(), "{name}: nothing is half done");
    (ended.status.code(), said(ended.stdout), said(ended.stderr))
}

const WHOLE: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
    -A INPUT -s 192.0.2.1/32 -j DROP\n-A FORWARD -s 192.0.2.2/32 -j DROP\n\
    -A FORWARD -s 192.0.2.3/32 -j DROP\nCOMMIT\n";

#[test]
fn the_summary_reports_the_nft_share_and_reasons_for_iptables() {
    let (status, said, _) = compile("whole", WHOLE, &["--to", "nft"]);
    assert_eq!(status, Some(0));
    assert!(said.contains("  share     nft evaluates 3 of 3 rules, iptables none\n"), "{said}");
    let mixed = WHOLE.replace("COMMIT", "-A FORWARD -m recent --set\nCOMMIT");
    let (status, said, _) = compile("mixed", &mixed, &["--to", "nft"]);
    assert_eq!(status, Some(0));
    assert!(said.contains("  share     nft evaluates 1 of 4 rules, iptables 3\n"), "{said}");
    let hook = "iptables/filter/FORWARD: 3 of 3 rules left in iptables: nft cannot express -m \
                recent (1 rule)\n";
    assert!(said.contains(hook), "{said}");
    assert!(said.contains("fold_into_verdict_map: 1 to "), "what stays is not rewritten: {said}");
    let (_, json, _) = compile("json", &mixed, &["--to", "nft", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&printed["command"], &printed["version"]), (&"compile".into(), &1.into()));
    let manifest = &printed["manifest"];
    assert_eq!(manifest["version"], 2);
    assert_eq!(manifest["share"]["in_form"], 1);
    assert_eq!(manifest["share"]["hooks"][1]["left"], 3);
    let cause = &manifest["share"]["hooks"][1]["causes"][0];
    assert_eq!(
        (&cause["why"], &cause["rules"]),
        (&"nft cannot express -m recent".into(), &1.into())
    );
    let (_, said, _) = compile("tree", &mixed, &["--to", "tree"]);
    assert!(said.contains("unchanged 4 rules; nothing to optimise\n"), "{said}");
}

#[test]
fn a_strict_nft_form_is_whole_or_nothing_is_written() {
    let strict = ["--to", "nft", "--strict"];
    let (status, said, _) = compile("strict-whole", WHOLE, &strict);
    assert_eq!(status, Some(0), "{said}");
    let mixed = WHOLE.replace("COMMIT", "-A FORWARD -m recent --set\nCOMMIT");
    let (status, _, said) = compile("strict-mixed", &mixed, &strict);
    assert_eq!(status, Some(2));
    assert!(said.contains("nft cannot express -m recent") && said.contains("rules:7:"), "{said}");
    assert!(said.contains("nft would evaluate 1 of 4 rules, iptables 3"), "{said}");
    assert!(said.contains("nothing was written") && said.contains("without --strict"), "{said}");
    let tied = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n\
                -A PREROUTING -j DOCKER\n-A DOCKER -p tcp -j DNAT --to-destination 192.0.2.9\n\
                COMMIT\n";
    let text = format!("{WHOLE}{tied}");
    let (status, _, said) = compile("strict-program", &text, &strict);
    assert_eq!(status, Some(2));
    assert!(said.contains("help: --programs docker"), "{said}");
    let (status, _, said) = compile("strict-tree", &mixed, &["--to", "tree", "--strict"]);
    assert_eq!(status, Some(0), "iptables as a whole: {said}");
}
