//! What is refused, with the old ruleset intact.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use rustix::fs::{FlockOperation, flock};
use weir_testkit::skip_without_root;

use crate::filtering_host::{ALWAYS_DROPPED_PORT, FilteringHost, WEIR, rules_dropping_udp_ports};

#[test]
fn what_somebody_else_changed_is_refused_and_kept_as_a_generation_by_force() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("foreign");
    let one = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let two = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5002]), "nft");
    host.run_weir(&["apply", "--artefact", &one]);
    let words = "iptables-legacy -A INPUT -p udp --dport 5003 -j DROP";
    host.tool(&words.split(' ').collect::<Vec<_>>(), "");
    let foreign = host.saved_rulesets();
    for words in [&["apply", "--artefact", &two][..], &["rollback"]] {
        let said = host.run_refused_weir(words);
        assert!(said.contains("table iptables filter was changed by another program"), "{said}");
        assert!(said.contains("+ -A INPUT -p udp") && said.contains("--force"), "{said}");
        assert_eq!(host.saved_rulesets(), foreign);
    }
    let plan = host.weir_json(&["plan", "--artefact", &two, "--json"]);
    assert!(plan["conflicts"][0].as_str().expect("one").contains("5003"), "{plan}");
    let text = host.weir(&["plan", "--artefact", &two]).1;
    let first: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(first[0], "result      weir apply would refuse: 1 conflict to resolve", "{text}");
    assert!(first[1].starts_with("conflict    table iptables filter was changed"), "{text}");
    host.run_weir(&["apply", "--artefact", &two, "--force"]);
    assert!(!host.is_delivered(5002) && host.is_delivered(5003));
    let text = host.weir(&["plan", "--artefact", &one]).1;
    assert!(text.starts_with("result      ready to apply: "), "{text}");
    host.run_weir(&["rollback"]);
    assert_eq!(host.saved_rulesets(), foreign, "what others changed was kept");
    host.run_weir(&["rollback", "1"]);
    assert!(host.is_delivered(5003));
}

#[test]
fn a_lock_that_is_held_names_its_holder() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("lock");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "linear");
    host.run_weir(&["apply", "--artefact", &folder]);
    let generations = fs::read_dir(host.path("state/generations")).expect("a folder");
    let namespace = generations.flatten().next().expect("a namespace").path();
    let lock = File::open(namespace.join("lock")).expect("the lock");
    flock(&lock, FlockOperation::LockExclusive).expect("it is free");
    fs::write(namespace.join("lock"), std::process::id().to_string()).expect("it is written");
    let said = host.run_refused_weir(&["rollback", "--wait", "0"]);
    let holder = format!("weir (process {}) is changing the ruleset", std::process::id());
    assert!(said.contains(&holder) && said.contains("--wait"), "{said}");
    assert_eq!(host.generation_in_force(), 1);
    let waiting = host.command(WEIR).args(["rollback", "--wait", "60"]).spawn();
    let mut waiting = waiting.expect("weir starts");
    drop(lock);
    assert!(waiting.wait().expect("weir ends").success(), "it had the lock in the end");
    assert_eq!(host.generation_in_force(), 0);
}

