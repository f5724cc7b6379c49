//! The first rule that names an object creates and configures it for all others: rulesets that
//! differ in that rule differ, even if no packet reaches it. Each pair comes with a control in
//! which the rule changes nothing.

use weir_diagram::{CompareError, CompareOptions, StatefulTestPairing, compare_firewalls};
use weir_lint::{FixOptions, UnfixedReason, apply_fixes};
use weir_model::effect::shared_objects::{SharedObjectsAtLoad, rules_in_load_order};
use weir_model::{Family, Firewall, Ruleset};
use weir_semantics::{Interpreter, JourneyKind, OutcomeDifference, RuleAnswersTrueOracle};
use weir_syntax::iptables::{ParserSettings, parse};
use weir_syntax::packet::parse_packet;

fn ruleset(text: &str, family: Family) -> Ruleset {
    let options = ParserSettings { family: Some(family), ..ParserSettings::default() };
    match parse(text, &options) {
        Ok(ruleset) => ruleset,
        Err(errors) => panic!("{}", weir_syntax::render_diagnostics(&errors, "text", text, false)),
    }
}

fn firewall(text: &str) -> Firewall {
    Firewall { v4: Some(ruleset(text, Family::V4)), ..Firewall::default() }
}

fn equal(before: &Firewall, after: &Firewall, identity: StatefulTestPairing) -> bool {
    let options = CompareOptions { stateful_pairing: identity, ..CompareOptions::default() };
    compare_firewalls(before, after, &options).expect("both load").is_equal()
}

/// A ruleset with a rule that no packet reaches, after a rule that goes to a chain which drops.
fn shadowed(rule: &str, chain: &str) -> String {
    let rule = if rule.is_empty() { String::new() } else { format!("-A INPUT -p udp {rule}\n") };
    format!(
        "*filter\n:INPUT ACCEPT [0:0]\n:U - [0:0]\n-A INPUT -p udp -j U\n{rule}{chain}\
         -A U -j DROP\nCOMMIT\n"
    )
}

fn hashlimit(rate: &str, name: &str) -> String {
    format!("-m hashlimit --hashlimit-upto {rate} --hashlimit-mode srcip --hashlimit-name {name}")
}

/// What others use, another maker of it, and one that configures it alike.
fn makers() -> [(String, String, String); 5] {
    let recent = |options: &str| format!("-m recent --name R {options} --rsource");
    [
        (hashlimit("100/sec", "h"), hashlimit("1/hour", "h"), hashlimit("100/sec", "h")),
        (recent("--rcheck"), recent("--rcheck --mask 255.255.0.0"), recent("--set")),
        (
            "-m quota2 --name q --quota 500".to_owned(),
            "-m quota2 --name q --quota 9".to_owned(),
            "-m quota2 --name q --quota 500".to_owned(),
        ),
        (
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-name h".to_owned(),
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-name h --hashlimit-htable-expire 7"
                .to_owned(),
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-name h".to_owned(),
        ),
        (
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-mode srcip --hashlimit-name h"
                .to_owned(),
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-mode srcip --hashlimit-name h \
             --hashlimit-srcmask 8"
                .to_owned(),
            "-m hashlimit --hashlimit-above 5/sec --hashlimit-mode srcip --hashlimit-name h"
                .to_owned(),
        ),
    ]
}

#[test]
fn removing_a_rule_that_configures_a_named_object_is_a_difference() {
    // The control: an object of another name.
    let (chain, other) = (hashlimit("100/sec", "h"), hashlimit("1/hour", "other"));
    let chain = format!("-A U {chain} -j ACCEPT\n");
    let (with, without) = (shadowed(&format!("{other} -j ACCEPT"), &chain), shadowed("", &chain));
    assert!(equal(&firewall(&with), &firewall(&without), StatefulTestPairing::ByRuleText));
    for (uses, other, alike) in makers() {
        let chain = format!("-A U {uses} -j ACCEPT\n");
        for identity in [StatefulTestPairing::ByRuleText, StatefulTestPairing::ByCredit] {
            // Rules keep their numbers from the text that contains the creating rule.
            let of = |maker: &str| {
                let with = firewall(&shadowed(maker, &chain));
                let mut without = with.clone();
                let table = &mut without.v4.as_mut().expect("a ruleset").tables[0];
                let input = table.chains.iter_mut().find(|c| &*c.name == "INPUT");
                input.expect("a chain").rules.remove(1);
                (with, without)
            };
            for (maker, same) in [(&alike, true), (&other, false)] {
                let (with, without) = of(&format!("{maker} -j ACCEPT"));
                assert_eq!(equal(&with, &without, identity), same, "{maker} {identity:?}");
            }
        }
    }
}

