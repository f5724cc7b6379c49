//! Tests: the work of both questions about every rule grows with the rules, not with their pairs.

use std::collections::HashSet;

use weir_model::Firewall;
use weir_random::Rng;
use weir_syntax::iptables::{ParserSettings, parse};

use super::PacketSetFlow;
use crate::LintOptions;

/// The boxes and index nodes that are examined for both questions about every rule, and how many
/// rules are shadowed or redundant.
fn count_examined_boxes_and_findings(
    rules: &[String],
    max_examined_boxes: Option<u64>,
) -> (u64, usize) {
    let lines: String = rules.iter().map(|rule| format!("-A FORWARD {rule}\n")).collect();
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{lines}COMMIT\n");
    let ruleset = parse(&text, &ParserSettings::default()).expect("a good ruleset");
    let firewall = Firewall::default();
    let max = max_examined_boxes.unwrap_or(LintOptions::default().examined_boxes_max_per_ruleset);
    let flow = PacketSetFlow::new(&firewall, &ruleset, &ruleset.tables[0], max);
    let chain = ruleset.tables[0].chains.iter().position(|c| &*c.name == "FORWARD");
    let chain = chain.expect("the chain of the rules");
    let all = (0..rules.len()).map(|i| (chain, i));
    let shadowed: HashSet<_> =
        all.clone().filter(|at| flow.shadowing_rules(*at).is_some()).collect();
    let redundant = all
        .filter(|at| !shadowed.contains(at))
        .filter(|at| flow.deciders_without_rule(*at, &shadowed).is_some());
    let reported = redundant.count() + shadowed.len();
    assert_eq!(flow.is_over_budget(), flow.examined_box_count() > flow.max_examined_boxes);
    (flow.examined_box_count(), reported)
}

fn random_prefix(random: &mut Rng) -> String {
    let length = 12 + random.below(21);
    let addr = (random.next_u64() as u32) & (u32::MAX << (32 - length));
    format!("{}/{length}", std::net::Ipv4Addr::from(addr))
}

/// A source each, shuffled so that no order helps.
fn distinct_source_address_rules(count: u32) -> Vec<String> {
    let addr =
        |i: u32| std::net::Ipv4Addr::from(0x0a00_0000 | (i.wrapping_mul(48_271) % 0x0100_0000));
    (0..count).map(|i| format!("-s {} -j DROP", addr(i))).collect()
}

/// Sources, destinations and ports, each of them in some of the rules.
fn mixed_rules(count: u32) -> Vec<String> {
    let mut random = Rng::new(1);
    let rule = |_| {
        let mut rule = String::new();
        let fields = 1 + random.below(7);
        if fields & 1 != 0 {
            rule += &format!("-s {} ", random_prefix(&mut random));
        }
        if fields & 2 != 0 {
            rule += &format!("-d {} ", random_prefix(&mut random));
        }
        if fields & 4 != 0 {
            let proto = ["tcp", "udp"][random.below(2)];
            rule += &format!("-p {proto} --dport {} ", random.below(65_536));
        }
        rule + ["-j ACCEPT", "-j DROP"][random.below(2)]
    };
    (0..count).map(rule).collect()
}

/// Lists of ports without an address.
fn multiport_rules(count: u32) -> Vec<String> {
    let mut random = Rng::new(1);
    let rule = |_| {
        let ports: Vec<String> =
            (0..2 + random.below(14)).map(|_| random.below(65_536).to_string()).collect();
        let proto = ["tcp", "udp"][random.below(2)];
        let target = ["ACCEPT", "DROP"][random.below(2)];
        format!("-p {proto} -m multiport --dports {} -j {target}", ports.join(","))
    };
    (0..count).map(rule).collect()
}

#[test]
fn the_work_grows_with_the_rules_and_not_with_their_pairs() {
    // Twice as many boxes are one more level of the index. With 3,200 lists of ports, of which all
    // boxes are searched, that is an eighth of the work; with 800 it is a sixth, which is too much
    // for the limit below.
    type RulesOfShape = fn(u32) -> Vec<String>;
    let shapes: [(&str, RulesOfShape, u32); 3] = [
        ("source", distinct_source_address_rules, 2_000),
        ("mixed", mixed_rules, 4_000),
        ("ports", multiport_rules, 3_200),
    ];
    for (shape, rules, count) in shapes {
        let [some, twice_as_many] = [count, 2 * count]
            .map(|count| count_examined_boxes_and_findings(&rules(count), None).0);
        assert!(some > u64::from(count), "{shape}: {some}");
        // Pairs would be four times as many.
        assert!(10 * twice_as_many <= 23 * some, "{shape}: {some}, then {twice_as_many}");
    }
}

#[test]
fn boxes_that_many_rules_share_are_searched_once() {
    // The first rule has another target, so it is not redundant at once.
    let rules = |count: usize| {
        let targets = ["DROP"].into_iter().chain(std::iter::repeat_n("ACCEPT", count));
        let rule = |target| format!("-p tcp -m multiport --dports 22,80,443 -j {target}");
        targets.map(rule).collect::<Vec<String>>()
    };
    let (some, reported) = count_examined_boxes_and_findings(&rules(200), None);
    assert_eq!(reported, 200);
    let (more, reported) = count_examined_boxes_and_findings(&rules(400), None);
    assert_eq!(reported, 400);
    // The index has one more level. A search for each box would examine hundreds of nodes more.
    assert!(more < some + 200, "{some}, then {more}");
}

/// Each rule leaves one more test in a box, so that the tests grow with the third power of the
/// rules: they are counted, so the work ends at its limit.
#[test]
fn tests_of_masks_with_holes_are_counted_as_work() {
    let rules = |count: u32| {
        let rule = |i: u32| format!("-s {}/255.0.255.255 -j DROP", std::net::Ipv4Addr::from(i));
        (0..count).map(rule).collect::<Vec<String>>()
    };
    let [some, twice_as_many] =
        [150, 300].map(|count| count_examined_boxes_and_findings(&rules(count), None).0);
    let boxes_alone = 2 * 300 * 300 / 2;
    assert!(twice_as_many > 4 * boxes_alone, "{twice_as_many}");
    assert!(twice_as_many > 6 * some, "{some}, then {twice_as_many}");
}

#[test]
fn reporting_stops_at_the_work_limit() {
    let rules: Vec<String> = distinct_source_address_rules(50)
        .into_iter()
        .chain(distinct_source_address_rules(50))
        .collect();
    let (work, reported) = count_examined_boxes_and_findings(&rules, None);
    assert_eq!(reported, 50);
    assert_eq!(count_examined_boxes_and_findings(&rules, Some(work)), (work, 50));
    let (limited_work, reported) = count_examined_boxes_and_findings(&rules, Some(work / 4));
    assert!(reported < 50 && limited_work < work, "{reported} with {limited_work} of {work}");
}
