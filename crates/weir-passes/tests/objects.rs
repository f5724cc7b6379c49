//! No pass loses the rule that creates or configures what other rules use by name.

use weir_model::{Family, Firewall};
use weir_passes::structure_check::{StructureViolation, check_shared_objects_unchanged};
use weir_passes::{
    CheckedPassesOptions, PacketCheckOptions, passes, run_passes_until_first_refusal,
};
use weir_syntax::iptables::{self, ParserSettings};

fn read(rules: &str) -> Firewall {
    let options = ParserSettings { family: Some(Family::V4), ..ParserSettings::default() };
    let text = format!("*filter\n:INPUT ACCEPT [0:0]\n:U - [0:0]\n:V - [0:0]\n{rules}COMMIT\n");
    let v4 = iptables::parse(&text, &options).expect("good rules");
    Firewall { v4: Some(v4), ..Firewall::default() }
}

/// The maker of each is after a rule that takes all of its packets, or in a chain that nobody
/// calls.
fn rulesets() -> [Firewall; 3] {
    let limit = "-m hashlimit --hashlimit-name h --hashlimit-mode srcip --hashlimit-upto";
    let recent = "-m recent --name R --rcheck";
    let estimator = "--rateest-name x --rateest-interval 250ms --rateest-ewmalog 500ms";
    [
        read(&format!(
            "-A INPUT -p udp -j U\n-A INPUT -p udp {limit} 1/hour -j ACCEPT\n\
             -A U {limit} 100/sec -j ACCEPT\n-A U -j DROP\n"
        )),
        read(&format!(
            "-A INPUT -p udp -j V\n-A U {recent} --mask 255.255.0.0 -j ACCEPT\n\
             -A V {recent} -j DROP\n-A V -j ACCEPT\n"
        )),
        read(&format!(
            "-A INPUT -p udp -j V\n-A U -p udp -j RATEEST {estimator}\n\
             -A V -m rateest --rateest x --rateest-gt --rateest-bps 1mbit -j DROP\n"
        )),
    ]
}

#[test]
fn every_pass_keeps_rules_that_create_objects_used_by_others() {
    for firewall in rulesets() {
        for pass in passes::ALL_PASSES {
            let packet_check = PacketCheckOptions { seed: 1, packets_per_family: 100 };
            let mut options =
                CheckedPassesOptions { packet_check, ..CheckedPassesOptions::default() };
            options.pass.allow_counter_loss = true;
            let run = run_passes_until_first_refusal(&firewall, &[pass], &options, &mut |_, _| {});
            let run = run.unwrap_or_else(|e| panic!("{}: {e}", pass.name()));
            assert!(
                check_shared_objects_unchanged(&firewall, &run.firewall).is_ok(),
                "{}",
                pass.name()
            );
        }
    }
}

#[test]
fn a_pass_that_removes_an_object_creating_rule_is_refused() {
    for (number, before) in rulesets().into_iter().enumerate() {
        assert!(check_shared_objects_unchanged(&before, &before).is_ok());
        let mut after = before.clone();
        for chain in &mut after.v4.as_mut().expect("a ruleset").tables[0].chains {
            match (&*chain.name, number) {
                ("INPUT", _) => chain.rules.truncate(1),
                ("U", 1 | 2) => chain.rules.clear(),
                _ => {}
            }
        }
        assert!(
            matches!(
                check_shared_objects_unchanged(&before, &after),
                Err(StructureViolation::SharedObjectChanged(_))
            ),
            "{after:?}"
        );
    }
}
