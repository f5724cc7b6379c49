//! The check before writing: it accepts what is equal and finds what is not.

use weir_backends::equivalence_check::{self, PacketCheckOptions};
use weir_model::{Firewall, RuleIdTable, Target};
use weir_passes::prefix_tree::{self, TreeOptions};
use weir_syntax::iptables::{self, ParserSettings};

const OPTIONS: PacketCheckOptions = PacketCheckOptions { seed: 1, packets_per_family: 8000 };

/// Hosts under two networks, one of them accepted late as a whole, and a RETURN.
fn example() -> Firewall {
    let mut text = String::from(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:a - [0:0]\n\
         -A FORWARD -j a\n-A FORWARD -p udp -j ACCEPT\n",
    );
    for i in 0..40 {
        let target = ["ACCEPT", "DROP", "RETURN"][i % 3];
        text += &format!("-A a -s 192.0.{}.{}/32 -j {target}\n", i % 2, i * 3);
        if i == 30 {
            text += "-A a -s 192.0.1.0/24 -p tcp -j LOG\n-A a -s 192.0.1.0/25 -j ACCEPT\n";
        }
    }
    text += "-A a -s 192.0.0.0/24 -j REJECT\n-A a -p icmp -j DROP\nCOMMIT\n";
    let v4 = iptables::parse(&text, &ParserSettings::default()).unwrap();
    Firewall { v4: Some(v4), ..Firewall::default() }
}

fn tree_of(firewall: &Firewall) -> Firewall {
    let v4 = firewall.v4.as_ref().unwrap();
    let made = prefix_tree::build_prefix_trees(
        v4,
        &TreeOptions::default(),
        &RuleIdTable::from_ruleset(v4),
        &|_| true,
    );
    assert!(!made.compiled_rule_runs.is_empty());
    Firewall { v4: Some(made.ruleset), ..firewall.clone() }
}

/// What the check says of the example's tree after it was spoiled.
fn spoiled(spoil: impl Fn(&mut Firewall)) -> Result<(), String> {
    let before = example();
    let mut after = tree_of(&before);
    spoil(&mut after);
    let result = equivalence_check::compare_form_on_generated_packets(
        &before,
        &[&after],
        &OPTIONS,
        equivalence_check::make_iptables_form_comparer(&before, &after),
        &mut |_, _| {},
    );
    result.map(|_| ()).map_err(|e| e.to_string())
}

fn leaves(after: &mut Firewall) -> impl Iterator<Item = &mut weir_model::Chain> {
    let table = &mut after.v4.as_mut().unwrap().tables[0];
    table.chains.iter_mut().filter(|c| c.name.starts_with("w4:"))
}

#[test]
fn an_equal_tree_passes() {
    spoiled(|_| {}).unwrap();
}

#[test]
fn overlapping_prefixes_in_the_wrong_order_are_caught() {
    let said = spoiled(|after| {
        for leaf in leaves(after) {
            leaf.rules.sort_by_key(|r| match &r.target {
                Target::Goto(_) => 2,
                Target::Accept => 0,
                _ => 1,
            });
        }
    });
    let said = said.unwrap_err();
    assert!(said.contains("before: ") && said.contains("after: "), "{said}");
    assert!(said.contains("192.0."), "the packet is shown: {said}");
}

#[test]
fn a_tree_entered_by_jumps_instead_of_gotos_is_caught() {
    spoiled(|after| {
        let table = &mut after.v4.as_mut().unwrap().tables[0];
        for rule in table.chains.iter_mut().flat_map(|c| &mut c.rules) {
            if let Target::Goto(chain) = &rule.target
                && rule.base.saddr.is_some()
            {
                rule.target = Target::Jump(chain.clone());
            }
        }
    })
    .unwrap_err();
}

#[test]
fn a_lost_log_line_is_caught() {
    let said = spoiled(|after| {
        for leaf in leaves(after) {
            leaf.rules.retain(|r| !matches!(r.target, Target::Effect(_)));
        }
    });
    assert!(said.unwrap_err().starts_with("effects differs"));
}

#[test]
fn credit_given_to_the_wrong_rule_is_caught() {
    let said = spoiled(|after| {
        let leaf = leaves(after).find(|c| c.rules.len() > 2).unwrap();
        let credited_originals = leaf.rules[1].credited_originals.clone();
        leaf.rules[0].credited_originals = credited_originals;
    });
    assert!(said.unwrap_err().starts_with("credit differs"));
}