#[test]
fn an_uncalled_chain_configures_objects_of_chains_loaded_later() {
    let text = |table: &str, chain: &str, mask: &str| {
        let unreached =
            format!("-A {chain} -m recent --name R --rcheck {mask} --rsource -j ACCEPT");
        format!(
            "{table}*filter\n:INPUT ACCEPT [0:0]\n:M - [0:0]\n:{chain} - [0:0]\n\
             -A INPUT -p udp -j M\n{unreached}\n\
             -A M -m recent --name R --rcheck --rsource -j DROP\nCOMMIT\n"
        )
    };
    let wide = "--mask 255.255.0.0";
    // Chains are loaded by name: A before M, Z after it, whichever the file has first.
    let pair = |chain: &str| (firewall(&text("", chain, "")), firewall(&text("", chain, wide)));
    let (a, b) = pair("Z");
    assert!(equal(&a, &b, StatefulTestPairing::ByRuleText));
    let (a, b) = pair("A");
    assert!(!equal(&a, &b, StatefulTestPairing::ByRuleText));
    // Tables are loaded in file order.
    let mangle = "*mangle\n:PREROUTING ACCEPT [0:0]\n:U - [0:0]\n\
                  -A U -m recent --name R --rcheck MASK --rsource\nCOMMIT\n";
    let before = |mask: &str| firewall(&text(&mangle.replace("MASK", mask), "Z", ""));
    let behind =
        |mask: &str| firewall(&format!("{}{}", text("", "Z", ""), mangle.replace("MASK", mask)));
    assert!(equal(&behind(""), &behind(wide), StatefulTestPairing::ByRuleText));
    assert!(!equal(&before(""), &before(wide), StatefulTestPairing::ByRuleText));
}

#[test]
fn rules_are_loaded_by_hook_and_then_by_name() {
    let text = "*filter\n:Z - [0:0]\n:OUTPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n\
                :INPUT ACCEPT [0:0]\n:A - [0:0]\n-A Z -j DROP\n-A OUTPUT -j Z\n-A FORWARD -j A\n\
                -A INPUT -j Z\n-A A -j DROP\nCOMMIT\n";
    let ruleset = ruleset(text, Family::V4);
    let order: Vec<&str> =
        rules_in_load_order(&ruleset).map(|(_, chain, _)| &*chain.name).collect();
    assert_eq!(order, ["INPUT", "FORWARD", "OUTPUT", "A", "Z"]);
}

#[test]
fn families_share_recent_lists_but_not_hashlimit_tables() {
    let both = |rule: &str, six: &str| {
        let text = |rule: &str| format!("*filter\n:INPUT ACCEPT [0:0]\n{rule}COMMIT\n");
        Firewall {
            v4: Some(ruleset(&text(&format!("-A INPUT {rule} -j DROP\n")), Family::V4)),
            v6: Some(ruleset(&text(six), Family::V6)),
            ..Firewall::default()
        }
    };
    let unreached = |rule: &str| format!("-A INPUT -j ACCEPT\n-A INPUT {rule} -j DROP\n");
    let recent = "-m recent --name R --rcheck";
    let table = hashlimit("100/sec", "h");
    let wide = "-m recent --name R --rcheck --mask ffff::";
    let without = "-A INPUT -j ACCEPT\n";
    assert!(equal(
        &both(&table, &unreached(&hashlimit("1/hour", "h"))),
        &both(&table, without),
        StatefulTestPairing::ByRuleText
    ));
    assert!(!equal(
        &both(recent, &unreached(wide)),
        &both(recent, without),
        StatefulTestPairing::ByRuleText
    ));
}

#[test]
fn the_interpreter_detects_which_rule_created_a_table() {
    let chain = format!("-A U {} -j ACCEPT\n", hashlimit("100/sec", "h"));
    let packet = parse_packet("ip saddr 192.0.2.1 udp dport 9").expect("a packet");
    let differ = |maker: &str| {
        let with = firewall(&shadowed(&format!("{} -j ACCEPT", hashlimit(maker, "h")), &chain));
        let mut without = with.clone();
        without.v4.as_mut().expect("a ruleset").tables[0].chains[0].rules.remove(1);
        let (a, b) = (Interpreter::new(&with), Interpreter::new(&without));
        let a = a.evaluate_journey(&packet, JourneyKind::Input, &mut RuleAnswersTrueOracle);
        let b = b.evaluate_journey(&packet, JourneyKind::Input, &mut RuleAnswersTrueOracle);
        assert_eq!(a.questions.len(), 2, "whether it drops, and whether it holds");
        a.first_difference(&b)
    };
    assert_eq!(differ("100/sec"), None);
    assert_eq!(differ("1/hour"), Some(OutcomeDifference::StatefulQuestions));
}