#[test]
fn a_full_disk_leaves_the_old_ruleset_in_force() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("disk");
    host.load_legacy(&rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]));
    let before = host.saved_rulesets();
    let folder =
        host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "ipset");
    let state = host.path("state");
    fs::create_dir(&state).expect("a folder");
    let (mut refused, mut applied) = (0, 0);
    for kib in [8, 16, 24, 40, 64, 90, 110, 120, 128, 132, 136, 140, 144, 148, 152, 160, 1024] {
        // The file system ends with its mount namespace. A rollback that finds no room is made, or
        // completed, when there is room.
        let script = format!(
            "mount -t tmpfs -o size={kib}k,mode=700 none {state} && \
             {WEIR} apply --artefact {folder}; status=$?; \
             if [ $status = 0 ] && ! {WEIR} rollback; then \
               mount -o remount,size=4m {state}; {WEIR} rollback; \
               {WEIR} history | grep -q '^[*]   0 ' || exit 9; \
             fi; exit $status",
            state = state.display()
        );
        let output = host.command("unshare").args(["-m", "sh", "-c", &script]).output();
        let output = output.expect("unshare runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => applied += 1,
            Some(2) => {
                refused += 1;
                assert!(said.contains("No space left on device"), "{kib}: {said}");
            }
            status => {
                panic!("{kib}: {status:?}: {said}{}", String::from_utf8_lossy(&output.stdout))
            }
        }
        assert_eq!(host.saved_rulesets(), before, "{kib} KiB: {said}");
        assert!(host.is_delivered(5001) && !host.is_delivered(ALWAYS_DROPPED_PORT));
    }
    assert!(refused > 3 && applied > 0, "{refused} refused, {applied} applied");
}

#[test]
fn a_state_that_others_could_have_written_is_refused() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("links");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "linear");
    let real = host.path("real");
    fs::create_dir(&real).expect("a folder");
    symlink(&real, host.path("state")).expect("a link");
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("state is a symbolic link"), "{said}");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    fs::remove_file(host.path("state")).expect("it is removed");
    host.run_weir(&["apply", "--artefact", &folder]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "a folder of root's own is taken");
}

#[test]
fn a_missing_tool_is_named_before_anything_changes() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("path");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "nft");
    let mut command = host.command(WEIR);
    command.args(["apply", "--artefact", &folder]).env("PATH", "/nowhere");
    let output = command.output().expect("weir runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nft is not installed: install package nftables"), "{said}");
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    assert_eq!(host.nft_listing(), "");
    host.run_weir(&["apply", "--artefact", &folder]);
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT));
}

#[test]
fn rules_of_iptables_nft_and_of_load_sh_and_of_docker_are_not_evaluated_twice_or_lost() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("owners");
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]);
    let folder = host.compile("a", &rules, "tree");
    host.tool(&["iptables-nft-restore"], &rules);
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("of iptables-nft has 41 rules in force"), "{said}");
    assert!(said.contains("nft delete table ip filter"), "{said}");
    assert!(said.contains("iptables-legacy-restore -c"), "{said}");
    // With rules in the legacy table, iptables-restore would replace them.
    host.load_legacy(&rules);
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("so has table filter of iptables-legacy"), "{said}");
    assert!(!said.contains("legacy-restore"), "{said}");
    host.tool(&["nft", "delete", "table", "ip", "filter"], "");
    host.load_legacy(&rules.replace(
        "COMMIT",
        ":DOCKER - [0:0]\n-A FORWARD -j DOCKER\n-A DOCKER -d 172.17.0.2/32 -j ACCEPT\nCOMMIT",
    ));
    let before = host.saved_rulesets();
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("has rules of docker in chain DOCKER"), "{said}");
    assert_eq!(host.saved_rulesets(), before);
    host.run_weir(&["apply", "--artefact", &folder, "--force"]);
    host.run_weir(&["rollback"]);
    assert_eq!(host.saved_rulesets(), before);

    let script = FilteringHost::new("script");
    let folder = script.compile("a", &rules, "tree");
    let load = format!("{folder}/load.sh");
    let loaded = script.command("sh").arg(&load).env("WEIR_STATE", script.path("run")).status();
    assert!(loaded.expect("it runs").success());
    let said = script.run_refused_weir(&["apply", "--artefact", &folder]);
    assert!(said.contains("run unload.sh of its folder first"), "{said}");
}

