//! What `weir compile` says of its work.

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
fn rules_that_are_left_to_a_program_are_told() {
    let note = "rules are in chains of kube-proxy, which rewrites them";
    for form in ["tree", "ipset", "nft"] {
        let said = compiled(form, &[]);
        assert!(said.contains(note) && said.contains("--programs kube-proxy"), "{said}");
        let said = compiled(form, &["--programs", "kube-proxy"]);
        assert!(!said.contains(note), "{said}");
    }
    assert!(!compiled("linear", &[]).contains(note), "this form leaves every rule as it was");
}
