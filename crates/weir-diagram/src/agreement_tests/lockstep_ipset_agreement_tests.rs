//! Lists that became sets, in lockstep: what is proven is equal as a whole, and wrong sets are not
//! proven.

use std::cell::OnceCell;

use weir_model::{Family, Firewall};
use weir_semantics::JourneyKind;
use weir_syntax::ipset;
use weir_testkit::random_ruleset::TestRng;

use crate::agreement_tests::lockstep_agreement_tests::{
    LockstepCounts, assert_lockstep_agrees_on_all_journeys, change_a_rule,
};
use crate::agreement_tests::sequence_agreement_tests::parse_firewall_if_valid;
use crate::compared_pair::{ComparedPair, make_compared_rulesets};
use crate::comparison_types::{
    CompareOptions, ComparedPath, DiagramSizeAndSteps, StatefulTestPairing,
};
use crate::lockstep::lockstep_proof::LockstepResults;
use crate::packet_sets::packet_space::PacketSpaceBasis;

/// A firewall of rules of FORWARD and sets.
fn firewall(rules: &[String], sets: &str) -> Firewall {
    let lines: String = rules.iter().map(|rule| format!("-A FORWARD {rule}\n")).collect();
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n{lines}COMMIT\n");
    let rules = parse_firewall_if_valid(&text).unwrap_or_else(|| panic!("a good ruleset: {text}"));
    let sets = ipset::parse(sets).unwrap_or_else(|_| panic!("good sets: {sets}"));
    Firewall { sets, ..rules }
}

fn is_forward_journey_proven(before: &Firewall, after: &Firewall, headers_are_whole: bool) -> bool {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByCredit,
        exclude_unreadable_headers: headers_are_whole,
        ..CompareOptions::default()
    };
    is_forward_journey_proven_in_lockstep(before, after, &options)
}

pub(crate) fn is_forward_journey_proven_in_lockstep(
    before: &Firewall,
    after: &Firewall,
    options: &CompareOptions,
) -> bool {
    let family = Family::V4;
    let sides = make_compared_rulesets([before, after], family, options);
    let pair = ComparedPair {
        before,
        after,
        sides: &sides,
        space_basis: &PacketSpaceBasis::of_firewalls(family, &[before, after]),
        interpreters: &OnceCell::new(),
        options,
        steps_max: options.steps_max,
        family,
        path: ComparedPath::WholeJourney(JourneyKind::Forward),
        is_prerouting_same: false,
    };
    let statistics = &mut DiagramSizeAndSteps::default();
    pair.are_equal_in_lockstep(&mut LockstepResults::default(), statistics)
}

const ADDRESS_PORT_LIST_RULES: [&str; 5] = [
    "-s 10.0.0.1 -p tcp -m tcp --dport 80 -j DROP",
    "-s 10.0.0.2 -p tcp -m tcp --dport 81 -j DROP",
    "-s 10.0.0.1 -p tcp -m tcp --dport 443 -j DROP",
    "-s 10.0.0.1 -p udp -m udp --dport 53 -j ACCEPT",
    "-s 10.0.0.3 -i eth0 -j ACCEPT",
];

const ADDRESS_PORT_SETS: &str = "create a hash:ip family inet\nadd a 10.0.0.1\nadd a 10.0.0.2\n\
    create p hash:ip,port family inet\nadd p 10.0.0.1,tcp:80\nadd p 10.0.0.2,tcp:81\n\
    add p 10.0.0.1,tcp:443\n";

const ADDRESS_PORT_SET_RULES: [&str; 3] = [
    "-s 10.0.0.1 -p udp -m udp --dport 53 -j ACCEPT",
    "-p tcp -m set --match-set a src -m tcp -m set --match-set p src,dst -j DROP",
    "-s 10.0.0.3 -i eth0 -j ACCEPT",
];

fn to_owned_strings(rules: &[&str]) -> Vec<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

#[test]
fn sets_of_addresses_with_ports_are_proven_to_be_a_list() {
    let list = firewall(&to_owned_strings(&ADDRESS_PORT_LIST_RULES), "");
    let sets = firewall(&to_owned_strings(&ADDRESS_PORT_SET_RULES), ADDRESS_PORT_SETS);
    assert!(is_forward_journey_proven(&list, &sets, false));
    assert!(is_forward_journey_proven(&sets, &list, false));
    assert!(is_forward_journey_proven(&sets, &sets, false));
}

