//! Differences of rulesets that differ in few rules: what is left out of a comparison must not
//! matter.

use weir_diagram::{
    CompareLevel, CompareOptions, Comparison, ComparisonVerdict, StatefulTestPairing,
    compare_firewalls,
};
use weir_model::{Family, Firewall};
use weir_semantics::JourneyKind;
use weir_syntax::iptables::{ParserSettings, parse};

fn v4(text: &str) -> Firewall {
    let ruleset = parse(text, &ParserSettings::default()).expect("it can be read");
    Firewall { v4: Some(ruleset), ..Firewall::default() }
}

fn v6(text: &str) -> Firewall {
    let options = ParserSettings { family: Some(Family::V6), ..ParserSettings::default() };
    Firewall { v6: Some(parse(text, &options).expect("it can be read")), ..Firewall::default() }
}

fn compared(before: &Firewall, after: &Firewall, level: CompareLevel) -> Comparison {
    let options = CompareOptions {
        level,
        stateful_pairing: StatefulTestPairing::ByRuleText,
        ..CompareOptions::default()
    };
    compare_firewalls(before, after, &options).expect("no mistake in weir")
}

/// The kinds of changed verdicts on a path, with their share of all packets.
fn verdict_changes(comparison: &Comparison, path: JourneyKind) -> Vec<(bool, f64)> {
    let is_path =
        |part: &&weir_diagram::FamilyPathComparison| part.path.to_string() == path_name(path);
    match &comparison.parts.iter().find(is_path).expect("the path").verdict {
        ComparisonVerdict::Differs(found) => found
            .verdict_changes
            .iter()
            .map(|change| (change.is_newly_allowed(), change.share))
            .collect(),
        ComparisonVerdict::Equal => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn path_name(path: JourneyKind) -> &'static str {
    match path {
        JourneyKind::Forward => "forward",
        JourneyKind::Input => "input",
        JourneyKind::Output => "output",
    }
}

#[test]
fn a_rule_testing_a_device_unknown_at_its_hook_is_kept() {
    // In PREROUTING no packet has an output device: the rule of X always matches.
    let text = |last: &str| {
        v4(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n:X - [0:0]\n\
             -A PREROUTING -j MARK --set-xmark 0x0/0xffffffff\n-A PREROUTING -j X\n\
             -A X ! -o eth1 -j MARK --set-xmark 0x1/0xffffffff\nCOMMIT\n\
             *filter\n:FORWARD ACCEPT [0:0]\n{last}COMMIT\n"
        ))
    };
    let drops = text("-A FORWARD -o eth1 -m mark --mark 0x1 -j DROP\n");
    for level in [CompareLevel::Effects, CompareLevel::Verdict] {
        let comparison = compared(&drops, &text(""), level);
        let changes = verdict_changes(&comparison, JourneyKind::Forward);
        assert!(changes.iter().any(|(allowed, _)| *allowed), "{changes:?}");
        assert!(compared(&drops, &drops, level).is_equal());
    }
}

#[test]
fn an_empty_table_on_one_side_may_be_a_difference() {
    let filter = "*filter\n:FORWARD ACCEPT [0:0]\n\
                  -A FORWARD -m conntrack --ctstate RELATED -j ACCEPT\n\
                  -A FORWARD -d 10.0.0.1/32 -j DROP\nCOMMIT\n";
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n";
    let (with, without) = (v4(&format!("{nat}{filter}")), v4(filter));
    assert!(!compared(&with, &without, CompareLevel::Verdict).is_equal());
    assert!(compared(&with, &with, CompareLevel::Verdict).is_equal());
}

