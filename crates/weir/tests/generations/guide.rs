//! The commands of the guide, executed in a namespace.

use std::fs;
use std::path::Path;

use weir_testkit::skip_without_root;

use crate::confirmation::LoginServer;
use crate::filtering_host::{ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports};

/// The commands of the first block of a page of the guide.
fn read_guide_commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = fs::read_to_string(&path).expect("the page");
    let block = text.split("```console\n").nth(1).expect("a block").split("```").next();
    let commands = block.expect("its lines").lines().filter_map(|line| line.strip_prefix("$ "));
    commands.map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_guide_apply_confirm_and_roll_back() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("guide");
    let server = LoginServer::new(&host);
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    host.tool(
        &["ip6tables-legacy-restore"],
        &rules_dropping_udp_ports(&[]).replace("10.1.", "2001:db8:").replace(".0/24", "::/64"),
    );
    let before = host.saved_rulesets();
    let commands = read_guide_commands("apply.md");
    assert_eq!(commands.len(), 10, "{commands:?}");
    let programs = Path::new(WEIR).parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a path"));
    let mut sessions = Vec::new();
    for command in &commands {
        let words = command.replace("sudo ", "");
        if words.starts_with("weir confirm") {
            assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the new form is in force");
            assert!(host.nft_listing().contains("weir_filter"));
            sessions.push(server.log_in().expect("one can log in"));
        }
        let mut shell = host.command("sh");
        shell.args(["-c", &words]).env("PATH", &path).current_dir(host.folder.path());
        let output = shell.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        // Findings are a result of `check`.
        let is_expected = output.status.success()
            || words.starts_with("weir check") && output.status.code() == Some(1);
        assert!(is_expected, "{command}: {}: {said}", output.status);
    }
    assert_eq!(host.saved_rulesets(), before, "after the last line");
}
