//! Lines of a text that are for the other family.

use std::fs;
use std::process::Command;

use weir_testkit::TempFolder;

#[test]
fn a_line_for_the_other_family_is_reported_and_preserved() {
    let folder = TempFolder::new("other-family");
    let rules = folder.path().join("a.rules");
    let skipped = "-A INPUT -6 -s 2001:db8::1 -j ACCEPT";
    let text = |line: &str| format!("*filter\n:INPUT DROP [0:0]\n{line}\nCOMMIT\n");
    let run = |command: &str, line: &str| {
        fs::write(&rules, text(line)).expect("a file");
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir.arg(command).arg(&rules).output().expect("weir runs");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    for command in ["check", "fmt"] {
        let [_, noted] = run(command, "-A INPUT -s 192.0.2.1/32 -j ACCEPT");
        assert_eq!(noted, "", "{command}");
        let [_, noted] = run(command, skipped);
        assert!(noted.starts_with("note: line with -6"), "{command}: {noted}");
        assert!(noted.contains("a.rules:3"), "{command}: {noted}");
    }
    let [printed, _] = run("fmt", skipped);
    assert!(printed.contains(&format!("\n{skipped}\nCOMMIT\n")), "{printed}");
}