#[test]
fn wrong_sets_of_addresses_with_ports_are_not_proven() {
    let list = firewall(&to_owned_strings(&ADDRESS_PORT_LIST_RULES), "");
    let wrong_sets = [
        ("add p 10.0.0.1,tcp:80", "add p 10.0.0.1,tcp:8080"),
        ("add p 10.0.0.1,tcp:80", "add p 10.0.0.1,udp:80"),
        ("add p 10.0.0.1,tcp:443\n", ""),
        ("add p 10.0.0.1,tcp:443", "add p 10.0.0.1,tcp:443\nadd p 10.0.0.2,tcp:443"),
        ("add a 10.0.0.2\n", ""),
        ("add a 10.0.0.2", "add a 10.0.0.2\nadd a 10.0.0.9"),
        ("hash:ip,port family inet", "hash:ip,port family inet6"),
        ("hash:ip family inet", "hash:ip family inet netmask 24"),
        ("hash:ip family inet", "hash:ip family inet timeout 60"),
    ];
    for (old, new) in wrong_sets {
        let sets = ADDRESS_PORT_SETS.replacen(old, new, 1);
        assert_ne!(sets, ADDRESS_PORT_SETS);
        let Ok(sets) = ipset::parse(&sets) else { continue };
        let wrong = Firewall { sets, ..firewall(&to_owned_strings(&ADDRESS_PORT_SET_RULES), "") };
        assert!(!is_forward_journey_proven(&list, &wrong, false), "{new}");
    }
    let wrong_rules = [
        // Truncated packets of other addresses are dropped.
        "-p tcp -m tcp -m set --match-set p src,dst -j DROP",
        "-p tcp -m tcp -m set --match-set a src -m set --match-set p src,dst -j DROP",
        "-p tcp -m set --match-set a src -m tcp -m set --match-set p src,src -j DROP",
        "-p tcp -m set --match-set a dst -m tcp -m set --match-set p src,dst -j DROP",
        "-p tcp -m set --match-set a src -m tcp -m set --match-set p src,dst -j ACCEPT",
        "-p tcp -m set --match-set a src -m tcp -m set ! --match-set p src,dst -j DROP",
        "-p tcp -m set ! --match-set a src -m tcp -m set --match-set p src,dst -j DROP",
        "-p udp -m set --match-set a src -m udp -m set --match-set p src,dst -j DROP",
        // It does not drop truncated packets.
        "-p tcp -m set --match-set a src -m set --match-set p src,dst -j DROP",
        "-p tcp -m set --match-set a src -m set --match-set p src,dst --packets-gt 1 -j DROP",
        "-p tcp -m set --match-set a src -m tcp -m limit --limit 1/s -m set --match-set p src,dst -j DROP",
        "-p tcp -m limit --limit 1/s -m set --match-set a src -m tcp -m set --match-set p src,dst -j DROP",
    ];
    for rule in wrong_rules {
        let mut rules = to_owned_strings(&ADDRESS_PORT_SET_RULES);
        rule.clone_into(&mut rules[1]);
        let wrong = firewall(&rules, ADDRESS_PORT_SETS);
        assert!(!is_forward_journey_proven(&list, &wrong, false), "{rule}");
    }
}

#[test]
fn the_zero_address_is_no_element_of_a_set_of_hosts() {
    let list = firewall(&to_owned_strings(&["-s 0.0.0.0/32 -j DROP", "-s 10.0.0.1 -j DROP"]), "");
    let set = |kind: &str| {
        let sets = format!("create a {kind} family inet\nadd a 0.0.0.0\nadd a 10.0.0.1\n");
        let sets = ipset::parse(&sets).ok()?;
        let rules = to_owned_strings(&["-m set --match-set a src -j DROP"]);
        Some(Firewall { sets, ..firewall(&rules, "") })
    };
    let hosts = set("hash:ip");
    assert!(hosts.is_none_or(|hosts| !is_forward_journey_proven(&list, &hosts, false)));
    let list = firewall(&to_owned_strings(&["-s 10.0.0.1 -j DROP"]), "");
    let hosts = "create a hash:ip family inet\nadd a 10.0.0.1\n";
    let hosts = firewall(&to_owned_strings(&["-m set --match-set a src -j DROP"]), hosts);
    assert!(is_forward_journey_proven(&list, &hosts, false));
}

