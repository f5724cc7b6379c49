//! Comparisons of rulesets whose sets change while packets pass: what the host starts with counts.

use weir_diagram::{
    CompareLevel, CompareOptions, Comparison, StatefulTestPairing, compare_firewalls,
};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};

const MATCH: &str = "*filter\n-A FORWARD -m set --match-set s src -j DROP\nCOMMIT\n";
const MATCH_AND_ADD: &str = "*filter\n-A FORWARD -m set --match-set s src -j DROP\n\
                             -A INPUT -p tcp --dport 9 -j SET --add-set s src\nCOMMIT\n";

fn firewall(rules: &str, sets: &str) -> Firewall {
    let ruleset = parse(rules, &ParserSettings::default()).expect("rules");
    let sets = weir_syntax::ipset::parse(sets).expect("sets");
    Firewall { v4: Some(ruleset), sets, ..Firewall::default() }
}

fn compared(before: &Firewall, after: &Firewall) -> Comparison {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    compare_firewalls(before, after, &options).expect("no mistake in weir")
}

/// The same rules with two texts of sets: equal with the same sets, different with others, in both
/// orders.
fn sets_tell_apart(rules: &str, sets: [&str; 2]) {
    let [a, b] = sets.map(|sets| firewall(rules, sets));
    let same = compared(&a, &firewall(rules, sets[0]));
    assert!(same.is_equal(), "{rules}{sets:?}: {same:#?}");
    for (before, after) in [(&a, &b), (&b, &a)] {
        let found = compared(before, after);
        assert!(found.differences().count() > 0, "{rules}{sets:?}: {found:#?}");
    }
}

#[test]
fn a_set_without_modifications_is_compared_by_its_elements() {
    sets_tell_apart(
        MATCH,
        ["create s hash:ip\nadd s 10.0.0.1\n", "create s hash:ip\nadd s 10.0.0.2\n"],
    );
}

#[test]
fn a_set_modified_by_rules_is_compared_by_initial_contents() {
    sets_tell_apart(
        MATCH_AND_ADD,
        ["create s hash:ip\nadd s 10.0.0.1\n", "create s hash:ip\nadd s 10.0.0.2\n"],
    );
    sets_tell_apart(
        MATCH_AND_ADD,
        ["create s hash:ip timeout 60\n", "create s hash:ip timeout 600\n"],
    );
}

#[test]
fn a_set_with_timeouts_is_compared_by_definition_and_elements() {
    let with = "create s hash:ip timeout 600\nadd s 10.0.0.1\n";
    sets_tell_apart(MATCH, [with, "create s hash:ip timeout 600\nadd s 10.0.0.2\n"]);
    sets_tell_apart(MATCH, [with, "create s hash:ip timeout 600\nadd s 10.0.0.1 timeout 5\n"]);
    sets_tell_apart(MATCH, [with, "create s hash:ip\nadd s 10.0.0.1\n"]);
    sets_tell_apart(
        MATCH,
        [
            "create s hash:net timeout 0\nadd s 10.0.0.0/8 timeout 0\n",
            "create s hash:net timeout 0\nadd s 0.0.0.0/1 timeout 0\nadd s 128.0.0.0/1 timeout 0\n",
        ],
    );
    let pair = MATCH.replace(" src", " src,src");
    sets_tell_apart(
        &pair,
        [
            "create s hash:ip,port timeout 600\nadd s 10.0.0.1,80\n",
            "create s hash:ip,mac timeout 600\nadd s 10.0.0.1,00:11:22:33:44:55\n",
        ],
    );
}

#[test]
fn tested_counters_and_learned_addresses_distinguish_sets() {
    sets_tell_apart(
        "*filter\n-A FORWARD -m set --match-set s src --packets-gt 5 -j DROP\nCOMMIT\n",
        [
            "create s hash:ip counters\nadd s 10.0.0.1 packets 9 bytes 9\n",
            "create s hash:ip counters\nadd s 10.0.0.1 packets 1 bytes 9\n",
        ],
    );
    sets_tell_apart(
        &MATCH.replace(" src", " src,src"),
        [
            "create s bitmap:ip,mac range 10.0.0.0/24\nadd s 10.0.0.1\n",
            "create s bitmap:ip,mac range 10.0.0.0/24\nadd s 10.0.0.2\n",
        ],
    );
}

#[test]
fn member_elements_distinguish_lists_that_weir_cannot_evaluate() {
    let list =
        |element: &str| format!("create m hash:net\nadd m {element}\ncreate s list:set\nadd s m\n");
    sets_tell_apart(
        "*filter\n-A FORWARD -m set --match-set s src --return-nomatch -j DROP\nCOMMIT\n",
        [&list("10.0.0.0/8"), &list("11.0.0.0/8")],
    );
}

#[test]
fn values_that_a_target_reads_from_a_set_distinguish_rulesets() {
    let rules = |map: &str| {
        format!(
            "*mangle\n-A FORWARD -j SET --map-set s src {map}\nCOMMIT\n\
             *filter\n-A FORWARD -m mark --mark 1 -j DROP\nCOMMIT\n"
        )
    };
    let sets = |value: &str| format!("create s hash:ip skbinfo\nadd s 10.0.0.1 {value}\n");
    let one = sets("skbmark 0x1 skbprio 1:2");
    sets_tell_apart(&rules("--map-mark"), [&one, &sets("skbmark 0x2 skbprio 1:2")]);
    sets_tell_apart(&rules("--map-mark"), [&one, "create s hash:ip skbinfo\n"]);
    sets_tell_apart(&rules("--map-prio"), [&one, &sets("skbmark 0x1 skbprio 1:3")]);
}

#[test]
fn a_set_modified_by_one_ruleset_is_one_variable_in_both() {
    let sets = "create s hash:ip\nadd s 10.0.0.1\n";
    let log = "-A INPUT -p tcp --dport 9 -j SET --add-set s src\n";
    let found = compared(&firewall(MATCH_AND_ADD, sets), &firewall(MATCH, sets));
    for (part, difference) in found.differences() {
        let path = format!("{}", part.path);
        assert!(path.contains("INPUT") || path.contains("input"), "{log}{path}: {difference:#?}");
    }
    assert!(found.differences().count() > 0, "{found:#?}");
}

#[test]
fn a_witness_names_the_ruleset_of_an_assumed_set() {
    let a = firewall(MATCH, "create s hash:ip timeout 600\nadd s 10.0.0.1\n");
    let b = firewall(MATCH, "create s hash:ip timeout 600\nadd s 10.0.0.2\n");
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        level: CompareLevel::Verdict,
        ..CompareOptions::default()
    };
    let found = compare_firewalls(&a, &b, &options).expect("no mistake in weir");
    let (_, difference) = found.differences().next().expect("they differ");
    let words: Vec<&str> =
        difference.witness.assumptions.iter().map(|a| a.description.as_str()).collect();
    assert!(
        words
            .iter()
            .any(|w| w.ends_with("ruleset)") && w.contains("--match-set s src (the set of")),
        "{words:?}"
    );
}
