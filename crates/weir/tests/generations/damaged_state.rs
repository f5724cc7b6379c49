//! What is missing when a generation is to be restored: sets of others, files of the state, the
//! state itself.

use std::fs;
use std::path::PathBuf;

use weir_testkit::skip_without_root;

use crate::filtering_host::{
    ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports, wait_until,
};

/// The state folder of the only namespace of a host.
fn namespace_folder(host: &FilteringHost) -> PathBuf {
    let generations = fs::read_dir(host.path("state/generations")).expect("a folder");
    generations.flatten().next().expect("a namespace").path()
}

#[test]
fn missing_foreign_sets_are_created_again_at_the_deadline() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("gone-sets");
    let sets = "create member hash:ip family inet\nadd member 192.0.2.7\n\
                create ext list:set size 8\nadd ext member\n";
    host.tool(&["ipset", "restore"], sets);
    host.load_legacy(
        &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT])
            .replace("COMMIT", "-A INPUT -m set --match-set ext src -j DROP\nCOMMIT"),
    );
    let before = host.saved_rulesets();
    assert!(before.contains("--match-set ext src") && before.contains("add member 192.0.2.7"));
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "nft");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "8s"]);
    for set in ["ext", "member"] {
        host.tool(&["ipset", "destroy", set], "");
    }
    assert!(!host.is_delivered(5001), "the new ruleset is in force");
    wait_until("the rollback", || host.generation_in_force() == 0);
    assert_eq!(host.saved_rulesets(), before);
}

#[test]
fn a_set_that_cannot_be_created_is_named_and_the_other_tables_are_restored() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("lost-set");
    host.tool(&["ipset", "create", "member", "hash:ip"], "");
    host.tool(&["ipset", "create", "ext", "list:set"], "");
    host.tool(&["ipset", "add", "ext", "member"], "");
    host.load_legacy(
        "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m set --match-set ext src -j DROP\nCOMMIT\n\
         *raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p udp --dport 5005 -j DROP\nCOMMIT\n",
    );
    let both = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT])
        + "*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
           -A PREROUTING -p udp -m udp --dport 5001 -j DROP\nCOMMIT\n";
    let folder = host.compile("a", &both, "linear");
    host.run_weir(&["apply", "--artefact", &folder]);
    for set in ["ext", "member"] {
        host.tool(&["ipset", "destroy", set], "");
    }
    // A set of that name is there again, of another kind: it cannot be a member.
    host.tool(&["ipset", "create", "member", "list:set"], "");
    let said = host.run_refused_weir(&["rollback", "0"]);
    assert!(said.contains("set ext, which rules of the generation use, is missing"), "{said}");
    assert!(!host.is_delivered(5001), "a rollback that fails is undone");
    host.tool(&["ipset", "destroy", "member"], "");
    host.run_weir(&["rollback", "0"]);
    assert!(!host.is_delivered(5005) && host.is_delivered(5001));
    assert_eq!(host.tool(&["ipset", "list", "-n"], "").lines().count(), 2);
}

#[test]
fn a_missing_or_changed_file_of_a_generation_is_named_before_the_first_step() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("damaged-text");
    for (name, port, form) in [("a", 5001, "linear"), ("b", 5002, "nft")] {
        let folder =
            host.compile(name, &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, port]), form);
        host.run_weir(&["apply", "--artefact", &folder]);
    }
    let in_force = host.saved_rulesets();
    let file = namespace_folder(&host).join("1/ruleset/iptables-filter");
    let text = fs::read_to_string(&file).expect("a text");
    // Whole tables, too, if they are not the one that was saved.
    let other = text.replace("--dport 5001", "--dport 5003");
    assert_ne!(other, text);
    for (damaged, problem) in
        [(None, "is missing"), (Some(""), "was changed"), (Some(other.as_str()), "was changed")]
    {
        match damaged {
            None => fs::remove_file(&file).expect("it is removed"),
            Some(text) => fs::write(&file, text).expect("it is written"),
        }
        let said = host.run_refused_weir(&["rollback", "1"]);
        let expected = format!("1/ruleset/iptables-filter {problem}");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(host.saved_rulesets(), in_force);
    }
    fs::write(&file, &text).expect("it is written");
    host.run_weir(&["rollback", "1"]);
    assert!(!host.is_delivered(5001) && host.is_delivered(5002));
}

#[test]
fn a_damaged_file_of_the_unconfirmed_generation_does_not_prevent_the_rollback() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("damaged-unconfirmed");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder, "--confirm", "5s"]);
    let file = namespace_folder(&host).join("1/ruleset/iptables-filter");
    fs::remove_file(&file).expect("it is removed");
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the new ruleset is in force");
    wait_until("the rollback", || host.is_delivered(ALWAYS_DROPPED_PORT));
    wait_until("the record", || host.generation_in_force() == 0);
}

#[test]
fn after_loss_of_the_state_force_saves_the_ruleset_in_force_as_generation_0() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("lost-state");
    let first =
        host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "linear");
    let second = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5002]), "tree");
    host.run_weir(&["apply", "--artefact", &first]);
    let in_force = host.saved_rulesets();
    fs::remove_dir_all(host.path("state")).expect("it is removed");
    let said = host.run_refused_weir(&["apply", "--artefact", &second]);
    assert!(said.contains("was not loaded by weir apply"), "{said}");
    assert!(
        said.contains("use --force, which saves the ruleset in force as a generation"),
        "{said}"
    );
    host.run_weir(&["apply", "--artefact", &second, "--force"]);
    assert!(host.is_delivered(5001) && !host.is_delivered(5002));
    host.run_weir(&["rollback"]);
    assert_eq!(host.saved_rulesets(), in_force);
}

#[test]
fn invalid_state_files_are_named_with_the_cure() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("senseless-state");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder]);
    let state = namespace_folder(&host);
    let journal = state.join("journal.json");
    fs::write(&journal, "{").expect("it is written");
    let said = host.run_refused_weir(&["rollback"]);
    assert!(said.contains("journal.json") && said.contains("restore it from a backup"), "{said}");
    fs::remove_file(&journal).expect("it is removed");
    let last = state.join(u32::MAX.to_string());
    fs::create_dir(&last).expect("a folder");
    let record = fs::read_to_string(state.join("1/generation.json")).expect("a record");
    let numbered = record.replacen("\"generation\": 1", "\"generation\": 4294967295", 1);
    fs::write(last.join("generation.json"), numbered).expect("it is written");
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("move its folder away"), "{said}");
    fs::remove_dir_all(&last).expect("it is removed");
    host.run_weir(&["apply", "--artefact", &folder]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn unwritable_standard_output_does_not_make_a_change_fail() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("full-output");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let script = |words: &str| format!("{WEIR} {words} > /dev/full");
    let history = host.command("sh").args(["-c", &script("history")]).status();
    assert_eq!(history.expect("it runs").code(), Some(2), "an output is all that it has");
    for (line, said) in [
        (format!("apply --artefact {folder}"), "generation 1 is in force"),
        ("rollback".to_owned(), "generation 0 is in force"),
    ] {
        let output = host.command("sh").args(["-c", &script(&line)]).output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {err}");
        assert!(err.contains("write standard output: ") && err.contains(said), "{err}");
    }
}