#[test]
fn maps_of_ports_are_proven_by_sections() {
    let list = firewall(
        &to_owned_strings(&[
            "-p tcp -m tcp --dport 80 -s 10.0.0.1 -j DROP",
            "-p tcp -m tcp --dport 81 -j ACCEPT",
            "-p tcp -m tcp --dport 80 -j ACCEPT",
        ]),
        "",
    );
    let map = |ports: [u16; 2], in_chain: &str| {
        let [a, b] = ports;
        let text = format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n\
             -A FORWARD -p tcp -m multiport --dports {a} -j c\n\
             -A FORWARD -p tcp -m multiport --dports {b} -j ACCEPT\n\
             -A c -s 10.0.0.1 -j DROP\n-A c -j {in_chain}\nCOMMIT\n"
        );
        parse_firewall_if_valid(&text).expect("a good ruleset")
    };
    assert!(is_forward_journey_proven(&list, &map([80, 81], "ACCEPT"), true));
    // Packets with truncated headers are dropped by one test and not by the other.
    assert!(!is_forward_journey_proven(&list, &map([80, 81], "ACCEPT"), false));
    assert!(!is_forward_journey_proven(&list, &map([80, 82], "ACCEPT"), true));
    assert!(!is_forward_journey_proven(&list, &map([81, 80], "ACCEPT"), true));
    assert!(!is_forward_journey_proven(&list, &map([80, 81], "RETURN"), true));
}

#[test]
fn a_tree_by_devices_is_proven_only_if_it_equals_the_list() {
    let list = [
        "-s 10.0.0.1 -i eth0 -p tcp -m tcp --dport 80 -j ACCEPT",
        "-s 10.0.0.1 -i eth1 -p tcp -m tcp --dport 81 -j ACCEPT",
        "-s 10.0.0.1 -i ppp+ -j ACCEPT",
        "-s 10.0.0.1 ! -i eth2 -j DROP",
    ];
    let list = firewall(&to_owned_strings(&list), "");
    let tree = |devices: [&str; 3], last: &str| {
        let [a, b, c] = devices;
        let text = format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n:d - [0:0]\n\
             -A FORWARD -s 10.0.0.1 -i {a} -j c\n-A FORWARD -s 10.0.0.1 -i {b} -j d\n\
             -A FORWARD -s 10.0.0.1 -i {c} -j ACCEPT\n-A FORWARD -s 10.0.0.1 {last} -j DROP\n\
             -A c -p tcp -m tcp --dport 80 -j ACCEPT\n-A d -p tcp -m tcp --dport 81 -j ACCEPT\nCOMMIT\n"
        );
        parse_firewall_if_valid(&text).expect("a good ruleset")
    };
    assert!(is_forward_journey_proven(&list, &tree(["eth0", "eth1", "ppp+"], "! -i eth2"), false));
    for (devices, last) in [
        (["eth1", "eth0", "ppp+"], "! -i eth2"),
        (["eth0", "eth1", "ppp0"], "! -i eth2"),
        (["eth0", "eth1", "ppp+"], "! -i eth3"),
        (["eth0", "eth1", "ppp+"], "-i eth2"),
        (["eth0", "eth1", "ppp+"], ""),
        (["eth+", "eth1", "ppp+"], "! -i eth2"),
    ] {
        assert!(
            !is_forward_journey_proven(&list, &tree(devices, last), false),
            "{devices:?} {last}"
        );
    }
}