#[test]
fn a_chain_entered_from_an_extra_hook_is_common_elsewhere() {
    let filter = |rules: &str| {
        v4(&format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n{rules}COMMIT\n"))
    };
    let common = "-A FORWARD -j SVC\n-A SVC -s 10.1.0.0/16 -j DROP\n";
    let before = filter(&format!(
        ":SVC - [0:0]\n-A INPUT -s 10.1.0.0/16 -j SVC\n-A FORWARD -s 198.51.100.0/24 -j DROP\n{common}"
    ));
    let after = filter(&format!(":SVC - [0:0]\n{common}"));
    let comparison = compared(&before, &after, CompareLevel::Effects);
    let [(true, share)] = verdict_changes(&comparison, JourneyKind::Forward)[..] else {
        panic!("{:?}", verdict_changes(&comparison, JourneyKind::Forward))
    };
    // 198.51.100.0/24 alone, of all source addresses.
    assert!(share <= 1.0 / f64::from(1 << 24), "{share}");
    let [(true, _)] = verdict_changes(&comparison, JourneyKind::Input)[..] else {
        panic!("{:?}", verdict_changes(&comparison, JourneyKind::Input))
    };
    // One changed rule: a jump of a chain that INPUT and FORWARD enter.
    let chains = ":X - [0:0]\n:Y - [0:0]\n-A INPUT -d 192.0.2.1/32 -j Y\n\
                  -A FORWARD -d 192.0.2.2/32 -j Y\n-A FORWARD -j X\n\
                  -A X -s 10.0.0.1/32 -d 192.0.2.1/32 -j DROP\n";
    let before = filter(&format!("{chains}-A Y -s 10.0.0.1/32 -j X\n"));
    let comparison = compared(&before, &filter(chains), CompareLevel::Effects);
    assert_eq!(verdict_changes(&comparison, JourneyKind::Forward), []);
    let [(true, _)] = verdict_changes(&comparison, JourneyKind::Input)[..] else {
        panic!("{:?}", verdict_changes(&comparison, JourneyKind::Input))
    };
}

#[test]
fn rules_that_drop_datagrams_before_they_are_reassembled_matter_for_all_packets() {
    let text = |first: &str| {
        v4(&format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n{first}-A PREROUTING -s 10.0.0.0/8 -j DROP\nCOMMIT\n\
             *filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s 10.0.0.0/8 -j DROP\n\
             -A INPUT -p udp -j REJECT\nCOMMIT\n"
        ))
    };
    let accepts = text("-A PREROUTING -s 9.9.9.9/32 -j ACCEPT\n");
    let comparison = compared(&text(""), &accepts, CompareLevel::Verdict);
    assert_eq!(verdict_changes(&comparison, JourneyKind::Input), []);
    // Control: nothing else drops what is forwarded.
    let accepts = text("-A PREROUTING -s 10.0.0.0/9 -j ACCEPT\n");
    let comparison = compared(&text(""), &accepts, CompareLevel::Effects);
    let changes = verdict_changes(&comparison, JourneyKind::Forward);
    assert!(changes.iter().any(|(allowed, _)| *allowed), "{changes:?}");
}

#[test]
fn a_changed_mark_does_not_affect_stateful_tests_of_addresses() {
    let text = |mark: &str| {
        v4(&format!(
            "*mangle\n:PREROUTING ACCEPT [0:0]\n{mark}COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n\
             -A FORWARD -m recent --update --seconds 60 --name L --mask 255.255.255.0 --rsource \
             -j DROP\nCOMMIT\n"
        ))
    };
    let marks = text("-A PREROUTING -s 10.0.0.1/32 -j MARK --set-xmark 0x1/0xffffffff\n");
    assert!(compared(&marks, &text(""), CompareLevel::Verdict).is_equal());
    let comparison = compared(&marks, &text(""), CompareLevel::Effects);
    assert_eq!(verdict_changes(&comparison, JourneyKind::Forward), []);
    assert!(!comparison.is_equal(), "the mark is an effect");
}

#[test]
fn a_small_difference_is_described_despite_large_diagrams() {
    let text = |last: &str| {
        v6(&format!(
            "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -s fd00::2/128 -j NETMAP --to fd00::/64\nCOMMIT\n\
             *filter\n:OUTPUT ACCEPT [0:0]\n{last}COMMIT\n"
        ))
    };
    let drops = text("-A OUTPUT -d fd00::3/128 -j DROP\n");
    let comparison = compared(&text(""), &drops, CompareLevel::Effects);
    assert_eq!(verdict_changes(&comparison, JourneyKind::Output).len(), 1);
}

#[test]
fn chains_may_be_nested_deeply() {
    let text = |last: &str| {
        let names: String = (0..3000).map(|n| format!(":c{n} - [0:0]\n")).collect();
        let jumps: String = (1..3000)
            .map(|n| format!("-A c{} ! -s 10.0.{}.{}/32 -j c{n}\n", n - 1, n / 200, n % 200))
            .collect();
        v4(&format!(
            "*filter\n:FORWARD ACCEPT [0:0]\n{names}-A FORWARD -j c0\n{jumps}{last}COMMIT\n"
        ))
    };
    let drops = text("-A c2999 -s 192.0.2.1/32 -j DROP\n");
    let options = CompareOptions { steps_max: 100_000, ..CompareOptions::default() };
    let comparison = compare_firewalls(&text(""), &drops, &options).expect("no mistake in weir");
    assert!(!comparison.is_equal());
    assert!(compare_firewalls(&drops, &drops, &options).expect("no mistake").is_equal());
}

#[test]
fn a_stateful_test_differs_if_only_one_side_translates_connections() {
    let filter = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m hashlimit --hashlimit-upto 5/min \
                  --hashlimit-mode srcip --hashlimit-name H\nCOMMIT\n";
    let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
               -A POSTROUTING -j SNAT --to-source 10.0.0.1\nCOMMIT\n";
    let (with, without) = (v4(&format!("{nat}{filter}")), v4(filter));
    assert!(!compared(&with, &without, CompareLevel::Effects).is_equal());
    assert!(compared(&with, &with, CompareLevel::Effects).is_equal());
}