/// The estimator is created in mangle, and tested in filter.
fn estimated(maker: &str) -> String {
    let mangle = "*mangle\n:PREROUTING ACCEPT [0:0]\n:U - [0:0]\n";
    format!(
        "{mangle}{maker}COMMIT\n*filter\n:INPUT ACCEPT [0:0]\n\
         -A INPUT -m rateest --rateest x --rateest-gt --rateest-bps 1mbit -j DROP\nCOMMIT\n"
    )
}

fn maker(name: &str) -> String {
    let times = "--rateest-interval 250ms --rateest-ewmalog 500ms";
    format!("-A U -p udp -j RATEEST --rateest-name {name} {times}\n")
}

#[test]
fn a_ruleset_that_does_not_load_is_not_equal_to_one_that_does() {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    let with = firewall(&estimated(&maker("x")));
    let two = firewall(&estimated(&format!("{}{}", maker("x"), maker("y"))));
    // The control: an estimator that no rule tests.
    assert!(compare_firewalls(&two, &with, &options).expect("both load").is_equal());
    for without in ["", &maker("y")] {
        let without = firewall(&estimated(without));
        for (a, b, bad) in [(&with, &without, "second"), (&without, &with, "first")] {
            match compare_firewalls(a, b, &options) {
                Err(CompareError::OneRulesetRefusedByKernel {
                    refused_ruleset: which,
                    missing_object: object,
                    ..
                }) => {
                    assert_eq!((which, &*object), (bad, "rate estimator x"));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // Creating the object after the rule that needs it is too late.
    let late =
        "*filter\n:INPUT ACCEPT [0:0]\n:U - [0:0]\n-A INPUT -m rateest --rateest1 x -j DROP\n";
    let late = firewall(&format!("{late}{}COMMIT\n", maker("x")));
    assert_eq!(
        SharedObjectsAtLoad::from_rulesets(late.rulesets()).objects_missing_at_load().count(),
        1
    );
}

#[test]
fn conflicting_object_configurations_differ_from_a_loadable_ruleset() {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    let estimator = |weight: &str| {
        let name = "--rateest-name x --rateest-interval 250ms";
        format!("-A U -p udp -j RATEEST {name} --rateest-ewmalog {weight}\n")
    };
    let reordered = "-A U -p udp -j RATEEST --rateest-ewmalog 500ms --rateest-interval 250ms --rateest-name x\n";
    let timer =
        |options: &str| format!("-A U -p udp -j IDLETIMER --timeout 9 --label x {options}\n");
    let pair = |first: &str, second: &str| firewall(&estimated(&format!("{first}{second}")));
    for (object, one, same, other) in [
        ("rate estimator x", estimator("500ms"), reordered.to_owned(), estimator("1s")),
        ("idle timer x", timer("--alarm"), timer("--alarm"), timer("")),
    ] {
        let alone = pair(&one, &estimator("500ms"));
        // The control: the same configuration twice.
        let twice = pair(&one, &format!("{same}{}", estimator("500ms")));
        assert!(compare_firewalls(&twice, &alone, &options).expect("both load").is_equal());
        let conflict = pair(&one, &format!("{other}{}", estimator("500ms")));
        assert!(compare_firewalls(&conflict, &conflict, &options).expect("alike").is_equal());
        for (a, b, bad) in [(&conflict, &alone, "first"), (&alone, &conflict, "second")] {
            match compare_firewalls(a, b, &options) {
                Err(CompareError::SharedObjectConflict { which, object: of, .. }) => {
                    assert_eq!((which, &*of), (bad, object));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn fixes_keep_rules_that_create_objects_used_by_others() {
    let ids = ["shadowed-rule", "rule-after-catch-all", "unreachable-chain", "empty-chain"];
    let options = FixOptions {
        lint_ids_to_fix: ids.into_iter().collect(),
        allow_counter_changes: true,
        ..FixOptions::default()
    };
    let fixed = |text: &str| {
        let fixed = apply_fixes(&firewall(text), &options);
        let left = fixed
            .unfixed_findings
            .iter()
            .filter(|(_, why)| *why == UnfixedReason::ChangesNamedObject)
            .count();
        (fixed.fixed_findings.len(), left)
    };
    for (uses, other, alike) in makers() {
        let chain = format!("-A U {uses} -j ACCEPT\n");
        let (done, left) = fixed(&shadowed(&format!("{alike} -j ACCEPT"), &chain));
        assert_eq!((done, left), (1, 0), "{alike}");
        let (done, left) = fixed(&shadowed(&format!("{other} -j ACCEPT"), &chain));
        assert_eq!((done, left), (0, 1), "{other}");
    }
    let (done, left) = fixed(&estimated("-A U -p udp -j ACCEPT\n"));
    assert_eq!((done, left), (1, 0));
    let (done, left) = fixed(&estimated(&maker("x")));
    assert_eq!((done, left), (0, 1));
}
