//! What the scripts refuse before they change anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::stub::run_with;
use crate::world::{Ended, World};

#[test]
fn help_and_unknown_arguments_change_nothing() {
    let Some(world) = World::new("arguments") else { return };
    world.load_bare();
    let before = world.snapshot();
    for script in ["load.sh", "unload.sh"] {
        let ended = world.script(&format!("tree/{script} --help"));
        assert!(ended.is_done() && ended.said.contains("--check"), "{}", ended.said);
        for unknown in ["--helpp", "-x", "now", "--check=yes"] {
            let ended = world.script(&format!("tree/{script} {unknown}"));
            assert_eq!(ended.status, Some(2), "{}", ended.said);
            assert!(ended.said.contains(&format!("unknown argument {unknown}")), "{}", ended.said);
        }
        assert_eq!(world.snapshot(), before);
        assert!(!world.path("state").exists(), "nothing is written either");
    }
    world.done("tree/load.sh");
    assert_ne!(world.snapshot(), before, "without arguments it loads");
}

#[test]
fn check_reports_what_would_be_replaced_and_changes_nothing() {
    let Some(world) = World::new("check") else { return };
    world.load_bare();
    let before = world.snapshot();
    let ended = world.script("nft-kept-input/load.sh --check");
    assert!(ended.is_done(), "{}", ended.said);
    for line in [
        "files: as compiled",
        "lock: free",
        "loaded by weir: nothing",
        "would replace: table filter of iptables (3 rules)",
        "it loads in a network namespace of its own",
    ] {
        assert!(ended.said.contains(line), "{line}: {}", ended.said);
    }
    assert_eq!(world.snapshot(), before);
    assert!(!world.path("state").exists());
    assert!(!world.script("nft/unload.sh --check").is_done(), "nothing is loaded");
    world.done("nft/load.sh");
    let loaded = world.snapshot();
    let ended = world.script("nft/unload.sh --check");
    assert!(ended.is_done() && ended.said.contains("would unload: nft "), "{}", ended.said);
    assert_eq!(world.snapshot(), loaded);

    // Rules that the kernel refuses are detected, too.
    let rules = world.path("linear/ip6tables.rules");
    let broken = fs::read_to_string(&rules).unwrap().replacen("-j ACCEPT", "-j NOWHERE", 1);
    fs::write(&rules, broken).unwrap();
    let ended = world.script("linear/load.sh --check --allow-edited");
    assert!(ended.said.contains("does not load in a network namespace of its own"));
    assert_eq!(ended.status, Some(1));
    assert_eq!(world.snapshot(), loaded);
}

#[test]
fn files_edited_after_compilation_are_refused_by_name() {
    let Some(world) = World::new("edited") else { return };
    world.load_bare();
    let before = world.snapshot();
    for (artefact, file) in [
        ("tree", "iptables.rules"),
        ("nft", "ruleset.nft"),
        ("ipset", "weir.ipset"),
        ("linear", "unload.sh"),
    ] {
        let path = world.path(artefact).join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "# edited\n").unwrap();
        let ended = world.script(&format!("{artefact}/load.sh"));
        let told = format!("{artefact}/{file} was edited after it was compiled");
        assert!(ended.said.contains(&told), "{}", ended.said);
        assert!(ended.said.contains("--allow-edited"), "{}", ended.said);
        assert_eq!(world.snapshot(), before, "{file}");
        world.done(&format!("{artefact}/load.sh --allow-edited"));
        world.done(&format!("{artefact}/unload.sh"));
    }
    fs::remove_file(world.path("ipset-other/manifest.json")).unwrap();
    let ended = world.script("ipset-other/load.sh");
    assert!(ended.said.contains("manifest.json is missing"), "{}", ended.said);
    assert_eq!(world.snapshot(), before);
}

