//! `load.sh` and `unload.sh` of every form, in separate namespaces.

use std::fs;
use std::path::{Path, PathBuf};

use weir_backends::{Artefact, CompileOptions, CompiledForm, compile, write_artefact};
use weir_kernel::{Namespace, Session};
use weir_model::Firewall;
use weir_syntax::ipset;
use weir_syntax::iptables::{self, ParserSettings};
use weir_testkit::skip_test;

const FORMS: [CompiledForm; 3] = [CompiledForm::Linear, CompiledForm::Tree, CompiledForm::Ipset];

/// What is in force before anything is loaded.
const BEFORE: &str = "*filter\n:INPUT ACCEPT [3:180]\n:FORWARD DROP [7:420]\n:OUTPUT ACCEPT [0:0]\n\
    :mine - [0:0]\n[5:300] -A FORWARD -s 192.0.2.0/24 -j mine\n[2:120] -A mine -j ACCEPT\nCOMMIT\n";

/// A session with one namespace and a folder of the test's own.
struct Place {
    session: Session,
    inside: Namespace,
}

impl Place {
    fn new() -> Option<Place> {
        let session = match Session::new() {
            Ok(session) => session,
            Err(e) => {
                skip_test(&format!("needs root and network namespaces: {e}"));
                return None;
            }
        };
        let inside = session.create_namespace("fw").expect("a namespace");
        Some(Place { session, inside })
    }

    fn run(&self, argv: &[&str], input: &str) -> String {
        let out = self.inside.run_command(argv, input.as_bytes()).expect("the tool runs");
        String::from_utf8(out).unwrap()
    }

    /// Tables and counters, without the dated comments.
    fn saved(&self, counters: bool) -> String {
        let mut text = String::new();
        for tool in ["iptables-legacy-save", "ip6tables-legacy-save"] {
            let args: &[&str] = if counters { &[tool, "-c"] } else { &[tool] };
            text.push_str(&self.run(args, ""));
        }
        text.lines().filter(|l| !l.starts_with('#')).flat_map(|l| [l, "\n"]).collect()
    }

    fn sets(&self) -> String {
        self.run(&["ipset", "save"], "")
    }

    /// What nft holds, with counters; tables in the order of their names.
    fn nft(&self) -> String {
        let text = self.run(&["nft", "list", "ruleset"], "");
        let mut tables: Vec<&str> = text.split_inclusive("\n}\n").collect();
        tables.sort_unstable();
        tables.concat()
    }

    /// Runs a script of an artefact, with its options, from another working directory.
    fn script(&self, dir: &Path, line: &str) -> Result<String, String> {
        let mut words = line.split(' ');
        let mut command = self.inside.command(dir.join(words.next().expect("a script")));
        command.args(words).current_dir("/");
        let out = command.output().expect("the script starts");
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.session.session_directory().join(name)
    }

    fn write(&self, made: &Artefact, name: &str) -> PathBuf {
        let dir = self.dir(name);
        write_artefact(made, &dir).expect("the artefact is written");
        dir
    }
}

fn firewall(v4: &str, v6: &str, sets: &str) -> Firewall {
    let sets = if sets.is_empty() { Vec::new() } else { ipset::parse(sets).unwrap() };
    let parse = |text: &str, family| {
        let options =
            ParserSettings { family: Some(family), known_sets: Some(&sets), ..Default::default() };
        (!text.is_empty()).then(|| iptables::parse(text, &options).unwrap())
    };
    use weir_model::Family::{V4, V6};
    Firewall { v4: parse(v4, V4), v6: parse(v6, V6), sets: sets.clone() }
}

/// Both families, enough like rules for trees and for sets, and a rule that must stay.
fn example() -> Firewall {
    let mut v4 = String::from(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:tail - [0:0]\n",
    );
    for i in 0..90 {
        v4 += &format!("-A FORWARD -s 10.{}.{}.1/32 -j ACCEPT\n", i % 7, i);
    }
    v4 +=
        "-A FORWARD -m limit --limit 5/min -j LOG\n-A FORWARD -g tail\n-A tail -j RETURN\nCOMMIT\n";
    let mut v6 =
        String::from("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n");
    for i in 0..90 {
        v6 += &format!("-A FORWARD -d 2001:db8:{i:x}::/48 -p tcp -m tcp --dport 22 -j DROP\n");
    }
    v6 += "COMMIT\n";
    firewall(&v4, &v6, "")
}