/// A list of rules of addresses, ports and devices, and the same with sets.
fn generate_random_list_and_sets(rng: &mut TestRng) -> [Firewall; 2] {
    let (mut list, mut rules, mut sets) = (Vec::new(), Vec::new(), String::new());
    for group in 0..1 + rng.number_below(3) {
        let side = rng.pick(&["s", "d"]);
        let direction = if side == "s" { "src" } else { "dst" };
        let device = rng.pick(&["", "", "-i eth0 ", "! -i eth0 "]);
        let protocol = rng.pick(&["tcp", "udp"]);
        let target = rng.pick(&["ACCEPT", "DROP", "RETURN", "REJECT"]);
        let kind = rng.pick(&["hash:net", "hash:ip"]);
        let has_ports = rng.chance_percent(60);
        sets += &format!("create a{group} {kind} family inet\n");
        if has_ports {
            sets += &format!("create p{group} {kind},port family inet\n");
        }
        for _ in 0..1 + rng.number_below(4) {
            let length = if kind == "hash:ip" { 32 } else { rng.pick(&[32, 31, 30]) };
            let host = (rng.number_below(6) as u32) & (u32::MAX << (32 - length));
            let address = format!("10.0.0.{host}/{length}");
            let port = rng.pick(&[80, 81]);
            let test = match has_ports {
                true => format!("-p {protocol} -m {protocol} --dport {port} "),
                false => String::new(),
            };
            list.push(format!("-{side} {address} {device}{test}-j {target}"));
            sets += &format!("add a{group} {address} -exist\n");
            if has_ports {
                sets += &format!("add p{group} {address},{protocol}:{port} -exist\n");
            }
        }
        let guard = format!("-m set --match-set a{group} {direction}");
        rules.push(match has_ports {
            true => format!(
                "{device}-p {protocol} {guard} -m {protocol} -m set --match-set p{group} {direction},dst -j {target}"
            ),
            false => format!("{device}{guard} -j {target}"),
        });
        let between =
            rng.pick(&["", "-p tcp -j ACCEPT", "-i eth1 -j DROP", "-s 10.0.0.0/30 -j DROP"]);
        if !between.is_empty() {
            list.push(between.to_owned());
            rules.push(between.to_owned());
        }
    }
    if rng.chance_percent(20) {
        let at = rng.number_below(rules.len());
        let other = rng.number_below(rules.len());
        rules.swap(at, other);
    }
    [firewall(&list, ""), firewall(&rules, &sets)]
}

fn compare_lockstep_of_lists_and_ipsets_with_diagrams(
    seeds: std::ops::Range<u64>,
) -> LockstepCounts {
    let mut counts = LockstepCounts::default();
    for seed in seeds {
        let mut rng = TestRng::new(seed ^ 0x5e75);
        let [list, mut sets] = generate_random_list_and_sets(&mut rng);
        if rng.chance_percent(25)
            && let Some(ruleset) = &mut sets.v4
        {
            change_a_rule(ruleset, &mut rng);
        }
        if rng.chance_percent(25) {
            let at = rng.number_below(sets.sets.len());
            let elements = std::sync::Arc::make_mut(&mut sets.sets[at].elements);
            elements.remove(rng.number_below(elements.len()));
        }
        let options = CompareOptions {
            stateful_pairing: StatefulTestPairing::ByCredit,
            steps_max: 1_000_000,
            ..CompareOptions::default()
        };
        let firewalls = if rng.chance_percent(50) { [&list, &sets] } else { [&sets, &list] };
        assert_lockstep_agrees_on_all_journeys(
            firewalls,
            &options,
            &mut counts,
            &format!("seed {seed}"),
        );
    }
    counts
}

#[test]
fn lockstep_proofs_of_lists_that_became_ipsets_agree_with_whole_diagrams() {
    let counts = compare_lockstep_of_lists_and_ipsets_with_diagrams(0..200);
    println!("{counts:?}");
    assert!(counts.proven > 200 && counts.differing > 50, "{counts:?}");
    assert!(counts.equal_but_not_proven < 50, "{counts:?}");
}

#[test]
#[ignore = "minutes: for changes of the proof"]
fn lockstep_proofs_of_lists_that_became_ipsets_agree_with_whole_diagrams_for_many_seeds() {
    let counts = compare_lockstep_of_lists_and_ipsets_with_diagrams(200..10_000);
    println!("{counts:?}");
    assert!(counts.proven > 10_000 && counts.differing > 2_000, "{counts:?}");
}