#[test]
fn an_artefact_of_load_sh_is_named_whatever_was_applied_before() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("load-after-rollback");
    let one = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let two = host.compile("b", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT, 5001]), "tree");
    host.run_weir(&["apply", "--artefact", &two]);
    host.run_weir(&["rollback", "0"]);
    let script = |name: &str| {
        let mut command = host.command("sh");
        command.arg(format!("{one}/{name}")).env("WEIR_STATE", host.path("run"));
        assert!(command.status().expect("sh runs").success(), "{name}");
    };
    script("load.sh");
    for words in [&["apply", "--artefact", &two][..], &["rollback", "1"]] {
        let said = host.run_refused_weir(words);
        assert!(said.contains("run unload.sh of its folder first"), "{said}");
        assert!(!said.contains("add the changes to the ruleset"), "{said}");
    }
    let plan = host.weir_json(&["plan", "--artefact", &two, "--json"]);
    assert_eq!(plan["conflicts"].as_array().map(Vec::len), Some(1), "{plan}");
    script("unload.sh");
    host.run_weir(&["apply", "--artefact", &two]);
    assert!(!host.is_delivered(5001));
}

#[test]
fn a_generation_that_was_left_by_force_is_listed_as_rolled_back() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("forced-rollback");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    host.run_weir(&["apply", "--artefact", &folder]);
    let outcomes = || {
        let listing = host.weir_json(&["history", "--json"]);
        let generations = listing["generations"].as_array().expect("generations").clone();
        let outcome = |of: serde_json::Value| of["outcome"].as_str().expect("one").to_owned();
        generations.into_iter().map(outcome).collect::<Vec<_>>()
    };
    host.tool(&["iptables-legacy", "-I", "INPUT", "1", "-p", "udp", "-j", "ACCEPT"], "");
    assert_eq!(outcomes(), ["applied", "applied"]);
    host.run_weir(&["rollback", "--force"]);
    assert_eq!(outcomes()[1], "rolled_back");
    let text = host.run_weir(&["history"]);
    let line = text.lines().find(|line| line.starts_with("    1 ")).expect("generation 1");
    assert!(line.contains("rolled back: weir rollback"), "{text}");
    // The changed ruleset can be restored, and the generation that was changed as well.
    host.run_weir(&["rollback", "2"]);
    host.run_weir(&["rollback", "1", "--force"]);
    assert_eq!(outcomes()[1], "applied");
}

#[test]
fn an_edited_artefact_is_refused_with_a_cure_that_keeps_the_edit() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("edited");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let rules = format!("{folder}/iptables.rules");
    let text = fs::read_to_string(&rules).expect("the rules");
    fs::write(&rules, text.replace("COMMIT", "-A INPUT -p udp --dport 5004 -j DROP\nCOMMIT"))
        .expect("it is edited");
    let said = host.run_refused_weir(&["apply", "--artefact", &folder]);
    let load = format!("sh {folder}/load.sh --allow-edited");
    assert!(said.contains("was edited") && said.contains(&load), "{said}");
    assert!(said.contains("make the change in the ruleset"), "{said}");
    let words: Vec<&str> = load.split(' ').collect();
    assert!(host.is_delivered(5004));
    host.tool(&words, "");
    assert!(!host.is_delivered(5004), "the advice works");
}

#[test]
fn a_path_of_the_wrong_kind_is_named_with_the_cure() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("paths");
    let rules = rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]);
    let (file, folder) = (host.write("a.rules", &rules), host.compile("b", &rules, "tree"));
    let empty = host.path("empty");
    fs::create_dir(&empty).expect("a folder");
    let empty = empty.to_str().expect("UTF-8");
    for (words, expected) in [
        (&["apply", "--artefact", &file][..], "an artefact is a directory"),
        (&["apply", "--artefact", empty], "is no artefact"),
        (&["apply", &folder, "--to", "tree"], "give the file that it was compiled from"),
        (&["check", empty], "is a directory: give a file in it"),
        (&["verify", &folder, &file], "the ruleset is the first argument"),
        (&["verify", &file, &file], "not a directory that weir compile wrote"),
        (&["verify", &folder], "give the file that it was compiled from"),
    ] {
        let said = host.run_refused_weir(words);
        assert!(said.contains(expected) && !said.contains("os error"), "{words:?}: {said}");
    }
    assert!(host.is_delivered(ALWAYS_DROPPED_PORT));
    host.run_weir(&["apply", "--artefact", &folder]);
}