fn made(firewall: &Firewall, form: CompiledForm) -> Artefact {
    let options = CompileOptions { check_packets_per_family: 2000, ..Default::default() };
    compile(firewall, form, &options, &mut |_, _| {}).expect("the form is equal")
}

/// The rules of an artefact, in an order that does not depend on that of the chains.
fn rules_of(made: &Artefact) -> Vec<String> {
    let texts = [&made.contents.v4, &made.contents.v6].into_iter().flatten();
    let mut lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned)).collect();
    lines.retain(|l| l.starts_with("-A"));
    lines.sort();
    lines
}

fn rules_in(saved: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        saved.lines().filter(|l| l.starts_with("-A")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_form_loads_as_printed_and_unload_restores_previous_state() {
    let Some(place) = Place::new() else { return };
    place.run(&["iptables-legacy-restore", "-c"], BEFORE);
    place.run(&["ip6tables-legacy-restore"], "*filter\nCOMMIT\n");
    place.run(&["ipset", "restore"], "create theirs hash:ip\nadd theirs 192.0.2.9\n");
    let (tables, sets) = (place.saved(true), place.sets());
    assert!(tables.contains("[5:300] -A FORWARD"), "{tables}");
    let firewall = example();
    for form in FORMS {
        let artefact = made(&firewall, form);
        let dir = place.write(&artefact, &format!("{form} it's; $(false) \"quoted\""));
        let said = place.script(&dir, "load.sh").expect("it loads");
        assert!(said.starts_with(&format!("loaded {form} ")), "{said}");
        assert_eq!(rules_in(&place.saved(false)), rules_of(&artefact), "{form}");
        // Load it again over itself: unload.sh still restores the original state.
        place.script(&dir, "load.sh").expect("it loads over itself");
        place.script(&dir, "unload.sh").expect("it unloads");
        assert_eq!(place.saved(true), tables, "{form}");
        assert_eq!(place.sets(), sets, "{form}");
        place.script(&dir, "unload.sh").expect_err("there is nothing to unload");
    }
}

#[test]
fn forms_load_over_each_other_and_unload_in_reverse_order() {
    let Some(place) = Place::new() else { return };
    place.run(&["iptables-legacy-restore", "-c"], BEFORE);
    place.run(&["ip6tables-legacy-restore"], "*filter\nCOMMIT\n");
    let tables = place.saved(true);
    let firewall = example();
    let dirs: Vec<_> =
        FORMS.map(|f| place.write(&made(&firewall, f), f.as_str())).into_iter().collect();
    let mut in_force = vec![tables];
    for dir in &dirs {
        place.script(dir, "load.sh").expect("it loads over another form");
        in_force.push(place.saved(true));
    }
    let refused = place.script(&dirs[0], "unload.sh").expect_err("another is in force");
    assert!(refused.contains("was loaded since"), "{refused}");
    for dir in dirs.iter().rev() {
        assert_eq!(Some(place.saved(true)), in_force.pop());
        place.script(dir, "unload.sh").expect("it unloads");
    }
    assert_eq!(Some(place.saved(true)), in_force.pop());
    assert_eq!(place.sets(), "");
}

/// Filter and mangle, so that the nft form has two tables.
fn with_mangle() -> Firewall {
    let rules = "*mangle\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
        :OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
        -A FORWARD -s 192.0.2.1/32 -j MARK --set-xmark 0x1/0xffffffff\nCOMMIT\n\
        *filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A FORWARD -s 192.0.2.1/32 -j ACCEPT\nCOMMIT\n";
    firewall(rules, "", "")
}

#[test]
fn nft_forms_replace_each_other_and_unload_in_reverse_order() {
    let Some(place) = Place::new() else { return };
    let two = place.write(&made(&with_mangle(), CompiledForm::Nft), "two");
    let one = place.write(&made(&example(), CompiledForm::Nft), "one");
    let tree = place.write(&made(&example(), CompiledForm::Tree), "tree");
    let theirs = "table inet theirs {\n\tchain c {\n\t}\n}\n";
    place.run(&["nft", "-f", "-"], theirs);
    let mut in_force = vec![place.nft()];
    for dir in [&two, &one, &tree] {
        place.script(dir, "load.sh").expect("it loads");
        in_force.push(place.nft());
    }
    assert!(in_force[1].contains("table ip weir_mangle"), "{}", in_force[1]);
    assert!(in_force[2].contains("table ip weir_filter"), "{}", in_force[2]);
    assert!(!in_force[2].contains("weir_mangle"), "a table of the last artefact stayed");
    assert_eq!(in_force[3], in_force[0], "the tree form is loaded into iptables");
    for dir in [&tree, &one, &two] {
        assert_eq!(Some(place.nft()), in_force.pop());
        place.script(dir, "unload.sh").expect("it unloads");
    }
    assert_eq!(Some(place.nft()), in_force.pop());
}

#[test]
fn an_nft_form_reloads_by_script_but_not_by_nft() {
    let Some(place) = Place::new() else { return };
    let dir = place.write(&made(&example(), CompiledForm::Nft), "nft");
    place.script(&dir, "load.sh").expect("it loads");
    let loaded = place.nft();
    place.script(&dir, "load.sh").expect("it loads over itself");
    assert_eq!(place.nft(), loaded);
    let path = dir.join("ruleset.nft");
    let by_hand = place.inside.run_command(&["nft", "-f", path.to_str().unwrap()], b"");
    let refused = by_hand.expect_err("rules would stand twice").to_string();
    assert!(refused.contains("File exists"), "{refused}");
    assert_eq!(place.nft(), loaded);
    place.script(&dir, "unload.sh").expect("it unloads");
    assert_eq!(place.nft(), "");
}

#[test]
fn a_load_that_fails_changes_nothing() {
    let Some(place) = Place::new() else { return };
    place.run(&["iptables-legacy-restore", "-c"], BEFORE);
    place.run(&["ip6tables-legacy-restore"], "*filter\nCOMMIT\n");
    let tables = place.saved(true);
    for form in FORMS {
        let dir = place.write(&made(&example(), form), form.as_str());
        // The first family and the sets are loaded before the second family fails.
        let path = dir.join("ip6tables.rules");
        let broken =
            fs::read_to_string(&path).unwrap().replace("COMMIT", "-A nowhere -j DROP\nCOMMIT");
        fs::write(&path, broken).unwrap();
        let said = place.script(&dir, "load.sh --allow-edited").expect_err("it must fail");
        assert!(said.contains("undone: the old ruleset is in force"), "{said}");
        assert_eq!(place.saved(true), tables, "{form}");
        assert_eq!(place.sets(), "", "{form}");
    }
}

#[test]
fn user_sets_are_created_if_missing_and_never_changed() {
    let Some(place) = Place::new() else { return };
    let rules = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        -A INPUT -m set --match-set lan src -j DROP\nCOMMIT\n";
    let sets =
        "create lan hash:net family inet hashsize 1024 maxelem 65536\nadd lan 192.0.2.0/24\n";
    let dir = place.write(&made(&firewall(rules, "", sets), CompiledForm::Tree), "tree");
    place.script(&dir, "load.sh").expect("it loads");
    assert!(place.sets().contains("add lan 192.0.2.0/24"));
    place.script(&dir, "unload.sh").expect("it unloads");
    assert_eq!(place.sets(), "");

    place.run(&["ipset", "restore"], "create lan hash:net\nadd lan 198.51.100.0/24\n");
    place.script(&dir, "load.sh").expect("it loads where the set is there");
    assert!(!place.sets().contains("192.0.2.0"), "a set that is there keeps its elements");
    place.script(&dir, "unload.sh").expect("it unloads");
    assert!(place.sets().contains("198.51.100.0/24"), "and is not destroyed");

    place.run(&["ipset", "restore"], "destroy lan\ncreate lan hash:ip\n");
    let refused = place.script(&dir, "load.sh").expect_err("another type");
    assert!(refused.contains("of another type"), "{refused}");
    assert!(!place.saved(false).contains("match-set"));
}

#[test]
fn names_and_comments_are_never_run_as_shell() {
    let Some(place) = Place::new() else { return };
    let witness = place.dir("witness");
    let path = witness.display();
    let rules = format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
         :`id`;$HOME&<b>'\" - [0:0]\n\
         -A INPUT -m comment --comment \"$(touch {path}); `touch {path}` <script>\" -j ACCEPT\n\
         -A INPUT -m set --match-set a;$(id)|b src -j DROP\nCOMMIT\n"
    );
    let sets = "create a;$(id)|b hash:ip family inet hashsize 1024 maxelem 65536\n\
        add a;$(id)|b 192.0.2.1\n";
    let firewall = firewall(&rules, "", sets);
    for form in FORMS {
        let dir = place.write(&made(&firewall, form), form.as_str());
        place.script(&dir, "load.sh").expect("it loads");
        let saved = place.saved(false);
        assert!(saved.contains(":`id`;$HOME&<b>'\" - [0:0]"), "{saved}");
        assert!(place.sets().contains("add a;$(id)|b 192.0.2.1"));
        place.script(&dir, "unload.sh").expect("it unloads");
    }
    assert!(!witness.exists());
}

#[test]
fn state_of_a_deleted_namespace_is_not_used_for_another() {
    let Some(place) = Place::new() else { return };
    let dir = place.write(&made(&example(), CompiledForm::Tree), "tree");
    place.script(&dir, "load.sh").expect("it loads");
    // As if the namespace had gone with its tables and its number was given to a new one.
    place.run(&["iptables-legacy-restore", "-c"], BEFORE);
    place.run(&["ip6tables-legacy-restore"], "*filter\nCOMMIT\n");
    let tables = place.saved(true);
    place.script(&dir, "load.sh").expect("it loads");
    place.script(&dir, "unload.sh").expect("it unloads");
    assert_eq!(place.saved(true), tables);
}

/// Docker's chains, a hook that does not enter them, and its own table.
const WITH_DOCKER: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n\
    :OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n\
    -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\nCOMMIT\n\
    *filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n\
    -A INPUT -s 192.0.2.1/32 -j ACCEPT\n-A FORWARD -o docker0 -j DOCKER\nCOMMIT\n";

#[test]
fn an_nft_form_leaves_docker_chains_in_iptables() {
    let Some(place) = Place::new() else { return };
    place.run(&["iptables-legacy-restore"], WITH_DOCKER);
    let firewall = firewall(WITH_DOCKER, "", "");
    let dir = place.write(&made(&firewall, CompiledForm::Nft), "nft");
    place.script(&dir, "load.sh").expect("it loads");
    let nft = place.nft();
    assert!(nft.contains("hook input") && !nft.contains("hook forward"), "{nft}");
    assert!(!nft.contains("table ip weir_nat"), "{nft}");
    let saved = place.saved(false);
    assert!(saved.contains("-A FORWARD -o docker0 -j DOCKER"), "{saved}");
    assert!(!saved.contains("-A INPUT"), "{saved}");
    // What Docker does for a container with a published port.
    for rule in [
        "-t nat -A DOCKER -p tcp --dport 80 -j DNAT --to 172.17.0.2:80",
        "-A DOCKER -d 172.17.0.2/32 -p tcp --dport 80 -j ACCEPT",
    ] {
        let words: Vec<&str> = ["iptables-legacy"].into_iter().chain(rule.split(' ')).collect();
        place.run(&words, "");
    }
    assert!(place.saved(false).contains("-A DOCKER -d 172.17.0.2/32"));
    place.script(&dir, "unload.sh").expect("it unloads");

    // With this option, the rules are moved to nft, and Docker cannot find its chains.
    let options = CompileOptions {
        check_packets_per_family: 2000,
        programs_with_rewritable_chains: vec![
            weir_model::managing_programs::ManagingProgram::Docker,
        ],
        ..Default::default()
    };
    let copied =
        compile(&firewall, CompiledForm::Nft, &options, &mut |_, _| {}).expect("it is equal");
    let dir = place.write(&copied, "copied");
    place.script(&dir, "load.sh").expect("it loads");
    assert!(place.nft().contains("hook forward"));
    let edit = place.inside.run_command(&["iptables-legacy", "-A", "DOCKER", "-j", "RETURN"], b"");
    assert!(edit.is_err(), "the chain is in nft");
}

#[test]
fn a_ruleset_managed_entirely_by_another_program_has_no_nft_form() {
    let rules = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
        :ufw-before-input - [0:0]\n:ufw-user-input - [0:0]\n-A INPUT -j ufw-before-input\n\
        -A FORWARD -j ufw-before-input\n-A OUTPUT -j ufw-before-input\n\
        -A ufw-before-input -i lo -j ACCEPT\nCOMMIT\n";
    let firewall = firewall(rules, "", "");
    let made = compile(&firewall, CompiledForm::Nft, &CompileOptions::default(), &mut |_, _| {});
    let said = made.map(|_| ()).expect_err("nothing is left for nft").to_string();
    assert!(said.contains("ufw keeps") && said.contains("--programs ufw"), "{said}");
}
