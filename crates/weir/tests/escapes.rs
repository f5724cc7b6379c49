//! Control characters in comments and names of a ruleset never reach a terminal: output for people
//! shows them escaped.

use std::fs;
use std::path::Path;
use std::process::Command;

use weir_testkit::{TempFolder, run_in_pseudo_terminal};

/// A chain's name and a comment that would clear the screen, and a rule that cannot be read.
const TEXT: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n\
    :a\u{1b}[2Jb - [0:0]\n:c\u{1b}[2Jd - [0:0]\n\
    -A INPUT -p tcp -m comment --comment \"x\u{1b}[2Jy\" -j a\u{1b}[2Jb\n\
    -A INPUT -p tcp -m comment --comment \"x\u{1b}[2Jy\" -j a\u{1b}[2Jb\n\
    -A a\u{1b}[2Jb -p tcp -m comment --comment \"x\u{1b}[2Jy\" -j ACCEPT\nCOMMIT\n";

/// Both streams of a run, which must show the character written out and never as it is.
fn shown(words: &[&str], paths: &[&Path]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(words).args(paths).output().expect("weir runs");
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&both).into_owned();
    assert!(!text.contains('\u{1b}'), "{words:?}: {text:?}");
    assert!(text.contains("\\x1b[2J"), "{words:?}: {text:?}");
    text
}

#[test]
fn every_command_escapes_control_characters() {
    let folder = TempFolder::new("escapes");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let rules = file("a.rules", TEXT);
    let found = shown(&["check"], &[&rules]);
    assert!(found.contains("duplicate-rule"), "{found}");
    shown(&["check", "--format", "short", "--warn", "all"], &[&rules]);
    let packet = "iif eth0 ip saddr 192.0.2.1 ip daddr 192.0.2.2 tcp sport 1024 tcp dport 22";
    let way = shown(&["explain", "--hook", "input", "--packet", packet], &[&rules]);
    assert!(way.contains("ACCEPT"), "{way}");
    let other = file("b.rules", &TEXT.replace("-j ACCEPT", "-j DROP"));
    shown(&["diff"], &[&rules, &other]);
    // If the result is a file, the differences are printed for people.
    let optimized = folder.path().join("optimized.rules");
    shown(&["optimize", "--all", "-o"], &[&optimized, &rules]);
    let broken = file("c.rules", &TEXT.replace("-p tcp -m", "-p tcp -s x\u{1b}[2Jy -m"));
    shown(&["fmt"], &[&broken]);
    shown(&["check"], &[&broken]);
}

/// Commands that print a ruleset, which is text for programs as well.
const PRINTING_COMMANDS: [&[&str]; 3] =
    [&["fmt"], &["optimize", "--all"], &["optimize", "--all", "--dry-run"]];

#[test]
fn printed_rulesets_are_exact_in_pipes_and_escaped_on_terminals() {
    let folder = TempFolder::new("printed-escapes");
    let rules = folder.path().join("a.rules");
    fs::write(&rules, TEXT).expect("a file");
    for words in PRINTING_COMMANDS {
        let command = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.args(words).arg(&rules);
            command
        };
        let piped = command().output().expect("weir runs");
        let piped = String::from_utf8_lossy(&piped.stdout).into_owned();
        assert!(piped.contains("x\u{1b}[2Jy"), "{words:?}: {piped:?}");
        let (status, shown) = run_in_pseudo_terminal(command());
        assert!(status.success(), "{words:?}: {shown:?}");
        assert!(shown.contains("x\\x1b[2Jy"), "{words:?}: {shown:?}");
        // Progress bars are drawn by such characters, but clear no screen.
        assert!(!shown.contains("\u{1b}[2J"), "{words:?}: {shown:?}");
    }
}
