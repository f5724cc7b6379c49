//! A jump to a chain that may write an address stays where it is: rules after it see another
//! packet.

use std::fmt::Write as _;

use weir_model::{Family, Firewall, Rule};
use weir_passes::{CheckedPassesOptions, PacketCheckOptions, passes};
use weir_syntax::iptables::{self, ParserSettings};

/// 120 rules, every sixtieth of which jumps to `c`, whose rules lead to `d`.
fn firewall_with_rule_in_callee(rule: &str) -> Firewall {
    let mut text = String::from("*mangle\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n:d - [0:0]\n");
    for host in 0..120 {
        let target = if host % 60 == 0 { "c" } else { "DROP" };
        let _ = writeln!(text, "-A FORWARD -s 10.0.0.{}/32 -j {target}", host + 1);
    }
    let _ = write!(text, "-A c -p tcp -j d\n-A d {rule}\nCOMMIT\n");
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let v4 = iptables::parse(&text, &options).expect("a ruleset that can be read");
    Firewall { v4: Some(v4), ..Firewall::default() }
}

fn forward_chain(firewall: &Firewall) -> &[Rule] {
    &firewall.v4.as_ref().expect("IPv4").tables[0].chain("FORWARD").expect("FORWARD").rules
}

#[test]
fn a_jump_to_a_chain_that_may_write_the_address_stays_in_place() {
    for pass in passes::ALL_PASSES {
        let run = |firewall: &Firewall| {
            let packet_check = PacketCheckOptions { seed: 1, packets_per_family: 500 };
            let mut options =
                CheckedPassesOptions { packet_check, ..CheckedPassesOptions::default() };
            options.pass.allow_counter_loss = true;
            let made = weir_passes::run_passes_until_first_refusal(
                firewall,
                &[pass],
                &options,
                &mut |_, _| {},
            );
            made.unwrap_or_else(|e| panic!("{}: {e}", pass.name())).firewall
        };
        let jumps = |firewall: &Firewall| {
            let rules = forward_chain(firewall).iter();
            rules.filter(|r| r.target.jump_target().is_some_and(|to| **to == *"c")).count()
        };
        let unknown = run(&firewall_with_rule_in_callee("-j VENDOR --option"));
        assert_eq!(jumps(&unknown), 2, "{}", pass.name());
        // The control: a callee that does not write the address does not prevent these passes.
        let known = run(&firewall_with_rule_in_callee("-j MARK --set-xmark 0x1/0x1"));
        if ["chain_tree", "fold_into_set"].contains(&pass.name()) {
            let [known, unknown] = [&known, &unknown].map(|f| forward_chain(f).len());
            assert!(known < unknown, "{}: {known} and {unknown} rules", pass.name());
        }
    }
}