#[test]
fn load_sh_refuses_while_a_generation_is_in_force_and_status_names_changes_by_others() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("load-after-apply");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
    let load = |options: &[&str]| {
        let mut command = host.command("sh");
        let output = command.arg(format!("{folder}/load.sh")).args(options).output();
        let output = output.expect("sh runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    host.run_weir(&["apply", "--artefact", &folder]);
    let before = host.saved_rulesets();
    for options in [&["--check"][..], &[]] {
        let (is_loaded, message) = load(options);
        assert!(!is_loaded && message.contains("weir rollback 0"), "{options:?}: {message}");
    }
    assert_eq!(host.saved_rulesets(), before);
    assert!(!host.run_weir(&["history"]).contains("changed since"));
    host.tool(&["iptables-legacy", "-I", "INPUT", "1", "-p", "udp", "-j", "ACCEPT"], "");
    for command in ["history", "status"] {
        let text = host.run_weir(&[command]);
        assert!(text.contains("generation 1 in force: tree"), "{text}");
        assert!(text.contains("changed since by another program"), "{text}");
    }
    host.tool(&["iptables-legacy", "-D", "INPUT", "1"], "");
    host.run_weir(&["rollback", "0"]);
    let (is_loaded, message) = load(&[]);
    assert!(is_loaded, "{message}");
}

#[test]
fn load_sh_finds_generations_in_the_usual_folders_and_of_the_host() {
    if skip_without_root() {
        return;
    }
    // With its own process namespace, the first process is in this network namespace.
    for options in [&["--mount"][..], &["--mount", "--pid", "--fork", "--mount-proc"]] {
        let host = FilteringHost::new("usual-folders");
        let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "tree");
        let script = "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && \
                      sh \"$2/load.sh\" --check && \"$1\" apply --artefact \"$2\" && \
                      ls /var/lib/weir/generations && sh \"$2/load.sh\"";
        let mut command = host.command("unshare");
        command.env_remove("WEIR_STATE").args(options);
        let output = command.args(["sh", "-c", script, "sh", WEIR, &folder]).output();
        let output = output.expect("unshare runs");
        let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
        assert!(out.contains("generation 1 is in force"), "{options:?}: {out}{err}");
        assert_eq!(out.contains("host\n"), options.len() > 1, "{options:?}: {out}");
        assert!(err.contains("start with weir rollback 0"), "{options:?}: {out}{err}");
        assert!(!output.status.success(), "{options:?}");
    }
}

#[test]
fn the_state_of_a_namespace_that_is_gone_is_set_aside() {
    if skip_without_root() {
        return;
    }
    let host = FilteringHost::new("aside");
    let folder = host.compile("a", &rules_dropping_udp_ports(&[ALWAYS_DROPPED_PORT]), "linear");
    host.run_weir(&["apply", "--artefact", &folder]);
    assert_eq!(host.generation_in_force(), 1);
    let generations = fs::read_dir(host.path("state/generations")).expect("a folder");
    let namespace = generations.flatten().next().expect("a namespace").path();
    // As if another namespace had had the number of this one.
    let current = namespace.join("current.json");
    let text = fs::read_to_string(&current).expect("it is read");
    let cookie = text.lines().find(|line| line.contains("namespace_cookie")).expect("a cookie");
    fs::write(&current, text.replace(cookie, "  \"namespace_cookie\": 1")).expect("it is written");
    let listing = host.weir_json(&["history", "--json"]);
    assert!(listing["in_force"].is_null(), "{listing}");
    assert_eq!(listing["generations"].as_array().map(Vec::len), Some(0), "{listing}");
    let said = host.run_refused_weir(&["rollback"]);
    assert!(said.contains("no generation is in force"), "{said}");
    assert!(namespace.with_extension("1.old").join("1/generation.json").exists());
    assert!(!host.is_delivered(ALWAYS_DROPPED_PORT), "the ruleset was not touched");
}
