//! Chains that both rulesets have are calls: a proof grows with what differs, and differences that
//! the order of calls makes are still found.

use weir_diagram::{CompareOptions, Comparison, StatefulTestPairing, compare_firewalls};
use weir_example::{ServicesOptions, generate_services_ruleset};
use weir_model::Firewall;
use weir_syntax::iptables::{ParserSettings, parse};

fn firewall(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("it can be read");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

/// Two chains that write the mark, one that logs, and the rules of FORWARD.
fn forward(rules: &str) -> Firewall {
    firewall(&format!(
        "*mangle\n:FORWARD ACCEPT [0:0]\n:one - [0:0]\n:two - [0:0]\n:log - [0:0]\n\
         -A one -s 10.0.0.0/8 -j MARK --set-xmark 0x1/0xffffffff\n\
         -A two -p tcp -j MARK --set-xmark 0x2/0xffffffff\n\
         -A log -d 192.0.2.0/24 -j LOG\n{rules}COMMIT\n"
    ))
}

fn compared(a: &Firewall, b: &Firewall) -> Comparison {
    let options = CompareOptions {
        stateful_pairing: StatefulTestPairing::ByRuleText,
        steps_max: 20_000_000,
        ..CompareOptions::default()
    };
    compare_firewalls(a, b, &options).expect("both load")
}

fn steps(comparison: &Comparison) -> u64 {
    comparison.parts.iter().map(|part| part.statistics.steps).max().unwrap_or(0)
}

/// The services in another order, which their addresses allow.
fn with_services_reversed(text: &str) -> String {
    let is_service = |line: &&str| line.starts_with("-A KUBE-SERVICES -d ");
    let mut services: Vec<&str> = text.lines().filter(is_service).collect();
    let lines = text.lines().map(|line| match is_service(&line) {
        true => services.pop().expect("as many"),
        false => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn steps_grow_with_differing_rules_not_with_chain_contents() {
    let mut taken = Vec::new();
    for count in [25, 50, 100] {
        let text = generate_services_ruleset(&ServicesOptions { count, seed: 1 });
        let (a, b) = (firewall(&text), firewall(&with_services_reversed(&text)));
        let comparison = compared(&a, &b);
        assert!(comparison.is_equal(), "{count} services");
        taken.push(steps(&comparison));
    }
    assert!(taken[0] > 25, "each service was compared: {taken:?}");
    assert!(taken[2] < 100 * 1000, "{taken:?}");
    assert!(taken[2] < taken[1] * 3 && taken[1] < taken[0] * 3, "{taken:?}");
}

#[test]
fn a_service_with_another_endpoint_is_found() {
    let text = generate_services_ruleset(&ServicesOptions { count: 3, seed: 1 });
    let dnat = text.lines().find(|line| line.contains("-j DNAT")).expect("an endpoint");
    let other = dnat.replace(":8080", ":8081");
    let comparison = compared(&firewall(&text), &firewall(&text.replace(dnat, &other)));
    assert!(comparison.differences().next().is_some(), "{:?}", comparison.parts);
}

#[test]
fn the_order_of_calls_is_part_of_the_meaning() {
    let calls = |first: &str, second: &str| {
        forward(&format!("-A FORWARD -j {first}\n-A FORWARD -j {second}\n"))
    };
    assert!(compared(&calls("one", "two"), &calls("one", "two")).is_equal());
    let swapped = compared(&calls("one", "two"), &calls("two", "one"));
    assert!(swapped.differences().next().is_some(), "the later mark stays");
    let logged = compared(&calls("one", "log"), &calls("log", "one"));
    assert!(logged.differences().next().is_some(), "the log line shows the mark");
}

#[test]
fn what_a_call_writes_is_seen_by_tests_after_it() {
    let test = "-A FORWARD -m mark --mark 0x1 -j DROP\n";
    let call = "-A FORWARD -j one\n";
    let (after, before) = (forward(&format!("{call}{test}")), forward(&format!("{test}{call}")));
    assert!(compared(&after, &after.clone()).is_equal());
    assert!(compared(&after, &before).differences().next().is_some());
    let opaque = "-A FORWARD -m u32 --u32 \"0x0=0x1\" -j DROP\n";
    let (after, before) =
        (forward(&format!("{call}{opaque}")), forward(&format!("{opaque}{call}")));
    assert!(!compared(&after, &before).is_equal(), "the mark is set before the packet is dropped");
}

#[test]
fn an_equivalently_rewritten_chain_is_treated_as_common() {
    let rewritten = |inner: &str| {
        let services = generate_services_ruleset(&ServicesOptions { count: 40, seed: 1 });
        let rules =
            services.replace("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n", inner);
        firewall(&rules)
    };
    let one = rewritten("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n");
    let two = rewritten(
        "-A KUBE-MARK-MASQ -p tcp -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-MARK-MASQ ! -p tcp -j MARK --set-xmark 0x4000/0x4000\n",
    );
    assert!(compared(&one, &two).is_equal());
    // Only TCP reaches the chain.
    let wrong = rewritten(
        "-A KUBE-MARK-MASQ -p tcp -j MARK --set-xmark 0x4001/0x4000\n\
         -A KUBE-MARK-MASQ ! -p tcp -j MARK --set-xmark 0x4000/0x4000\n",
    );
    assert!(!compared(&one, &wrong).is_equal());
}

#[test]
fn rules_after_a_chain_that_may_write_the_address_keep_their_order() {
    let lists = |target: &str, order: [&str; 2]| {
        let rest: String =
            (1..9).map(|host| format!("-A FORWARD -s 10.1.0.{host}/32 -j DROP\n")).collect();
        let [first, second] = order;
        firewall(&format!(
            "*mangle\n:FORWARD ACCEPT [0:0]\n:c - [0:0]\n{first}\n{second}\n{rest}\
             -A c -j {target}\nCOMMIT\n"
        ))
    };
    let rules = ["-A FORWARD -s 10.0.0.1/32 -j c", "-A FORWARD -s 10.0.0.2/32 -j DROP"];
    let swapped = [rules[1], rules[0]];
    let is_equal = |target| compared(&lists(target, rules), &lists(target, swapped)).is_equal();
    assert!(is_equal("MARK --set-xmark 0x1/0x1"), "disjoint rules commute");
    assert!(!is_equal("UNKNOWN --opt"), "the target may write the other rule's address");
}

/// Networks with a chain each; a chain tests ports and a source. `prefix` precedes its rules'
/// tests.
fn networks(count: usize, in_tree: bool, prefix: &str) -> Firewall {
    let (mut names, mut rules) = (String::new(), String::new());
    for i in 0..count {
        let (high, low) = (i / 256, i % 256);
        let from = if in_tree { format!("t{}", i / 16) } else { "FORWARD".to_owned() };
        if in_tree && i % 16 == 0 {
            names += &format!(":{from} - [0:0]\n");
            rules += &format!("-A FORWARD -d 20.{high}.{low}.0/20 -g {from}\n");
        }
        names += &format!(":c{i} - [0:0]\n");
        rules += &format!(
            "-A {from} -d 20.{high}.{low}.0/24 -j c{i}\n\
             -A c{i} {prefix} -p tcp -m tcp --dport {} -j ACCEPT\n\
             -A c{i} -s 30.{high}.{low}.1/32 -j ACCEPT\n\
             -A c{i} {prefix} -p udp -m udp --dport 53 -j DROP\n",
            1000 + i
        );
    }
    firewall(&format!("*filter\n:FORWARD DROP [0:0]\n{names}{rules}COMMIT\n"))
}

#[test]
fn a_tree_that_dispatches_to_chains_is_compared_by_calls() {
    let steps = [1000, 2000].map(|count| {
        let comparison = compared(&networks(count, false, ""), &networks(count, true, ""));
        assert!(comparison.is_equal(), "{count} networks");
        steps(&comparison)
    });
    assert!(steps[1] < steps[0] * 3 && steps[0] < 1000 * 500, "{steps:?}");
}

#[test]
fn a_non_fragment_test_changes_nothing_if_headers_are_complete() {
    let options = |exclude_unreadable_headers| CompareOptions {
        exclude_unreadable_headers,
        steps_max: 20_000_000,
        ..CompareOptions::default()
    };
    let compare = |count, exclude| {
        let (plain, first) = (networks(count, false, ""), networks(count, false, "! -f"));
        compare_firewalls(&plain, &first, &options(exclude)).expect("both load")
    };
    let differ = compare(10, false);
    assert!(!differ.is_equal(), "a fragment at offset 1 of TCP is dropped by --dport alone");
    let equal = compare(1000, true);
    // No diagram is built; visits of the 4,001 rules on each side are an eighth of a step.
    let nodes: usize = equal.parts.iter().map(|part| part.statistics.nodes).sum();
    assert!(equal.is_equal() && nodes == 0, "{nodes} nodes");
    assert!(steps(&equal) <= 2000, "{} steps", steps(&equal));
}
