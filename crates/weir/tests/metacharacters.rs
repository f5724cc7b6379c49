//! Names and comments are data: no shell executes them and no browser interprets them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use weir_kernel::Session;
use weir_testkit::{TempFolder, skip_without_root};

/// A chain, a comment, a prefix and a set that would do something where they were pasted.
const RULES: &str = r#"*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:$(touch${IFS}w1);`id`|&<b> - [0:0]
:a'b<i>c>&2 - [0:0]
-A FORWARD -j $(touch${IFS}w1);`id`|&<b>
-A FORWARD -m comment --comment "'; touch w2; $(touch w3) <script>alert(1)</script>" -j a'b<i>c>&2
-A FORWARD -m set --match-set $(w4)<i>;x src -j LOG --log-prefix "$(touch w5) \"<u>"
LISTED-A FORWARD -j ACCEPT
COMMIT
"#;

const SETS: &str = "create $(w4)<i>;x hash:ip family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x12345678
add $(w4)<i>;x 192.0.2.1
";

fn rules() -> String {
    let listed: String = (1..40)
        .map(|n| {
            format!("-A FORWARD -s 198.51.100.{n}/32 -m comment --comment \"<b>$(x){n}\" -j DROP\n")
        })
        .collect();
    RULES.replace("LISTED", &listed)
}

fn weir(folder: &Path, words: &[&str]) -> Output {
    let out = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("weir runs");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[test]
fn shell_metacharacters_in_names_are_loaded_literally() {
    if skip_without_root() {
        return;
    }
    let folder = TempFolder::new("meta characters $(x)");
    folder.write_file("odd.rules", &rules());
    folder.write_file("odd.ipset", SETS);
    let session = Session::new().expect("a session");
    for form in ["linear", "tree", "ipset", "nft"] {
        let operand = ["odd.rules", "--ipset", "odd.ipset"];
        let mut words = vec!["compile"];
        words.extend(operand);
        words.extend(["--to", form, "-o", form]);
        weir(folder.path(), &words);
        let fw = session.create_namespace(form).expect("a namespace");
        let state = folder.path().join("state");
        for script in ["load.sh", "unload.sh"] {
            let out = fw
                .command("sh")
                .arg(folder.path().join(form).join(script))
                .env("WEIR_STATE", &state)
                .current_dir(folder.path())
                .output()
                .expect("sh runs");
            assert!(out.status.success(), "{form}/{script}: {}", text(&out));
            let saved = fw.command("iptables-legacy-save").output().expect("save runs");
            let sets = fw.command("ipset").arg("save").output().expect("ipset runs");
            let loaded = text(&saved).contains("$(touch${IFS}w1);`id`|&<b>");
            // The nft form generates its own chain names; only the set keeps the user's name.
            if form != "nft" {
                assert_eq!(loaded, script == "load.sh", "{form}/{script}: {}", text(&saved));
            }
            if script == "unload.sh" {
                assert!(!text(&sets).contains("create"), "{form}: {}", text(&sets));
            }
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").flatten().collect();
    for entry in left {
        let name = entry.file_name().into_string().expect("a name");
        assert!(!name.starts_with('w'), "something made the file {name}");
    }
}