#[test]
fn exported_variables_do_not_change_the_artefact_folder() {
    let Some(world) = World::new("cdpath") else { return };
    world.load_bare();
    let elsewhere = world.path("elsewhere");
    fs::create_dir_all(elsewhere.join("tree")).unwrap();
    for file in ["iptables.rules", "ip6tables.rules"] {
        fs::write(elsewhere.join("tree").join(file), "*filter\nCOMMIT\n").unwrap();
    }
    let run = |variables: &[(&str, &str)]| {
        let mut command = world.command("sh");
        command.arg("tree/load.sh").current_dir(world.path("."));
        let out = command.envs(variables.iter().copied()).output().expect("sh runs");
        let ended = Ended::of(&out);
        assert!(ended.is_done(), "{}", ended.said);
        let loaded = world.snapshot();
        world.unload_all();
        loaded
    };
    let plain = run(&[]);
    let elsewhere = elsewhere.display().to_string();
    let words = ["state", "entry", "kind", "top", "here", "id", "stage", "recovered", "force"];
    let mut exported: Vec<_> = words.iter().map(|w| (*w, "x")).collect();
    exported.extend([("CDPATH", &*elsewhere), ("LC_ALL", "de_DE.UTF-8"), ("IFS", "/")]);
    assert_eq!(run(&exported), plain);
}

#[test]
fn symlinks_and_foreign_folders_are_refused_as_state_folder() {
    let Some(world) = World::new("links") else { return };
    world.load_bare();
    let before = world.snapshot();
    let (state, real) = (world.path("state"), world.path("real"));
    let refused = |why: &str| {
        let ended = world.script("tree/load.sh");
        assert!(!ended.is_done() && ended.said.contains(why), "{why}: {}", ended.said);
        assert_eq!(world.snapshot(), before);
    };
    fs::create_dir(&real).unwrap();
    symlink(&real, &state).unwrap();
    refused("is a symbolic link");
    assert_eq!(
        fs::read_dir(&real).unwrap().count(),
        0,
        "nothing was written to the target of the symlink"
    );

    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    refused("others can write to it");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();

    let inner = state.join(format!("net-{}", world.number()));
    symlink(&real, &inner).unwrap();
    refused("is a symbolic link");
    fs::remove_file(&inner).unwrap();

    world.done("tree/load.sh");
    assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
    let victim = world.path("victim");
    fs::write(&victim, "mine\n").unwrap();
    symlink(&victim, inner.join("1/created.next")).unwrap();
    let loaded = world.snapshot();
    for line in ["tree/load.sh", "tree/unload.sh", "nft/load.sh"] {
        let ended = world.script(line);
        assert!(ended.said.contains("created.next is a symbolic link"), "{}", ended.said);
        assert_eq!(world.snapshot(), loaded);
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    fs::remove_file(inner.join("1/created.next")).unwrap();
    world.done("tree/unload.sh");
    assert_eq!(world.snapshot(), before);
}

#[test]
fn an_unwritable_state_folder_is_refused_with_a_remedy() {
    let Some(world) = World::new("no-place") else { return };
    world.load_bare();
    let before = world.snapshot();
    let file = world.path("file");
    fs::write(&file, "mine\n").unwrap();
    for state in ["/dev/null", &file.display().to_string()] {
        for line in ["linear/load.sh --check", "linear/load.sh", "linear/unload.sh"] {
            let ended = run_with(&world, line, &[("WEIR_STATE", state)]);
            assert!(ended.said.contains(&format!("{state} is no folder")), "{}", ended.said);
            assert!(ended.said.contains("set WEIR_STATE to"), "{}", ended.said);
            assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()), "{line}");
        }
    }
    let read_only = world.path("read-only");
    fs::create_dir(&read_only).unwrap();
    for (state, options) in [("", " --check"), ("/deeper/below", " --check"), ("", "")] {
        let mut command = world.command("unshare");
        let line = "mount -t tmpfs -o ro,mode=700 weir $1 && shift && sh \"$@\"";
        command.args(["-m", "sh", "-c", line, "sh"]).arg(&read_only);
        command.args(world.words(&format!("linear/load.sh{options}")));
        command.env("WEIR_STATE", format!("{}{state}", read_only.display()));
        let ended = Ended::of(&command.output().expect("unshare runs"));
        assert_eq!((ended.status, world.snapshot()), (Some(1), before.clone()));
        assert!(!ended.said.contains("it loads"), "{}", ended.said);
        assert!(ended.said.contains("cannot"), "{}", ended.said);
    }
    world.done("linear/load.sh --check");
}
