//! Rules in force in addition to those of iptables-legacy and of weir's nft tables.

use crate::rulesets::BARE;
use crate::world::World;

const DROPS: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n";

#[test]
fn iptables_nft_rules_in_the_same_table_are_refused() {
    let Some(world) = World::new("variants") else { return };
    world.load_bare();
    let refuses = |line: &str| {
        let before = world.snapshot();
        let ended = world.script(line);
        assert!(!ended.is_done(), "{line}: {}", ended.said);
        assert!(ended.said.contains("has rules in force"), "{}", ended.said);
        assert_eq!(world.snapshot(), before, "{line}");
        ended.said
    };
    world.tool(&["iptables-nft-restore"], DROPS);
    // The table has legacy rules as well, so no command to move the others is suggested.
    assert!(!refuses("tree/load.sh").contains("first: "));
    world.tool(&["iptables-legacy-restore"], &BARE.replace("DROP", "ACCEPT").replace("-A", "#"));
    for name in &world.names {
        refuses(&format!("{name}/load.sh"));
    }
    let said = refuses("tree/load.sh --check");
    let cure = said.split("first: ").nth(1).expect("a cure").lines().next().expect("a line");
    assert_eq!(
        cure,
        "rules=$(iptables-nft-save -c -t filter) && \
         printf '%s\\n' \"$rules\" | iptables-legacy-restore -c && nft delete table ip filter"
    );

    // A policy is enough; so are rules for IPv6.
    let policy = DROPS.replace(":FORWARD ACCEPT", ":FORWARD DROP").replace("-A INPUT -s", "#");
    world.tool(&["iptables-nft-restore"], &policy);
    refuses("tree/load.sh");
    // Where the rules cannot be read, nothing is deleted.
    let without_rules = cure.replace("iptables-nft-save -c -t filter", "false");
    assert_ne!(without_rules, cure);
    world.tool(&["sh", "-c", &format!("{without_rules} || :")], "");
    assert!(world.tool(&["iptables-nft-save"], "").contains(":FORWARD DROP"), "it is still there");
    world.tool(&["sh", "-c", cure], "");
    assert!(world.tool(&["iptables-legacy-save"], "").contains(":FORWARD DROP"), "it is moved");
    world.tool(&["ip6tables-nft-restore"], &DROPS.replace("192.0.2.1/32", "2001:db8::1/128"));
    assert!(refuses("nft/load.sh").contains("ip6tables-nft-save"));
    world.tool(&["nft", "delete", "table", "ip6", "filter"], "");
    world.done("tree/load.sh");
}

#[test]
fn iptables_nft_tables_lacking_built_in_chains_can_be_moved() {
    let Some(world) = World::new("few-chains") else { return };
    world.tool(&["iptables-nft", "-A", "INPUT", "-s", "192.0.2.9", "-j", "DROP"], "");
    world.tool(&["iptables-nft", "-N", "DOCKER"], "");
    world.tool(&["iptables-nft", "-A", "FORWARD", "-j", "DOCKER"], "");
    let ended = world.script("linear/load.sh");
    let cure = ended.said.split("first: ").nth(1).expect("a cure").lines().next().expect("a line");
    world.tool(&["sh", "-c", cure], "");
    let moved = world.tool(&["iptables-legacy-save"], "");
    assert!(moved.contains("-A INPUT -s 192.0.2.9/32 -j DROP"), "{moved}");
    world.done("linear/load.sh");
}

#[test]
fn nft_rules_that_iptables_cannot_express_are_not_moved() {
    let Some(world) = World::new("native") else { return };
    let table = |rules: &str| {
        format!(
            "table ip filter {{\n\tset s {{\n\t\ttype ipv4_addr\n\t\telements = {{ 192.0.2.1 }}\n\t}}\n\
             \tchain INPUT {{\n\t\ttype filter hook input priority 0; policy drop;\n{rules}\t}}\n}}\n"
        )
    };
    for rules in ["\t\tip saddr @s accept\n", "\t\ttcp dport { 22, 80 } accept\n"] {
        world.tool(&["nft", "-f", "-"], &table(rules));
        let before = world.tool(&["nft", "list", "ruleset"], "");
        let ended = world.script("tree/load.sh");
        assert_eq!(ended.status, Some(1), "{}", ended.said);
        assert!(ended.said.contains("cannot say all of them"), "{}", ended.said);
        assert!(!ended.said.contains("-restore"), "{}", ended.said);
        assert_eq!(world.tool(&["nft", "list", "ruleset"], ""), before);
        world.tool(&["nft", "delete", "table", "ip", "filter"], "");
    }
    world.done("tree/load.sh");
}

#[test]
fn iptables_nft_tables_without_effect_do_not_block_loading() {
    let Some(world) = World::new("idle") else { return };
    world.load_bare();
    // Empty, and a chain that nothing jumps to.
    world.tool(&["iptables-nft", "-A", "INPUT", "-j", "DROP"], "");
    assert!(!world.script("tree/load.sh").is_done(), "a rule is an obstacle");
    world.tool(&["iptables-nft", "-F"], "");
    world.tool(&["iptables-nft", "-N", "unused"], "");
    world.tool(&["iptables-nft", "-A", "unused", "-j", "DROP"], "");
    // Rules in another table do not prevent a load, nor do native tables with other names.
    world.tool(
        &["iptables-nft", "-t", "raw", "-A", "PREROUTING", "-s", "192.0.2.1", "-j", "DROP"],
        "",
    );
    let native = "table inet mine {\n\tchain in {\n\t\ttype filter hook input priority 10; \
        policy accept;\n\t\tip saddr 192.0.2.9 drop\n\t}\n}\n";
    world.tool(&["nft", "-f", "-"], native);
    let others = world.tool(&["nft", "list", "table", "inet", "mine"], "");
    let checked = world.script("tree/load.sh --check");
    let told = "stays in force beside it: nft table inet mine";
    assert!(checked.is_done() && checked.said.contains(told), "{}", checked.said);
    for name in ["tree", "nft"] {
        world.done(&format!("{name}/load.sh"));
        assert_eq!(world.tool(&["nft", "list", "table", "inet", "mine"], ""), others);
        world.done(&format!("{name}/unload.sh"));
    }
    assert_eq!(world.tool(&["nft", "list", "table", "inet", "mine"], ""), others);
}

#[test]
fn iptables_nft_instead_of_iptables_legacy_is_refused() {
    let Some(world) = World::new("programs") else { return };
    world.load_bare();
    let before = world.snapshot();
    let mut command = world.command("sh");
    command.env("IPTABLES_RESTORE", "iptables-nft-restore").args(world.words("tree/load.sh"));
    let out = command.output().expect("sh runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("is iptables-nft"), "{said}");
    assert_eq!(world.snapshot(), before);
    world.done("tree/load.sh");
}
